"""Matrices with a structure: identities, triangles, diagonals, and their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import max_dim
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.iota import iota_p
from mjax._engine.primitives.shapes import (
    array_of,
    broadcast_in_dim_p,
    expand_dims,
    reshape,
    transpose,
)
from mjax._engine.primitives.slicing import diagonal as diagonal_of_square
from mjax._engine.primitives.slicing import pad_p, slice_p
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    choose,
    concrete_int,
    concrete_size,
    dtype_argument,
    refuse_out,
)
from mjax._numpy.creation import array, asarray, filled, on_device
from mjax._numpy.fused import fused
from mjax._numpy.reductions import sum as _sum

_INT32 = np.dtype(np.int32)


def _size(x: Any, name: str) -> int:
    return max_dim(concrete_size(x, name), 0)


def _on_diagonal(rows: int, columns: int, k: Any, compare: Any) -> Any:
    """Whether `column - row` compares this way to `k`, of shape `(rows, columns)`."""
    row = iota_p.bind(dtype=_INT32, shape=(rows, columns), dimension=0)
    column = iota_p.bind(dtype=_INT32, shape=(rows, columns), dimension=1)
    # All diagonals outside of the matrix are equivalent; the nearest ones fit into int32.
    if isinstance(k, int):
        k = np.int32(min(max(k, -rows - 1), columns + 1))
    return compare(lax.add(row, k), column)


def _diagonal_number(k: Any, name: str) -> Any:
    """The number of a diagonal: an int, or a traced integer as int32.

    Raises:
      TypeError: it is not an integer; a ValueError too if it is traced.
    """
    k = check_array(name, k, "k") if hasattr(k, "__jax_array__") else k
    if not isinstance(k, Tracer) or k.concrete() is not None:
        return concrete_int(k, f"{name}: k")
    if dtypes.kind(typeof(k).dtype) not in "iu" or typeof(k).shape:
        msg = f"{name}: k must be an integer, got {typeof(k)}."
        raise LazyArgumentError(msg)
    return cast(k, _INT32)


# ---- identities and triangles ----------------------------------------------------------


@boundary
def eye(N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
      N: number of rows.
      M: number of columns; `N` if not given.
      k: which diagonal: 0 the main one, positive above, negative below it.
      dtype: its dtype; the default float if not given.
      device: the device to put it on.

    Returns:
      An array of shape `(N, M)`.

    Raises:
      TypeError: a size is not an integer.
      ValueError: a size is negative.

    Source: `numpy.eye`.

    Example:
      >>> jnp.eye(2, 3, k=1, dtype=int)
      Array([[0, 1, 0],
             [0, 0, 1]], dtype=int32)
    """
    rows = concrete_size(N, "eye: N")
    columns = rows if M is None else concrete_size(M, "eye: M")
    if rows < 0 or columns < 0:
        msg = f"eye: negative dimensions are not allowed, got {rows} rows and {columns} columns."
        raise ValueError(msg)
    dtype = dtype_argument(float if dtype is None else dtype, "eye")
    return on_device(_eye(rows, columns, _diagonal_number(k, "eye"), dtype), device)


def _eye(rows: int, columns: int, k: Any, dtype: Any) -> Any:
    known = _known_diagonal if isinstance(k, int) else _traced_diagonal
    return known(k, rows, columns, dtype, lax.eq)


def _diagonal_mask(k: Any, rows: int, columns: int, dtype: Any, compare: Any) -> Any:
    return convert(_on_diagonal(rows, columns, k, compare), dtype)


_known_diagonal = fused(_diagonal_mask, static_argnames=(
    "k", "rows", "columns", "dtype", "compare"))
_traced_diagonal = fused(_diagonal_mask, static_argnames=("rows", "columns", "dtype", "compare"))


