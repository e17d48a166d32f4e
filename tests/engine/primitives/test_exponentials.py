"""Exponentials of literal NaNs: `elementwise.keeping_nan`."""

import ml_dtypes
import numpy as np

import mjax
from mjax import lax


def test_exponentials_of_literal_nans():
    """LLVM folds them to any value on some processors; JAX returns that."""
    functions = (lax.exp, lax.exp2, lax.expm1, lax.logistic, lax.sinh, lax.cosh)

    @mjax.jit
    def f(x, i):
        nan = np.array(np.nan, x.dtype)
        y = lax.select(lax.broadcast(i > 0, x.shape), x, lax.full(x.shape, nan))
        z = lax.select(lax.broadcast(i > 0, x.shape), x, np.array([nan] * 5))
        return [g(2 * v) for g in functions for v in (y, z)]

    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        x = np.ones(5, dtype)
        for out in f(x, -1):
            assert np.isnan(np.asarray(out, np.float32)).all(), dtype
        for g, out in zip(np.repeat(functions, 2), f(x, 1), strict=True):
            np.testing.assert_allclose(np.asarray(out, np.float32), g(2 * x), rtol=0.02)
