"""Special functions: against SciPy, over dtypes, and derivatives against finite differences."""

from __future__ import annotations

import decimal
import itertools
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import mjax
import mjax.numpy as jnp
from mjax.scipy import special
from tests.scipy.functions import (
    EVERYWHERE,
    INF,
    NAN,
    POSITIVE,
    Function,
    check_dtype,
    check_integers,
    check_slopes,
    check_values,
    check_vmap,
    table,
)

UNIT = (0.0, 1e-30, 1e-3, 0.25, 0.5, 0.75, 1.0, NAN, -0.5, 1.5)
INNER = (0.1, 0.3, 0.6, 0.9)
SHAPES = (0.1, 0.5, 1.0, 2.5, 7.0, 30.0)
NUMBERS = (0.0, 0.3, 1.0, 2.5, 7.0, NAN)
NOT_ZERO = tuple([x for x in EVERYWHERE if x])


def row(name: str, *points: Any, **options: Any) -> Function:
    return Function(f"special.{name}", points or (EVERYWHERE,), **options)


ROWS = [
    row("gammaln", EVERYWHERE[1:], tolerance=1e-12), row("gammasgn"), row("erf"), row("erfc"),
    row("entr"), row("expit"),
    row("erfinv", (-1.5, -1.0, -0.5, -1e-30, *UNIT), mild=[INNER]),
    row("gamma", tolerance=1e-12, reference=lambda x: np.where(
        scipy.special.gammasgn(x) == 0, NAN, scipy.special.gamma(x))),
    row("loggamma", NOT_ZERO, tolerance=1e-12), row("digamma", NOT_ZERO, tolerance=1e-12),
    row("factorial", tolerance=1e-12),
    row("logit", UNIT, mild=[INNER]), row("i0"), row("i0e"), row("i1"), row("i1e"),
    row("erfcx"), row("dawsn"), row("expi", tolerance=1e-13), row("exp1"),
    row("sici"), row("fresnel"),
    row("spence", tuple([x for x in EVERYWHERE if x < INF or x != x])),
    row("ndtr"), row("ndtri", UNIT, mild=[INNER]), row("log_ndtr"),
    row("xlogy", EVERYWHERE, NUMBERS), row("xlog1py", EVERYWHERE, NUMBERS),
    row("rel_entr", NUMBERS[:-1], (*NUMBERS[:-1], -1.0)), row("kl_div", NUMBERS[:-1], NUMBERS[:-1]),
    row("boxcox", NUMBERS[1:], EVERYWHERE[3:-5]), row("boxcox1p", NUMBERS, EVERYWHERE[3:-5]),
    row("beta", SHAPES, (*SHAPES, 1e3), tolerance=1e-11),
    row("betaln", SHAPES, (*SHAPES, 1e3, NAN), tolerance=1e-12),
    row("betainc", SHAPES, SHAPES, UNIT, tolerance=2e-12, mild=[(1.5,), (0.5, 2.0), INNER],
        slopes=[2], reference=lambda a, b, x: np.where((x < 0) | (x > 1), NAN,
                                                       scipy.special.betainc(a, b, x))),
    row("gammainc", SHAPES, POSITIVE, tolerance=1e-12),
    row("gammaincc", SHAPES, POSITIVE, tolerance=1e-12),
    row("comb", (0.0, 1.0, 5.0, 10.0), (-1.0, 0.0, 2.0, 5.0), tolerance=1e-12,
        mild=[(5.0, 7.0), (1.5, 3.0)]),
    row("poch", (0.5, 2.0, 7.0), (0.0, 0.5, 3.0), tolerance=1e-12),
    row("owens_t", EVERYWHERE[3:-5], (*EVERYWHERE[3:7], *EVERYWHERE[12:-4], INF), tolerance=1e-10),
    row("zeta", (1.1, 1.5, 2.0, 5.0, 30.0), (0.1, 0.5, 1.0, 3.0, 1e4),
        mild=[(1.5, 3.0), (0.5, 2.0)], tolerance=1e-12),
    row("expn", (0.0, 1.0, 2.0, 3.0, 10.0, 50.0, 6000.0, -1.0), (*EVERYWHERE, 1e-5, 0.9, 300.0),
        slopes=[1], mild=[(2.0, 3.0), (0.5, 2.0)]),
    row("hyp1f1", (-3.0, -1.5, 0.0, 0.3, 2.5, 10.0), (-1.5, 0.5, 2.0, 7.3),
        (-150.0, -30.0, -2.0, 0.0, 0.5, 3.0, 40.0, 120.0), tolerance=1e-11,
        mild=[(0.5, 2.0), (1.5, 3.0), (-0.5, 0.7)]),
    row("hyp2f1", (-3.0, -1.5, 0.0, 0.3, 2.5), (-1.5, 0.5, 1.0, 4.0), (-1.5, 0.5, 2.0, 7.3),
        (-20.0, -2.0, -0.6, 0.0, 0.5, 0.85, 0.95, 0.999, 1.0), tolerance=1e-10,
        mild=[(0.5, 2.0), (1.5,), (2.5,), (-0.3, 0.4)]),
]
#: Programs of many loops, which take long to compile.
LARGE = ("special.hyp1f1", "special.hyp2f1", "special.gammainc", "special.gammaincc",
         "special.betainc", "special.expn")
