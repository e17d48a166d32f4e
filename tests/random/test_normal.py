"""The normal distribution and what is made of it, against scipy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy import stats

import mjax
from mjax import random
from tests.random.statistics import check_continuous

KEY, N = random.key(3), 4000


def test_normal():
    for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
        out = random.normal(random.key(3, impl=impl), (N,))
        assert out.dtype == np.float32
        check_continuous(out, "norm")
    with mjax.enable_x64(True):
        out = random.normal(KEY, (N,))
        assert out.dtype == np.float64
        check_continuous(out, "norm")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_normal(dtype):
    out = np.asarray(random.normal(KEY, (N,), dtype))
    assert out.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    out = out.astype(np.float64)
    assert np.isfinite(out).all()
    assert abs(out.mean()) < 0.06
    assert abs(out.std() - 1) < 0.06


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_normal(dtype):
    with mjax.enable_x64(dtype == "complex128"):
        out = np.asarray(random.normal(KEY, (N,), dtype))
    assert out.dtype == np.dtype(dtype)
    check_continuous(out.real * np.sqrt(2), "norm")
    check_continuous(out.imag * np.sqrt(2), "norm")
    check_continuous(np.abs(out) ** 2, "expon")  # so the parts are independent


def test_shapes():
    assert random.normal(KEY).shape == ()
    assert random.normal(KEY, 3).shape == (3,)
    assert random.normal(KEY, (0, 2)).shape == (0, 2)
    assert random.truncated_normal(KEY, np.zeros((2, 1)), np.ones(3)).shape == (2, 3)
    assert random.lognormal(KEY, np.ones(3), (2, 3)).shape == (2, 3)
    assert random.double_sided_maxwell(KEY, np.ones(3), 1.0, (2,)).shape == (2, 3)
    assert random.rayleigh(KEY, np.ones((2, 1)), (2, 3)).shape == (2, 3)


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (0, 1), (-3, 3), (1, 3)])
def test_truncated_normal(low, high):
    out = random.truncated_normal(KEY, low, high, (N,))
    check_continuous(out, stats.truncnorm(low, high).cdf)
    for dtype in ("float32", "bfloat16"):
        out = np.asarray(random.truncated_normal(KEY, low, high, (N,), dtype)).astype(float)
        # The number next to 0 is subnormal, which XLA takes for 0.
        assert low < out.min() or low == out.min() == 0
        assert out.max() < high


def test_truncated_normal_has_derivatives():
    def f(low):
        return random.truncated_normal(KEY, low, 2.0)

    step = 1e-2
    numeric = (float(f(-1 + step)) - float(f(-1 - step))) / (2 * step)
    assert abs(float(mjax.grad(f)(-1.0)) - numeric) < 1e-2


@pytest.mark.parametrize(("sample", "distribution"), [
    (lambda: random.lognormal(KEY, 0.5, (N,)), stats.lognorm(0.5)),
    (lambda: random.lognormal(KEY, shape=(N,)), stats.lognorm(1)),
    (lambda: random.maxwell(KEY, (N,)), stats.maxwell()),
    (lambda: random.rayleigh(KEY, 2.0, (N,)), stats.rayleigh(scale=2)),
    (lambda: random.wald(KEY, 0.7, (N,)), stats.invgauss(0.7)),
])
def test_distributions(sample, distribution):
    check_continuous(sample(), distribution.cdf)


def test_double_sided_maxwell():
    out = (np.asarray(random.double_sided_maxwell(KEY, 1.0, 2.0, (N,))) - 1) / 2
    check_continuous(np.abs(out), "maxwell")
    assert stats.binomtest(int((out > 0).sum()), N).pvalue > 1e-3


def test_parameters_have_derivatives():
    scale = mjax.grad(lambda s: random.rayleigh(KEY, s))(2.0)
    np.testing.assert_allclose(float(scale), float(random.rayleigh(KEY, 1.0)), rtol=1e-5)
    sigma = mjax.grad(lambda s: random.lognormal(KEY, s))(0.5)
    z = np.log(float(random.lognormal(KEY, 1.0)))
    np.testing.assert_allclose(float(sigma), z * np.exp(0.5 * z), rtol=1e-4)


def test_maps_over_keys():
    keys = random.split(KEY, 5)
    out = mjax.vmap(lambda k, m: random.wald(k, m, (2,)))(keys, np.arange(1.0, 6.0))
    each = [random.wald(k, m, (2,)) for k, m in zip(mjax.lax.unstack(keys), range(1, 6),
                                                    strict=True)]
    np.testing.assert_allclose(np.asarray(out), np.stack([np.asarray(x) for x in each]), rtol=1e-5)


@pytest.mark.parametrize(("call", "text"), [
    (lambda: random.normal(KEY, (2,), "int32"),
     "dtype argument to `normal` must be a float or complex dtype, got int32"),
    (lambda: random.truncated_normal(KEY, 0, 1, dtype="int32"), "must be a float dtype"),
    (lambda: random.truncated_normal(KEY, np.zeros(3), np.zeros(2)),
     r"truncated_normal: parameters of shapes \(3,\), \(2,\) do not broadcast to one shape"),
    (lambda: random.lognormal(KEY, np.ones(3), (2,)), "lognormal: parameters .* the shape"),
    (lambda: random.maxwell(KEY, (2,), "complex64"), "must be a float dtype, got complex64"),
])
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()
