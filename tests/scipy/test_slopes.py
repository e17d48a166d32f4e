"""Slopes of functions of `mjax.scipy` far out, where a formula can lose all digits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as special
import scipy.stats as stats

import mjax
import mjax.numpy as jnp
from mjax.scipy import special as ours
from mjax.scipy.stats import (
    beta,
    binom,
    cauchy,
    expon,
    gennorm,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    nbinom,
    norm,
    pareto,
    t,
    vonmises,
    wrapcauchy,
)

F32 = np.float32


def slopes(f, x):
    return mjax.vmap(mjax.grad(f))(jnp.asarray(x, F32))


@pytest.mark.parametrize("f, sign", [(norm.logsf, 1), (ours.log_ndtr, -1)])
def test_tails_of_the_normal_distribution(f, sign):
    x = np.array([9.0, 11.0, 40.0, 300.0, 1e4])
    hazard = np.sqrt(2 / np.pi) / special.erfcx(x / np.sqrt(2))
    np.testing.assert_allclose(slopes(f, sign * x), -sign * hazard, 2e-5)
    # The slope of the hazard; it tends to 1.
    np.testing.assert_allclose(slopes(mjax.grad(f), sign * x[1:3]),
                               (-hazard * (hazard - x))[1:3], 1e-2)


def test_the_laplace_distribution():
    x = np.array([-300.0, -90.0, -1.0, 0.0, 1.0, 90.0, 300.0])
    np.testing.assert_allclose(slopes(laplace.cdf, x), stats.laplace.pdf(x), 1e-5, 1e-37)


@pytest.mark.parametrize("ours, theirs, sign", [
    (gumbel_l, stats.gumbel_l, 1), (gumbel_r, stats.gumbel_r, -1)])
def test_gumbel_distributions(ours, theirs, sign):
    x = np.array([-300.0, -30.0, -1.0, 1.0, 5.0, 100.0, 300.0])
    np.testing.assert_allclose(slopes(ours.cdf, x), theirs.pdf(x), 1e-4, 1e-30)
    np.testing.assert_allclose(slopes(ours.sf, x), -theirs.pdf(x), 1e-4, 1e-30)
    near = "logcdf" if sign == 1 else "logsf"  # the end that log(1 - exp(-y)) tells
    np.testing.assert_allclose(getattr(ours, near)(x.astype(F32)), getattr(theirs, near)(x),
                               1e-5, 1e-30)
    wanted = sign * np.exp(theirs.logpdf(x) - getattr(theirs, near)(x))
    wanted[np.isnan(wanted)] = 0
    np.testing.assert_allclose(slopes(getattr(ours, near), x), wanted, 1e-4, 1e-30)


@pytest.mark.parametrize("f, theirs, x", [
    (expon.cdf, stats.expon, 30.0), (logistic.cdf, stats.logistic, 30.0),
    (logistic.sf, stats.logistic, -30.0), (gumbel_l.cdf, stats.gumbel_l, 3.5),
    (gumbel_r.sf, stats.gumbel_r, -3.5)])
def test_slopes_near_probability_1(f, theirs, x):
    sign = -1 if f in (logistic.sf, gumbel_r.sf) else 1
    np.testing.assert_allclose(mjax.grad(f)(F32(x)), sign * theirs.pdf(x), 2e-5)
    mirrored = mjax.grad(mjax.grad(logistic.cdf))
    np.testing.assert_allclose(mirrored(F32(2.0)), -mirrored(F32(-2.0)), 1e-5)


def test_many_degrees_of_freedom():
    for df in (1e-3, 0.5, 5.0, 19.0, 21.0, 1e3, 1e6):
        np.testing.assert_allclose(t.logpdf(F32(0.3), F32(df)), stats.t.logpdf(0.3, df), 2e-6)
    x, df = 3.0, 1e3
    wanted = (special.digamma((df + 1) / 2) - special.digamma(df / 2) - 1 / df
              - np.log1p(x * x / df) + (df + 1) * x * x / (df * (df + x * x))) / 2
    np.testing.assert_allclose(mjax.grad(t.logpdf, 1)(F32(x), F32(df)), wanted, 1e-2)


def test_tails_of_the_generalized_normal_and_the_cauchy_distributions():
    np.testing.assert_allclose(gennorm.cdf(np.array([-60.0, -1e-3, 2.0], F32), F32(1.0)),
                               stats.gennorm.cdf([-60.0, -1e-3, 2.0], 1.0), 1e-5)
    x = np.array([-1e8, -1.0, 0.0, 1.0, 1e8])
    for sign, f in ((1, cauchy.logcdf), (-1, cauchy.logsf)):
        np.testing.assert_allclose(f(sign * x.astype(F32)), stats.cauchy.logcdf(x), 1e-6)
        wanted = np.exp(stats.cauchy.logpdf(x) - stats.cauchy.logcdf(x))
        np.testing.assert_allclose(slopes(f, sign * x), sign * wanted, 1e-6)


def test_the_pareto_distribution_next_to_its_end():
    x = np.array([1.0 + 2**-20, 1.001], F32)
    np.testing.assert_allclose(pareto.cdf(x, F32(2.0)), -np.expm1(-2 * np.log(x.astype(float))),
                               1e-5)
    np.testing.assert_allclose(mjax.grad(pareto.ppf, 1)(F32(1e-30), F32(0.1)), -1e-28, 1e-5)


def test_the_survival_function_of_the_beta_distribution():
    """Points next to 0 are not rounded away."""
    for x, a, b in ((1e-8, 0.01, 0.01), (1e-8, 0.2, 2.0), (0.3, 0.2, 20.0), (0.9, 20.0, 3.0)):
        args = F32(x), F32(a), F32(b)
        np.testing.assert_allclose(beta.sf(*args), stats.beta.sf(x, a, b), 1e-4)
        np.testing.assert_allclose(beta.logsf(*args), stats.beta.logsf(x, a, b), 1e-4)
        density = stats.beta.pdf(x, a, b)
        np.testing.assert_allclose(mjax.grad(beta.sf)(*args), -density, 1e-4)
        np.testing.assert_allclose(mjax.grad(beta.logsf)(*args),
                                   -density / stats.beta.sf(x, a, b), 2e-4)


@pytest.mark.parametrize("f, log", [(ours.boxcox, np.log), (ours.boxcox1p, np.log1p)])
def test_box_cox_transformations_in_the_exponent(f, log):
    x = np.array([1e-3, 0.5, 1.5, 100.0, 1e5])
    for exponent in (0.0, 1e-10, -1e-3, 1e-2, 0.3, -2.0):
        u = exponent * log(x)
        with np.errstate(all="ignore"):
            wanted = np.where(np.abs(u) < 1e-4, log(x)**2 * (1 / 2 + u / 3),
                              (u * np.exp(u) - np.expm1(u)) / exponent**2)
        found = mjax.vmap(mjax.grad(f, 1), (0, None))(jnp.asarray(x, F32), F32(exponent))
        np.testing.assert_allclose(found, wanted, 2e-4)
    second = mjax.grad(mjax.grad(f, 1), 1)(F32(1.5), F32(0.0))
    np.testing.assert_allclose(second, log(1.5)**3 / 3, 1e-4)
    np.testing.assert_allclose(mjax.grad(f, 1)(F32(0 if log is np.log else -1), F32(2.0)), 0.25)


def test_rising_factorials_of_large_numbers():
    z = np.array([100.0, 40.0, 1e3, 1e5, 20.0])
    m = np.array([0.5, 1.0, 5.0, 2.0, 18.0])
    found = ours.poch(jnp.asarray(z, F32), jnp.asarray(m, F32))
    np.testing.assert_allclose(found, special.poch(z, m), 1e-4)
    by_z, by_m = (mjax.vmap(mjax.grad(ours.poch, i))(jnp.asarray(z, F32), jnp.asarray(m, F32))
                  for i in (0, 1))
    np.testing.assert_allclose(by_m, special.poch(z, m) * special.digamma(z + m), 2e-4)
    np.testing.assert_allclose(by_z[:3], (special.poch(z, m) * (
        special.digamma(z + m) - special.digamma(z)))[:3], 1e-3)
    with mjax.enable_x64(True):
        np.testing.assert_allclose(ours.poch(jnp.array([1e3, 1e8, 100.0]),
                                             jnp.array([20.0, 0.1, 100.0])),
                                   special.poch([1e3, 1e8, 100.0], [20.0, 0.1, 100.0]), 1e-11)


def test_binomial_coefficients_of_large_numbers():
    n, k = np.array([1000.0, 1000.0, 100.0, 60.0, 31.0]), np.array([1.0, 997.0, 5.0, 30.0, 2.0])
    wanted = special.comb(n, k)
    np.testing.assert_allclose(ours.comb(jnp.asarray(n, F32), jnp.asarray(k, F32)), wanted, 2e-5)
    halves = ours.comb(jnp.asarray(n, jnp.bfloat16), jnp.asarray(k, jnp.bfloat16))
    assert halves.dtype == jnp.bfloat16
    rounded = [np.asarray(jnp.asarray(x, jnp.bfloat16), np.float64) for x in (n, k)]
    np.testing.assert_allclose(np.asarray(halves, np.float64), special.comb(*rounded), 1e-2)
    by_n, by_k = (mjax.vmap(mjax.grad(ours.comb, i))(jnp.asarray(n, F32), jnp.asarray(k, F32))
                  for i in (0, 1))
    np.testing.assert_allclose(
        by_n, wanted * (special.digamma(n + 1) - special.digamma(n - k + 1)), 1e-3)
    np.testing.assert_allclose(
        by_k, wanted * (special.digamma(n - k + 1) - special.digamma(k + 1)), 1e-3,
        1e-6 * wanted.max())
    assert float(ours.poch(jnp.float16(10.0), jnp.float16(1.0))) == 10.0


def test_the_digamma_function_left_of_0():
    x = np.array([-0.3, -2.5, -9.3, -10.5, -100.7, 3.0, 1e-3], F32)
    exact = x.astype(float)
    mirrored = special.polygamma(1, np.where(exact < 0, 1 - exact, exact))
    wanted = np.where(exact < 0, (np.pi / np.sin(np.pi * exact))**2 - mirrored, mirrored)
    np.testing.assert_allclose(slopes(ours.digamma, x), wanted, 2e-5)
    np.testing.assert_allclose(mjax.grad(mjax.grad(ours.digamma))(F32(-9.5)),
                               special.polygamma(2, 10.5), 1e-2)


def test_scaled_error_functions_far_out():
    x = np.array([3.0, 8.0, 9.0, 100.0, 1e4])
    # Terms of the series of 2 x erfcx(x) - 2 / sqrt(pi), which cancels far out.
    wanted = np.where(x < 50, 2 * x * special.erfcx(x) - 2 / np.sqrt(np.pi),
                      (-1 + 1.5 / x**2) / x**2 / np.sqrt(np.pi))
    np.testing.assert_allclose(slopes(ours.erfcx, x), wanted, 2e-5)
    np.testing.assert_allclose(slopes(ours.erfcx, [-2.0, 0.0]), [
        -4 * special.erfcx(-2.0) - 2 / np.sqrt(np.pi), -2 / np.sqrt(np.pi)], 1e-5)
    z = np.array([100j, 60 + 80j, 1e4 + 0j, 1e4 - 1e-9j, 8 - 0.5j, 1 - 1j])
    slope = mjax.vmap(mjax.grad(ours.wofz, holomorphic=True))(z.astype(np.complex64))
    near = np.abs(z) < 50
    wanted = np.where(near, 2j / np.sqrt(np.pi) - 2 * z * special.wofz(np.where(near, z, 0)),
                      -1j / np.sqrt(np.pi) * (1 + 1.5 / z**2) / z**2)
    np.testing.assert_allclose(slope, wanted, 1e-5)


def test_oscillating_integrands_far_out():
    for dtype in (np.float16, jnp.bfloat16, F32):
        x = np.array([0.5, 5.0, 17.0, 101.0])
        s, c = mjax.jvp(ours.fresnel, (jnp.asarray(x, dtype),), (jnp.ones(4, dtype),))[1]
        near = 5e-6 if dtype is F32 else 1e-2
        np.testing.assert_allclose(np.asarray(s, F32), np.sin(np.pi / 2 * x * x), 0, near)
        np.testing.assert_allclose(np.asarray(c, F32), np.cos(np.pi / 2 * x * x), 0, near)
    x = np.array([0.0, 1e-3, 0.9, 10.0, 1e4, 1e6])
    sinc = np.sin(x[1:]) / x[1:]
    np.testing.assert_allclose(slopes(lambda x: ours.sici(x)[0], x), [1, *sinc], 2e-6)


def test_modified_bessel_functions():
    x = np.array([-90.0, -1e-6, 0.0, 1e-6, 1e-3, 2.0, 80.0, 90.0])
    for i0 in (ours.i0, jnp.i0):
        np.testing.assert_allclose(i0(x.astype(F32)), special.i0(x), 3e-5)
        np.testing.assert_allclose(slopes(i0, x), special.i1(x), 3e-5)
    np.testing.assert_allclose(ours.i1(x.astype(F32)), special.i1(x), 3e-5)
    np.testing.assert_allclose(slopes(ours.i1, x), special.ivp(1, x), 3e-5)
    np.testing.assert_allclose(slopes(mjax.grad(ours.i1), [0.0, 2.0]),
                               special.ivp(1, [0.0, 2.0], 2), 2e-5)
    assert np.isfinite(mjax.grad(ours.expi)(F32(89.0)))


def test_densities_that_lose_digits_in_their_formulas():
    x, kappa = F32(1e-3), F32(1e6)
    np.testing.assert_allclose(vonmises.logpdf(x, kappa), stats.vonmises.logpdf(1e-3, 1e6), 2e-6)
    np.testing.assert_allclose(mjax.grad(vonmises.logpdf)(x, kappa), -1e6 * np.sin(1e-3), 1e-5)
    for x, c in ((0.0, 0.999), (1e-3, 0.9999), (3.0, 0.2)):
        wanted = stats.wrapcauchy.logpdf(np.float64(F32(x)), np.float64(F32(c)))
        np.testing.assert_allclose(wrapcauchy.logpdf(F32(x), F32(c)), wanted, 3e-6)
    for k, n, p in ((1e8, 2.0, 1e-8), (3e5, 2.0, 1e-5), (5.0, 3.0, 0.4), (0.0, 3.0, 0.4)):
        wanted = stats.nbinom.logpmf(k, n, np.float64(F32(p)))
        np.testing.assert_allclose(nbinom.logpmf(F32(k), F32(n), F32(p)), wanted, 3e-6)
    for k, n, p in ((3.0, 1e7, 1e-7), (0.0, 4.0, 0.3), (4.0, 4.0, 0.3), (2.0, 4.0, 0.3)):
        wanted = stats.binom.logpmf(k, n, np.float64(F32(p)))
        np.testing.assert_allclose(binom.logpmf(F32(k), F32(n), F32(p)), wanted, 3e-6)


def test_densities_whose_squares_overflow():
    half = np.float16
    for x, scale in ((300, 100), (300, 300), (-3, 400)):
        np.testing.assert_allclose(norm.logpdf(half(x), half(0), half(scale)),
                                   stats.norm.logpdf(x, 0, scale), 2e-3)
        np.testing.assert_allclose(cauchy.logpdf(half(x)), stats.cauchy.logpdf(x), 2e-3)
        np.testing.assert_allclose(mjax.grad(cauchy.logpdf)(half(x)), -2 * x / (1 + x * x), 3e-3)
    assert norm.logpdf(F32(1.0), F32(0.5), F32(-2.0)) == norm.logpdf(F32(1.0), F32(0.5), F32(2.0))
    np.testing.assert_allclose(slopes(mjax.grad(cauchy.logpdf), [0.0, 1.5]),
                               [-2.0, -2 * (1 - 1.5**2) / (1 + 1.5**2)**2], 1e-6)
