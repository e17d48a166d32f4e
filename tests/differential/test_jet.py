"""`jet` on mjax and on JAX."""

from __future__ import annotations

import jax
import jax.experimental.jet
import numpy as np
import pytest

import mjax
import mjax.experimental.jet

NAMES = ["exp", "log", "log1p", "expm1", "sin", "cos", "sinh", "cosh", "tanh", "asinh", "atanh",
         "logistic", "sqrt", "rsqrt", "square", "erf", "erfc", "erf_inv", "abs", "neg", "cumsum",
         "cumprod", "cummax"]
PROGRAMS = {
    **{name: lambda m, x, name=name: getattr(m.lax, name)(x) for name in NAMES},
    "acosh": lambda m, x: m.lax.acosh(x + 1.5), "mul": lambda m, x: x * x[::-1],
    "div": lambda m, x: x / x[::-1], "pow": lambda m, x: x**2.5, "dot": lambda m, x: x @ x.T,
    "integer_pow": lambda m, x: x**3, "atan2": lambda m, x: m.lax.atan2(x, x[::-1]),
    "max": lambda m, x: m.numpy.max(x, 0), "min": lambda m, x: m.lax.min(x, x.T),
    "where": lambda m, x: m.numpy.where(x > 0.4, x * x, x),
    "gather": lambda m, x: x[m.numpy.array([1, 0])], "fft": lambda m, x: m.numpy.fft.fft(x).real,
    "convolution": lambda m, x: m.lax.conv_general_dilated(
        x[None, None], x[None, None], (1, 1), "SAME"),
    "logsumexp": lambda m, x: m.scipy.special.logsumexp(x),
    "softmax": lambda m, x: m.numpy.exp(x) / m.numpy.exp(x).sum(),
    "jit": lambda m, x: m.jit(lambda y: m.numpy.sin(y) * y)(x),
    "scatter_add": lambda m, x: x.at[0].add(x[1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_series(name: str) -> None:
    x = np.array([[0.3, 0.7], [0.5, 0.2]], np.float32)
    series = [np.cos(x * k) * 0.3 for k in range(1, 5)]
    for scaled in (True, False):
        found = mjax.experimental.jet.jet(
            lambda x: PROGRAMS[name](mjax, x), (x,), (series,), factorial_scaled=scaled)
        wanted = jax.experimental.jet.jet(
            lambda x: PROGRAMS[name](jax, x), (x,), (series,), factorial_scaled=scaled)
        for ours, theirs in zip(mjax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, 3e-3, 1e-4 * max(1.0, np.abs(theirs).max()))