@boundary
def identity(n: int, dtype: Any = None) -> Any:
    """The identity matrix of shape `(n, n)`.

    Args:
      n: number of rows.
      dtype: its dtype; the default float if not given.

    Returns:
      A matrix.

    Raises:
      TypeError: a size is not an integer.

    Source: `numpy.identity`.

    Example:
      >>> jnp.identity(2)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


@boundary
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """A matrix with ones on and below a diagonal and zeros above it.

    Args:
      N: number of rows.
      M: number of columns; `N` if not given.
      k: which diagonal.
      dtype: its dtype; the default float if not given.

    Returns:
      An array of shape `(N, M)`.

    Raises:
      TypeError: a size is not an integer.

    Source: `numpy.tri`.

    Example:
      >>> jnp.tri(2, 3)
      Array([[1., 0., 0.],
             [1., 1., 0.]], dtype=float32)
    """
    rows = _size(N, "tri: N")
    columns = rows if M is None else _size(M, "tri: M")
    dtype = dtype_argument(float if dtype is None else dtype, "tri")
    k = _diagonal_number(k, "tri")
    known = _known_diagonal if isinstance(k, int) else _traced_diagonal
    return known(k, rows, columns, dtype, lax.ge)


def _triangle(name: str, m: Any, k: int, upper: bool) -> Any:
    shape = typeof(m).shape
    if len(shape) < 2:
        msg = f"{name} needs an array of at least two axes, got shape {shape}."
        raise ValueError(msg)
    k = concrete_int(k, f"{name}: k")
    kept = _on_diagonal(shape[-2], shape[-1], k - upper, lax.lt if upper else lax.ge)
    zero = _c(m, 0)
    return choose(broadcast_to(kept, shape), array_of(m), zero)


@fused(values=("m",), static_argnames=("k",))
def tril(m: Any, k: int = 0) -> Any:
    """The lower triangle of matrices; zeros above it.

    Args:
      m: array of shape `(..., n, m)`.
      k: the last diagonal that is kept.

    Returns:
      An array of the shape of `m`.

    Raises:
      ValueError: `m` has less than two axes.

    Source: `numpy.tril`.

    Example:
      >>> jnp.tril(jnp.array([[1, 2], [3, 4]]))
      Array([[1, 0],
             [3, 4]], dtype=int32)
    """
    return _triangle("tril", m, k, False)


@fused(values=("m",), static_argnames=("k",))
def triu(m: Any, k: int = 0) -> Any:
    """The upper triangle of matrices; zeros below it.

    Args:
      m: array of shape `(..., n, m)`.
      k: the first diagonal that is kept.

    Returns:
      An array of the shape of `m`.

    Raises:
      ValueError: `m` has less than two axes.

    Source: `numpy.triu`.

    Example:
      >>> jnp.triu(jnp.array([[1, 2], [3, 4]]))
      Array([[1, 2],
             [0, 4]], dtype=int32)
    """
    return _triangle("triu", m, k, True)


# ---- diagonals -------------------------------------------------------------------------


@fused(values=("a",), static_argnames=("offset", "axis1", "axis2"))
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A diagonal of matrices.

    Args:
      a: array of at least two axes.
      offset: which diagonal: 0 the main one, positive above, negative below it.
      axis1: the axis of rows.
      axis2: the axis of columns.

    Returns:
      An array without these two axes, with the diagonal as last axis.

    Raises:
      ValueError: `a` has less than two axes; the axes are equal or out of range.

    Source: `numpy.diagonal`.

    Example:
      >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)
    """
    ndim = typeof(a).ndim
    if ndim < 2:
        msg = f"diagonal needs an array of at least two axes, got shape {typeof(a).shape}."
        raise ValueError(msg)
    axes = [canonicalize_axis(x, ndim) for x in (axis1, axis2)]
    if axes[0] == axes[1]:
        raise LazyArgumentError(lambda: (
            f"diagonal: axis1 and axis2 must be different, both are {axis1}."))
    a = transpose(a, [i for i in range(ndim) if i not in axes] + axes)
    return _diagonal(array_of(a), concrete_int(offset, "diagonal: offset"))


