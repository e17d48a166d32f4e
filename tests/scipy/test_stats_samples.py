"""Kernel density estimates, modes, ranks and standard errors: against SciPy."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
import scipy.stats

import mjax
import mjax.numpy as jnp
from mjax.scipy import stats
from tests.marks import some

rng = np.random.default_rng(0)


@pytest.mark.parametrize(("d", "weighted", "method"), [
    (1, False, None), (1, True, "silverman"), (2, True, 0.3),
    (2, False, lambda kde: kde.neff ** -0.2)], ids=["scott", "silverman", "number", "function"])
def test_gaussian_kde(d: int, weighted: bool, method: Any) -> None:
    data, points = rng.normal(size=(d, 9)), rng.normal(size=(d, 4))
    weights = rng.random(9) if weighted else None
    theirs = scipy.stats.gaussian_kde(data, method, weights)
    with mjax.enable_x64():
        ours = stats.gaussian_kde(data, method, weights)
        assert (ours.d, ours.n) == (d, 9)
        for name in ("neff", "covariance", "inv_cov", "weights"):
            np.testing.assert_allclose(np.asarray(getattr(ours, name)), getattr(theirs, name),
                                       rtol=1e-12)
        np.testing.assert_allclose(np.asarray(ours(points)), theirs(points), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(ours.logpdf(points)), theirs.logpdf(points),
                                   rtol=1e-12)
        np.testing.assert_allclose(np.asarray(mjax.jit(lambda kde, x: kde.pdf(x))(ours, points)),
                                   theirs(points), rtol=1e-12)


def test_integrals_of_gaussian_kde() -> None:
    data, other = rng.normal(size=(2, 9)), rng.normal(size=(2, 5))
    a, b = scipy.stats.gaussian_kde(data), scipy.stats.gaussian_kde(other)
    mean, cov = np.array([0.3, -0.5]), np.array([[1.0, 0.2], [0.2, 2.0]])
    with mjax.enable_x64():
        ours, second = stats.gaussian_kde(data), stats.gaussian_kde(other)
        np.testing.assert_allclose(ours.integrate_gaussian(mean, cov),
                                   a.integrate_gaussian(mean, cov), rtol=1e-12)
        np.testing.assert_allclose(ours.integrate_kde(second), a.integrate_kde(b), rtol=1e-12)
        line, expected = stats.gaussian_kde(data[0]), scipy.stats.gaussian_kde(data[0])
        np.testing.assert_allclose(line.integrate_box_1d(-1.0, 0.5),
                                   expected.integrate_box_1d(-1.0, 0.5), rtol=1e-12)
        np.testing.assert_allclose(line.integrate_gaussian(0.3, 2.0),
                                   expected.integrate_gaussian(0.3, 2.0), rtol=1e-12)


@pytest.mark.slow
def test_samples_of_gaussian_kde() -> None:
    data = rng.normal(size=(2, 50)) + np.array([[3.0], [-2.0]])
    kde = stats.gaussian_kde(data)
    draws = np.asarray(kde.resample(mjax.random.key(0), (4000,)))
    assert draws.shape == (2, 4000)
    assert kde.resample(mjax.random.key(0)).shape == (2,)
    np.testing.assert_allclose(draws.mean(1), data.mean(1), atol=0.1)
    spread = np.cov(data) * 49 / 50 + np.asarray(kde.covariance)
    np.testing.assert_allclose(np.cov(draws), spread, atol=0.15)


def test_gaussian_kde_is_a_pytree() -> None:
    kde = stats.gaussian_kde(np.arange(5.0))
    twice = mjax.tree.map(lambda x: 2 * x, kde)
    assert isinstance(twice, stats.gaussian_kde)
    np.testing.assert_array_equal(np.asarray(twice.dataset), 2 * np.arange(5.0)[None])
    with pytest.raises(AttributeError, match="cannot be changed"):
        kde.dataset = 3


@pytest.mark.parametrize("axis", [0, 1, -1, None], ids=str)
def test_mode(axis: int | None) -> None:
    x = rng.integers(0, 4, size=(5, 7)).astype(np.int32)
    for keepdims in (False, True):
        out = stats.mode(x, axis, keepdims=keepdims)
        expected = scipy.stats.mode(x, axis, keepdims=keepdims)
        assert type(out).__name__ == "ModeResult"
        for a, e in zip(out, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), e)
            assert (a.shape, a.dtype) == (np.shape(e), np.int32)


def test_mode_in_corners() -> None:
    assert stats.mode(3.0) == (3.0, 1)
    empty = stats.mode(np.zeros((0, 2)))
    assert np.isnan(np.asarray(empty.mode)).all() and not np.asarray(empty.count).any()
    no_rows = stats.mode(np.zeros((0, 3), np.int32), 1)
    assert no_rows.mode.shape == (0,) and no_rows.mode.dtype == np.int32
    value, count = stats.mode(np.array([np.nan, 1.0, np.nan, 2.0]))
    assert np.isnan(value) and count == 2
    assert mjax.vmap(stats.mode)(np.array([[1, 1, 2], [2, 3, 3]])).mode.tolist() == [1, 3]


@pytest.mark.parametrize("method", some(["average", "min", "dense", "max", "ordinal"], 2))
def test_rankdata(method: str) -> None:
    x = rng.integers(0, 5, size=(4, 6))
    for axis in (None, 0):
        out = stats.rankdata(x, method, axis=axis)
        assert out.dtype == np.float32
        expected = scipy.stats.rankdata(x, method, axis=axis)
        np.testing.assert_array_equal(np.asarray(out), expected)
    np.testing.assert_array_equal(np.asarray(stats.rankdata(np.array([1.0, np.nan]), method)),
                                  [np.nan, np.nan])
    assert stats.rankdata(np.zeros(0), method).shape == (0,)


def test_sem() -> None:
    x = rng.normal(size=(4, 6)).astype(np.float32)
    for axis in (None, 0, 1):
        np.testing.assert_allclose(np.asarray(stats.sem(x, axis)), scipy.stats.sem(x, axis),
                                   rtol=1e-5)
    gaps = np.where(x > 1, np.nan, x)
    out = stats.sem(gaps, 1, ddof=0, nan_policy="omit", keepdims=True)
    expected = scipy.stats.sem(gaps, 1, ddof=0, nan_policy="omit")
    np.testing.assert_allclose(np.asarray(out)[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(mjax.grad(stats.sem)(x[0]), mjax.grad(
        lambda x: jnp.std(x, ddof=1))(x[0]) / np.sqrt(np.float32(6)), rtol=1e-5)


def test_sem_of_complex_numbers() -> None:
    x = np.array([1 + 2j, 3 - 1j], np.complex64)
    for policy in ("propagate", "omit"):
        assert stats.sem(x, nan_policy=policy).dtype == np.complex64


kde = functools.cache(lambda: stats.gaussian_kde(np.arange(4.0)))


@pytest.mark.parametrize(("error", "text", "use"), [
    (NotImplementedError, "does not support complex data",
     lambda: stats.gaussian_kde(np.ones(3, np.complex64))),
    (ValueError, "the dataset should have multiple elements", lambda: stats.gaussian_kde(1.0)),
    (ValueError, "weights must be of shape (3,)",
     lambda: stats.gaussian_kde(np.arange(3.0), weights=np.ones(2))),
    (ValueError, "bw_method should be", lambda: stats.gaussian_kde(np.arange(3.0), "wide")),
    (ValueError, "points have dimension 2, dataset has dimension 1",
     lambda: kde()(np.ones((2, 3)))),
    (ValueError, "mean must be of shape (1,)", lambda: kde().integrate_gaussian(np.ones(2), 1.0)),
    (ValueError, "the bounds must be scalars", lambda: kde().integrate_box_1d(np.ones(2), 1.0)),
    (ValueError, "not the same dimensionality",
     lambda: kde().integrate_kde(stats.gaussian_kde(rng.normal(size=(2, 5))))),
    (TypeError, "must be a gaussian_kde, got int", lambda: kde().integrate_kde(3)),
    (NotImplementedError, "use integrate_box_1d", lambda: kde().integrate_box(0.0, 1.0)),
    (NotImplementedError, "Make another one with bw_method", lambda: kde().set_bandwidth(1.0)),
    (ValueError, "nan_policy must be", lambda: stats.mode(np.ones(2), nan_policy="wave")),
    (NotImplementedError, "nan_policy='omit' is not implemented",
     lambda: stats.rankdata(np.ones(2), nan_policy="omit")),
    (ValueError, "unknown method 'best'", lambda: stats.rankdata(np.ones(2), "best")),
    (ValueError, "nan_policy must be", lambda: stats.sem(np.ones(2), nan_policy="raise")),
])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
