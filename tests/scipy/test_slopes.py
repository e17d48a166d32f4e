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
    cauchy,
    expon,
    gennorm,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    norm,
    pareto,
    t,
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