#: Whose derivatives have none in closed form, or are loops.
ONCE = ("special.zeta", "special.hyp1f1", "special.hyp2f1", "special.gammainc",
        "special.gammaincc")
WIDE_ONLY = ("special.ndtr", "special.ndtri", "special.log_ndtr", "special.spence")
SMOOTH = [r for r in ROWS if r.name != "special.gammasgn"]


@table([r for r in ROWS if r.name not in LARGE])
def test_values(row: Function) -> None:
    check_values(row)


@pytest.mark.slow
@table([r for r in ROWS if r.name in LARGE])
def test_values_of_large_programs(row: Function) -> None:
    check_values(row)


@pytest.mark.slow
@table(ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dtypes(row: Function, dtype: str) -> None:
    narrow = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if dtype != "float32" and row.name in WIDE_ONLY:
        with pytest.raises(TypeError, match="must be float32 or float64"):
            row.ours(np.ones(2, narrow))
        return
    check_dtype(row, narrow)


@pytest.mark.slow
@table([r for r in ROWS if r.name not in WIDE_ONLY])
def test_integers_and_nothing(row: Function) -> None:
    check_integers(row)


@pytest.mark.slow
@table(SMOOTH)
def test_derivatives(row: Function) -> None:
    check_slopes(row, 1 if row.name in ONCE else 2)


@pytest.mark.slow
@table(SMOOTH)
def test_vmap(row: Function) -> None:
    check_vmap(row)


# ---- functions with other arguments ----------------------------------------------------


def test_polygamma_and_multigammaln() -> None:
    x = np.array([0.3, 1.0, 2.5, 30.0])
    n = np.arange(4)[:, None]
    with mjax.enable_x64():
        np.testing.assert_allclose(np.asarray(special.polygamma(n, x)),
                                   scipy.special.polygamma(n, x), rtol=1e-12)
        for d in (1, 2, 5):
            np.testing.assert_allclose(np.asarray(special.multigammaln(x + 2, d)),
                                       scipy.special.multigammaln(x + 2, d), rtol=1e-13)
        slope = mjax.grad(lambda x: special.polygamma(1, x))(2.5)
        np.testing.assert_allclose(slope, scipy.special.polygamma(2, 2.5), rtol=1e-12)
        repeated = special.comb(np.arange(1.0, 6.0), 3, repetition=True)
        np.testing.assert_allclose(np.asarray(repeated), [
            scipy.special.comb(n, 3, repetition=True) for n in range(1, 6)], rtol=1e-12)


def test_bernoulli_numbers() -> None:
    for n in (0, 1, 2, 3, 10, 61):
        expected = scipy.special.bernoulli(n)
        out = special.bernoulli(n)
        assert (out.shape, out.dtype) == ((n + 1,), np.float32)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(np.asarray(out), expected.astype(np.float32), rtol=1e-5)
    with mjax.enable_x64():
        np.testing.assert_allclose(np.asarray(special.bernoulli(300)),
                                   scipy.special.bernoulli(300), rtol=1e-11)


def test_bessel_functions_of_several_orders() -> None:
    z = np.array([0.0, 1e-9, 0.01, 0.5, 2.404825557695773, 7.0, 20.0, -3.0])
    with mjax.enable_x64():
        out = special.bessel_jn(z, v=12)
        np.testing.assert_allclose(np.asarray(out), scipy.special.jv(np.arange(13)[:, None], z),
                                   rtol=1e-12, atol=1e-15)
        assert special.bessel_jn(1.0, v=0, n_iter=20).shape == (1,)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_bessel_functions_of_great_arguments(dtype: str) -> None:
    with mjax.enable_x64():
        z = jnp.asarray([-300.0, -51.0, 24.0, 26.0, 45.0, 50.0, 50.5, 60.0, 100.0, 1000.0], dtype)
        eps = float(jnp.finfo(dtype).eps)
        for v, n_iter in ((20, 50), (50, 50), (3, 5), (0, 50)):
            expected = scipy.special.jv(np.arange(min(v, n_iter) + 1)[:, None],
                                        np.asarray(z, np.float64))
            out = special.bessel_jn(z, v=v, n_iter=n_iter)
            assert out.dtype == dtype
            np.testing.assert_allclose(np.asarray(out, np.float64), expected, atol=60 * eps,
                                       rtol=0)


def test_sums_that_cancel_in_narrow_dtypes() -> None:
    x = np.linspace(0.05, 2.0, 40).astype(np.float32)
    for n in (1, 2):
        np.testing.assert_allclose(special.expn(n, x), scipy.special.expn(n, x.astype(float)),
                                   12 * np.finfo(np.float32).eps)
    a, b = np.array([0.3, 12.0, 20.0], np.float16), np.array([50.0, 12.0, 3.3], np.float16)
    out = np.asarray(special.betaln(a, b), float)
    np.testing.assert_allclose(out, scipy.special.betaln(a.astype(float), b.astype(float)),
                               np.finfo(np.float16).eps)
    z = np.linspace(-4, 4, 50).astype(np.complex64)
    np.testing.assert_allclose(special.wofz(z), scipy.special.wofz(z.astype(complex)),
                               3 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("dtype, tolerance", [
    ("bfloat16", 5e-3), ("float16", 1e-3), ("float32", 1e-5), ("float64", 1e-13)])
def test_the_derivative_of_dawsn_does_not_cancel(dtype: str, tolerance: float) -> None:
    """The slope is `1 - 2 x F(x)`, here from the power series of F with 400 digits."""
    with mjax.enable_x64(), decimal.localcontext(prec=400):
        for value in (0.5, 3.0, 6.25, 7.0, -10.0, 20.0):
            x = decimal.Decimal(value)
            terms = itertools.accumulate(
                range(1, 2000), lambda t, k, x=x: -t * 2 * x * x / (2 * k + 1), initial=x)
            slope = mjax.grad(special.dawsn)(jnp.asarray(value, dtype))
            np.testing.assert_allclose(float(slope), float(1 - 2 * x * sum(terms)), tolerance)


@pytest.mark.slow
def test_derivatives_of_bessel_functions() -> None:
    with mjax.enable_x64():
        slope = mjax.jacfwd(lambda z: special.bessel_jn(z, v=2))(1.3)
        np.testing.assert_allclose(np.asarray(slope), scipy.special.jvp(np.arange(3), 1.3),
                                   rtol=1e-12)
        np.testing.assert_allclose(np.asarray(mjax.jacrev(lambda z: special.bessel_jn(z, v=2))(
            0.0)), [0.0, 0.5, 0.0], atol=1e-15)


@pytest.mark.slow
def test_spherical_harmonics() -> None:
    n, m = np.array([0, 1, 2, 3, 3, 40, 40]), np.array([0, -1, 2, -3, 5, -7, 40])
    theta, phi = np.array([0.3, 0.5, 0.4, 3.0, 1.0, 1.2, 0.0]), np.arange(7.0)
    with mjax.enable_x64():
        out = special.sph_harm_y(n, m, theta, phi)
        assert out.dtype == np.complex128
        expected = np.where(np.abs(m) > n, 0, scipy.special.sph_harm_y(n, m, theta, phi))
        np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-12, atol=1e-15)
        f = lambda theta: special.sph_harm_y(n[1:3], m[1:3], theta, phi[1:3]).real
        slope = np.diagonal(np.asarray(mjax.jacrev(f)(theta[1:3])))
        near = [scipy.special.sph_harm_y(n[1:3], m[1:3], theta[1:3] + h, phi[1:3]).real
                for h in (1e-5, -1e-5)]
        np.testing.assert_allclose(slope, (near[0] - near[1]) / 2e-5, rtol=1e-8)
    with pytest.raises(TypeError) as caught:
        mjax.jit(special.sph_harm_y)(n, m, theta, phi)
    assert any("give n_max" in note for note in caught.value.__notes__)
    static = mjax.jit(special.sph_harm_y, static_argnames="n_max")
    assert static(n, m, theta, phi, n_max=40).shape == (7,)
    assert special.sph_harm_y(np.array([1]), np.array([0]), 0.0, 0.0).shape == (1,)


Z = np.array([complex(x, y) for x in (-30.5, -7.2, -1.5, -0.5, 0.0, 0.3, 1.0, 2.0, 8.0, 26.0)
              for y in (-0.3, -0.0, 0.0, 1e-8, 0.4, 3.0, 6.9, 7.1, 20.0)])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gamma", "loggamma", "wofz", "erfcx"])
def test_complex_numbers(name: str) -> None:
    z = Z if name != "wofz" else Z[Z.imag >= 0]
    if name == "erfcx":
        z = Z[Z.real >= 0]
    z = z[z != 0] if "gamma" in name else z
    with mjax.enable_x64(), np.errstate(all="ignore"):
        out, expected = getattr(special, name)(z), getattr(scipy.special, name)(z)
        assert out.dtype == np.complex128
        error = np.abs(np.asarray(out) - expected) / (np.abs(expected) + (name == "loggamma"))
        assert error.max() < 2e-12
        f = getattr(special, name)
        point = 1.3 + 0.7j
        slope = mjax.grad(f, holomorphic=True)(point)
        near = [getattr(scipy.special, name)(point + h) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope, (near[0] - near[1]) / 2e-6, rtol=1e-8)
    assert f(np.complex64(point)).dtype == np.complex64
    np.testing.assert_allclose(f(np.complex64(point)), getattr(scipy.special, name)(point),
                               rtol=1e-5)


# ---- corners of derivatives ------------------------------------------------------------


@pytest.mark.slow
def test_beta_of_negative_and_large_numbers() -> None:
    a, b = np.array([-0.5, -2.5, -10.5, -0.5]), np.array([1e5, 1e4, 40.0, 9.0])
    with mjax.enable_x64():
        np.testing.assert_allclose(special.betaln(a, b), scipy.special.betaln(a, b), rtol=1e-9)
        np.testing.assert_allclose(special.beta(b, a), scipy.special.beta(b, a), rtol=1e-9)
    assert special.beta(-0.5, 1e30) < -3.5e15


def test_slopes_in_corners() -> None:
    """Values known in closed form, where formulas divide 0 by 0."""
    with mjax.enable_x64():
        assert mjax.grad(special.spence)(1.0) == -1.0
        assert mjax.jvp(special.sici, (0.0,), (1.0,))[1][0] == 1.0
        assert mjax.grad(special.ndtri)(0.0) == mjax.grad(special.ndtri)(1.0) == 0.0
        assert mjax.grad(special.entr)(0.0) == INF
        assert mjax.grad(special.xlogy)(0.0, 2.0) == pytest.approx(np.log(2))
        assert mjax.grad(special.xlog1py, 1)(0.0, 2.0) == 0.0
        assert mjax.grad(special.i1e)(0.0) == pytest.approx(0.5)
        assert mjax.grad(lambda x: special.boxcox(x, 0.0))(4.0) == 0.25
        assert mjax.grad(special.dawsn)(0.0) == 1.0
        assert mjax.jvp(special.fresnel, (0.0,), (1.0,))[1] == (0.0, 1.0)
        # Tails: derivatives of logarithms stay finite.
        np.testing.assert_allclose(mjax.grad(special.log_ndtr)(-1e4), 1e4, rtol=1e-4)
        assert mjax.grad(special.log_ndtr)(40.0) == 0.0


@pytest.mark.parametrize(("error", "text", "use"), [
    (ValueError, "gammasgn does not support complex-valued inputs", lambda: special.gammasgn(1j)),
    (ValueError, "entr does not support complex", lambda: special.entr(np.ones(2, "c8"))),
    (ValueError, "sici does not support complex", lambda: special.sici(1j)),
    (ValueError, "bessel_jn: z must be real", lambda: special.bessel_jn(1j, v=1)),
    (NotImplementedError, "fresnel: x must be real", lambda: special.fresnel(1j)),
    (NotImplementedError, "exact=True is not supported", lambda: special.factorial(3, exact=True)),
    (NotImplementedError, "q must be given", lambda: special.zeta(2.0)),
    (NotImplementedError, "diff_n is not supported",
     lambda: special.sph_harm_y(np.array([1]), np.array([0]), 0.0, 0.0, 1)),
    (TypeError, "sph_harm_y: n must be of an integer dtype, got float32[1]",
     lambda: special.sph_harm_y(np.ones(1, "f4"), np.array([0]), 0.0, 0.0)),
    (ValueError, "order n must be of an integer dtype", lambda: special.polygamma(1.0, 2.0)),
    (ValueError, "bernoulli: n must be a non-negative integer", lambda: special.bernoulli(-1)),
    (TypeError, "series_order must be a Python int", lambda: special.log_ndtr(1.0, 2.0)),
    (ValueError, "series_order must be between 0 and 30", lambda: special.log_ndtr(1.0, 31)),
    (TypeError, "must be float32 or float64, got int32[2]",
     lambda: special.ndtri(np.ones(2, np.int32))),
    (TypeError, "must be float32 or float64", lambda: special.spence(3)),
    (TypeError, "erf requires ndarray or scalar", lambda: special.erf([1.0])),
    (TypeError, "incompatible shapes", lambda: special.xlogy(np.ones(2), np.ones(3))),
])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


@pytest.mark.slow
def test_all_in_one_program() -> None:
    """Under jit, in float32, of traced scalars."""
    names = [r for r in ROWS if len(r.points) == 1]
    f = mjax.jit(lambda x: [leaf for r in names for leaf in mjax.tree.leaves(r.ours(x))])
    x = np.float32(0.375)
    expected = [leaf for r in names for leaf in mjax.tree.leaves(r.expected(float(x)))]
    np.testing.assert_allclose(np.asarray(jnp.stack(f(x))), expected, rtol=1e-5)


def test_slopes_of_expn_of_order_0():
    x = np.array([0.01, 0.5, 1.0, 1.63, 10.0], np.float32)
    slopes = mjax.vmap(mjax.grad(lambda x: mjax.scipy.special.expn(0, x)))(x)
    np.testing.assert_allclose(slopes, -np.exp(-x) * (1 / x + 1 / x**2), 1e-5)
