"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.cholesky import cholesky
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.shapes import array_of, expand_dims, reshape
from mjax._numpy.core import broadcast_to, cast, check_arrays, common_shape, promote_dtypes_inexact
from mjax._numpy.fused import fused
from mjax._numpy.matrices import diagonal
from mjax._numpy.reductions import sum

_DOC = {
    "arguments": "Args:\n  x: array of points, of shape `(..., n)`.\n"
                 "  mean: array of shape `(..., n)`; for numbers, a scalar.\n"
                 "  cov: array of covariances, of shape `(..., n, n)`, positive definite; or a "
                 "scalar, the\n    variance of each coordinate.",
    "gives": "Returns:\n  An array of shape `(...)`; NaN where a covariance is not positive "
             "definite.\n\nRaises:\n  ValueError: `cov` is not a scalar, and its shape does not "
             "end with `(n, n)`.",
    "source": "Source: `scipy.stats.multivariate_normal`, by Cholesky factors. Singular "
              "covariances are\nnot supported.",
}
_LOG_TURN = math.log(2 * math.pi)


def _log_density(name: str, x: Any, mean: Any, cov: Any) -> Any:
    x, mean, cov = map(array_of, promote_dtypes_inexact(*check_arrays(name, x, mean, cov)))
    shape, matrix = typeof(mean).shape, typeof(cov).shape
    if not shape:
        return -0.5 * lax.square(x - mean) / cov - 0.5 * (_LOG_TURN + lax.log(cov))
    n = shape[-1]
    if not matrix:
        return -0.5 * _square_norm(x - mean) / cov - n / 2 * (_LOG_TURN + lax.log(cov))
    if len(matrix) < 2 or matrix[-2:] != (n, n):
        msg = (f"{name}: cov must be a scalar or of shape (..., {n}, {n}) for a mean of shape "
               f"{shape}, got shape {matrix}.")
        raise ValueError(msg)
    try:
        common_shape([(*typeof(x).shape[:-1], n), shape, (*matrix[:-2], n)])
        common_shape([typeof(x).shape, shape])
    except ValueError:
        raise LazyArgumentError(lambda: (
            f"{name}: x, mean and cov must have shapes (..., n), (..., n) and (..., n, n), with "
            f"leading axes that broadcast, got {typeof(x).shape}, {shape} and {matrix}.")) from None
    factor = cholesky(cov)
    white = _whitened(factor, x - mean)
    root = sum(lax.log(diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -0.5 * _square_norm(white) - n / 2 * _LOG_TURN - root


def _square_norm(y: Any) -> Any:
    """Sums of squares along the last axis; weakly typed if the vectors are."""
    total = sum(lax.square(y), -1)
    return cast(total, typeof(total).dtype, typeof(y).weak_type)


def _whitened(factor: Any, y: Any) -> Any:
    """`inv(factor) @ y` for each vector."""
    shape, matrix = typeof(y).shape, typeof(factor).shape
    if len(matrix) == 2:
        rows = reshape(y, (math.prod(shape[:-1]), shape[-1]))
        return reshape(triangular_solve(factor, rows, lower=True, transpose_a=True), shape)
    batch = common_shape([shape[:-1], matrix[:-2]])
    factor = broadcast_to(factor, (*batch, *matrix[-2:]))
    rows = expand_dims(broadcast_to(y, (*batch, shape[-1])), (len(batch),))
    out = triangular_solve(factor, rows, lower=True, transpose_a=True)
    return reshape(out, (*batch, shape[-1]))


@fused(static_argnames=("allow_singular",))
@documented(**_DOC)
def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    """Logarithm of the density of the multivariate normal distribution.

    [arguments]
      allow_singular: not supported.

    [gives]
      NotImplementedError: `allow_singular` is given.

    [source]

    Example:
      >>> x, mean, cov = jnp.ones(2), jnp.zeros(2), jnp.eye(2)
      >>> print(f"{mjax.scipy.stats.multivariate_normal.logpdf(x, mean, cov):.4f}")
      -2.8379
    """
    if allow_singular is not None:
        msg = ("multivariate_normal.logpdf: allow_singular is not supported: covariances must be "
               "positive definite.")
        raise NotImplementedError(msg)
    return _log_density("multivariate_normal.logpdf", x, mean, cov)


@fused
@documented(**_DOC)
def pdf(x: Any, mean: Any, cov: Any) -> Any:
    """Density of the multivariate normal distribution.

    [arguments]

    [gives]

    [source]

    Example:
      >>> x, mean, cov = jnp.ones(2), jnp.zeros(2), jnp.eye(2)
      >>> print(f"{mjax.scipy.stats.multivariate_normal.pdf(x, mean, cov):.4f}")
      0.0585
    """
    return lax.exp(_log_density("multivariate_normal.pdf", x, mean, cov))
