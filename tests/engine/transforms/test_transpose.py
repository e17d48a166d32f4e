"""Transposition of linear programs, with parts that are not linear in front."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.util import per_item
from mjax._engine.ir.effects import Effect, no_effects
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.transpose import backward_pass, transpose_jaxpr
from tests.engine.transforms.programs import (
    CONST,
    NAMES,
    X,
    Y,
    Z,
    close,
    evaluate,
    linear_in_part,
    staged,
    subsets,
)


def dot(xs, ys):
    return sum(float(np.sum(np.asarray(x, "f8") * np.asarray(y, "f8")))
               for x, y in zip(xs, ys, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_of_what_linearize_gives(name):
    """<f(t), c> = <t, f*(c)>, for every subset of tangents and of cotangents."""
    jaxpr, inputs = staged(name)
    rng = np.random.default_rng(0)
    for nonzeros in subsets(len(inputs)):
        nonzeros = [nz and x.dtype.kind == "f" for nz, x in zip(nonzeros, inputs, strict=True)]
        ts = [rng.normal(size=x.shape).astype("float32")
              for x, nz in zip(inputs, nonzeros, strict=True) if nz]
        parts = linearize_jaxpr(jaxpr, nonzeros)
        residuals = parts.residuals(inputs, evaluate(parts.known, *inputs))
        outs = evaluate(parts.unknown, *residuals, *ts)
        undefined = [False] * len(residuals) + [True] * len(ts)
        for nonzero_cts in subsets(len(outs)) if len(outs) < 4 else [(True,) * len(outs), *(
                tuple(i == j for j in range(len(outs))) for i in range(len(outs)))]:
            cts = [rng.normal(size=np.shape(o)).astype("float32")
                   for o, nz in zip(outs, nonzero_cts, strict=True) if nz]
            expected = dot([o for o, nz in zip(outs, nonzero_cts, strict=True) if nz], cts)
            for instantiate in (False, True, [i == 0 for i in range(len(ts))]):
                back, nonzero_ins = transpose_jaxpr(parts.unknown, undefined, nonzero_cts,
                                                    instantiate)
                found = iter(evaluate(back, *residuals, *cts))
                given = [next(found) if nz else np.zeros(2) for nz in nonzero_ins]
                asked = per_item(instantiate, len(ts))
                assert all(nz >= a for nz, a in zip(nonzero_ins, asked, strict=True))
                np.testing.assert_allclose(dot(ts, given), expected, 1e-3, 1e-3)


@pytest.mark.parametrize("which", [(0,), (2,)])
def test_parts_that_are_not_linear_run_first(which):
    jaxpr = stage(linear_in_part, [typeof(x) for x in (X, Y, Z)])
    inputs = [X, Y, Z]
    undefined = [i in which for i in range(3)]
    args = [UndefinedPrimal(typeof(x)) if u else x for x, u in zip(inputs, undefined, strict=True)]
    cts = list(np.random.default_rng(0).normal(size=(3, 2)).astype("float32"))
    found = backward_pass(jaxpr, jaxpr.consts, args, cts)
    assert [f is None for f in found] == [not u for u in undefined]
    (place,) = which
    basis = np.eye(2, dtype="float32")
    # Column by column, less what does not depend on the linear input.
    def at(x):
        return evaluate(jaxpr, *[x if i == place else v for i, v in enumerate(inputs)])

    rest = at(0 * X)
    columns = [[np.asarray(o) - np.asarray(r) for o, r in zip(at(e), rest, strict=True)]
               for e in basis]
    close([found[place]], [np.array([dot(c, cts) for c in columns])])


def test_inputs_used_often_never_and_as_results():
    def f(x, y, z):
        return [x, lax.add(x, x), x, y, 3.0, CONST]

    jaxpr = stage(f, [typeof(X), typeof(Y), typeof(Z)])
    cts = [X, Y, Z, X, np.float32(1), Y]
    args = [UndefinedPrimal(typeof(v)) for v in (X, Y, Z)]
    x, y, z = backward_pass(jaxpr, jaxpr.consts, args, cts)
    close([x, y], [X + 2 * Y + Z, X])
    assert type(z) is Zero and z.aval is typeof(Z)
    zeros = [Zero(a.to_tangent()) for a in jaxpr.out_avals]
    assert all(type(c) is Zero for c in backward_pass(jaxpr, jaxpr.consts, args, zeros))


def test_rules_are_not_called_for_nothing():
    called = []
    twin_p = Primitive("twin", multiple_results=True)
    twin_p.def_abstract_eval(lambda x: [x, x])
    twin_p.def_lowering(lambda ctx, x: [x, x])

    @twin_p.def_transpose
    def rule(cts, x):
        called.append([type(c) is Zero for c in cts])
        return [next(c for c in cts if type(c) is not Zero)]

    def f(x, y):
        a, _ = twin_p.bind(x)
        twin_p.bind(y)
        return [a]

    jaxpr = stage(f, [typeof(X), typeof(Y)])
    args = [UndefinedPrimal(typeof(X)), UndefinedPrimal(typeof(Y))]
    x, y = backward_pass(jaxpr, [], args, [Z])
    close([x], [Z])
    assert called == [[False, True]] and type(y) is Zero


def test_what_no_cotangent_depends_on_is_not_run():
    """Nonlinear equations run if a linear equation that is walked back needs them."""
    ran = []
    say_p = Primitive("say")
    say_p.def_effectful_abstract_eval(lambda x, *, name, effects: (x, effects))
    say_p.def_impl(lambda x, *, name, effects: ran.append(name) or x)

    def say(x, name, effects=no_effects):
        return say_p.bind(x, name=name, effects=effects)

    def f(x, y):
        factor = say(say(y, "1"), "2")
        unused = say(say(factor, "3"), "4")
        result = say(factor, "5")
        say(y, "6", frozenset({Effect()}))
        return [lax.mul(x, factor), lax.mul(x, say(y, "7")), result, lax.mul(say(y, "8"), unused)]

    jaxpr = stage(f, [typeof(X), typeof(Y)])
    zeros = [Zero(a.to_tangent()) for a in jaxpr.out_avals]
    args = [UndefinedPrimal(typeof(X)), Y]
    x, _ = backward_pass(jaxpr, [], args, [Z, *zeros[1:]])
    close([x], [Z * Y])
    assert ran == ["1", "2", "6"]
    ran.clear()
    x, _ = backward_pass(jaxpr, [], args, [Z, Z, Z, Z])
    close([x], [2 * Z * Y])
    assert ran == ["1", "2", "6", "7"]
    ran.clear()
    assert type(backward_pass(jaxpr, [], args, zeros)[0]) is Zero and ran == ["6"]


def test_linear_transpose_of_functions():
    def f(x, y):
        return lax.add(lax.mul(x, CONST), lax.neg(y)), lax.reduce_sum(x, (0,))

    back = mjax.linear_transpose(f, X, Y)((Z, np.float32(2)))
    close(back, [Z * CONST + 2, -Z])
    # jit, and jit of the transpose.
    close(mjax.linear_transpose(mjax.jit(f), X, Y)((Z, np.float32(2))), back)
    close(mjax.jit(lambda c: mjax.linear_transpose(f, X, Y)(c))((Z, np.float32(2))), back)
    # From types only, and closed over an outer tracer.
    shapes = [mjax.ShapeDtypeStruct((2,), "float32")] * 2
    close(mjax.linear_transpose(f, *shapes)((Z, np.float32(2))), back)
    gradient = mjax.grad(lambda w: lax.reduce_sum(mjax.linear_transpose(
        lambda x: lax.mul(x, lax.sin(w)), X)(Z)[0], (0,)))(Y)
    close([gradient], [np.cos(Y) * Z])


@pytest.mark.parametrize("f", [lambda x: lax.mul(x, x), lax.sin, lambda x: lax.integer_pow(x, 2)])
def test_what_is_not_linear_is_refused(f):
    with pytest.raises((TypeError, NotImplementedError)):
        mjax.linear_transpose(f, X)(Y)


def test_cotangents_are_checked():
    bad_p = Primitive("bad")
    bad_p.def_abstract_eval(lambda x: x)
    bad_p.def_impl(lambda x: x)
    bad_p.def_transpose(lambda ct, x: [lax.broadcast(ct, (3,))])
    with pytest.raises(TypeError,
                       match=r"cotangent of type float32\[3,2\] for an operand of type "):
        mjax.linear_transpose(bad_p.bind, X)(Y)
    bad_p.def_transpose(lambda ct, x: ct)
    with pytest.raises(TypeError, match="transpose rule of primitive 'bad'"):
        mjax.linear_transpose(bad_p.bind, X)(Y)


def test_the_transpose_is_cached_on_the_jaxpr():
    jaxpr = stage(lambda x: [lax.neg(x)], [typeof(X)])
    assert transpose_jaxpr(jaxpr, [True], [True]) is transpose_jaxpr(jaxpr, (True,), (True,))
