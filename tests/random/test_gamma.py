"""Gamma-distributed numbers and what is made of them, against scipy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

import mjax
import mjax.numpy as jnp
from mjax import random
from tests.random.statistics import check_continuous

KEY, N = random.key(11), 2000

DISTRIBUTIONS = {
    "gamma": (lambda **kw: random.gamma(KEY, 2.5, (N,), **kw), stats.gamma(2.5)),
    "gamma below 1": (lambda **kw: random.gamma(KEY, 0.3, (N,), **kw), stats.gamma(0.3)),
    "loggamma": (lambda **kw: random.loggamma(KEY, 0.5, (N,), **kw), stats.loggamma(0.5)),
    "beta": (lambda **kw: random.beta(KEY, 0.5, 2.0, (N,), **kw), stats.beta(0.5, 2)),
    "chisquare": (lambda **kw: random.chisquare(KEY, 3.0, (N,), **kw), stats.chi2(3)),
    "f": (lambda **kw: random.f(KEY, 3.0, 7.0, (N,), **kw), stats.f(3, 7)),
    "t": (lambda **kw: random.t(KEY, 3.0, (N,), **kw), stats.t(3)),
    "generalized_normal": (lambda **kw: random.generalized_normal(KEY, 1.5, (N,), **kw),
                           stats.gennorm(1.5)),
}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name == "gamma" else [pytest.mark.slow])
    for name in DISTRIBUTIONS])
def test_distributions(name):
    sample, distribution = DISTRIBUTIONS[name]
    out = sample()
    assert (out.shape, out.dtype) == ((N,), np.float32)
    check_continuous(out, distribution.cdf)


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_other_dtypes(name):
    sample, distribution = DISTRIBUTIONS[name]
    with mjax.enable_x64():
        out = sample()
        assert out.dtype == np.float64
        check_continuous(out, distribution.cdf)
    for dtype in ("float16", "bfloat16"):
        out = np.asarray(sample(dtype=dtype)).astype(np.float64)
        assert abs(np.median(out) - distribution.median()) < 0.2


#: As jax 0.10.2 gives them for key 7.
KNOWN = {
    "gamma": (lambda k: random.gamma(k, np.float32([0.5, 2.0, 9.0])),
              [0.00023367975, 0.86365986, 6.823551]),
    "beta": (lambda k: random.beta(k, 0.5, 2.0, (3,)), [0.019392489, 0.21211317, 0.0013491535]),
    "t": (lambda k: random.t(k, 3.0, (3,)), [2.315182, 0.14994875, -0.5002365]),
    "dirichlet": (lambda k: random.dirichlet(k, np.float32([0.5, 2.0, 9.0])),
                  [3.0397598e-05, 0.1123468, 0.8876228]),
    "ball": (lambda k: random.ball(k, 3), [-0.36388415, 0.3945854, 0.119758196]),
}


@pytest.mark.parametrize("name", ["gamma", *[
    pytest.param(name, marks=pytest.mark.slow) for name in KNOWN if name != "gamma"]])
def test_known_numbers(name):
    sample, expected = KNOWN[name]
    np.testing.assert_array_max_ulp(np.asarray(sample(random.key(7))), np.float32(expected), 4)


def test_small_parameters_have_logarithms():
    """Numbers that would be 0 have finite logarithms."""
    logs = np.asarray(random.loggamma(KEY, 1e-4, (N,)), np.float64)
    assert np.isfinite(logs).all()
    # log(x) a is nearly exponentially distributed.
    check_continuous(-logs * 1e-4, "expon")


@pytest.mark.slow
def test_dirichlet():
    alpha = np.float32([0.5, 1.0, 2.5])
    out = np.asarray(random.dirichlet(KEY, alpha, (N,)))
    assert out.shape == (N, 3)
    np.testing.assert_allclose(out.sum(1), 1, rtol=1e-5)
    check_continuous(out[:, 0], stats.beta(0.5, 3.5).cdf)
    assert random.dirichlet(KEY, np.ones((2, 3), np.float32)).shape == (2, 3)


@pytest.mark.slow
def test_ball():
    for p in (1, 2, 3.5):
        out = np.asarray(random.ball(KEY, 3, p, (N,)))
        lengths = (np.abs(out) ** p).sum(-1) ** (1 / p)
        check_continuous(lengths ** 3, "uniform")
        check_continuous((out[:, 0] > 0) + np.random.default_rng(0).uniform(size=N),
                         stats.uniform(0, 2).cdf)


@pytest.mark.slow
def test_implicit_derivative():
    """dx/da for a fixed probability: that of the quantile."""
    a = np.float64([0.3, 1.0, 4.0])
    with mjax.enable_x64():
        x = np.asarray(random.gamma(KEY, a))
        slope = np.asarray(mjax.grad(lambda a: random.gamma(KEY, a).sum())(a))
        logs = np.asarray(mjax.grad(lambda a: random.loggamma(KEY, a).sum())(a))
    p, h = stats.gamma.cdf(x, a), 1e-5
    expected = (stats.gamma.ppf(p, a + h) - stats.gamma.ppf(p, a - h)) / (2 * h)
    np.testing.assert_allclose(slope, expected, rtol=1e-4)
    np.testing.assert_allclose(logs, expected / x, rtol=1e-4)


def test_transformations():
    keys, a = random.split(KEY, 3), np.float32([0.5, 1.5, 5.0])
    rows = mjax.jit(mjax.vmap(random.gamma))(keys, a)
    np.testing.assert_array_equal(rows, [float(random.gamma(k, x)) for k, x in zip(keys, a)])
    mesh = mjax.make_mesh((2,), ("i",))
    spec = mjax.P("i")
    f = mjax.jit(mjax.shard_map(lambda a: random.gamma(KEY, a), mesh=mesh, in_specs=spec,
                                out_specs=spec))
    assert f(jnp.ones(4)).shape == (4,)


@pytest.mark.slow
def test_shapes_and_corners():
    assert random.gamma(KEY, np.ones((2, 1), np.float32), (2, 3)).shape == (2, 3)
    assert random.gamma(KEY, np.ones((0, 2), np.float32)).shape == (0, 2)
    out = np.asarray(random.gamma(KEY, np.float32([0, np.inf, np.nan, -1])))
    np.testing.assert_array_equal(out, [0, np.inf, np.nan, np.nan])


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: random.gamma(KEY, np.ones(3), (2,)), ValueError, "gamma: parameters of shapes (3,)"),
    (lambda: random.gamma(KEY, 1.0, dtype=int), ValueError, "must be a float dtype"),
    (lambda: random.beta(KEY, np.float32(1), 2.0, dtype="float16"), ValueError,
     "beta: a parameter of dtype float32 cannot be converted safely to dtype float16"),
    (lambda: random.dirichlet(KEY, 1.0), ValueError, "along the last axis of alpha, got a scalar"),
    (lambda: random.ball(KEY, 2.5), TypeError, "ball"),
    (lambda: random.gamma(random.split(KEY), 1.0), ValueError, "mjax.vmap"),
    (lambda: random.gamma(1.0, 1.0), TypeError, "needs a PRNG key"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
