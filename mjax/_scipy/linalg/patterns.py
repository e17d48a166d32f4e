"""Structured matrices built from vectors: Toeplitz, Hankel, companion and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.core import (
    broadcast_shapes,
    broadcast_to,
    cast,
    check_array,
    check_arrays,
    concrete_int,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.padding import pad
from mjax._numpy.reordering import flip
from mjax._numpy.rounding import conj
from mjax._numpy.selecting import where
from mjax._numpy.shapes import atleast_1d, atleast_2d
from mjax._numpy.taking import take

_documented = documented(
    not_array="TypeError: an argument is not an array or scalar.",
)


def _vector(name: str, x: Any, position: int = 0) -> Any:
    return atleast_1d(array_of(check_array(name, x, position)))


def _joined(a: Any, b: Any) -> Any:
    """Concatenates vectors in their common dtype; leading axes broadcast."""
    a, b = map(array_of, promote_dtypes(a, b))
    stack = broadcast_shapes(shape_of(a)[:-1], shape_of(b)[:-1])
    return concatenate([broadcast_to(x, (*stack, shape_of(x)[-1])) for x in (a, b)], -1)


def _picked(x: Any, places: np.ndarray[Any, Any]) -> Any:
    """Gathers elements of vectors into matrices; empty if `places` is empty."""
    return take(x, places, -1, mode="clip") if places.size else broadcast_to(
        np.zeros((), typeof(x).dtype), (*shape_of(x)[:-1], *places.shape))


def _grid(rows: int, columns: int) -> tuple[Any, Any]:
    """The indices of rows, as a column, and of columns."""
    return np.arange(rows)[:, None], np.arange(columns)


# ---- constant diagonals ----------------------------------------------------------------


@fused
@_documented
def toeplitz(c: Any, r: Any = None) -> Any:
    """Matrices with constant diagonals.

    Args:
      c: the first column, of shape `(..., m)`; a scalar is a column of one element.
      r: the first row, of shape `(..., n)`, whose first element has no effect; the conjugate of `c`
        by default. Leading axes broadcast.

    Returns:
      Matrices of shape `(..., m, n)`.

    Raises:
      [not_array]

    Source: `scipy.linalg.toeplitz`.

    Example:
      >>> mjax.scipy.linalg.toeplitz(jnp.array([1, 2, 3]))
      Array([[1, 2, 3],
             [2, 1, 2],
             [3, 2, 1]], dtype=int32)
    """
    c = _vector("toeplitz", c)
    return _constant_diagonals(c, conj(c) if r is None else _vector("toeplitz", r, 1))


def _constant_diagonals(c: Any, r: Any) -> Any:
    i, j = _grid(shape_of(c)[-1], shape_of(r)[-1])
    m = len(i)
    elements = _joined(flip(c, -1), r[..., 1:])
    return cast(_picked(elements, m - 1 - i + j), typeof(elements).dtype)


@fused
@_documented
def hankel(c: Any, r: Any = None) -> Any:
    """Matrices with constant antidiagonals.

    Args:
      c: the first column, of shape `(..., m)`.
      r: the last row, of shape `(..., n)`, whose first element has no effect; zeros by default.
        Leading axes broadcast.

    Returns:
      Matrices of shape `(..., m, n)`.

    Raises:
      [not_array]
      ValueError: an argument is a scalar.

    Source: `scipy.linalg.hankel`.

    Example:
      >>> mjax.scipy.linalg.hankel(jnp.array([1, 2, 3]))
      Array([[1, 2, 3],
             [2, 3, 0],
             [3, 0, 0]], dtype=int32)
    """
    c = array_of(check_array("hankel", c))
    r = np.zeros(shape_of(c), typeof(c).dtype) if r is None else check_array("hankel", r, 1)
    for name, x in (("c", c), ("r", r)):
        if not shape_of(x):
            msg = f"hankel: {name} must have at least one axis, got a scalar."
            raise ValueError(msg)
    i, j = _grid(shape_of(c)[-1], shape_of(r)[-1])
    return _picked(_joined(c, array_of(r)[..., 1:]), i + j)


@fused
@_documented
def circulant(c: Any) -> Any:
    """Circulant matrices: each column is the previous one, rotated down by one element.

    Args:
      c: the first column, of shape `(..., n)`.

    Returns:
      Matrices of shape `(..., n, n)`.

    Raises:
      [not_array]

    Source: `scipy.linalg.circulant`.

    Example:
      >>> mjax.scipy.linalg.circulant(jnp.array([1, 2, 3]))
      Array([[1, 3, 2],
             [2, 1, 3],
             [3, 2, 1]], dtype=int32)
    """
    c = _vector("circulant", c)
    i, j = _grid(shape_of(c)[-1], shape_of(c)[-1])
    return _picked(c, (i - j) % max(len(j), 1))


@fused(static_argnames=("n", "mode"))
@_documented
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix whose product with a vector convolves it with `a`.

    Args:
      a: vectors of shape `(..., m)`.
      n: the number of columns, the length of the vectors to be convolved.
      mode: which part of the convolution: `"full"`, `"same"` or `"valid"`; see `jnp.convolve`.

    Returns:
      Matrices of shape `(..., k, n)`: k is `m + n - 1`, `max(m, n)` or `max(m, n) - min(m, n) + 1`.

    Raises:
      [not_array]
      ValueError: `n` is not positive, `a` is empty or a scalar, or `mode` is unknown.

    Source: `scipy.linalg.convolution_matrix`.

    Example:
      >>> mjax.scipy.linalg.convolution_matrix(jnp.array([1, 2]), 2)
      Array([[1, 0],
             [2, 1],
             [0, 2]], dtype=int32)
    """
    n = concrete_int(n, "convolution_matrix: n")
    a = array_of(check_array("convolution_matrix", a))
    shape = shape_of(a)
    if n <= 0:
        msg = f"convolution_matrix: n must be positive, got {n}."
        raise ValueError(msg)
    if not shape or not shape[-1]:
        msg = f"convolution_matrix: a must have elements along its last axis, got shape {shape}."
        raise ValueError(msg)
    if mode not in ("full", "same", "valid"):
        msg = f"convolution_matrix: mode must be 'full', 'same' or 'valid', got {mode!r}."
        raise ValueError(msg)
    shorter = min(shape[-1], n) - 1
    before = {"full": 0, "same": shorter // 2, "valid": shorter}[mode]
    after = {"full": 0, "same": shorter - shorter // 2, "valid": shorter}[mode]
    # The final zero represents all elements outside.
    padded = pad(a, [(0, 0)] * (len(shape) - 1) + [(0, 1)])
    i, j = _grid(shape[-1] + n - 1 - after - before, n)
    places = i + before - j
    padded = cast(padded, typeof(a).dtype)
    return _picked(padded, np.where((places < 0) | (places > shape[-1]), shape[-1], places))


# ---- a given row or diagonal -----------------------------------------------------------


@fused
@_documented
def leslie(f: Any, s: Any) -> Any:
    """Leslie matrices of population growth.

    Args:
      f: fecundities, the first row, of shape `(..., n)`, `n >= 2`.
      s: survival rates, below the diagonal, of shape `(..., n - 1)`.

    Returns:
      Matrices of shape `(..., n, n)`.

    Raises:
      [not_array]
      ValueError: the shapes do not match.

    Source: `scipy.linalg.leslie`.

    Example:
      >>> mjax.scipy.linalg.leslie(jnp.array([1.0, 2.0]), jnp.array([0.5]))
      Array([[1. , 2. ],
             [0.5, 0. ]], dtype=float32)
    """
    f, s = [atleast_1d(array_of(x)) for x in promote_dtypes(*check_arrays("leslie", f, s))]
    n = shape_of(f)[-1]
    if n < 2 or shape_of(s)[-1] != n - 1:
        msg = (f"leslie: f and s must have shapes (..., n) and (..., n - 1) with n >= 2, got "
               f"{shape_of(f)} and {shape_of(s)}.")
        raise ValueError(msg)
    return _with_first_row(f, s, n)


def _with_first_row(first: Any, below: Any, n: int) -> Any:
    """Matrices with this first row and this subdiagonal, otherwise zero."""
    stack = broadcast_shapes(shape_of(first)[:-1], shape_of(below)[:-1])
    first, below = [broadcast_to(x, (*stack, shape_of(x)[-1])) for x in (first, below)]
    i, j = _grid(n - 1, n)
    return concatenate([first[..., None, :], where(i == j, below[..., None], 0)], -2)


@fused
@_documented
def companion(a: Any) -> Any:
    """Companion matrices, whose eigenvalues are the roots of polynomials.

    Args:
      a: coefficients from that of the highest power down, of shape `(..., n)`, `n >= 2`; the first
        must not be 0.

    Returns:
      Inexact matrices of shape `(..., n - 1, n - 1)`.

    Raises:
      [not_array]
      ValueError: there are fewer than two coefficients.

    Source: `scipy.linalg.companion`.

    Example:
      >>> mjax.scipy.linalg.companion(jnp.array([1.0, -3.0, 2.0]))
      Array([[ 3., -2.],
             [ 1.,  0.]], dtype=float32)
    """
    a = _coefficients("companion", a, 2)
    n = shape_of(a)[-1] - 1
    return _with_first_row(-a[..., 1:] / a[..., :1], np.ones(n - 1, typeof(a).dtype), n)


def _coefficients(name: str, a: Any, least: int) -> Any:
    (a,) = promote_dtypes_inexact(check_array(name, a))
    a = atleast_1d(array_of(a))
    if shape_of(a)[-1] < least:
        msg = f"{name}: a must have at least {least} elements, got shape {shape_of(a)}."
        raise ValueError(msg)
    return a


@fused
@_documented
def fiedler(a: Any) -> Any:
    """Matrices of the distances between numbers.

    Args:
      a: numbers, of shape `(..., n)`.

    Returns:
      Matrices of shape `(..., n, n)` with elements `abs(a[i] - a[j])`.

    Raises:
      [not_array]

    Source: `scipy.linalg.fiedler`.

    Example:
      >>> mjax.scipy.linalg.fiedler(jnp.array([1, 4]))
      Array([[0, 3],
             [3, 0]], dtype=int32)
    """
    a = _vector("fiedler", a)
    return absolute(a[..., None] - a[..., None, :])


@fused
@_documented
def fiedler_companion(a: Any) -> Any:
    """Fiedler companion matrices: five diagonals, eigenvalues at the roots of polynomials.

    Args:
      a: coefficients from that of the highest power down, of shape `(..., n)`, `n >= 1`; the first
        must not be 0.

    Returns:
      Inexact matrices of shape `(..., n - 1, n - 1)`.

    Raises:
      [not_array]
      ValueError: `a` is empty or a scalar.

    Source: `scipy.linalg.fiedler_companion`; M. Fiedler, "A note on companion matrices", 2003.

    Example:
      >>> mjax.scipy.linalg.fiedler_companion(jnp.array([1.0, -3.0, 2.0]))
      Array([[ 3., -2.],
             [ 1.,  0.]], dtype=float32)
    """
    a = _coefficients("fiedler_companion", a, 1)
    n = shape_of(a)[-1] - 1
    if not n:
        return a[..., None, :0][..., :0, :]
    # Indices into the vector of 0, 1 and the coefficients.
    places = np.zeros((n, n + 2), np.int32)  # the last two columns are dropped
    for i in range(n):
        if i % 2:
            places[i, max(i - 2, 0)] = 1
        else:
            places[i, i + 1] = i + 3
            places[i, i + 2] = 1
            places[i, max(i - 1, 0)] = i + 2
    parts = _joined(np.array([0, 1], typeof(a).dtype), -a[..., 1:] / a[..., :1])
    return _picked(parts, places[:, :n])


# ---- blocks ----------------------------------------------------------------------------


@fused
@_documented
def block_diag(*arrs: Any) -> Any:
    """A block diagonal matrix.

    Args:
      arrs: the blocks; vectors count as rows, scalars as matrices of one element.

    Returns:
      A matrix of the common dtype, with the rows and the columns of all blocks; of shape `(1, 0)`
      without blocks.

    Raises:
      ValueError: an array has more than two axes.
      TypeError: an argument is not an array or scalar.

    Source: `scipy.linalg.block_diag`.

    Example:
      >>> mjax.scipy.linalg.block_diag(jnp.array([[1, 2]]), 3)
      Array([[1, 2, 0],
             [0, 0, 3]], dtype=int32)
    """
    arrays = [array_of(x) for x in promote_dtypes(*check_arrays("block_diag", *(
        arrs or (np.zeros((1, 0), dtypes.dtype_of_python(float)),))))]
    for i, x in enumerate(arrays):
        if typeof(x).ndim > 2:
            msg = f"block_diag: arrays must have at most two axes, got {typeof(x)} at position {i}."
            raise ValueError(msg)
    blocks = [cast(atleast_2d(x), typeof(x).dtype) for x in arrays]
    ends = np.cumsum([shape_of(x)[1] for x in blocks])
    return concatenate([pad(x, [(0, 0), (int(end) - shape_of(x)[1], int(ends[-1] - end))])
                        for x, end in zip(blocks, ends, strict=True)], 0)


__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "fiedler", "fiedler_companion",
    "hankel", "leslie", "toeplitz",
]
