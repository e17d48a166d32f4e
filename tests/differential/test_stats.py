"""Distributions and statistics, on both libraries: values, types, derivatives."""

from __future__ import annotations

import inspect

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree

X = np.array([-1.0, 0.25, 0.5, 1.5, 3.0], np.float32)
K = np.array([-1.0, 0.0, 1.0, 2.0, 5.0], np.float32)
Q = np.array([0.1, 0.25, 0.6, 0.9, 0.95], np.float32)
PARAMETERS = {
    "beta": (2.0, 3.0), "gamma": (2.0,), "chi2": (3.0,), "pareto": (2.0,), "t": (3.0,),
    "gennorm": (1.5,), "vonmises": (2.0,), "wrapcauchy": (0.5,), "truncnorm": (-0.5, 2.0),
    "bernoulli": (0.3,), "binom": (5.0, 0.3), "geom": (0.3,), "nbinom": (3.0, 0.3),
    "betabinom": (5.0, 2.0, 3.0), "poisson": (2.0,),
}
VECTORS = ("dirichlet", "multinomial", "multivariate_normal")
FUNCTIONS = [(name, f) for name in mjax.scipy.stats.__all__
             if hasattr(getattr(mjax.scipy.stats, name), "__all__") and name not in VECTORS
             for f in getattr(mjax.scipy.stats, name).__all__]


def points(name, f):
    if f in ("ppf", "isf"):
        return Q
    return K if "pmf" in f or name in ("poisson", "bernoulli") else X


def function(m, name, f):
    return getattr(getattr(m.scipy.stats, name), f)


#: The functions that the others are made of.
MAIN = [(name, f) for name, f in FUNCTIONS if f in ("logpdf", "logpmf", "logcdf")]


@pytest.mark.parametrize(("name", "f"), MAIN)
def test_values_and_slopes(name, f):
    check(name, f)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "f"), [x for x in FUNCTIONS if x not in MAIN])
def test_more_values_and_slopes(name, f):
    check(name, f)


def check(name, f):
    args = [np.float32(p) for p in PARAMETERS.get(name, ())]
    x = [] if f == "entropy" else [points(name, f)]
    assert_agree(lambda m: function(m, name, f)(*x, *args), tolerance=1e-4)
    # jax has no derivatives of the incomplete beta function in its parameters.
    slopes = [0] if name == "beta" and f != "logpdf" and f != "pdf" else range(len(args) + len(x))
    if name in ("gumbel_l", "gumbel_r") and f == "ppf":
        return  # jax raises a TypeError for the derivative in the probability

    # jax's gradients are NaN where densities are 0.
    def gradient(m):
        return m.grad(lambda *xs: function(m, name, f)(*xs).sum(), tuple(slopes))(
            *[v[2:4] for v in x], *args)

    assert_agree(gradient, tolerance=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "f"), FUNCTIONS)
def test_types(name, f):
    """Of Python scalars, weakly typed arrays and integers."""
    count = len(PARAMETERS.get(name, ())) + (f != "entropy")
    kinds = [lambda m, x: x, lambda m, x: m.numpy.broadcast_to(m.numpy.asarray(x), (2,))]
    if not (name == "norm" and f in ("ppf", "isf")):
        kinds.append(lambda m, x: np.array([1, 1]))
    for kind in kinds:
        ours, theirs = [], []
        for m, out in ((mjax, ours), (jax, theirs)):
            result = function(m, name, f)(*[kind(m, 0.25 + 0.125 * i) for i in range(count)])
            out.append((result.dtype.name, result.weak_type))
        assert ours == theirs, (name, f)


def test_vectors():
    alpha, x = np.array([2.0, 3.0], np.float32), np.array([0.25, 0.75], np.float32)
    assert_agree(lambda m: m.scipy.stats.dirichlet.logpdf(x, alpha))
    assert_agree(lambda m: m.grad(m.scipy.stats.dirichlet.logpdf, 1)(x, alpha))
    counts = np.array([1, 2])
    assert_agree(lambda m: m.scipy.stats.multinomial.logpmf(counts, 3, x))
    cov = np.array([[2.0, 0.3], [0.3, 1.0]], np.float32)
    normal = lambda m: m.scipy.stats.multivariate_normal.logpdf
    assert_agree(lambda m: normal(m)(x, alpha, cov))
    assert_agree(lambda m: m.grad(normal(m), (0, 1, 2))(x, alpha, cov))
    assert_agree(lambda m: normal(m)(np.stack([x] * 3), alpha, np.stack([cov] * 3)))
    assert_agree(lambda m: (normal(m)(x, alpha, 2.0), normal(m)(0.5, 0.25, 2.0)))


def weak_types(m, name, f):
    """Whether results are weakly typed, for arguments with and without axes, of several ranks."""
    weak, vector = [m.numpy.broadcast_to(m.numpy.asarray(0.5), s) for s in ((2, 3), (3,))]
    n = len(inspect.signature(function(mjax, name, f)).parameters)
    calls = [[one if i == j else following if (i + 1) % n == j else others for j in range(n)]
             for i in range(n)
             for one, following, others in ((weak, 0.5, 0.5), (0.5, weak, weak),
                                            (vector, weak, 0.5))]
    return [m.eval_shape(lambda call=call: function(m, name, f)(*call)).weak_type
            for call in calls]


@pytest.mark.parametrize(("name", "f"), [
    pytest.param(*x, marks=() if x in (("norm", "pdf"), ("logistic", "pdf"), ("geom", "pmf"))
                 else pytest.mark.slow) for x in FUNCTIONS if x[1] != "entropy"])
def test_weak_types(name, f):
    assert weak_types(mjax, name, f) == weak_types(jax, name, f)


def test_samples():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, size=(5, 6))
    for axis in (None, 0, 1):
        assert_agree(lambda m, axis=axis: tuple(m.scipy.stats.mode(x, axis, keepdims=True)))
        assert_agree(lambda m, axis=axis: m.scipy.stats.sem(x, axis))
        assert_agree(lambda m, axis=axis: m.scipy.stats.rankdata(x, axis=axis))
    data = rng.normal(size=(2, 8)).astype(np.float32)
    kde = lambda m: m.scipy.stats.gaussian_kde(data, weights=np.arange(1.0, 9.0, dtype=np.float32))
    assert_agree(lambda m: (kde(m)(data), kde(m).logpdf(data), kde(m).neff, kde(m).covariance),
                 tolerance=1e-4)
    assert_agree(lambda m: kde(m).integrate_kde(kde(m)), tolerance=1e-4)
    assert_agree(lambda m: kde(m).resample(m.random.key(0), (5,)), tolerance=1e-4)
