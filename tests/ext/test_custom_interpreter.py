"""Interpreters of one's own: final style through core.Interpreter, initial style over jaxprs."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import MissingRuleError, TracerBoolConversionError, UnexpectedTracerError
from mjax_ext import core
from mjax_ext.core import primitives

X = np.array([0.5, 1.0, 2.0], np.float32)


# ---- final style -------------------------------------------------------------------------


INCREASING = (primitives.add_p, primitives.add_jaxvals_p, primitives.exp_p, primitives.tanh_p,
              primitives.reduce_sum_p)


class Intervals(core.Interpreter):
    """Interval arithmetic: a value carries a lower and an upper bound."""

    def lift(self, value):
        return value, value

    def aval(self, carried):
        return mjax.typeof(carried[0])

    def apply(self, primitive, carried, params):
        if primitive in INCREASING:
            return tuple(primitive.bind(*bounds, **params) for bounds in zip(*carried, strict=True))
        if primitive is primitives.neg_p:
            ((low, high),) = carried
            return lax.neg(high), lax.neg(low)
        if primitive is primitives.sub_p:
            a, b = carried
            return lax.sub(a[0], b[1]), lax.sub(a[1], b[0])
        if primitive is primitives.mul_p:
            products = [lax.mul(a, b) for a in carried[0] for b in carried[1]]
            low = high = products[0]
            for product in products[1:]:
                low, high = lax.min(low, product), lax.max(high, product)
            return low, high
        raise NotImplementedError(f"no interval rule for {primitive}")


def f(x, y):
    return lax.sub(lax.mul(x, lax.tanh(y)), lax.exp(lax.mul(x, -0.5)))


def bounds(xl, xh, yl, yh):
    return Intervals().run(f, (xl, xh), (yl, yh))


def test_final_style_interpreter_bounds_what_it_should():
    low, high = map(np.asarray, bounds(X, X + 1, -X, X))
    rng = np.random.default_rng(0)
    for _ in range(100):
        x, y = X + rng.random(3, np.float32), X * (2 * rng.random(3, np.float32) - 1)
        value = np.asarray(f(x, y))
        assert (low <= value + 1e-5).all() and (value <= high + 1e-5).all()
    tight = bounds(X, X, X, X)
    np.testing.assert_allclose(tight[0], f(X, X), rtol=1e-6)
    np.testing.assert_allclose(tight[1], f(X, X), rtol=1e-6)


def test_it_composes_with_every_transformation():
    args = (X, X + 1, -X, X)
    expected = bounds(*args)
    np.testing.assert_allclose(mjax.jit(bounds)(*args), expected, rtol=1e-6)
    np.testing.assert_allclose(mjax.vmap(bounds)(*args), expected, rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(mjax.jit(bounds)))(*args), expected, rtol=1e-6)

    def width(xl, xh):
        low, high = Intervals().run(lambda x: lax.reduce_sum(f(x, X), (0,)), (xl, xh))
        return lax.sub(high, low)

    eps = 1e-2
    grad = mjax.grad(width, argnums=1)(X, X + 1)
    for i in range(3):
        step = eps * np.eye(3, dtype=np.float32)[i]
        numeric = (float(width(X, X + 1 + step)) - float(width(X, X + 1 - step))) / (2 * eps)
        np.testing.assert_allclose(np.asarray(grad)[i], numeric, rtol=2e-2)


def test_transformations_inside_are_interpreted():
    inside = Intervals().run(lambda x: mjax.grad(lambda x: lax.mul(x, x))(x),
                             (np.float32(1), np.float32(2)))
    np.testing.assert_allclose(inside, (2, 4))
    batched = Intervals().run(lambda x: mjax.vmap(lambda e: lax.mul(e, e))(x), (X, X + 1))
    np.testing.assert_allclose(batched, (X * X, (X + 1) ** 2))


def test_jit_inside_is_looked_through():
    low, high = Intervals().run(mjax.jit(mjax.jit(lax.neg)), (X, X + 1))
    np.testing.assert_array_equal(low, -X - 1)
    np.testing.assert_array_equal(high, -X)


class Counting(core.Interpreter):
    """Counts applications; values carry themselves."""

    def __init__(self):
        self.counts = {}

    def apply(self, primitive, carried, params):
        self.counts[primitive.name] = self.counts.get(primitive.name, 0) + 1
        return primitive.bind(*carried, **params)


def test_interpreter_that_carries_nothing_more():
    count = Counting()
    out = count.run(lambda x: {"a": lax.sin(lax.sin(x)), "b": lax.add(x, lax.cos(1.0)), "c": 3}, X)
    np.testing.assert_allclose(out["a"], np.sin(np.sin(X)), rtol=1e-6)
    assert out["c"] == 3
    assert count.counts == {"sin": 2, "add": 1}  # cos of a constant is not interpreted


def test_nested_runs():
    outer, inner = Counting(), Counting()
    outer.run(lambda x: inner.run(lambda y: lax.add(lax.neg(y), lax.sin(x)), x), X)
    assert inner.counts == {"neg": 1, "add": 1}  # sin(x) is a constant to it
    assert outer.counts == {"neg": 1, "sin": 1, "add": 1}


def test_jit_can_be_kept():
    class Kept(Counting):
        def call(self, jaxpr, carried, params):
            self.counts["calls"] = self.counts.get("calls", 0) + 1
            return primitives.jit_p.bind(*carried, **params)

    kept = Kept()
    np.testing.assert_array_equal(kept.run(mjax.jit(lax.neg), X), -X)
    assert kept.counts == {"calls": 1}


def test_multiple_results():
    split = core.Primitive("halve", multiple_results=True)
    split.def_impl(lambda x: [x / 2, x / 2])
    out = Counting().run(lambda x: split.bind(x), X)
    assert isinstance(out, list) and len(out) == 2

    class Wrong(core.Interpreter):
        def apply(self, primitive, carried, params):
            return carried[0]

    with pytest.raises(TypeError, match=r"Wrong\.apply returned .* for primitive 'halve', which"):
        Wrong().run(split.bind, X)


def test_values_are_known_by_type_only_and_end_with_the_run():
    with pytest.raises(TracerBoolConversionError, match="while Counting traces"):
        Counting().run(lambda x: 1 if x else 2, np.float32(1))
    leaked = []
    Counting().run(lambda x: leaked.append(lax.neg(x)) or x, X)
    with pytest.raises(UnexpectedTracerError):
        lax.neg(leaked[0])
    assert isinstance(leaked[0], core.Tracer)
    assert isinstance(leaked[0], mjax.Array)


def test_apply_must_be_written():
    with pytest.raises(NotImplementedError, match=r"Empty\.apply\(primitive, carried, params\)"):
        type("Empty", (core.Interpreter,), {})().run(lax.neg, X)


# ---- initial style: a jaxpr, walked -------------------------------------------------------

INVERSES = {
    primitives.exp_p: lax.log, primitives.log_p: lax.exp, primitives.tanh_p: lax.atanh,
    primitives.neg_p: lax.neg, primitives.sinh_p: lax.asinh,
}


def inverse(fun):
    """The inverse of a function of one array, as the tutorial on custom interpreters has it."""

    def inverted(y):
        jaxpr = mjax.make_jaxpr(fun)(y)
        env = {jaxpr.outvars[0]: y}
        walk(jaxpr, env)
        return env[jaxpr.invars[0]]

    return inverted


def walk(jaxpr, env):
    for eqn in reversed(jaxpr.eqns):
        (out,), (operand,) = eqn.outvars, [v for v in eqn.invars
                                           if not isinstance(v, core.Literal)]
        if eqn.primitive is primitives.jit_p:
            inner = eqn.params["jaxpr"]
            scope = {inner.outvars[0]: env[out]}
            walk(inner, scope)
            env[operand] = scope[inner.invars[0]]
        elif eqn.primitive is primitives.mul_p:
            (factor,) = [v.val for v in eqn.invars if isinstance(v, core.Literal)]
            env[operand] = lax.div(env[out], factor)
        elif eqn.primitive in INVERSES:
            env[operand] = INVERSES[eqn.primitive](env[out])
        else:
            raise MissingRuleError(f"no inverse of {eqn.primitive}")


def g(x):
    return lax.exp(lax.mul(mjax.jit(lax.tanh)(x), 2.0))


class _Boxed:
    """Carries something, and is not an array."""


@pytest.mark.parametrize(("methods", "carried", "text"), [
    ({"apply": lambda self, p, values, params: None}, 1.0, "Mine.apply returned None for .*'sin'"),
    ({}, {"a": 1.0}, r"Mine carries \{'a': 1.0\}.*one value, not a tree of them: flatten it"),
    ({}, _Boxed(), r"Mine carries <.*_Boxed.*define Mine.aval\(carried\)"),
    ({"aval": lambda self, carried: None}, 1.0, "aval returned None for 1.0; it must return"),
])
def test_mistakes_in_interpreters_name_class_and_method(methods, carried, text):
    cls = type("Mine", (core.Interpreter,), {
        "apply": lambda self, p, values, params: p.bind(*values, **params), **methods})
    with pytest.raises(TypeError, match=text):
        cls().run(lax.sin, carried)


def test_inverse_interpreter():
    y = g(X)
    np.testing.assert_allclose(inverse(g)(y), X, rtol=1e-4)
    np.testing.assert_allclose(mjax.jit(inverse(g))(y), X, rtol=1e-4)
    np.testing.assert_allclose(mjax.vmap(inverse(g))(y), X, rtol=1e-4)
    for x in X:
        slope = lax.mul(mjax.grad(inverse(g))(g(x)), mjax.grad(g)(x))
        np.testing.assert_allclose(slope, 1, rtol=1e-3)
    with pytest.raises(MissingRuleError, match="no inverse of cos"):
        inverse(lax.cos)(y)


def test_eval_jaxpr_is_transformable():
    jaxpr = mjax.make_jaxpr(g)(X)
    run = core.jaxpr_as_fun(jaxpr)
    np.testing.assert_allclose(mjax.jvp(run, (X,), (X,))[1][0], mjax.jvp(g, (X,), (X,))[1])
    names = [eqn.primitive.name for eqn in mjax.make_jaxpr(run)(X).eqns]
    assert names == list(map(operator.attrgetter("primitive.name"), jaxpr.eqns))


def test_jaxprs_take_as_many_values_as_they_have_inputs():
    jaxpr = mjax.make_jaxpr(lambda x, y: x + y)(X, 1.0)
    for call in (lambda: core.eval_jaxpr(jaxpr, [], X), lambda: core.jaxpr_as_fun(jaxpr)(X)):
        with pytest.raises(TypeError,
                           match=r"2 inputs, of types float32\[.*, ~float32\[\], .*1 arguments"):
            call()
    with pytest.raises(TypeError, match="called with 1 constants and 2 arguments"):
        core.eval_jaxpr(jaxpr, [3.0], X, X)
