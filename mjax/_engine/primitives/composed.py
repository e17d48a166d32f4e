"""Functions of `lax` made of others: full_like, reciprocal, broadcasting by rank."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.dtypes import (
    ExtendedDType,
    asked_dtype,
    canonical_dtype,
    dtype_of_python,
    is_extended,
)
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import integer_pow
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.shapes import (
    array_of,
    broadcast_in_dim,
    canonical_shape,
    copy_p,
    expand_dims,
    reshape,
    scalar_of,
)
from mjax._engine.primitives.shapes import full as filled


@boundary
def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Any:
    """An array of one value.

    Args:
      shape: its shape.
      fill_value: a scalar; for keys, a key or the number that fills all their words.
      dtype: its dtype, to which the value is converted; by default that of the value.

    Raises:
      TypeError: `fill_value` is not a scalar, or complex where the dtype is not.

    Example:
      >>> lax.full((2,), 7, float)
      Array([7., 7.], dtype=float32)
    """
    return full_of(shape, fill_value, None if dtype is None else asked_dtype(dtype, "full"))


def full_of(shape: Sequence[int], fill_value: Any, dtype: Any) -> Any:
    """`full` for a canonical dtype, or None."""
    if dtype is not None and hasattr(fill_value, "aval"):
        if is_extended(dtype) and not is_extended(typeof(fill_value).dtype):
            words = full_of((*canonical_shape(shape), *dtype.element_shape), fill_value,
                         dtype.element_dtype)
            return dtype.wrap(words)
        fill_value = convert(fill_value, dtype)
    return filled(shape, fill_value, dtype)


@boundary
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None
              ) -> Any:
    """An array of one value, of the shape and dtype of another.

    Args:
      x: the other array.
      fill_value: a scalar.
      dtype: another dtype.
      shape: another shape.
    """
    aval = typeof(x)
    kind = aval.dtype if dtype is None else asked_dtype(dtype, "full_like")
    if dtype is None and aval.weak_type:
        fill_value = (convert(fill_value, kind, True) if hasattr(fill_value, "aval")
                      else scalar_of(aval, fill_value))
        kind = None
    return full_of(aval.shape if shape is None else shape, fill_value, kind)


@boundary
def empty(shape: Sequence[int], dtype: Any) -> Any:
    """An array whose values are unspecified (they are zeros). None is the default float dtype.

    Args:
      shape: sizes of the axes.
      dtype: the dtype.

    Returns:
      An array of this shape and dtype.

    Raises:
      TypeError: a shape is not a sequence of integers.

    Example:
      >>> lax.empty((2, 3), "float32").shape
      (2, 3)
    """
    return full(shape, 0, float if dtype is None else dtype)


@boundary
def reciprocal(x: Any) -> Any:
    """Elementwise `1 / x`, for inexact `x`.

    Args:
      x: array or scalar of a floating or complex dtype.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: another dtype.

    Example:
      >>> lax.reciprocal(jnp.array([2.0, 4.0]))
      Array([0.5 , 0.25], dtype=float32)
    """
    return integer_pow(x, -1)


@boundary
def dtype(x: Any) -> Any:
    """The dtype of an array or scalar; or the canonical one that a spelling of a dtype names.

    Args:
      x: array, scalar or dtype.

    Returns:
      A NumPy dtype.

    Raises:
      ValueError: None.
      TypeError: `x` is neither an array, a scalar nor a dtype.

    Example:
      >>> lax.dtype(np.float32(1)) == lax.dtype(np.float32) == lax.dtype("float32")
      True
    """
    if x is None:
        msg = "lax.dtype needs an array, a scalar or a dtype, got None."
        raise ValueError(msg)
    if isinstance(x, (str, type, np.dtype, ExtendedDType)):
        return canonical_dtype(x)
    return typeof(x).dtype


@boundary
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The common shape of arrays of these shapes after broadcasting, by NumPy's rules.

    Args:
      shapes: tuples of ints.

    Returns:
      A tuple of ints.

    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> lax.broadcast_shapes((3, 1), (4,))
      (3, 4)
    """
    return common_shape(list(map(canonical_shape, shapes)))


def common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """`broadcast_shapes` of tuples of sizes, which may be symbolic."""
    known: tuple[int, ...] = ()
    for shape in shapes:
        if shape and shape != known:
            if known:
                break
            known = shape
    else:
        return known
    rank = max(map(len, shapes))
    out = []
    for sizes in zip(*[(1,) * (rank - len(s)) + s for s in shapes], strict=True):
        distinct = {n for n in sizes if n != 1}
        if len(distinct) > 1:
            raise LazyValueError(lambda: (
                f"shapes {', '.join(map(str, shapes))} cannot be broadcast together: aligned at "
                "their last axes, sizes must be equal or 1."))
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


@boundary
def broadcast_to_rank(x: Any, rank: int) -> Any:
    """`x` with axes of size 1 in front, so that it has at least `rank` axes.

    Args:
      x: array or scalar.
      rank: the number of axes.

    Returns:
      An array of the dtype of `x`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> lax.broadcast_to_rank(jnp.ones(3), 2).shape
      (1, 3)
    """
    return expand_dims(x, tuple(range(operator.index(rank) - len(typeof(x).shape))))


@boundary
def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """`arr` broadcast to the shape of another array, by NumPy's rules.

    Args:
      arr: array or scalar.
      like_arr: the array whose shape counts.

    Returns:
      An array of the dtype of `arr`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> lax.broadcast_like(1.0, jnp.zeros(2))
      Array([1., 1.], dtype=float32, weak_type=True)
    """
    own, shape = typeof(arr).shape, typeof(like_arr).shape
    dims = tuple(range(len(shape) - len(own), len(shape)))
    return broadcast_in_dim(arr, shape, dims)


@boundary
def shape_as_value(shape: Sequence[int]) -> Any:
    """A shape as an array of integers.

    Args:
      shape: sizes.

    Returns:
      A vector of integers.

    Raises:
      TypeError: it holds anything but sizes.

    Example:
      >>> lax.shape_as_value((2, 3))
      Array([2, 3], dtype=int32)
    """
    return copy_p.bind(np.array(canonical_shape(shape), dtype_of_python(int)))


@boundary
def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """Repeats an array along new leading axes of the given sizes.

    Args:
      operand: array or scalar.
      sizes: sizes of the new axes.

    Returns:
      An array of shape `(*sizes, *operand.shape)` and the dtype of `operand`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> lax.broadcast(jnp.ones(3), (2,)).shape
      (2, 3)
    """
    aval, sizes = typeof(operand), canonical_shape(tuple(sizes))
    if not sizes and not is_reference(aval):
        return array_of(operand)
    dims = tuple(range(len(sizes), len(sizes) + len(aval.shape)))
    return broadcast_in_dim(operand, (*sizes, *aval.shape), dims)


@boundary
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Merges the axes from `start_dimension` up to, but excluding, `stop_dimension`.

    Args:
      operand: array.
      start_dimension: the first axis to merge; negative ones count from the end.
      stop_dimension: the axis behind the last one to merge; None: all that follow.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      ValueError: there is no axis between the two.

    Example:
      >>> lax.collapse(jnp.ones((2, 3, 4)), 0, 2).shape
      (6, 4)
    """
    shape = typeof(operand).shape
    low, high, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if high < low:
        msg = (f"collapse: the range of axes {start_dimension} to {stop_dimension} of shape "
               f"{shape} is empty.")
        raise ValueError(msg)
    return reshape(operand, (*shape[:low], math.prod(shape[low:high]), *shape[high:]))
