"""Transformations of transformations: nested interpreters keep their values apart."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

import mjax
from mjax import lax

ONE = np.float32(1)

#: Ways to differentiate a function of a scalar.
DERIVATIVES = {
    "grad": mjax.grad,
    "jvp": lambda f: lambda x: mjax.jvp(f, (x,), (ONE,))[1],
    "linearize": lambda f: lambda x: mjax.linearize(f, x)[1](ONE),
    "vjp": lambda f: lambda x: mjax.vjp(f, x)[1](ONE)[0],
    "jacfwd": mjax.jacfwd,
    "jacrev": mjax.jacrev,
    "jit of grad": lambda f: mjax.jit(mjax.grad(f)),
    "grad of jit": lambda f: mjax.grad(mjax.jit(f)),
    "jvp of jit": lambda f: lambda x: mjax.jvp(mjax.jit(f), (x,), (ONE,))[1],
    "vmap of grad": lambda f: lambda x: lax.squeeze(
        mjax.vmap(mjax.grad(f))(lax.expand_dims(x, (0,))), (0,)),
    "grad of vmap": lambda f: mjax.grad(
        lambda x: lax.squeeze(mjax.vmap(f)(lax.expand_dims(x, (0,))), (0,))),
}
FEW = ["grad", "jvp", "linearize", "jit of grad", "grad of jit", "vmap of grad"]


@pytest.mark.parametrize(("outer", "inner"), [
    *itertools.product(FEW, FEW), *((d, "grad") for d in DERIVATIVES),
    *(("jvp", d) for d in DERIVATIVES)])
def test_perturbations_are_not_confused(outer, inner):
    d1, d2 = DERIVATIVES[outer], DERIVATIVES[inner]
    x = np.float32(3)
    # d/dx [x * d/dy x] = 0, also at 0; d/dx [x * d/dy (x + y)] = 1.
    assert float(d1(lambda x: lax.mul(x, d2(lambda y: lax.mul(x, 1.0))(ONE)))(x)) == 0
    assert float(d1(lambda x: lax.mul(x, d2(lambda y: lax.mul(x, 1.0))(ONE)))(x * 0)) == 0
    assert float(d1(lambda x: lax.mul(x, d2(lambda y: lax.add(x, y))(ONE)))(x)) == 1
    # d/dx [x * d/dy (x y^2) at 2] = d/dx 4 x^2.
    assert float(d1(lambda x: lax.mul(x, d2(
        lambda y: lax.mul(x, lax.mul(y, y)))(np.float32(2))))(x)) == 24
    # The inner point depends on x: d/dx [d/dy (x y^2) at x] = d/dx 2 x^2.
    assert float(d1(lambda x: d2(lambda y: lax.mul(x, lax.mul(y, y)))(x))(x)) == 12


@pytest.mark.parametrize("ways", [*itertools.product(["grad", "jvp", "linearize"], repeat=3),
                                  ("grad of jit", "jit of grad", "vmap of grad"),
                                  ("vmap of grad", "grad of vmap", "jvp of jit")])
def test_three_levels(ways):
    a, b, c = (DERIVATIVES[w] for w in ways)
    # d/dx [x d/dy (x y d/dz (x y z^2) at y) at x] at 2: x y * 2 x y^2 = 2 x^2 y^3; 6 x^2 y^2
    # at y = x is 6 x^4; times x is 6 x^5, whose derivative is 30 x^4.
    def f(x):
        def g(y):
            h = c(lambda z: lax.mul(lax.mul(x, y), lax.mul(z, z)))(y)
            return lax.mul(lax.mul(x, y), h)

        return lax.mul(x, b(g)(x))

    assert float(a(f)(np.float32(2))) == 480


def nth(n, x):
    """The n-th derivative of x sin(x)."""
    return x * np.sin(x + n * np.pi / 2) + n * np.sin(x + (n - 1) * np.pi / 2)


@pytest.mark.parametrize("way", ["grad", "jvp", "linearize", "vjp", "grad of jit", "jit of grad",
                                 "vmap of grad"])
def test_derivatives_to_order_five(way):
    f = lambda x: lax.mul(x, lax.sin(x))
    derivative = DERIVATIVES[way]
    for n in range(1, 6):
        f = derivative(f)
        np.testing.assert_allclose(f(np.float32(0.7)), nth(n, 0.7), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("ways", list(itertools.product(["grad", "jvp"], repeat=4)))
def test_mixed_derivatives_to_order_five(ways):
    f = mjax.jit(lambda x: lax.mul(x, lax.sin(x)))
    for way in (*ways, "linearize"):
        f = DERIVATIVES[way](f)
    np.testing.assert_allclose(f(np.float32(0.7)), nth(5, 0.7), 1e-5)


# ---- grad, jvp, vmap, jit in all orders ------------------------------------------------

XS = np.random.default_rng(0).normal(size=4).astype("float32")


def apply_in_order(order):
    """x sin(x) under the transformations, the first innermost; and what to expect at XS."""
    f, n, mapped = (lambda x: lax.mul(x, lax.sin(x))), 0, False
    for name in order:
        if name == "jit":
            f = mjax.jit(f)
        elif name == "vmap":
            f, mapped = mjax.vmap(f), True
        else:
            n += 1
            f = _of_rows(f, name) if mapped else DERIVATIVES[name](f)
    if not mapped:
        f = mjax.vmap(f)
    return f, nth(n, XS)


def _of_rows(f, name):
    """A derivative of a function of a batch whose rows do not depend on each other."""
    if name == "grad":
        return mjax.grad(lambda xs: lax.reduce_sum(f(xs), (0,)))
    return lambda xs: mjax.jvp(f, (xs,), (np.ones_like(XS),))[1]


@pytest.mark.parametrize("order", list(itertools.permutations(["grad", "jvp", "vmap", "jit"])),
                         ids=" ".join)
def test_all_orders(order):
    f, expected = apply_in_order(order)
    np.testing.assert_allclose(f(XS), expected, 1e-5, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("order", sorted(set(itertools.permutations(
    ["jit", "grad", "jit", "jvp", "vmap"]))), ids=" ".join)
def test_all_orders_with_jit_twice(order):
    f, expected = apply_in_order(order)
    np.testing.assert_allclose(f(XS), expected, 1e-5, 1e-5)


# ---- closures over outer tracers -------------------------------------------------------


def test_closures_through_every_transformation():
    """A value of the outermost map, used under jit under jvp under vmap under grad."""
    def f(w, x):
        @mjax.jit
        def inner(y):
            return lax.mul(lax.sin(lax.mul(w, y)), x)

        def slope(y):
            return mjax.jvp(inner, (y,), (lax.mul(w, 1.0),))[1]

        ys = lax.broadcast(lax.mul(x, 2.0), (3,))
        return lax.reduce_sum(mjax.vmap(slope)(ys), (0,))

    # slope(y) = w^2 cos(w y) x at y = 2 x, three times.
    w, x = np.float32(0.5), np.float32(0.25)
    value = 3 * w**2 * np.cos(2 * w * x) * x
    dw = 3 * x * (2 * w * np.cos(2 * w * x) - 2 * x * w**2 * np.sin(2 * w * x))
    dx = 3 * w**2 * (np.cos(2 * w * x) - 2 * w * x * np.sin(2 * w * x))
    np.testing.assert_allclose(f(w, x), value, 1e-5)
    for transformed in (mjax.grad(f, (0, 1)), mjax.jit(mjax.grad(f, (0, 1))),
                        mjax.grad(mjax.jit(f), (0, 1))):
        np.testing.assert_allclose(transformed(w, x), (dw, dx), 1e-5)
    out = mjax.vmap(mjax.grad(f), in_axes=(0, None))(np.full(2, w), x)
    np.testing.assert_allclose(out, [dw, dw], 1e-5)


def test_a_pullback_may_leave_the_jit_that_made_it():
    @mjax.jit
    def forward(x):
        return mjax.vjp(lambda x: lax.mul(x, lax.sin(x)), x)

    _, pull = forward(np.float32(0.7))
    np.testing.assert_allclose(pull(ONE)[0], nth(1, 0.7), 1e-5)
    np.testing.assert_allclose(mjax.jit(lambda p, c: p(c))(pull, ONE)[0], nth(1, 0.7), 1e-5)
    _, f_jvp = mjax.jit(lambda x: mjax.linearize(mjax.jit(lax.sin), x))(np.float32(0.7))
    np.testing.assert_allclose(f_jvp(ONE), np.cos(0.7), 1e-5)
    # Under vmap, and differentiated in the point and in the cotangent.
    pulled = mjax.vmap(lambda x, c: mjax.vjp(lax.sin, x)[1](c)[0])(XS, XS)
    np.testing.assert_allclose(pulled, np.cos(XS) * XS, 1e-5)
    twice = mjax.grad(lambda x: mjax.vjp(lax.sin, x)[1](lax.mul(x, x))[0])(np.float32(0.7))
    np.testing.assert_allclose(twice, 1.4 * np.cos(0.7) - 0.49 * np.sin(0.7), 1e-5)


def test_a_pullback_used_in_an_inner_trace():
    def f(x):
        y, pull = mjax.vjp(lambda z: lax.mul(lax.sin(z), x), x)
        return mjax.jit(lambda c: lax.mul(pull(c)[0], y))(x)

    # x cos(x) * x * sin(x) x
    g = lambda x: x**3 * np.cos(x) * np.sin(x)
    np.testing.assert_allclose(f(np.float32(0.7)), g(0.7), 1e-5)
    slope = (g(0.7 + 1e-6) - g(0.7 - 1e-6)) / 2e-6
    np.testing.assert_allclose(mjax.grad(f)(np.float32(0.7)), slope, 1e-4)
    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(np.float32(0.7)), slope, 1e-4)


# ---- integers, zeros, and what is passed through ---------------------------------------


def test_integers_between_floats():
    def f(x, n):
        m = lax.add(n, lax.convert_element_type(lax.floor(x), np.int32))
        return lax.mul(lax.convert_element_type(m, np.float32), lax.mul(x, x))

    x, n = np.float32(2.5), np.int32(3)
    for g in (f, mjax.jit(f)):
        assert float(mjax.grad(g)(x, n)) == 25
        dx, dn = mjax.grad(g, (0, 1), allow_int=True)(x, n)
        assert float(dx) == 25 and dn.dtype == mjax.dtypes.float0
        (_, pull) = mjax.vjp(g, x, n)
        dx, dn = pull(ONE)
        assert float(dx) == 25 and dn.dtype == mjax.dtypes.float0 and dn.shape == ()
        assert float(mjax.grad(mjax.grad(g))(x, n)) == 10
        out = mjax.vmap(mjax.grad(g), in_axes=(None, 0))(x, np.arange(3))
        np.testing.assert_array_equal(out, [10, 15, 20])


def test_float0_goes_through_jit():
    f = mjax.jit(lambda x, n: (lax.mul(x, 2.0), lax.add(n, 1)))
    tangent = np.zeros((), mjax.dtypes.float0)
    _, (t, t0) = mjax.jvp(f, (ONE, np.int32(1)), (ONE, tangent))
    assert float(t) == 2 and t0.dtype == mjax.dtypes.float0
    _, (t, t0) = mjax.jit(lambda x, n: mjax.jvp(f, (x, n), (x, tangent)))(ONE, np.int32(1))
    assert float(t) == 2 and t0.dtype == mjax.dtypes.float0 and t0.shape == ()
    # As an argument, and with axes.
    _, (t, t0) = mjax.jit(lambda x, n, z: mjax.jvp(f, (x, n), (x, z)))(
        ONE, np.int32(1), tangent)
    assert t0.dtype == mjax.dtypes.float0
    zeros = mjax.jit(lambda n: mjax.jvp(lambda n: lax.add(n, n), (n,), (
        np.zeros(3, mjax.dtypes.float0),))[1])(np.arange(3))
    assert zeros.shape == (3,) and zeros.dtype == mjax.dtypes.float0


def test_functions_without_inputs_or_outputs():
    assert mjax.jit(lambda: ())() == ()
    assert mjax.vmap(lambda x: ())(XS) == ()
    _, pull = mjax.vjp(lambda x: (), XS)
    np.testing.assert_array_equal(pull(())[0], 0 * XS)
    assert mjax.jvp(lambda x: {}, (XS,), (XS,)) == ({}, {})
    assert float(mjax.jit(lambda: lax.sin(0.0))()) == 0


def test_derivatives_of_what_does_not_depend_on_the_input():
    for f in (lambda x: 2.0, lambda x: lax.sin(2.0), lambda x: lax.floor(x),
              mjax.jit(lambda x: lax.sin(2.0)), mjax.jit(lambda x: lax.floor(x))):
        for derivative in DERIVATIVES.values():
            assert float(derivative(f)(np.float32(0.7))) == 0


def test_results_that_are_inputs():
    f = mjax.jit(lambda x, y: (x, y, x, 1.0))
    _, pull = mjax.vjp(f, ONE, ONE)
    assert [float(c) for c in pull((ONE, ONE, np.float32(5), ONE))] == [6, 1]
    out, tangents = mjax.jvp(f, (ONE, ONE), (np.float32(2), np.float32(3)))
    assert [float(t) for t in tangents] == [2, 3, 2, 0]
    out = mjax.vmap(f, in_axes=(0, None))(XS, ONE)
    np.testing.assert_array_equal(out[2], XS)


def test_the_stack_does_not_grow_with_the_program():
    """Nested transformations cost frames per level, not per equation."""
    depths = []

    def f(x):
        for _ in range(300):
            x = lax.sin(x)
        frame, depth = sys._getframe(), 0
        while frame:
            frame, depth = frame.f_back, depth + 1
        depths.append(depth)
        return x

    g = f
    for _ in range(4):
        mjax.make_jaxpr(g)(ONE)
        g = mjax.grad(g)
    steps = np.diff(depths)
    assert np.all(steps == steps[0]) and steps[0] < 12, depths