def _diagonal(a: Any, k: int) -> Any:
    """The k-th diagonal of the last two axes, of `size` elements."""
    *batch, rows, columns = a.shape
    if rows == columns and k == 0:
        a = cast(a, a.dtype)  # JAX keeps the weak type of other diagonals
    row, column = min(max(-k, 0), rows), min(max(k, 0), columns)
    size, rank = max(min(rows - row, columns - column), 0), len(batch)
    square = slice_p.bind(a, start_indices=(0,) * rank + (row, column), strides=None,
                          limit_indices=(*batch, row + size, column + size))
    return diagonal_of_square(square)


@boundary
def diag(v: Any, k: int = 0) -> Any:
    """A diagonal of a matrix, or the matrix with a given diagonal.

    Args:
      v: array of two axes, or of one.
      k: which diagonal: 0 the main one, positive above, negative below it.

    Returns:
      An array of one axis, or of shape `(n + |k|, n + |k|)`.

    Raises:
      ValueError: `v` has neither one nor two axes.

    Source: `numpy.diag`.

    Example:
      >>> jnp.diag(jnp.array([1, 2]))
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    v = check_array("diag", v)
    return _diag(v, concrete_int(k, "diag: k"))


@fused(static_argnames=("k",))
def _diag(v: Any, k: int) -> Any:
    ndim = typeof(v).ndim
    if ndim == 2:
        return _diagonal(array_of(v), k)
    if ndim != 1:
        msg = f"diag needs an array of one or two axes, got shape {typeof(v).shape}."
        raise ValueError(msg)
    return _matrix_of(v, k)


def _matrix_of(v: Any, k: int) -> Any:
    """The square matrix whose k-th diagonal is `v`."""
    size = typeof(v).shape[0] + (k if k > 0 else -k)
    dtype = typeof(v).dtype
    zero = filled((), 0, dtype) if dtypes.is_extended(dtype) else _c(v, 0)
    shifted = pad_p.bind(v, zero, padding_config=((max(-k, 0), max(k, 0), 0),))
    column = broadcast_in_dim_p.bind(shifted, shape=(size, size), broadcast_dimensions=(0,))
    return choose(_on_diagonal(size, size, k, lax.eq), column, zero)


@fused(values=("v",), static_argnames=("k",))
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix whose diagonal holds the elements of an array in row-major order.

    Args:
      v: array or scalar.
      k: which diagonal.

    Returns:
      An array of shape `(n + |k|, n + |k|)`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.diagflat`.

    Example:
      >>> jnp.diagflat(jnp.array([[1, 2]]))
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    v = cast(v, typeof(v).dtype)
    return _matrix_of(reshape(v, (typeof(v).size,)), concrete_int(k, "diagflat: k"))


@fused(values=("a",), static_argnames=("offset", "axis1", "axis2", "dtype", "out"))
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
          out: None = None) -> Any:
    """The sum of a diagonal of matrices.

    Args:
      a: array of at least two axes.
      offset: which diagonal; it may be traced.
      axis1: the axis of rows.
      axis2: the axis of columns.
      dtype: dtype of the sum.
      out: not supported.

    Returns:
      An array without these two axes.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.trace`.

    Example:
      >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
      Array(5, dtype=int32)
    """
    refuse_out("trace", out)
    if isinstance(offset, Tracer) and offset.concrete() is None:
        # The size of the diagonal is not known, but the sum is.
        axes = [canonicalize_axis(x, typeof(a).ndim) for x in (axis1, axis2)]
        on = eye(*(typeof(a).shape[axis] for axis in axes), k=_diagonal_number(offset, "trace"),
                 dtype=bool)
        others = [i for i in range(typeof(a).ndim) if i not in axes]
        on = expand_dims(on if axes[0] < axes[1] else on.T, others)
        return _sum(a, axis=tuple(axes), dtype=dtype, where=on)
    return _sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


# ---- indices ---------------------------------------------------------------------------


def _index_arrays(pair: tuple[np.ndarray[Any, Any], ...]) -> tuple[Any, ...]:
    return tuple(asarray(i.astype(np.int64), int) for i in pair)


def _integers_of_triangle(name: str, n: Any, k: Any, m: Any) -> tuple[int, int, int | None]:
    return (concrete_int(n, f"{name}: n"), concrete_int(k, f"{name}: k"),
            None if m is None else concrete_int(m, f"{name}: m"))


@boundary
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Indices of the lower triangle of a matrix of shape `(n, m)`.

    Args:
      n: number of rows.
      k: the last diagonal that counts.
      m: number of columns; `n` if not given.

    Returns:
      A pair of arrays, of row and of column indices.

    Raises:
      TypeError: a size is not an integer.

    Source: `numpy.tril_indices`.

    Example:
      >>> jnp.tril_indices(2)
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _index_arrays(np.tril_indices(*_integers_of_triangle("tril_indices", n, k, m)))


@boundary
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Indices of the upper triangle of a matrix of shape `(n, m)`.

    Args:
      n: number of rows.
      k: the first diagonal that counts.
      m: number of columns; `n` if not given.

    Returns:
      A pair of arrays, of row and of column indices.

    Raises:
      TypeError: a size is not an integer.

    Source: `numpy.triu_indices`.

    Example:
      >>> jnp.triu_indices(2)
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _index_arrays(np.triu_indices(*_integers_of_triangle("triu_indices", n, k, m)))


def _matrix_shape(name: str, arr: Any) -> tuple[int, ...]:
    shape = typeof(check_array(name, arr)).shape
    if len(shape) != 2:
        msg = f"{name} needs an array of two axes, got shape {shape}."
        raise ValueError(msg)
    return shape


@boundary
def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Indices of the lower triangle of a matrix of the shape of `arr`.

    Args:
      arr: array of two axes.
      k: the last diagonal that counts.

    Returns:
      Two vectors of integers: rows and columns.

    Raises:
      ValueError: `arr` has another number of axes.

    Source: `numpy.tril_indices_from`.

    Example:
      >>> jnp.tril_indices_from(jnp.zeros((2, 2)))
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, m = _matrix_shape("tril_indices_from", arr)
    return tril_indices(n, k, m)


@boundary
def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Indices of the upper triangle of a matrix of the shape of `arr`.

    Args:
      arr: array of two axes.
      k: the first diagonal that counts.

    Returns:
      Two vectors of integers: rows and columns.

    Raises:
      ValueError: `arr` has another number of axes.

    Source: `numpy.triu_indices_from`.

    Example:
      >>> jnp.triu_indices_from(jnp.zeros((2, 2)))
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, m = _matrix_shape("triu_indices_from", arr)
    return triu_indices(n, k, m)


@boundary
def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Indices of the main diagonal of an array of `ndim` axes of size `n`.

    Args:
      n: size of each axis.
      ndim: number of axes.

    Returns:
      A tuple of `ndim` equal arrays.

    Raises:
      TypeError: a size is not an integer.

    Source: `numpy.diag_indices`.

    Example:
      >>> jnp.diag_indices(2)
      (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = concrete_int(n, "diag_indices: n"), concrete_int(ndim, "diag_indices: ndim")
    if n < 0 or ndim < 0:
        msg = f"diag_indices: n and ndim must not be negative, got {n} and {ndim}."
        raise ValueError(msg)
    return (array(np.arange(n), dtype=int),) * ndim


@boundary
def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Indices of the main diagonal of an array whose axes all have one size.

    Args:
      arr: array of at least two axes.

    Returns:
      A tuple of vectors of integers, one for each axis.

    Raises:
      ValueError: it has fewer axes, or sizes differ.

    Source: `numpy.diag_indices_from`.

    Example:
      >>> jnp.diag_indices_from(jnp.zeros((2, 2)))
      (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = typeof(check_array("diag_indices_from", arr)).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        msg = f"diag_indices_from needs two or more axes of one size, got shape {shape}."
        raise ValueError(msg)
    return diag_indices(shape[0], len(shape))
