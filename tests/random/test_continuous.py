"""Distributions by inversion, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mjax
from mjax import random
from tests.marks import some
from tests.random.statistics import check_continuous

KEY, N = random.key(11), 4000

DISTRIBUTIONS = {
    "gumbel": (lambda **kw: random.gumbel(KEY, (N,), **kw), stats.gumbel_r()),
    "gumbel high": (lambda **kw: random.gumbel(KEY, (N,), mode="high", **kw), stats.gumbel_r()),
    "exponential": (lambda **kw: random.exponential(KEY, (N,), **kw), stats.expon()),
    "laplace": (lambda **kw: random.laplace(KEY, (N,), **kw), stats.laplace()),
    "logistic": (lambda **kw: random.logistic(KEY, (N,), **kw), stats.logistic()),
    "cauchy": (lambda **kw: random.cauchy(KEY, (N,), **kw), stats.cauchy()),
    "pareto": (lambda **kw: random.pareto(KEY, 2.5, (N,), **kw), stats.pareto(2.5)),
    "weibull": (lambda **kw: random.weibull_min(KEY, 3.0, 1.5, (N,), **kw),
                stats.weibull_min(1.5, scale=3)),
    "triangular": (lambda **kw: random.triangular(KEY, -1.0, 0.5, 2.0, (N,), **kw),
                   stats.triang(0.5, -1, 3)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name):
    sample, distribution = DISTRIBUTIONS[name]
    out = sample()
    assert (out.shape, out.dtype) == ((N,), np.float32)
    check_continuous(out, distribution.cdf)
    with mjax.enable_x64(True):
        wide = sample()
        assert wide.dtype == np.float64
        check_continuous(wide, distribution.cdf)


@pytest.mark.parametrize("dtype", some(["float16", "bfloat16"], 2))
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_narrow_dtypes(name, dtype):
    sample, distribution = DISTRIBUTIONS[name]
    out = np.asarray(sample(dtype=dtype)).astype(np.float64)
    finite = out[np.isfinite(out)]
    assert len(finite) > 0.98 * N
    assert abs(np.median(finite) - distribution.median()) < 0.12


def test_high_mode_reaches_farther_into_the_tail():
    """Logarithms of uniform floats in steps of 2**-23 end at 16; those of finer ones do not."""
    low = np.asarray(random.gumbel(KEY, (2_000_000,), "bfloat16")).astype(float)
    high = np.asarray(random.gumbel(KEY, (2_000_000,), "bfloat16", mode="high")).astype(float)
    assert high.max() > low[np.isfinite(low)].max()


def test_parameters_broadcast():
    b = np.float32([[1.0], [2.0]])
    assert random.pareto(KEY, b, (2, 3)).shape == (2, 3)
    assert random.pareto(KEY, b).shape == (2, 1)
    assert random.triangular(KEY, 0.0, b, 4.0, (2, 3)).shape == (2, 3)
    assert random.weibull_min(KEY, b, np.ones(3)).shape == (2, 3)
    # The numbers drawn have the shape asked for; the parameters spread them.
    assert len(set(np.asarray(random.weibull_min(KEY, np.ones(3), 1.0)).tolist())) == 1
    assert len(set(np.asarray(random.weibull_min(KEY, np.ones(3), 1.0, (3,))).tolist())) == 3


def test_parameters_have_derivatives():
    slope = mjax.grad(lambda b: random.pareto(KEY, b))(2.0)
    at = float(random.pareto(KEY, 2.0))
    np.testing.assert_allclose(float(slope), -at * np.log(at) / 2, rtol=1e-4)


@pytest.mark.parametrize(("call", "text"), [
    (lambda: random.gumbel(KEY, mode="middle"), "gumbel: mode must be None or 'low' or 'high'"),
    (lambda: random.exponential(KEY, (2,), "int32"), "`exponential` must be a float dtype"),
    (lambda: random.laplace(KEY, (2,), "complex64"), "`laplace` must be a float dtype"),
    (lambda: random.pareto(KEY, np.ones(3), (2,)), r"pareto: parameters of shapes \(3,\) do not"),
    (lambda: random.triangular(KEY, np.ones(3), np.ones(2), 1.0), "triangular: .* to one shape"),
    (lambda: random.weibull_min(KEY, np.ones(3), 1.0, (2,)), "weibull_min: parameters of shapes"),
])
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_complex_parameters_of_real_numbers_are_refused() -> None:
    key, z = random.key(0), 1 + 2j
    for sample in (lambda: random.lognormal(key, z), lambda: random.pareto(key, z),
                   lambda: random.rayleigh(key, z), lambda: random.wald(key, z),
                   lambda: random.geometric(key, z), lambda: random.triangular(key, z, 1.0, 2.0),
                   lambda: random.weibull_min(key, z, 1.0)):
        with pytest.raises(mjax.dtypes.TypePromotionError, match="its real part"):
            sample()
    assert random.lognormal(key, z, (2,), complex).dtype == np.complex64
