"""Polynomials: against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.marks import some
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
P5 = rng.normal(size=5).astype(np.float32)
P3 = np.array([2, -1, 3], np.float32)
C3 = (P3 + 1j * P3[::-1]).astype(np.complex64)
I4 = np.array([3, -1, 4, 1], np.int32)
M2, M3 = np.arange(4, dtype=np.float32).reshape(2, 2), rng.normal(size=(3, 2)).astype(np.float32)
COEFFICIENTS = (P5, P3, C3, P5[:1])


def in_floats(name: str) -> Any:
    """NumPy's function, whose results for integers are floats here."""

    def reference(*args: Any, **kwargs: Any) -> Any:
        return np.asarray(getattr(np, name)(*args, **kwargs)).astype(np.result_type(
            np.float32, *[np.float32 if x.dtype.kind in "biu" else x.dtype for x in args
                          if isinstance(x, np.ndarray)]))
    return reference


def aligned(name: str) -> Any:
    """NumPy's sums, which are of the longer one's length."""
    return lambda a, b: getattr(np, name)(a, b)


ROWS = [
    *[call(name, a, b) for name in ("polyadd", "polysub") for a in COEFFICIENTS for b in (P3, P5)],
    call("polyadd", I4, I4[:2]), call("polysub", I4[:2], I4), call("polyadd", I4, P3),
    *[call(name, a, b) for name in ("polyadd", "polysub") for a, b in (
        (M2, M2[::-1]), (P3[0], P3), (P3, P3[0]), (P3[0], P3[1]))],
    call("polyadd", M2, M3, reference=lambda a, b: b + np.pad(a, ((1, 0), (0, 0)))),
    call("polysub", M3, M2, reference=lambda a, b: a - np.pad(b, ((1, 0), (0, 0)))),
    call("polyder", M3),
    *[call("polymul", a, b) for a in COEFFICIENTS for b in (P3, P5)],
    call("polymul", I4, I4[:2], reference=in_floats("polymul")),
    call("polymul", P3, P3[:0], reference=lambda a, b: a * 0),
    call("polymul", np.concatenate([P3 * 0, P3]), P3, trim_leading_zeros=True, static=True,
         reference=lambda a, b, **kw: np.polymul(a, b)),
    *[call("polyder", a, m) for a in COEFFICIENTS for m in (0, 1, 2)],
    *[call("polyder", I4, m, reference=in_floats("polyder")) for m in (0, 1)],
    *[call("polyint", a, m, reference=in_floats("polyint")) for a in (*COEFFICIENTS, I4)
      for m in (0, 1, 3)],
    call("polyint", P3, 2, P3[:2]), call("polyint", P3, 2, 5.0), call("polyint", P3, 1, P5[:1]),
    call("polyint", C3, 2, P3[:2]), call("polyint", P3[:0], reference=lambda p: np.zeros(1, "f4")),
    *[call("poly", a, reference=lambda a: np.poly(a).astype(np.result_type(a, np.float32)))
      for a in COEFFICIENTS], call("poly", I4, reference=in_floats("poly")),
    call("poly", P3[:0], reference=lambda a: np.float32(1)),
    *[call("vander", a) for a in (*COEFFICIENTS, I4, P3[:0])],
    call("vander", P5, 3), call("vander", P5, 0), call("vander", P5, 7, increasing=True),
    call("vander", I4, 3, increasing=True), call("vander", I4 > 0),
    call("vander", I4.astype(np.int8), 3, reference=lambda x, n: np.vander(x, n).astype("i1")),
    call("vander", np.array([0, 2], np.float32), 4),
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


@pytest.mark.parametrize("u", some([P5, P3, C3, np.arange(9, dtype=np.float32)], 2), ids=len)
@pytest.mark.parametrize("v", [P3, P3[:1], P3[:2], C3, P5], ids=len)
def test_division(u: np.ndarray, v: np.ndarray) -> None:
    for f in (jnp.polydiv, mjax.jit(jnp.polydiv)):
        quotient, rest = map(np.asarray, f(u, v))
        np.testing.assert_allclose(quotient, np.polydiv(u, v)[0], rtol=1e-4, atol=1e-4)
        assert rest.shape == u.shape
        assert not rest[: max(len(u) - len(v) + 1, 0)].any()
        np.testing.assert_allclose(np.polyadd(np.polymul(quotient, v), rest)[-len(u):], u,
                                   rtol=1e-4, atol=1e-4)


def test_division_without_leading_zeros() -> None:
    _, rest = jnp.polydiv(np.array([1.0, 2, 4]), np.array([1.0, 1]), trim_leading_zeros=True)
    np.testing.assert_allclose(np.asarray(rest), [3])
    _, rest = jnp.polydiv(np.array([1.0, 2, 1]), np.array([1.0, 1]), trim_leading_zeros=True)
    assert rest.shape == (0,)


def test_derivative_of_a_division() -> None:
    slope = mjax.jacfwd(lambda v: jnp.polydiv(P5, v)[0])(P3)
    assert slope.shape == (3, 3)
    step = np.float32(1e-3)
    for i in range(3):
        e = np.eye(3, dtype=np.float32)[i] * step
        numeric = (np.polydiv(P5, P3 + e)[0] - np.polydiv(P5, P3 - e)[0]) / (2 * step)
        np.testing.assert_allclose(np.asarray(slope)[:, i], numeric, rtol=1e-2, atol=1e-2)


ERRORS = [
    (ValueError, "polymul: coefficients must be vectors, got float32[1,3]",
     lambda: jnp.polymul(P3[None], P3)),
    (ValueError, "polydiv: the divisor must have coefficients, got shapes (3,) and (0,)",
     lambda: jnp.polydiv(P3, P3[:0])),
    (ValueError, "polyder: m must not be negative", lambda: jnp.polyder(P3, -1)),
    (TypeError, "polyder: the coefficients must be a vector", lambda: jnp.polyder(1.0)),
    (ValueError, "polyint: m must not be negative, got -1", lambda: jnp.polyint(P3, -1)),
    (TypeError, "polyint: m must be an integer", lambda: jnp.polyint(P3, 1.5)),
    (ValueError, "one constant for each of m=2; got float32[3]", lambda: jnp.polyint(P3, 2, P3)),
    (ValueError, "poly: coefficients must be vectors", lambda: jnp.poly(np.ones((2, 3)))),
    (ValueError, "poly: coefficients must be vectors", lambda: jnp.poly(np.ones((1, 1, 1)))),
    (ValueError, "vander: x must be a one-dimensional array", lambda: jnp.vander(P3[None])),
    (ValueError, "vander: N must be nonnegative, got -1", lambda: jnp.vander(P3, -1)),
    (TypeError, "vander requires ndarray or scalar", lambda: jnp.vander([1, 2])),
    (TypeError, "polyadd requires ndarray or scalar", lambda: jnp.polyadd([1, 2], P3)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


# ---- roots and fits --------------------------------------------------------------------

X8 = np.linspace(-1, 2, 8).astype(np.float32)
Y8 = rng.normal(size=(8, 2)).astype(np.float32)
W8 = np.linspace(0.5, 2, 8).astype(np.float32)


@pytest.mark.parametrize("p", [P5, P3, C3, I4, P5[:1], P3[0], np.zeros(3, "f4"),
                               np.array([0, 0, 1, -3, 2, 0], "f4")], ids=str)
def test_roots(p: Any) -> None:
    expected = np.sort_complex(np.roots(np.atleast_1d(p)))
    found = jnp.roots(p)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(np.sort_complex(found), expected, atol=1e-3)
    padded = np.asarray(mjax.jit(lambda p: jnp.roots(p, strip_zeros=False))(p))
    assert len(padded) == max(np.size(p) - 1, 0)
    np.testing.assert_allclose(np.sort_complex(padded[:len(expected)]), expected, atol=1e-3)
    assert np.isnan(padded[len(expected):]).all()


def test_derivative_of_roots() -> None:
    slope = mjax.jacfwd(lambda p: jnp.sort(jnp.roots(p, strip_zeros=False).real))(
        np.array([1, -3, 2], np.float32))
    # The roots 1 and 2 of p: dr/dp_k = -r**(2 - k) / p'(r), where p'(r) = 2 r - 3.
    np.testing.assert_allclose(slope, [[1, 1, 1], [-4, -2, -1]], atol=1e-4)


@pytest.mark.parametrize("matrix", [M2, M2 + 1j * M2.T, M2.astype(int)], ids=str)
def test_characteristic_polynomial(matrix: np.ndarray) -> None:
    found = jnp.poly(matrix)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, np.poly(matrix), atol=1e-4)


@pytest.mark.parametrize(("y", "w"), [
    pytest.param(Y8, None, id="matrix"), pytest.param(Y8[:, 0], W8, id="weighted vector"),
    *[pytest.param(y, w, marks=pytest.mark.slow, id=name) for name, y, w in (
        ("vector", Y8[:, 0], None), ("ints", np.arange(8), None),
        ("weighted matrix", Y8, W8), ("weighted ints", np.arange(8), W8))]])
def test_fits(y: np.ndarray, w: Any) -> None:
    x = X8.astype("f8")
    np.testing.assert_allclose(jnp.polyfit(X8, y, 2, w=w), np.polyfit(x, y, 2, w=w), atol=1e-4)
    for cov in (True, "unscaled"):
        ours, theirs = jnp.polyfit(X8, y, 2, w=w, cov=cov), np.polyfit(x, y, 2, w=w, cov=cov)
        shape = ours[1].shape
        np.testing.assert_allclose(
            ours[1], np.broadcast_to(theirs[1].reshape(*theirs[1].shape[:2], *shape[2:3][:(
                theirs[1].ndim - 2)], *[1] * (len(shape) - theirs[1].ndim)), shape), atol=1e-4)
    ours, theirs = jnp.polyfit(X8, y, 2, full=True, w=w), np.polyfit(x, y, 2, full=True, w=w)
    for one, other in zip(ours[:4], theirs[:4], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    assert np.isclose(float(ours[4]), 8 * np.finfo(np.float32).eps)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.RankWarning")
def test_fits_in_other_ways() -> None:
    np.testing.assert_allclose(jnp.polyfit(X8, Y8, 2, rcond=0.5)[0],
                               np.polyfit(X8.astype("f8"), Y8, 2, rcond=0.5)[0], atol=1e-4)
    np.testing.assert_allclose(jnp.polyfit(X8, Y8 * 1j, 1), 1j * np.polyfit(X8, Y8, 1), atol=1e-4)
    # The coefficients are linear in the values.
    slope = mjax.jacrev(lambda y: jnp.polyfit(X8, y, 1))(Y8[:, 0])
    np.testing.assert_allclose(slope, np.polyfit(X8, np.eye(8), 1), atol=1e-4)
    many = mjax.vmap(lambda y: jnp.polyfit(X8, y, 1), 1, 1)(Y8)
    np.testing.assert_allclose(many, np.polyfit(X8, Y8, 1), atol=1e-4)


FIT_ERRORS = [
    (ValueError, "polyfit: deg must not be negative", lambda: jnp.polyfit(X8, Y8, -1)),
    (TypeError, "polyfit: deg must be an integer", lambda: jnp.polyfit(X8, Y8, "2")),
    (TypeError, "polyfit: x must be a non-empty vector", lambda: jnp.polyfit(Y8, Y8, 1)),
    (TypeError, "non-empty vector, got shape (0,)", lambda: jnp.polyfit(X8[:0], X8[:0], 1)),
    (TypeError, "the values y must have shape (8,) or (8, k), got (3,)",
     lambda: jnp.polyfit(X8, X8[:3], 1)),
    (TypeError, "weights w must have the shape of x, (8,)", lambda: jnp.polyfit(X8, Y8, 1, w=Y8)),
    (ValueError, "needs more than 8 points, got 8", lambda: jnp.polyfit(X8, Y8, 7, cov=True)),
    (ValueError, "roots: the coefficients must be a vector", lambda: jnp.roots(Y8)),
    (mjax.errors.ConcretizationTypeError, "strip_zeros=False", lambda: mjax.jit(jnp.roots)(X8)),
]


@pytest.mark.parametrize(("error", "text", "use"), FIT_ERRORS,
                         ids=[t[:30] for _, t, _ in FIT_ERRORS])
def test_errors_of_fits(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
