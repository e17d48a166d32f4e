"""mjax_ext.interpreters.ad: tables over the records, makers of rules, symbolic zeros."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir

X = np.array([0.5, 1.0, 2.0], np.float32)
Y = np.array([2.0, 0.25, -1.0], np.float32)


def make(name, function, multiple_results=False):
    """A primitive that does what a function of arrays does."""
    p = core.Primitive(name, multiple_results=multiple_results)

    def types(*avals, **params):
        flat = mjax.make_jaxpr(lambda *xs: function(*xs, **params))(
            *[mjax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]).out_avals
        return flat if multiple_results else flat[0]

    p.def_abstract_eval(types)
    mlir.register_lowering(p, mlir.lower_fun(function, multiple_results=multiple_results))
    return p


def derivative(f, args, direction, eps=1e-2):
    """Central difference of a function of arrays along a direction."""
    plus, minus = ([np.float64(a) + s * eps * np.float64(d)
                    for a, d in zip(args, direction, strict=True)] for s in (1, -1))
    return (np.asarray(f(*map(np.float32, plus)), np.float64)
            - np.asarray(f(*map(np.float32, minus)), np.float64)) / (2 * eps)


# ---- the tables --------------------------------------------------------------------------


@pytest.mark.parametrize("table, field, define", [
    (ad.primitive_jvps, "jvp", "def_jvp"),
    (ad.primitive_transposes, "transpose", "def_transpose"),
    (ad.primitive_linearizations, "linearize", None),
    (batching.primitive_batchers, "batch", "def_batch"),
    (batching.fancy_primitive_batchers, "axis_batch", None),
])
def test_both_spellings_register_the_same(table, field, define):
    p = core.Primitive("p")
    assert p not in table and table.get(p) is None
    with pytest.raises(KeyError):
        table[p]

    def rule(*args):
        return args

    table[p] = rule
    assert getattr(p, field) is rule and table[p] is rule and p in table and p in list(table)
    assert len(table) == len(list(table))
    if define:
        def other(*args):
            return args

        assert getattr(p, define)(other) is other
        assert table[p] is other
    del table[p]
    assert getattr(p, field) is None and p not in table
    with pytest.raises(KeyError):
        del table[p]


def test_tables_say_what_they_hold():
    names = [p.name for p in ad.primitive_jvps]
    assert names == sorted(names) and {"sin", "mul", "jit"} <= set(names)
    assert "RuleTable('jvp'" in repr(ad.primitive_jvps)
    assert lax.sin_p not in ad.primitive_transposes and lax.neg_p in ad.primitive_transposes


def test_tables_refuse_what_is_not_a_rule():
    with pytest.raises(TypeError, match=r"'sin' of type str is not an mjax_ext\.core\.Primitive"):
        ad.primitive_jvps["sin"] = lambda *args: args
    with pytest.raises(TypeError, match="jvp rule of primitive 'p' must be a function, not 3"):
        ad.primitive_jvps[core.Primitive("p")] = 3


def test_get_primitive_transpose():
    assert ad.get_primitive_transpose(lax.neg_p) is lax.neg_p.transpose
    with pytest.raises(MissingRuleError, match="'lonely' has no transpose rule"):
        ad.get_primitive_transpose(core.Primitive("lonely"))


# ---- makers of rules ---------------------------------------------------------------------


def test_defjvp_sums_contributions_and_leaves_out_zeros():
    p = make("product", lambda x, y, *, power: lax.mul(x, lax.integer_pow(y, power)))
    seen = []

    def in_x(t, x, y, *, power):
        seen.append("x")
        return p.bind(t, y, power=power)

    def in_y(t, x, y, *, power):
        seen.append("y")
        return lax.mul(t, lax.mul(float(power), p.bind(x, y, power=power - 1)))

    ad.defjvp(p, in_x, in_y)

    def f(x, y):
        return p.bind(x, y, power=3)

    out, tangent = mjax.jvp(f, (X, Y), (Y, X))
    np.testing.assert_allclose(out, X * Y**3, rtol=1e-5)
    np.testing.assert_allclose(tangent, derivative(f, (X, Y), (Y, X)), rtol=1e-2)
    assert seen == ["x", "y"]
    mjax.jvp(lambda x: f(x, Y), (X,), (X,))
    assert seen == ["x", "y", "x"]
    ad.defjvp(p, None, None)
    _, tangent = mjax.jvp(f, (X, Y), (X, Y))
    np.testing.assert_array_equal(tangent, 0 * X)
    assert ".py:" in p.rules()["jvp"]


def test_defjvp2_gets_the_result():
    p = make("exponential", lambda x: lax.exp(x))
    ad.defjvp2(p, lambda t, out, x: lax.mul(t, out))
    np.testing.assert_allclose(mjax.grad(lambda x: lax.reduce_sum(p.bind(x), (0,)))(X), np.exp(X),
                               rtol=1e-5)
    assert "test_ad.py:" in p.rules()["jvp"]


def test_defjvp_with_too_few_functions():
    p = make("product", lambda x, y: lax.mul(x, y))
    ad.defjvp(p, lambda t, x, y: p.bind(t, y))
    with pytest.raises(TypeError, match=r"jvp rule of primitive 'product'.* of 1 functions for 2"):
        mjax.jvp(p.bind, (X, Y), (X, Y))


def sum_and_difference(x, y):
    return [lax.add(x, y), lax.sub(x, y)]


def test_deflinear2_with_several_operands_and_results():
    p = make("butterfly", sum_and_difference, multiple_results=True)

    def transpose(cts, x, y):
        both = p.bind(*map(ad.instantiate_zeros, cts))
        return [ct if ad.is_undefined_primal(a) else None
                for ct, a in zip(both, (x, y), strict=True)]

    ad.deflinear2(p, transpose)
    _, tangents = mjax.jvp(p.bind, (X, Y), (Y, X))
    np.testing.assert_allclose(tangents[1], Y - X)
    outs, pullback = mjax.vjp(lambda x, y: p.bind(x, y), X, Y)
    np.testing.assert_allclose(outs[0], X + Y)
    np.testing.assert_allclose(pullback([X, Y])[0], X + Y)
    # Only one result is used: the other's cotangent is a Zero.
    one = mjax.grad(lambda x: lax.reduce_sum(lax.mul(p.bind(x, Y)[1], Y), (0,)))(X)
    np.testing.assert_allclose(one, Y)  # the tangent of Y was an array of zeros
    assert p.rules()["jvp"].startswith("derived")


def test_deflinear_does_not_look_at_the_operand():
    p = make("triple", lambda x: lax.mul(x, 3.0))
    ad.deflinear(p, lambda ct: [p.bind(ct)])
    np.testing.assert_allclose(mjax.linear_transpose(p.bind, X)(Y)[0], 3 * Y)
    _, tangent = mjax.jvp(lambda x: p.bind(lax.floor(x)), (X,), (X,))
    np.testing.assert_array_equal(tangent, 0 * X)


def test_defbilinear():
    p = make("times", lambda x, y: lax.mul(x, y))
    ad.defbilinear(p, lambda ct, x, y: lax.mul(ct, y), lambda ct, x, y: lax.mul(x, ct))

    def f(x, y):
        return lax.reduce_sum(p.bind(x, y), (0,))

    np.testing.assert_allclose(mjax.grad(f, argnums=(0, 1))(X, Y), (Y, X))
    np.testing.assert_allclose(mjax.jvp(p.bind, (X, Y), (Y, X))[1], Y * Y + X * X, rtol=1e-6)


def test_linearization_rule():
    p = make("square", lambda x: lax.mul(x, x))
    ad.defjvp(p, lambda t, x: lax.mul(t, lax.mul(2.0, x)))

    def linearize(nonzeros, x):
        assert nonzeros == [True]

        def linear(residuals, tangent):
            return lax.mul(tangent, residuals[0])

        return p.bind(x), True, [lax.mul(2.0, x)], linear

    ad.primitive_linearizations[p] = linearize
    np.testing.assert_allclose(mjax.grad(lambda x: lax.reduce_sum(p.bind(x), (0,)))(X), 2 * X)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(mjax.grad(lambda x: lax.mul(x, 3.0))))(X),
                               0 * X + 3)


# ---- symbolic zeros ----------------------------------------------------------------------


def test_symbolic_zeros():
    zero = ad.Zero(mjax.typeof(X))
    assert isinstance(ad.Zero.from_primal_value(X), ad.Zero)
    np.testing.assert_array_equal(ad.instantiate_zeros(zero), 0 * X)
    assert ad.instantiate_zeros(X) is X
    assert ad.add_tangents(zero, X) is X and ad.add_tangents(X, zero) is X
    np.testing.assert_array_equal(ad.add_tangents(X, Y), X + Y)
    np.testing.assert_array_equal(ad.add_jaxvals(X, Y), X + Y)
    np.testing.assert_array_equal(ad.zeros_like_aval(mjax.typeof(X)), 0 * X)
    assert not ad.is_undefined_primal(X) and ad.is_undefined_primal(
        ad.UndefinedPrimal(mjax.typeof(X)))


def test_jvp_rule_sees_a_zero_for_what_is_constant():
    p, seen = make("keep", lambda x, y: lax.add(x, y)), []

    def jvp(primals, tangents):
        seen.append([type(t) is ad.Zero for t in tangents])
        return p.bind(*primals), ad.add_tangents(*tangents)

    ad.primitive_jvps[p] = jvp
    mjax.jvp(lambda x: p.bind(x, Y), (X,), (X,))
    mjax.jvp(mjax.jit(lambda x: p.bind(x, Y)), (X,), (X,))
    mjax.jvp(lambda x: p.bind(lax.floor(x), x), (X,), (X,))
    assert seen == [[False, True], [False, True], [True, False]]


def test_integer_operands_have_zero_tangents():
    p = core.Primitive("repeat")
    p.def_abstract_eval(lambda x, n: core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(
        lambda x, n: lax.mul(x, lax.convert_element_type(n, x.dtype)), multiple_results=False))
    ad.defjvp(p, lambda t, x, n: p.bind(t, n), None)
    ad.primitive_transposes[p] = lambda ct, x, n: [p.bind(ct, n), None]
    assert float(mjax.grad(lambda x: p.bind(x, np.int32(3)))(2.0)) == 3


# ---- transformations of jaxprs -----------------------------------------------------------


def test_transformations_of_jaxprs():
    jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(x, y))(X, Y)
    jvp, nonzero = ad.jvp_jaxpr(jaxpr, [True, False], False)
    assert nonzero == [True]
    np.testing.assert_allclose(core.jaxpr_as_fun(jvp)(X, Y, X)[1], X * Y)
    transposed, _ = ad.transpose_jaxpr(jaxpr, [True, False], [True])
    np.testing.assert_allclose(core.jaxpr_as_fun(transposed)(Y, X)[0], X * Y)
    ct, none = ad.backward_pass(jaxpr, jaxpr.consts, [ad.UndefinedPrimal(mjax.typeof(X)), Y], [X])
    np.testing.assert_allclose(ct, X * Y)
    assert none is None
