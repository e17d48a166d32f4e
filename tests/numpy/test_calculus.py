"""Differences, gradients, integrals, interpolation, vectorize: against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
V = rng.normal(size=5).astype(np.float32)
X = rng.normal(size=(3, 4)).astype(np.float32)
I5 = np.array([3, 1, 4, 1, 5], np.int32)
C = (V + 1j * V[::-1]).astype(np.complex64)
PLACES = np.array([0, 1, 3, 4, 6], np.float32)
XP, FP = np.array([0, 1, 2], np.float32), np.array([0, 10, 5], np.float32)
AT = np.array([-1, 0.25, 0.5, 1.25, 3], np.float32)

ROWS = [
    *[call("diff", a, n) for a in (V, X, I5, I5 > 2, I5.astype(np.uint8), C) for n in (0, 1, 2, 7)],
    call("diff", X, axis=0), call("diff", V, prepend=0.0, append=V[:2]),
    call("diff", X, append=X[:, :2]), call("diff", X, prepend=1.0, axis=0),
    call("ediff1d", V), call("ediff1d", X), call("ediff1d", V, V[:2], 0.0), call("ediff1d", V[:1]),
    *[call("gradient", a) for a in (V, X, I5, C, V[:2])], call("gradient", X, axis=0),
    call("gradient", X, 2.0, 3.0), call("gradient", X, 2.0), call("gradient", V, PLACES),
    call("gradient", X, PLACES[:3], 2.0), call("gradient", X, axis=(1, 0)),
    call("trapezoid", V), call("trapezoid", V, PLACES), call("trapezoid", X, dx=0.5, axis=0),
    call("trapezoid", I5), call("trapezoid", X, PLACES[:3], axis=0), call("trapezoid", C),
    *[call("interp", AT, XP, FP, reference=lambda *a, **kw: np.interp(*a, **kw).astype("f4"), **kw)
      for kw in ({}, {"left": -7.0, "right": 9.0}, {"period": 2.5})],
    call("interp", AT, XP, FP * (1 + 1j), reference=lambda *a: np.interp(*a).astype("c8")),
    call("interp", AT[None], XP, FP), call("interp", 1, np.array([0, 2]), np.array([0, 1])),
    call("interp", AT, XP[:1], FP[1:2]),
    *[call("unwrap", a * 3, **kw) for a in (V, X, I5, I5 > 2, V[:0]) for kw in (
        {}, {"period": 4}, {"period": 3}, {"period": 2.5}, {"discont": 4.0})],
    call("unwrap", X * 9, axis=0), call("unwrap", I5.astype(np.int8), period=4),
    *[call("polyval", p, x) for p, x in ((I5, 2), (V, X), (C, V), (V[:0], 2.0), (I5, I5))],
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


def test_trapezoid_along_coordinates_of_another_rank() -> None:
    y = rng.normal(size=(3, 2, 4)).astype(np.float32)
    x = np.cumsum(rng.uniform(size=(3, 4)), 0, np.float32)
    wanted = np.stack([np.trapezoid(y[..., i], x[:, i], axis=0) for i in range(4)], -1)
    np.testing.assert_allclose(jnp.trapezoid(y, x, axis=0), wanted, 1e-5, 1e-6)
    wanted = np.stack([np.trapezoid(V[:3], x[:, i]) for i in range(4)])
    np.testing.assert_allclose(jnp.trapezoid(V[:3], x, axis=0), wanted, 1e-5, 1e-6)


def test_extrapolation() -> None:
    out = jnp.interp(np.array([-1.0, 3.0]), XP, FP, left="extrapolate", right="extrapolate")
    np.testing.assert_allclose(np.asarray(out), [-10, 0])
    assert np.isnan(jnp.interp(np.nan, XP, FP))


# ---- vectorize --------------------------------------------------------------------------


def test_vectorize() -> None:
    product = lambda m, v: m @ v
    a, b = rng.normal(size=(4, 1, 2, 3)), rng.normal(size=(5, 3))
    expected = np.vectorize(product, signature="(m,n),(n)->(m)")(a, b)
    for f in (lambda g: g, mjax.jit):
        out = f(jnp.vectorize(product, signature="(m,n),(n)->(m)"))(a, b)
        np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-5)
    out = jnp.vectorize(lambda x, y: jnp.where(x > y, x, y))(X, V[:4])
    np.testing.assert_array_equal(np.asarray(out), np.maximum(X, V[:4]))
    out = jnp.vectorize(lambda v: (v.sum(), v * 2), signature="(n)->(),(n)")(X)
    np.testing.assert_allclose(np.asarray(out[0]), X.sum(1), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(out[1]), 2 * X)


def test_vectorize_calls_with_one_element_at_a_time() -> None:
    shapes = []

    @jnp.vectorize
    def f(x: Any, y: Any) -> Any:
        shapes.append((x.shape, y.shape))
        return x + y

    assert f(X[:, None], V[:4, None]).shape == (3, 4, 4)
    assert shapes == [((), ())]


def test_vectorize_excluded() -> None:
    f = jnp.vectorize(lambda x, n, scale=1: jnp.sum(x) * n * scale, excluded={1, "scale"},
                      signature="(k)->()")
    np.testing.assert_allclose(np.asarray(f(X, 2, scale=3)), 6 * X.sum(1), rtol=1e-5)
    g = jnp.vectorize(lambda x, y: x if y is None else x + y)
    np.testing.assert_array_equal(np.asarray(g(X, None)), X)
    with pytest.raises(ValueError, match="excluded must hold positions"):
        jnp.vectorize(jnp.add, excluded={-1})
    h = jnp.vectorize(lambda x, y: x, signature="(k),(k)->(k)")
    with pytest.raises(ValueError, match=r"argument 1 is None, and has the core dimensions"):
        h(X, None)


def test_float0_takes_part_in_nothing() -> None:
    zeros = np.zeros(3, mjax.dtypes.float0)
    for f in (lambda: V[:3] + jnp.ones(3) * zeros, lambda: jnp.add(zeros, 1.0),
              lambda: jnp.sin(zeros), lambda: jnp.ones(3) < zeros, lambda: jnp.equal(zeros, zeros)):
        with pytest.raises(TypeError, match="does not accept float0"):
            f()


def test_vectorize_asks_whether_ranks_may_be_promoted() -> None:
    f = jnp.vectorize(lambda x, y: x + y.sum(), signature="(),(k)->()")
    with mjax.numpy_rank_promotion("raise"):
        assert f(V, jnp.ones((V.size, 2))).shape == V.shape
        assert f(1.0, jnp.ones((2, 3, 2))).shape == (2, 3)
        with pytest.raises(ValueError, match="vectorize of <lambda>.*different ranks"):
            f(V, jnp.ones((2, V.size, 2)))


def test_apply_along_axis() -> None:
    for axis in (0, 1, -1):
        for f, g in ((jnp.cumsum, np.cumsum), (jnp.sum, np.sum), (jnp.outer, np.outer)):
            more = (2.0,) if f is jnp.outer else ()
            np.testing.assert_allclose(
                np.asarray(jnp.apply_along_axis(f, axis, X, *more)),
                np.apply_along_axis(g, axis, X, *more), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(jnp.apply_over_axes(jnp.sum, X, [0, 1])),
                               np.apply_over_axes(np.sum, X, [0, 1]), rtol=1e-5)


product = lambda a, b: a @ b
ERRORS = [
    (ValueError, "order must be non-negative but got -1", lambda: jnp.diff(V, -1)),
    (ValueError, "at least one dimensional", lambda: jnp.diff(3)),
    (ValueError, "axis 1 is out of bounds", lambda: jnp.diff(V, axis=1)),
    (ValueError, "at least 2 elements are required along axis 0", lambda: jnp.gradient(V[:1])),
    (TypeError, "invalid number of spacing arguments 3", lambda: jnp.gradient(X, 1.0, 2.0, 3.0)),
    (ValueError, "coordinates must be one for each of the 5", lambda: jnp.gradient(V, V[:2])),
    (NotImplementedError, "edge_order", lambda: jnp.gradient(V, edge_order=2)),
    (ValueError, "equal size, got shapes (3,) and (2,)", lambda: jnp.interp(1.0, XP, FP[:2])),
    (ValueError, "at least one point", lambda: jnp.interp(1.0, XP[:0], FP[:0])),
    (ValueError, "'extrapolate', got 'x'", lambda: jnp.interp(1.0, XP, FP, left="x")),
    (ValueError, "unwrap is for real angles", lambda: jnp.unwrap(C)),
    (ValueError, "axis 1 is out of bounds", lambda: jnp.unwrap(V, axis=1)),
    (ValueError, "not ordered", lambda: jnp.interp(1j, XP, FP)),
    (ValueError, "period must be a scalar", lambda: jnp.interp(1.0, XP, FP, period=XP)),
    (TypeError, "polyval requires ndarray", lambda: jnp.polyval([1, 2], 2)),
    (ValueError, "must have at least one axis", lambda: jnp.polyval(1, 2)),
    (ValueError, "not a valid gufunc signature: 'n->n'",
     lambda: jnp.vectorize(product, signature="n->n")),
    (ValueError, "inconsistent size for core dimension 'n': 4 vs 5",
     lambda: jnp.vectorize(product, signature="(n),(n)->()")(V, V[:4])),
    (ValueError, "input with shape () does not have enough dimensions",
     lambda: jnp.vectorize(product, signature="(n),(n)->()")(V, 1.0)),
    (TypeError, "expected 2, got 1", lambda: jnp.vectorize(product, signature="(n),(n)->()")(V)),
    (ValueError, "output shape (4,) does not match core dimensions ()",
     lambda: jnp.vectorize(lambda x: x, signature="(n)->()")(X)),
    (TypeError, "must return 2 results", lambda: jnp.vectorize(
        lambda x: x, signature="(n)->(n),(n)")(X)),
    (TypeError, "keyword argument 'y' is not excluded", lambda: jnp.vectorize(product)(V, y=V)),
    (ValueError, "do not broadcast", lambda: jnp.vectorize(jnp.add)(V, X)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
