"""Dead-code elimination: what is left gives the wanted results, and nothing more is done."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.effects import Effect, EffectPolicy
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.dce import dce_jaxpr
from tests.engine.transforms.programs import PROGRAMS, X, Y, close, evaluate, split, staged, subsets


@pytest.mark.parametrize("name", PROGRAMS)
def test_wanted_results_are_the_same(name):
    jaxpr, inputs = staged(name)
    expected = evaluate(jaxpr, *inputs)
    for used in subsets(len(expected)):
        smaller, used_ins = dce_jaxpr(jaxpr, used)
        close(evaluate(smaller, *split(used_ins, inputs)[1]), split(used, expected)[1])
        read = {id(v) for e in smaller.eqns for v in e.invars} | {id(v) for v in smaller.outvars}
        assert all(id(v) in read for v in [*smaller.invars, *smaller.constvars])
        if not any(used):
            assert not smaller.eqns and not any(used_ins)
        again, same = dce_jaxpr(smaller, [True] * sum(used))
        assert all(same) and again is smaller
        kept, flags = dce_jaxpr(jaxpr, used, True)
        assert all(flags) and len(kept.invars) == len(inputs)
        assert dce_jaxpr(kept, [True] * sum(used), True)[0] is kept
        assert dce_jaxpr(kept, [True] * sum(used))[1] == used_ins


def test_inputs_that_must_stay():
    jaxpr = stage(lambda x, y: [lax.sin(x), y], [typeof(X), typeof(Y)])
    smaller, used = dce_jaxpr(jaxpr, [True, False], [False, True])
    assert used == [True, True] and len(smaller.invars) == 2


def test_within_jit():
    f = mjax.jit(lambda x, y: (lax.sin(x), lax.exp(y), lax.cos(x)))
    jaxpr = stage(lambda x, y: [f(x, y)[2]], [typeof(X), typeof(Y)])
    smaller, used = dce_jaxpr(jaxpr, [True])
    (eqn,) = smaller.eqns
    assert used == [True, False] and len(eqn.outvars) == len(eqn.invars) == 1
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns] == ["cos"]


def test_a_program_without_dead_equations_stays_itself():
    """So what is kept on it is found again, however deep it is nested."""
    loop = lambda x, n: lax.while_loop(lambda i: i < n, lambda i: i * x, x)
    f = mjax.jit(lambda x, n: lax.cond(n > 2.0, loop, lax.mul, lax.sin(x), n))
    jaxpr = stage(lambda x, n: [f(x, n)], [typeof(1.0), typeof(1.0)])
    smaller, used = dce_jaxpr(jaxpr, [True])
    assert smaller is jaxpr and used == [True, True]
    assert dce_jaxpr(jaxpr, [True]) == (jaxpr, [True, True])
    dead = stage(lambda x, n: [f(x, n), lax.exp(x)][:1], [typeof(1.0), typeof(1.0)])
    smaller, _ = dce_jaxpr(dead, [True])
    assert smaller is not dead and smaller.eqns == dead.eqns[:1]


def test_effects():
    class Kept(Effect):
        pass

    class Dropped(Effect):
        policy = EffectPolicy(kept_by_dce=False)

    kept, dropped = Kept(), Dropped()
    kept_p, dropped_p = Primitive("kept"), Primitive("dropped")
    kept_p.def_effectful_abstract_eval(lambda x: (x, {kept}))
    dropped_p.def_effectful_abstract_eval(lambda x: (x, {dropped}))

    def f(x, y):
        kept_p.bind(lax.sin(x))
        dropped_p.bind(y)
        return [lax.mul(2.0, 3.0)]

    for g in (f, lambda x, y: mjax.jit(f)(x, y)):
        jaxpr = stage(g, [typeof(X), typeof(Y)])
        assert jaxpr.effects == {kept, dropped}
        smaller, used = dce_jaxpr(jaxpr, [False])
        assert smaller.effects == {kept} and used == [True, False]


def test_a_rule_of_its_own():
    pair_p = Primitive("pair", multiple_results=True)
    pair_p.def_abstract_eval(lambda x, y: [x, y])
    pair_p.def_dce(lambda used, eqn: (
        (list(used), None) if not any(used) else
        (list(used), eqn.replace(
            primitive=lax.sin_p, invars=[v for v, u in zip(eqn.invars, used, strict=True) if u],
            outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u]))
        if sum(used) == 1 else ([True, True], eqn)))
    jaxpr = stage(lambda x, y: pair_p.bind(x, y), [typeof(X), typeof(Y)])
    smaller, used = dce_jaxpr(jaxpr, [False, True])
    assert used == [False, True] and smaller.eqns[0].primitive is lax.sin_p
    close(evaluate(smaller, Y), [np.sin(Y)])
    assert not dce_jaxpr(jaxpr, [False, False])[0].eqns
