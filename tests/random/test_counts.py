"""Counts, normal vectors, orthogonal matrices: against scipy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

import mjax
from mjax import random
from tests.random.statistics import check_continuous, check_discrete

KEY, N = random.key(5), 3000


def check_counts(out, distribution):
    """The counts below and above the middle, those at the ends together."""
    low, high = (int(distribution.ppf(q)) for q in (0.01, 0.99))
    values = np.clip(np.asarray(out).astype(int), low, high) - low
    p = distribution.pmf(np.arange(low, high + 1))
    p[0], p[-1] = distribution.cdf(low), distribution.sf(high - 1)
    check_discrete(values, p)


@pytest.mark.parametrize("mean", [0.5, 6.0, 40.0])
def test_poisson(mean):
    out = random.poisson(KEY, mean, (N,))
    assert out.dtype == np.int32
    check_counts(out, stats.poisson(mean))


@pytest.mark.parametrize(("n", "p"), [
    (10, 0.9), *[pytest.param(*case, marks=pytest.mark.slow) for case in ((10, 0.3), (200, 0.4))]])
@pytest.mark.slow
def test_binomial(n, p):
    out = random.binomial(KEY, n, p, (N,))
    assert out.dtype == np.float32
    check_counts(out, stats.binom(n, p))


@pytest.mark.slow
def test_corners():
    assert random.poisson(KEY, np.float32([0, -1, np.nan])).tolist() == [0, -1, -1]
    out = random.binomial(KEY, np.float32([5, 5, 5, -1, np.inf, np.nan, 5]),
                          np.float32([0, 1, -1, 0.5, 0.5, 0.5, np.nan]))
    np.testing.assert_array_equal(out, [0, 5, np.nan, np.nan, np.inf, np.nan, np.nan])


@pytest.mark.slow
def test_multinomial():
    p = np.float32([0.2, 0.5, 0.3])
    out = np.asarray(mjax.vmap(lambda k: random.multinomial(k, 20, p))(random.split(KEY, N)))
    assert (out.sum(1) == 20).all()
    for i in range(3):
        check_counts(out[:, i], stats.binom(20, p[i]))
    rows = random.multinomial(KEY, np.arange(2), p, shape=(2, 3))
    assert np.asarray(rows).sum(1).tolist() == [0, 1]


#: As jax 0.10.2 gives them for key 7.
KNOWN = {
    "poisson": (lambda k: random.poisson(k, np.float32([1, 5, 50, 500])), [4, 2, 48, 495]),
    "binomial": (lambda k: random.binomial(k, np.float32([5, 50, 500]), 0.4), [2, 24, 197]),
    "multinomial": (lambda k: random.multinomial(k, 30, np.float32([0.2, 0.5, 0.3])), [8, 10, 12]),
}


@pytest.mark.parametrize("name", ["multinomial", *[
    pytest.param(name, marks=pytest.mark.slow) for name in KNOWN if name != "multinomial"]])
def test_known_numbers(name):
    sample, expected = KNOWN[name]
    assert np.asarray(sample(random.key(7))).tolist() == expected


# ---- vectors ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cholesky", "svd", "eigh"])
def test_multivariate_normal(method):
    mean, cov = np.float32([1, -2]), np.float32([[2, 1], [1, 3]])
    out = np.asarray(random.multivariate_normal(KEY, mean, cov, (N,), method=method), np.float64)
    white = np.linalg.solve(np.linalg.cholesky(cov.astype(np.float64)), (out - mean).T)
    assert np.abs(np.cov(white) - np.eye(2)).max() < 0.1
    for row in white:
        check_continuous(row, "norm")


@pytest.mark.slow
def test_orthogonal():
    for dtype in ("float32", "complex64"):
        q = np.asarray(random.orthogonal(KEY, 3, (N // 10,), dtype))
        assert (q.shape, str(q.dtype)) == ((N // 10, 3, 3), dtype)
        np.testing.assert_allclose(q @ q.conj().swapaxes(1, 2), np.tile(np.eye(3), (N // 10, 1, 1)),
                                   atol=1e-5)
    # A coordinate of a point of the sphere in three dimensions is uniformly distributed.
    q = np.asarray(random.orthogonal(KEY, 3, (N // 10,)))
    check_continuous(q[:, 0, 0], stats.uniform(-1, 2).cdf)
    assert random.orthogonal(KEY, 2, m=5).shape == (2, 5)
    assert random.orthogonal(KEY, 5, (2,), m=2).shape == (2, 5, 2)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: random.poisson(KEY, 1.0, dtype="float32"), ValueError, "must be an int dtype"),
    (lambda: random.binomial(KEY, [1], 0.5), TypeError, "binomial requires ndarray or scalar"),
    (lambda: random.binomial(KEY, 1, np.ones(3), (2,)), ValueError, "binomial: parameters of"),
    (lambda: random.multivariate_normal(KEY, np.zeros(3), np.eye(2)), ValueError,
     "cov must have shape (..., n, n); got shapes (3,) and (2, 2)"),
    (lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(2), method="lu"), ValueError,
     "method must be 'cholesky' or 'svd' or 'eigh', got 'lu'"),
    (lambda: random.multinomial(KEY, 5, np.ones(3), shape=(2,)), ValueError,
     "multinomial: parameters of shapes (3,) do not broadcast to the shape (2,)"),
    (lambda: random.multinomial(KEY, np.ones(4), np.ones((2, 3))), ValueError,
     "multinomial: parameters of shapes (4,) do not broadcast to the shape (2,)"),
    (lambda: random.orthogonal(KEY, -1), ValueError, "must not be negative"),
    (lambda: mjax.jit(lambda n: random.orthogonal(KEY, n))(2), TypeError, "static"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
