"""v1: rules of derivatives. Frozen: `tests/generations/test_frozen.py` refuses edits."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext.v1 import core
from mjax_ext.v1.interpreters import ad


def product(name):
    p = core.Primitive(name)
    p.def_impl(lambda x, y: x * y)
    p.def_abstract_eval(lambda x, y: x)
    return p


def test_jvp_rules_take_lists_and_zeros():
    p, seen = product("v1_jvp"), []

    def rule(primals, tangents):
        seen.append(tuple(type(t) is ad.Zero for t in tangents))
        (x, y), (t, s) = primals, map(ad.instantiate_zeros, tangents)
        return p.bind(x, y), t * y + x * s

    ad.primitive_jvps[p] = rule
    assert mjax.jvp(p.bind, (3.0, 5.0), (1.0, 0.5))[1] == 6.5
    assert mjax.jvp(lambda x: p.bind(x, 5.0), (3.0,), (1.0,))[1] == 5.0
    assert seen == [(False, False), (False, True)] and p in ad.primitive_jvps


def test_zeros_have_the_tangent_type():
    zero = ad.Zero.from_primal_value(np.int32(3))
    assert zero.aval.dtype == mjax.dtypes.float0
    out = ad.instantiate_zeros(ad.Zero(core.get_aval(np.ones(2, np.float32))))
    np.testing.assert_array_equal(out, np.zeros(2))
    assert ad.instantiate_zeros(2.0) == 2.0
    np.testing.assert_array_equal(ad.zeros_like_aval(core.get_aval(np.ones(2, "f"))), np.zeros(2))


def test_a_zero_may_be_the_answer():
    p = core.Primitive("v1_step")
    p.def_impl(np.sign)
    p.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (
        p.bind(*primals), ad.Zero(tangents[0].aval))
    assert mjax.grad(lambda x: p.bind(x) + x)(2.0) == 1.0


def test_transpose_rules_take_undefined_primals():
    p, seen = product("v1_transpose"), []

    def rule(cotangent, x, y):
        seen.append((ad.is_undefined_primal(x), type(y) is ad.UndefinedPrimal))
        return [cotangent * y, None]

    ad.primitive_transposes[p] = rule
    out, = mjax.linear_transpose(lambda x: p.bind(x, 3.0), 1.0)(2.0)
    assert out == 6.0 and seen == [(True, False)]


def test_helpers_for_linear_and_elementwise_primitives():
    def make(name, f):
        p = core.Primitive(name)
        p.def_impl(f)
        p.def_abstract_eval(lambda x: x)
        return p

    minus = make("v1_minus", lambda x: -x)
    ad.deflinear(minus, lambda cotangent: [minus.bind(cotangent)])
    assert mjax.grad(minus.bind)(1.0) == -1.0
    minus2 = make("v1_minus2", lambda x: -x)
    ad.deflinear2(minus2, lambda cotangent, x: [minus2.bind(cotangent)])
    assert mjax.grad(minus2.bind)(1.0) == -1.0
    square = make("v1_square", lambda x: x * x)
    ad.defjvp(square, lambda t, x: 2.0 * x * t)
    assert mjax.grad(square.bind)(3.0) == 6.0
    exp = make("v1_exp", np.exp)
    ad.defjvp2(exp, lambda t, result, x: t * result)
    np.testing.assert_allclose(mjax.grad(exp.bind)(0.5), np.exp(0.5), rtol=1e-6)
    times = product("v1_times")
    ad.defbilinear(times, lambda ct, x, y: times.bind(ct, y), lambda ct, x, y: times.bind(ct, x))
    assert mjax.grad(times.bind)(3.0, 5.0) == 5.0


def test_linearize_rules_give_a_linear_function():
    p = core.Primitive("v1_linearize")
    p.def_impl(lambda x: x * x)
    p.def_abstract_eval(lambda x: x)
    ad.primitive_linearizations[p] = lambda nonzeros, x: (
        p.bind(x), True, [x], lambda residuals, t: 2.0 * residuals[0] * t)
    y, f = mjax.linearize(p.bind, 3.0)
    assert y == 9.0 and f(1.0) == 6.0 and mjax.grad(p.bind)(3.0) == 6.0


def test_tables_are_mappings():
    p = core.Primitive("v1_table")
    rule = lambda primals, tangents: None
    ad.primitive_jvps[p] = rule
    assert ad.primitive_jvps[p] is rule is ad.primitive_jvps.get(p) and p in [*ad.primitive_jvps]
    del ad.primitive_jvps[p]
    assert p not in ad.primitive_jvps and ad.primitive_jvps.get(p) is None
    with pytest.raises(KeyError):
        ad.primitive_jvps[p]
    assert core.primitives.sin_p in ad.primitive_jvps
    assert core.primitives.mul_p in ad.primitive_transposes


def test_tangents_are_added():
    zero = ad.Zero(core.get_aval(np.float32(1)))
    assert ad.add_tangents(zero, 2.0) == 2.0 == ad.add_tangents(2.0, zero)
    assert ad.add_jaxvals(1.0, 2.0) == 3.0
    assert ad.add_jaxvals_p.bind(jnp.float32(1), jnp.float32(2)) == 3.0


def test_rules_that_return_a_wrong_tangent_are_named():
    p = core.Primitive("v1_bad_tangent")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), jnp.zeros(7))
    with pytest.raises(TypeError, match="v1_bad_tangent"):
        mjax.jvp(p.bind, (1.0,), (1.0,))


def test_derivatives_of_programs():
    from mjax_ext.v1 import linear_util as lu

    out, tangent = ad.jvp(lu.wrap_init(lambda x: [lax.sin(x)])).call_wrapped((0.5,), (1.0,))
    np.testing.assert_allclose([out[0], tangent[0]], [np.sin(0.5), np.cos(0.5)], rtol=1e-6)
