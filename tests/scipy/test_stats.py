"""Probability distributions: against SciPy, over dtypes, and derivatives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.stats

import mjax
from mjax.scipy import stats
from tests.scipy.functions import (
    INF,
    Function,
    check_dtype,
    check_integers,
    check_slopes,
    check_values,
    check_vmap,
    table,
)

X = (-INF, -30.0, -3.0, -1.0, -0.3, 0.0, 1e-8, 0.1, 0.5, 0.9, 1.0, 1.5, 2.0, 5.5, 12.0, INF)
COUNTS = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 9.0)
Q = (0.2, 0.5, 0.7, -0.1, 1.1)
MILD_X = (0.3, 0.6, 1.4, 2.5)
LOC_SCALE = ((0.5,), (2.0,))
#: Distribution -> points, parameters, moderate points.
CONTINUOUS = {
    "norm": (X, LOC_SCALE), "cauchy": (X, LOC_SCALE), "expon": (X, LOC_SCALE),
    "gumbel_l": (X[1:-1], LOC_SCALE), "gumbel_r": (X[1:-1], LOC_SCALE),
    "laplace": (X, LOC_SCALE), "logistic": (X, LOC_SCALE), "uniform": (X, LOC_SCALE),
    "beta": (X, ((2.0, 0.5), (3.0,), *LOC_SCALE)), "gamma": (X, ((2.0, 0.4), *LOC_SCALE)),
    "chi2": (X, ((3.0, 2.0), *LOC_SCALE)), "pareto": (X, ((2.0,), *LOC_SCALE)),
    "t": (X, ((3.0, 10.0), *LOC_SCALE)), "gennorm": (X[2:-1], ((1.5,),)),
    "vonmises": (X[1:-1], ((2.0, 50.0),)), "wrapcauchy": (X[1:-1], ((0.3,),)),
    "truncnorm": (X, ((-1.0, 0.5), (2.0, 3.0), *LOC_SCALE)),
}
DISCRETE: dict[str, tuple[tuple[float, ...], ...]] = {
    "bernoulli": ((0.3, 0.8),), "binom": ((5.0,), (0.0, 0.3, 1.0)), "geom": ((0.3, 1.0),),
    "nbinom": ((3.0,), (0.3,)), "betabinom": ((5.0,), (2.0,), (3.0,)), "poisson": ((0.0, 2.0),),
}
TOLERANCES = {"truncnorm": 1e-9, "gamma": 1e-10, "chi2": 1e-10, "beta": 1e-10, "gennorm": 1e-11}
#: Programs of many loops, which take long to compile.
LARGE = ("beta", "chi2", "gamma", "gennorm", "truncnorm", "poisson", "betabinom")


def _rows() -> list[Function]:
    rows = []
    for name, (points, parameters) in CONTINUOUS.items():
        mild = [(0.2, 0.4, 0.7, 0.9) if name in ("beta", "uniform") else MILD_X,
                *[p[:1] for p in parameters]]
        if name in ("beta", "uniform", "pareto", "expon", "gamma", "chi2"):
            mild[-2:] = [(0.0,), (1.0 if name in ("beta", "uniform") else 0.25,)]
        for f in getattr(stats, name).__all__:
            quantiles = f in ("ppf", "isf")
            slopes = [0] if name in ("beta", "uniform") or "cdf" in f or "sf" in f else None
            rows.append(Function(f"stats.{name}.{f}", [Q if quantiles else points, *parameters],
                                 TOLERANCES.get(name, 1e-12), slopes=slopes,
                                 mild=[(0.2, 0.4, 0.7), *mild[1:]] if quantiles else mild))
    for name, parameters in DISCRETE.items():
        for f in ("logpmf", "pmf"):
            rows.append(Function(f"stats.{name}.{f}", [COUNTS, *parameters], 1e-12, slopes=[
                len(parameters)], mild=[(1.0, 2.0) if name != "bernoulli" else (0.0, 1.0),
                                        *[p[-1:] if p[-1] != 1.0 else (0.3,) for p in parameters]]))
    rows += [Function("stats.poisson.cdf", [COUNTS, (0.5, 2.0)], 1e-12, slopes=[1],
                      mild=[(1.0, 4.0), (0.5, 2.0)]),
             Function("stats.bernoulli.cdf", [COUNTS, (0.3, 0.8)], 1e-12, slopes=[1],
                      mild=[(0.0,), (0.3, 0.8)])]
    return rows


ROWS = _rows()


def _is_large(row: Function) -> bool:
    return row.name.split(".")[1] in LARGE


def _reference(row: Function) -> None:
    """Cases that follow JAX's conventions rather than SciPy's."""
    name = row.name.removeprefix("stats.")
    if (name.startswith("gumbel") and name.endswith("ppf")) or name in ("cauchy.ppf", "cauchy.isf"):
        row.points = [(0.2, 0.5, 0.7), *row.points[1:]]


for _row in ROWS:
    _reference(_row)


def _few(rows: list[Function]) -> list[Function]:
    """Densities and distribution functions: the others are made of them."""
    return [r for r in rows if r.name.endswith((".logpdf", ".cdf", ".logpmf", ".ppf"))]


@table([r for r in _few(ROWS) if not _is_large(r)])
def test_values(row: Function) -> None:
    _check(row)


@pytest.mark.slow
@table([r for r in ROWS if r not in _few(ROWS) or _is_large(r)])
def test_more_values(row: Function) -> None:
    _check(row)


def _check(row: Function) -> None:
    check_values(row)


@pytest.mark.slow
@table(ROWS)
def test_dtypes(row: Function) -> None:
    check_dtype(row, np.dtype(np.float32))
    if not row.name.startswith(("stats.norm.ppf", "stats.norm.isf")):
        check_integers(row)


@pytest.mark.slow
@table(ROWS)
def test_derivatives(row: Function) -> None:
    check_slopes(row)


@pytest.mark.slow
@table(_few(ROWS))
def test_vmap(row: Function) -> None:
    check_vmap(row)


def test_discrete_ends() -> None:
    q = np.array([0.1, 0.7, 0.9, -0.1, 1.1], np.float32)
    np.testing.assert_array_equal(np.asarray(stats.bernoulli.ppf(q, 0.3)),
                                  [0, 0, 1, np.nan, np.nan])
    assert stats.poisson.logpmf(1.5, 2.0) == -INF
    assert np.isnan(stats.poisson.logpmf(1, 2.0, np.nan))
    assert stats.binom.logpmf(3, 2, 0.5) == -INF
    assert stats.geom.pmf(0, 0.5) == 0.0
    np.testing.assert_allclose(stats.binom.pmf(4, 5, 0.3, 2), scipy.stats.binom.pmf(4, 5, 0.3, 2),
                               rtol=1e-5)


@pytest.mark.slow
def test_chi2_of_nan() -> None:
    assert np.isnan(stats.chi2.logpdf(np.nan, 2.5)) and np.isnan(stats.chi2.pdf(np.nan, 2.5))
    np.testing.assert_array_equal(stats.chi2.pdf(np.float32([-1, -np.inf]), 2.5), 0)


@pytest.mark.parametrize("name", ["cdf", pytest.param("sf", marks=pytest.mark.slow)])
def test_slopes_at_the_ends_of_the_support(name: str) -> None:
    def slopes(f: Any, ends: list[float]) -> Any:
        return mjax.vmap(mjax.grad(f))(np.float32(ends))

    chi2, gamma, beta = (getattr(d, name) for d in (stats.chi2, stats.gamma, stats.beta))
    for f in (lambda x, f=chi2: f(x, 2.0), lambda x, f=chi2: f(x, 1.0),
              lambda x, f=gamma: f(x, 1.0), lambda x, f=gamma: f(x, 0.5)):
        np.testing.assert_array_equal(slopes(f, [-1, 0, np.inf]), 0)
    for f in (lambda x, f=beta: f(x, 1.0, 1.0), lambda x, f=beta: f(x, 0.5, 0.5)):
        np.testing.assert_array_equal(slopes(f, [-1, 0, 1, 2]), 0)
    np.testing.assert_array_equal(slopes(getattr(stats.expon, name), [-np.inf, -1, np.inf]), 0)
    np.testing.assert_array_equal(slopes(stats.expon.logcdf, [0.0, -0.0]), np.inf)


def test_gumbel_far_out() -> None:
    for f, end in ((stats.gumbel_l, 1.0), (stats.gumbel_r, -1.0)):
        points = end * np.float32([1e2, 1e30, INF])
        np.testing.assert_array_equal(f.pdf(points), 0)
        np.testing.assert_array_equal(f.logpdf(points[1:]), -INF)
        np.testing.assert_array_equal(mjax.vmap(mjax.grad(f.pdf))(points), 0)
        np.testing.assert_array_equal(mjax.vmap(mjax.grad(f.logpdf))(points[1:]), -end * INF)
        assert np.isnan(f.pdf(points, 0.0, -1.0)).all()


def test_cauchy_quantiles_of_negative_zero() -> None:
    zero = np.float32(-0.0)
    assert stats.cauchy.ppf(zero) == -np.inf and stats.cauchy.isf(zero) == np.inf
    assert mjax.grad(stats.cauchy.ppf)(zero) == np.inf


def test_cauchy_quantiles_next_to_the_median() -> None:
    q = np.float32([0.5, 0.5 + 2**-20, 0.5 - 2**-24, 0.25, 0.26, 0.74, 0.75])
    wanted = scipy.stats.cauchy.ppf(q.astype(float))
    np.testing.assert_allclose(stats.cauchy.ppf(q), wanted, 1e-6, 1e-30)
    np.testing.assert_allclose(stats.cauchy.isf(q), -wanted, 1e-6, 1e-30)
    slopes = mjax.vmap(mjax.grad(stats.cauchy.ppf))(q)
    np.testing.assert_allclose(slopes, np.pi * (1 + wanted * wanted), 1e-5)


def test_slopes_of_pareto_below_its_support() -> None:
    for f in (stats.pareto.cdf, stats.pareto.sf, stats.pareto.logsf, stats.pareto.pdf):
        for scale, x in ((3.0, -1.0), (1.0, -1.0), (1.0, 0.0), (1.0, 0.5)):
            arguments = np.float32([x, 2.0, 0.0, scale])
            np.testing.assert_array_equal(mjax.grad(f, (0, 1, 2, 3))(*arguments), 0)


def test_slopes_of_gennorm_at_its_center() -> None:
    for beta in (0.5, 1.0, 1.5, 2.0):
        slopes = mjax.vmap(mjax.grad(stats.gennorm.cdf, (0, 1)), (0, None))
        in_x, in_beta = slopes(np.float32([0.0, -0.0, 1e-45, -1e-30]), beta)
        np.testing.assert_allclose(in_x, scipy.stats.gennorm.pdf(0.0, beta), rtol=1e-5)
        np.testing.assert_allclose(in_beta, 0, atol=1e-27)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logpdf", "logcdf", "logsf"])
def test_slopes_of_truncnorm_in_tails(name: str) -> None:
    """Slopes where the mass is tiny, or an end of the support infinite."""
    f, g = getattr(stats.truncnorm, name), getattr(scipy.stats.truncnorm, name)
    slopes = mjax.jit(mjax.grad(f, (0, 1, 2)))
    for point in ((7.0, 6.0, INF), (6.5, 6.0, 7.0), (-7.0, -INF, -6.0), (0.5, -INF, INF),
                  (8.0, 0.0, INF), (-3.0, -INF, 2.0)):
        for i, (x, slope) in enumerate(zip(point, slopes(*np.float32(point)), strict=True)):
            step = np.eye(3)[i] * 1e-5
            expected = 0 if abs(x) == INF else (g(*(point + step)) - g(*(point - step))) / 2e-5
            np.testing.assert_allclose(slope, expected, rtol=2e-2, atol=2e-4)
    outside = mjax.vmap(mjax.grad(stats.truncnorm.cdf, (0, 1, 2)))
    for slope in outside(*np.float32([[-1, 3, -INF, INF], [-0.5] * 4, [2] * 4])):
        np.testing.assert_array_equal(slope, 0)


def test_entropy_of_poisson() -> None:
    mu = np.array([0.0, 0.1, 3.0, 20.0, 99.0])
    with mjax.enable_x64():
        np.testing.assert_allclose(np.asarray(stats.poisson.entropy(mu)),
                                   scipy.stats.poisson.entropy(mu), rtol=1e-10)
        # SciPy's sums end early for large means: the expansion meets the sum instead.
        low, high = stats.poisson.entropy(np.array([99.999999, 100.000001]))
        np.testing.assert_allclose(low, high, rtol=1e-8)
        assert stats.poisson.entropy(np.ones((2, 1)), np.ones(3)).shape == (2, 3)
        slope = mjax.grad(stats.poisson.entropy)(3.0)
        near = scipy.stats.poisson.entropy(3 + 1e-5) - scipy.stats.poisson.entropy(3 - 1e-5)
        np.testing.assert_allclose(slope, near / 2e-5, rtol=1e-6)


def test_dirichlet_and_multinomial() -> None:
    alpha, x = np.array([2.0, 3.0, 0.5]), np.array([0.25, 0.25, 0.5])
    with mjax.enable_x64():
        expected = scipy.stats.dirichlet.logpdf(x, alpha)
        np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), expected, rtol=1e-13)
        np.testing.assert_allclose(stats.dirichlet.pdf(x[:2], alpha), np.exp(expected), rtol=1e-13)
        many = np.stack([x, [0.5, 0.25, 0.25], [0.5, 0.5, 0.5]], 1)
        out = np.asarray(stats.dirichlet.logpdf(many, alpha))
        assert out[2] == -INF
        np.testing.assert_allclose(out[:2], scipy.stats.dirichlet.logpdf(many[:, :2], alpha))
        counts, p = np.array([[1, 2, 3], [6, 0, 0]]), np.array([0.2, 0.3, 0.5])
        out = np.asarray(stats.multinomial.logpmf(counts, 6, p))
        np.testing.assert_allclose(out, scipy.stats.multinomial.logpmf(counts, 6, p), rtol=1e-13)
        assert stats.multinomial.pmf(counts[0], 7, p) == 0.0


def test_multivariate_normal() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    x, mean, cov = rng.normal(size=(4, 3)), rng.normal(size=3), root @ root.T + np.eye(3)
    reference = scipy.stats.multivariate_normal
    with mjax.enable_x64():
        for f in ("logpdf", "pdf"):
            ours = getattr(stats.multivariate_normal, f)
            np.testing.assert_allclose(np.asarray(ours(x, mean, cov)),
                                       getattr(reference, f)(x, mean, cov), rtol=1e-12)
        ours = stats.multivariate_normal.logpdf
        np.testing.assert_allclose(ours(x[0], mean, 2.0), reference.logpdf(x[0], mean, 2.0))
        np.testing.assert_allclose(ours(0.5, 1.0, 2.0), reference.logpdf(0.5, 1.0, 2.0))
        # Points and covariances in pairs.
        many = np.stack([cov, 2 * cov, 3 * cov, 4 * cov])
        out = np.asarray(ours(x, mean, many))
        np.testing.assert_allclose(out, [reference.logpdf(a, mean, c) for a, c in zip(x, many)],
                                   rtol=1e-12)
        assert ours(x[:, None], mean, many).shape == (4, 4)
        assert ours(x[:0], mean, cov).shape == (0,)


@pytest.mark.parametrize(("error", "text", "use"), [
    (TypeError, "norm.logpdf requires ndarray or scalar", lambda: stats.norm.logpdf("a")),
    (TypeError, "incompatible shapes", lambda: stats.norm.logpdf(np.ones(2), np.ones(3))),
    (TypeError, "the dtype of q must be float32 or float64", lambda: stats.norm.ppf(1)),
    (ValueError, "beta.cdf takes real numbers", lambda: stats.beta.cdf(1j, 1.0, 2.0)),
    (ValueError, "t.logpdf takes real numbers", lambda: stats.t.pdf(1j, 2.0)),
    (ValueError, "x and n must be of integer dtypes",
     lambda: stats.multinomial.pmf(np.ones(2), 2, np.ones(2))),
    (ValueError, "alpha must be one-dimensional",
     lambda: stats.dirichlet.pdf(np.ones(2), np.ones((2, 2)))),
    (ValueError, "must be as long as alpha", lambda: stats.dirichlet.pdf(np.ones(4), np.ones(2))),
    (ValueError, "cov must be a scalar or of shape (..., 2, 2)",
     lambda: stats.multivariate_normal.logpdf(np.ones(2), np.ones(2), np.eye(3))),
    (TypeError, "multivariate_normal.pdf: x, mean and cov must have shapes (..., n), (..., n) and "
     "(..., n, n), with leading axes that broadcast, got (3,), (2,) and (2, 2)",
     lambda: stats.multivariate_normal.pdf(np.ones(3), np.ones(2), np.eye(2))),
    (TypeError, "got (4, 2), (2,) and (3, 2, 2)", lambda: stats.multivariate_normal.logpdf(
        np.ones((4, 2)), np.ones(2), np.ones((3, 2, 2)))),
    (NotImplementedError, "allow_singular is not supported",
     lambda: stats.multivariate_normal.logpdf(np.ones(2), np.ones(2), np.eye(2), True)),
])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


def test_weak_types() -> None:
    weak = mjax.numpy.broadcast_to(0.5, (3,))
    is_weak = lambda f, *args: mjax.eval_shape(lambda: f(*args)).weak_type
    # Densities are made with constants of the type of the points.
    assert not is_weak(stats.norm.pdf, weak)
    assert is_weak(stats.norm.pdf, 0.5, weak)
    # The scale decides too.
    assert is_weak(stats.chi2.cdf, 0.5, weak)
    assert not is_weak(stats.chi2.cdf, 0.5, 2.0, 0.0, weak)
