"""Distributions made with linear algebra: normal vectors with covariances, orthogonal matrices."""

from __future__ import annotations

from typing import Any

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.arithmetic import add, multiply, sqrt
from mjax._numpy.core import check_array, concrete_int, promote_dtypes_inexact
from mjax._numpy.decompositions import cholesky, eigh, qr, svd
from mjax._numpy.einsum import einsum
from mjax._numpy.matrices import diagonal
from mjax._numpy.random.common import (
    documents,
    fitting_shape,
    inexact_dtype,
    one_key,
    one_of,
    optional_shape,
    sampler,
    shape_argument,
)
from mjax._numpy.random.normal import standard_normal
from mjax._numpy.shapes import expand_dims, matrix_transpose

# ---- normal vectors --------------------------------------------------------------------


def _own_or_float(name: str, dtype: Any) -> Any:
    """A float dtype, or None for that of the parameters."""
    return None if dtype is None else _real(name, dtypes.asked_dtype(dtype, name))


def _real(name: str, dtype: Any) -> Any:
    if not dtypes.is_float(dtype):
        msg = f"dtype argument to `{name}` must be a float dtype, got {dtype}."
        raise ValueError(msg)
    return dtype


def _factor(cov: Any, method: str) -> Any:
    """A matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "svd":
        vectors, values, _ = svd(cov)
    else:
        values, vectors = eigh(cov)
    return multiply(vectors, expand_dims(sqrt(values), -2))


@sampler(shape=optional_shape, dtype=_own_or_float,
         method=one_of("method", "cholesky", "svd", "eigh"))
def _multivariate_normal(key: Any, mean: Any, cov: Any, *, shape: tuple[int, ...] | None,
                         dtype: Any, method: str) -> Any:
    name = "multivariate_normal"
    key = one_key(name, key)
    mean, cov = promote_dtypes_inexact(mean, cov)
    dtype = _real(name, typeof(mean).dtype) if dtype is None else dtype
    own, square = typeof(mean).shape, typeof(cov).shape
    if not own or square[-2:] != (own[-1], own[-1]):
        msg = (f"{name}: for a mean of shape (..., n), cov must have shape (..., n, n); got shapes "
               f"{own} and {square}.")
        raise ValueError(msg)
    shape = fitting_shape(name, shape, [own[:-1], square[:-2]])
    numbers = standard_normal(key, (*shape, own[-1]), dtype)
    return add(mean, einsum("...ij,...j->...i", _factor(cov, method), numbers))


@lays_out
@documents
def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None,
                        method: str = "cholesky") -> Any:
    """Normally distributed vectors with a mean and a covariance.

    Args:
      [key]
      mean: array of shape `(..., n)`.
      cov: symmetric matrices of shape `(..., n, n)`, not negative; for `"cholesky"` positive.
      shape: shape of the batch, to which the parameters' leading axes broadcast, and by default
        theirs.
      dtype: a float dtype, of the numbers drawn; by default that of the parameters.
      method: the factorization of the covariance: `"cholesky"`, `"svd"` or `"eigh"`.

    Returns:
      An array of shape `(*shape, n)`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, shapes that do not fit, an unknown method, or several keys.

    Example:
      >>> random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2), (3,)).shape
      (3, 2)
    """
    return _multivariate_normal(key, check_array("multivariate_normal", mean, 1),
                                check_array("multivariate_normal", cov, 2), shape=shape,
                                dtype=dtype, method=method)


# ---- orthogonal matrices ---------------------------------------------------------------


def _dimension(name: str, n: Any) -> int:
    size = concrete_int(n, f"{name}: a dimension, n or m, which is static under jit,")
    if size < 0:
        msg = f"{name}: n and m must not be negative, got {size}."
        raise ValueError(msg)
    return size


@sampler(n=_dimension, shape=shape_argument, dtype=inexact_dtype, m=_dimension)
def _orthogonal(key: Any, *, n: int, shape: tuple[int, ...], dtype: Any, m: int) -> Any:
    key = one_key("orthogonal", key)
    q, r = qr(standard_normal(key, (*shape, max(n, m), min(n, m)), dtype))
    # A factorization is unique up to signs; with the signs of r, q is uniformly distributed.
    out = multiply(q, expand_dims(lax.sign(diagonal(r, 0, -2, -1)), -2))
    return matrix_transpose(out) if n < m else out


@lays_out
@documents
def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Uniformly distributed orthogonal matrices; for complex dtypes, unitary ones.

    Args:
      [key]
      n: number of rows; static under jit, as is `m`.
      shape: shape of the batch.
      dtype: a float or complex dtype; by default float32, or float64 in x64 mode.
      m: number of columns; by default `n`. If there are fewer rows than columns, rows are
        orthonormal, else columns.

    Returns:
      An array of shape `(*shape, n, m)`.

    Raises:
      TypeError: `key` is not a key, or a size is not an integer.
      ValueError: another kind of dtype, a negative size, or several keys.

    Source: Mezzadri 2007, "How to generate random matrices from the classical compact groups".

    Example:
      >>> q = random.orthogonal(random.key(0), 3)
      >>> bool(jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-5))
      True
    """
    return _orthogonal(key, n=n, shape=shape, dtype=dtype, m=n if m is None else m)


__all__ = ["multivariate_normal", "orthogonal"]
