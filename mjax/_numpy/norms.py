"""Norms of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import abs as absolute
from mjax._engine.primitives.arithmetic import add, imag, mul, ne, pow, real, sqrt
from mjax._engine.primitives.reductions import reduce_max, reduce_min
from mjax._engine.primitives.shapes import as_settled, expand_dims, reduce_sum, transpose
from mjax._numpy.core import cast, promote_dtypes_inexact, shape_of, wide_dtype
from mjax._numpy.decompositions import svd
from mjax._numpy.fused import fused


def _operand(x: Any, axis: Any) -> tuple[Any, tuple[int, ...], Any]:
    """The array in the dtype of the computation, which is not weak; the axes; the result's dtype.

    Norms of 16-bit floats are computed in 32 bits: squares overflow from 256 on, and sums lose
    digits.
    """
    (x,) = promote_dtypes_inexact(x)
    dtype = typeof(x).dtype
    axes = tuple(axis) if isinstance(axis, Sequence) else axis
    return (cast(x, wide_dtype(dtype)), canonicalize_axes(axes, typeof(x).ndim),
            dtypes.real_dtype(dtype))


def _squares(x: Any) -> Any:
    """The squares of absolute values."""
    if not dtypes.is_complex(typeof(x).dtype):
        return mul(x, x)
    re, im = real(x), imag(x)
    return add(mul(re, re), mul(im, im))


def _kept(out: Any, axes: Sequence[int], keepdims: bool, dtype: Any) -> Any:
    out = cast(out, dtype)
    return expand_dims(out, sorted(axes)) if keepdims else out


def _vector_norm(x: Any, axes: tuple[int, ...], ord: Any) -> Any:
    if ord is None or ord == 2:
        return sqrt(reduce_sum(_squares(x), axes))
    if isinstance(ord, str):
        msg = f"invalid order {ord!r} for a vector norm: give a number."
        raise ValueError(msg)
    if ord == 0:
        zero = np.zeros((), typeof(x).dtype)
        return reduce_sum(cast(ne(x, zero), dtypes.real_dtype(typeof(x).dtype)), axes)
    sizes = absolute(x)
    if abs(ord) == np.inf:
        return _extreme(sizes, axes, ord > 0)
    if ord == 1:
        return reduce_sum(sizes, axes)
    number = lambda value: as_settled(np.asarray(value).astype(typeof(sizes).dtype)[()])
    return pow(reduce_sum(pow(sizes, number(ord)), axes), number(1 / ord))


def _matrix_norm(x: Any, axes: tuple[int, ...], ord: Any) -> Any:
    if ord in (None, "fro"):
        return sqrt(reduce_sum(_squares(x), axes))
    if ord in (2, -2, "nuc"):
        return _of_singular_values(x, axes, ord)
    if ord not in (1, -1, np.inf, -np.inf):
        msg = f"invalid order {ord!r} for a matrix norm: it is 'fro', 'nuc', ±1, ±2 or ±inf."
        raise ValueError(msg)
    # The greatest or least sum, of columns for 1, of rows for infinity.
    rows, columns = axes
    summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = reduce_sum(absolute(x), (summed,))
    return _extreme(sums, (chosen - (chosen > summed),), ord > 0)


def _of_singular_values(x: Any, axes: tuple[int, ...], ord: Any) -> Any:
    others = [i for i in range(typeof(x).ndim) if i not in axes]
    values = svd(transpose(x, (*others, *axes)), compute_uv=False)
    if ord == "nuc":
        return reduce_sum(values, (len(others),))
    return _extreme(values, (len(others),), ord > 0)


def _extreme(sizes: Any, axes: tuple[int, ...], greatest: bool) -> Any:
    """The greatest or least of non-negative numbers; the greatest of an empty set is 0."""
    shape = typeof(sizes).shape
    if any(shape[i] == 0 for i in axes):
        if not greatest:
            msg = f"norm: the least element of an empty array of shape {shape} is not defined."
            raise ValueError(msg)
        return reduce_sum(sizes, axes)
    return (reduce_max if greatest else reduce_min)(sizes, axes)


@fused(values=("x",), static_argnames=("ord", "axis", "keepdims"))
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norm of a vector or matrix.

    Args:
      x: array.
      ord: the order: for vectors a number `p`, for `sum(abs(x)**p)**(1/p)`, including infinities
        and 0; for matrices `"fro"`, `"nuc"`, 1, -1, 2, -2, inf or -inf. By default the root of
        the sum of squares.
      axis: the axis of the vectors, or the two axes of the matrices; by default all.
      keepdims: whether the axes stay, with size 1.

    Returns:
      A real array without these axes.

    Raises:
      ValueError: the norm does not exist, or there are more than two axes.

    Source: `numpy.linalg.norm`.

    Example:
      >>> jnp.linalg.norm(jnp.array([3., 4.]))
      Array(5., dtype=float32)
    """
    x, axes, dtype = _operand(x, axis)
    if ord is None and axis is None:
        return _kept(sqrt(reduce_sum(_squares(x), axes)), axes, keepdims, dtype)
    if len(axes) not in (1, 2):
        msg = (f"norm: improper number of axes: {axes} of an array of shape {shape_of(x)}; one "
               "axis gives a vector norm, two give a matrix norm.")
        raise ValueError(msg)
    compute = _vector_norm if len(axes) == 1 else _matrix_norm
    return _kept(compute(x, axes, ord), axes, keepdims, dtype)


@fused(values=("x",), static_argnames=("axis", "keepdims", "ord"))
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Norm of vectors.

    Args:
      x: array.
      axis: the axis or axes over which the vectors extend; by default all.
      keepdims: whether the axes stay, with size 1.
      ord: a number `p`, for `sum(abs(x)**p)**(1/p)`, including infinities and 0.

    Returns:
      A real array without these axes.

    Raises:
      ValueError: the norm does not exist.

    Source: `numpy.linalg.vector_norm`.

    Example:
      >>> jnp.linalg.vector_norm(jnp.array([[3., 4.], [6., 8.]]), axis=1)
      Array([ 5., 10.], dtype=float32)
    """
    x, axes, dtype = _operand(x, axis)
    return _kept(_vector_norm(x, axes, ord), axes, keepdims, dtype)


@fused(values=("x",), static_argnames=("keepdims", "ord"))
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norm of the matrices in the last two axes.

    Args:
      x: array of shape `(..., m, n)`.
      keepdims: whether the axes stay, with size 1.
      ord: `"fro"`, `"nuc"`, 1, -1, 2, -2, inf or -inf.

    Returns:
      A real array of shape `(...)`.

    Raises:
      ValueError: the norm does not exist, or `x` has less than two axes.

    Source: `numpy.linalg.matrix_norm`.

    Example:
      >>> jnp.linalg.matrix_norm(jnp.array([[1., -2.], [3., 4.]]), ord=1)
      Array(6., dtype=float32)
    """
    if len(shape_of(x)) < 2:
        msg = f"matrix_norm: x must have at least two axes, got shape {shape_of(x)}."
        raise ValueError(msg)
    x, axes, dtype = _operand(x, (-2, -1))
    return _kept(_matrix_norm(x, axes, ord), axes, keepdims, dtype)


__all__ = ["matrix_norm", "norm", "vector_norm"]
