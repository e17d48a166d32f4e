"""custom_gradient, closure_convert, and what rules see of zeros."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from mjax.dtypes import float0
from tests.engine.control.custom_programs import XS, X, Y
from tests.engine.reading import names


def same(f):
    return f


# ---- custom_gradient -------------------------------------------------------------------


def test_the_pullback_shares_what_was_computed():
    calls = []

    @mjax.custom_gradient
    def f(x, y):
        calls.append(x)
        s = jnp.sin(x)
        return {"out": s * y}, lambda ct: (5 * ct["out"] * y, 7 * ct["out"] * s)

    def loss(x, y):
        return f(x, y)["out"].sum()

    for around in (same, mjax.jit, mjax.checkpoint):
        x_ct, y_ct = mjax.grad(around(loss), (0, 1))(X, Y)
        np.testing.assert_allclose(x_ct, 5 * Y, 1e-6)
        np.testing.assert_allclose(y_ct, 7 * np.sin(X), 1e-6)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(loss), (0, None))(XS, Y), [5 * Y] * 4, 1e-6)
    found = mjax.grad(lambda y: mjax.vmap(loss, (0, None))(XS, y).sum())(Y)
    np.testing.assert_allclose(found, 7 * np.sin(XS).sum(0), 1e-5)
    found = names(mjax.make_jaxpr(mjax.grad(loss))(X, Y))
    assert found.count("sin") == 1
    assert isinstance(f, mjax.custom_vjp) and f.__name__ == "f"


@pytest.mark.parametrize("pullback", [
    lambda ct: 3 * ct, lambda ct: (3 * ct,), lambda ct: [3 * ct]])
def test_the_cotangent_of_one_argument(pullback):
    f = mjax.custom_gradient(lambda x: (x * 2, pullback))
    assert mjax.grad(f)(1.0) == 3 and f(1.0) == 2
    tree = mjax.custom_gradient(lambda d: (d["a"], lambda ct: {"a": 3 * ct, "b": None}))
    assert mjax.grad(tree)({"a": 1.0, "b": 2.0}) == {"a": 3.0, "b": 0.0}


def test_the_second_derivative_is_that_of_what_it_does():
    f = mjax.custom_gradient(lambda x: (x ** 3, lambda ct: ct * 5 * x ** 2))
    for around in (same, mjax.jit):
        # Through the pullback in x, and through the values that `f` computed.
        assert mjax.grad(mjax.grad(around(f)))(2.0) == 20
        both = around(lambda x: mjax.grad(f)(x) * f(x))
        assert mjax.grad(both)(2.0) == 20 * 8 + 20 * 20


@pytest.mark.parametrize("result", [lambda x: x, lambda x: (x, 3.0), lambda x: (x, x, x)])
def test_functions_that_give_something_else(result):
    f = mjax.custom_gradient(result)
    for g in (f, mjax.grad(f), mjax.jit(f)):
        with pytest.raises(TypeError, match=r"custom_gradient: <lambda> at .* must return a pair "
                           r"\(output, function that pulls cotangents back\), but returned"):
            g(1.0)
    with pytest.raises(TypeError, match="custom_gradient expects a function, got 3"):
        mjax.custom_gradient(3)


def test_pullbacks_that_give_something_else():
    f = mjax.custom_gradient(lambda x, y: (x * y, lambda ct: (ct,)))
    with pytest.raises(TypeError, match=r"(?s)bwd rule .*output\[1\]: missing; the argument"):
        mjax.grad(f)(1.0, 2.0)
    f = mjax.custom_gradient(lambda x: (x, lambda ct: np.ones(3, "float32")))
    with pytest.raises(ValueError, match=r"output\[0\] is of type float32\[3\], and the argument"):
        mjax.grad(f)(1.0)


# ---- closure_convert -------------------------------------------------------------------


def test_an_optimizer_that_takes_a_function():
    """The implicit derivative of a root in what the function closes over."""
    def root(f, x):
        converted, closed = mjax.closure_convert(f, x)
        return _root(converted, x, *closed)

    @functools.partial(mjax.custom_vjp, nondiff_argnums=(0,))
    def _root(f, x, *closed):
        step = mjax.grad(lambda x: f(x, *closed))
        return lax.fori_loop(0, 30, lambda _, x: x - f(x, *closed) / step(x), x)

    def fwd(f, x, *closed):
        x = _root(f, x, *closed)
        return x, (x, closed)

    def bwd(f, r, ct):
        x, closed = r
        slope = mjax.grad(lambda x: f(x, *closed))(x)
        _, pull = mjax.vjp(lambda *closed: f(x, *closed), *closed)
        return None, *pull(-ct / slope)

    _root.defvjp(fwd, bwd)

    def loss(a):
        b = jnp.sqrt(a)
        return root(lambda x: x * x - a * b, 1.0)

    expected = 0.75 * 2.0 ** -0.25
    for g in (mjax.grad(loss), mjax.jit(mjax.grad(loss)), mjax.grad(mjax.jit(loss))):
        np.testing.assert_allclose(g(2.0), expected, 1e-5)
    found = mjax.vmap(mjax.grad(loss))(np.array([2.0, 2.0], "float32"))
    np.testing.assert_allclose(found, [expected] * 2, 1e-5)


def test_only_what_may_be_differentiated_is_hoisted():
    seen = []

    c = np.ones(3, "float32")

    def f(x, n):
        converted, closed = mjax.closure_convert(lambda y: y * x * n * c, 1.0)
        seen.append([v.dtype for v in closed])
        return converted(2.0, *closed).sum()

    def run(g, *args):
        seen.clear()
        out = g(*args)
        return out, seen[-1]

    x = np.float32(3)
    assert run(f, x, 2) == (36, [])
    assert run(mjax.grad(f), x, 2) == (12, [np.float32])
    assert run(mjax.jit(f), x, 2) == (36, [np.float32])
    out, hoisted = run(mjax.vmap(f, (0, None)), X, 2)
    np.testing.assert_allclose(out, 12 * X, 1e-6)
    assert hoisted == []
    assert run(mjax.grad(lambda x: mjax.vmap(f, (0, None))(x, 2).sum()), X)[1] == [np.float32]


def test_trees_and_errors():
    f, closed = mjax.closure_convert(lambda d: {"q": d["a"] * d["b"][0]}, {"a": 1.0, "b": (2.0,)})
    assert closed == [] and f({"a": 3.0, "b": (4.0,)}) == {"q": 12.0}
    assert f.__name__ == "<lambda>"
    with pytest.raises(TypeError, match=r"closure_convert made of <lambda> at .* takes arguments "
                       r"of the tree structure of the example, .*, and then the 0 values"):
        f(1.0, 2.0)
    with pytest.raises(TypeError, match="then the 1 values closed over"):
        mjax.jit(lambda x: mjax.closure_convert(lambda y: y * x, 1.0)[0]())(1.0)
    with pytest.raises(TypeError, match="closure_convert expects a function, got 3"):
        mjax.closure_convert(3, 1.0)
    with pytest.raises(TypeError, match=r"closure_convert: argument\[0\]\['k'\] is not a"):
        mjax.closure_convert(lambda x: x, {"k": "text"})
    g, _ = mjax.closure_convert(lambda x: x + 1, mjax.ShapeDtypeStruct((3,), "float32"))
    np.testing.assert_allclose(g(X), X + 1)


# ---- zeros -----------------------------------------------------------------------------


def test_symbolic_zeros_have_a_type_and_nothing_else():
    zero = SymbolicZero.from_primal_value(X)
    assert (zero.shape, zero.dtype, zero.ndim, zero.size, zero.weak_type) == (
        (3,), np.float32, 1, 3, False)
    assert zero == SymbolicZero.from_primal_value(Y) != SymbolicZero.from_primal_value(XS)
    assert hash(zero) == hash(SymbolicZero.from_primal_value(Y)) and zero != 0
    assert repr(zero) == "SymbolicZero(float32[3])"
    assert SymbolicZero.from_primal_value(3).dtype == float0
    with pytest.raises(TypeError, match=r"SymbolicZero\(float32\[3\]\) was used as if it were"):
        lax.sin(zero)
    with pytest.raises(AttributeError, match="no attribute 'at'"):
        zero.at[0]


def test_zeros_of_primals():
    tree = zero_from_primal({"x": X, "n": 3})
    np.testing.assert_array_equal(tree["x"], 0 * X)
    assert tree["n"].dtype == float0
    assert zero_from_primal(X, symbolic_zeros=True) == SymbolicZero.from_primal_value(X)


def test_values_of_primals():
    values = custom_vjp_primal_tree_values(
        [CustomVJPPrimal(X, True), {"a": CustomVJPPrimal(Y, False)}])
    assert values[0] is X and values[1]["a"] is Y
    with pytest.raises(TypeError, match="takes trees of CustomVJPPrimal.* got a leaf of"):
        custom_vjp_primal_tree_values([1.0])
