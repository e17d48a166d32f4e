"""Partial evaluation: the parts of a program, put together, are the program."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.thread import thread
from mjax._engine.ir.effects import Effect
from mjax._engine.ir.jaxpr import Literal
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.interpreter import running
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.partial_eval import (
    PartialEvalInterpreter,
    find_residuals,
    partial_eval_jaxpr,
)
from tests.engine.transforms.programs import (
    PROGRAMS,
    X,
    Y,
    close,
    evaluate,
    split,
    staged,
    subsets,
)


def put_together(parts, unknown, inputs):
    known_ins, unknown_ins = split(unknown, inputs)
    known = evaluate(parts.known, *known_ins)
    residuals = parts.residuals(known_ins, known)
    rest = iter(evaluate(parts.unknown, *residuals, *unknown_ins))
    given = iter(known)
    return [next(rest) if u else next(given) for u in parts.unknown_outs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parts_make_the_whole(name):
    jaxpr, inputs = staged(name)
    expected = evaluate(jaxpr, *inputs)
    for unknown in subsets(len(inputs)):
        parts = partial_eval_jaxpr(jaxpr, unknown)
        close(put_together(parts, unknown, inputs), expected)
        # Known results do not depend on unknown inputs.
        if not any(unknown):
            assert not any(parts.unknown_outs) and not parts.unknown.eqns
        for instantiate in (True, [i % 2 == 0 for i in range(len(expected))]):
            parts = partial_eval_jaxpr(jaxpr, unknown, instantiate)
            wanted = instantiate if instantiate is not True else [True] * len(expected)
            assert all(u for u, w in zip(parts.unknown_outs, wanted, strict=True) if w)
            close(put_together(parts, unknown, inputs), expected)


def test_work_is_split_within_jit():
    @mjax.jit
    def f(x, y):
        return lax.mul(lax.sin(lax.exp(x)), y), lax.cos(x)

    jaxpr = stage(f, [typeof(X), typeof(Y)])
    parts = partial_eval_jaxpr(jaxpr, [False, True])
    assert parts.unknown_outs == [True, False]
    names = [e.primitive.name for e in parts.known.eqns[0].params["jaxpr"].eqns]
    assert names == ["exp", "sin", "cos"]
    assert [e.primitive.name for e in parts.unknown.eqns[0].params["jaxpr"].eqns] == ["mul"]


def test_a_jit_of_unknown_values_stays_whole():
    f = mjax.jit(lambda x, y: lax.mul(lax.sin(x), y))
    parts = partial_eval_jaxpr(stage(lambda x, y: [f(x, y)], [typeof(X), typeof(Y)]),
                               [True, False])
    assert not parts.known.eqns
    (eqn,) = parts.unknown.eqns
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns] == ["sin", "mul"]


def test_residuals_are_given_once():
    """One that is an input or a result of the known part is not a further result."""
    def f(x, y):
        a = lax.sin(x)
        return a, lax.mul(lax.mul(a, y), lax.mul(x, lax.add(a, y)))

    parts = partial_eval_jaxpr(stage(f, [typeof(X), typeof(Y)]), [False, True])
    assert len(parts.known.outvars) == 1 and sorted(parts.residual_forwarding) == [0, 1]


def test_find_residuals():
    a, b, c, d = ([i] for i in range(4))
    sources, extra = find_residuals([c, a, d, b, d, c], [a, a], [b, a])
    assert extra == [c, d] and sources == [4, 0, 5, 2, 5, 4]


def test_constants_stay_constants():
    table = np.arange(2.0, dtype="float32")

    def f(x, y):
        return [lax.mul(lax.mul(y, table), lax.sin(lax.mul(x, table)))]

    parts = partial_eval_jaxpr(stage(f, [typeof(X), typeof(Y)]), [False, True])
    assert [c is table for c in parts.known.consts] == [True]
    assert [c is table for c in parts.unknown.consts] == [True]
    assert len(parts.residual_forwarding) == 1


def test_scalars_are_literals_and_arrays_residuals():
    interp = PartialEvalInterpreter(thread.interpreter)
    two = lax.add(1.0, 1.0)
    with running(interp):
        t = interp.new_arg(typeof(X))
        lax.mul(t, lax.broadcast(two, (2,)))
        out = lax.mul(lax.reduce_sum(t, (0,)), 3.0)
        scaled = lax.mul(out, two)
    jaxpr = interp.build([scaled.variable])
    assert [type(v) is Literal for v in jaxpr.eqns[2].invars] == [False, True]
    assert len(jaxpr.consts) == 2 and jaxpr.consts[1] is two


def test_effects_of_known_equations():
    class Bell(Effect):
        pass

    ring_p, bell = Primitive("ring"), Bell()
    ring_p.def_effectful_abstract_eval(lambda x: (x, {bell}))
    jaxpr = stage(lambda x, y: [lax.mul(ring_p.bind(x), y), ring_p.bind(lax.sin(y))],
                  [typeof(X), typeof(Y)])
    parts = partial_eval_jaxpr(jaxpr, [False, True])
    assert parts.known.effects == {bell} and parts.unknown.effects == {bell}
    held = partial_eval_jaxpr(jaxpr, [False, True], effects_known=False)
    assert not held.known.effects and held.unknown.effects == {bell}
    assert [e.primitive.name for e in held.unknown.eqns] == ["ring", "mul", "sin", "ring"]
    # Within jit too.
    for inner in (lambda x, y: (ring_p.bind(x), lax.sin(x)),
                  lambda x, y: (lax.mul(y, lax.sin(x)), lax.mul(y, ring_p.bind(x)))):
        call = stage(lambda x, y, f=inner: [mjax.jit(f)(x, y)[1]], [typeof(X), typeof(Y)])
        held = partial_eval_jaxpr(call, [False, True], effects_known=False)
        assert not held.known.effects and held.unknown.effects == {bell}


def test_it_is_cached_on_the_jaxpr():
    jaxpr, inputs = staged("calls")
    unknown = [True] + [False] * (len(inputs) - 1)
    assert partial_eval_jaxpr(jaxpr, unknown) is partial_eval_jaxpr(jaxpr, tuple(unknown))


def test_tracers_that_ended_are_refused():
    leaked = []
    stage(lambda x: leaked.append(x) or [x], [typeof(X)])
    interp = PartialEvalInterpreter(thread.interpreter)
    with running(interp), pytest.raises(Exception, match="after the jit trace that made it"):
        lax.mul(interp.new_arg(typeof(X)), leaked[0])
