"""Reordering elements: flip, rot90, roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axes, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import rem, sub
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.joining import concatenate_p
from mjax._engine.primitives.rev import rev_p
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.slicing import index_in_dim, slice_in_dim
from mjax._numpy.core import check_array, check_fill, concrete_int, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.shapes import as_axes, ravel, reshape, swapaxes


@fused(values=("m",), static_argnames=("axis",))
def flip(m: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Reverses the order of the elements along axes.

    Args:
      m: array.
      axis: the axis or axes; by default all.

    Returns:
      An array of the shape and dtype of `m`.

    Raises:
      ValueError: an axis is out of range or named twice.

    Source: `numpy.flip`.

    Example:
      >>> jnp.flip(jnp.array([1, 2, 3]))
      Array([3, 2, 1], dtype=int32)
    """
    axes = canonicalize_axes(None if axis is None else as_axes(axis), typeof(m).ndim)
    return rev_p.bind(m, dimensions=axes)


def flipud(m: Any) -> Any:
    """Reverses the order of the rows: `flip` along axis 0.

    Args:
      m: array of one axis at least.

    Returns:
      An array of the shape and dtype of `m`.

    Raises:
      ValueError: `m` is a scalar.

    Source: `numpy.flipud`.

    Example:
      >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
      Array([[3, 4],
             [1, 2]], dtype=int32)
    """
    return flip(check_array("flipud", m), 0)


def fliplr(m: Any) -> Any:
    """Reverses the order of the columns: `flip` along axis 1.

    Args:
      m: array of two axes at least.

    Returns:
      An array of the shape and dtype of `m`.

    Raises:
      ValueError: `m` has less than two axes.

    Source: `numpy.fliplr`.

    Example:
      >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    return flip(check_array("fliplr", m), 1)


@fused(values=("m",), static_argnames=("k", "axes"))
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Rotates an array by 90 degrees in the plane of two axes.

    Args:
      m: array with at least two axes.
      k: the number of rotations.
      axes: the axes; the rotation goes from the first towards the second.

    Returns:
      An array of the dtype of `m`.

    Raises:
      ValueError: the axes are out of range or equal.

    Source: `numpy.rot90`.

    Example:
      >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
      Array([[2, 4],
             [1, 3]], dtype=int32)
    """
    first, second = (canonicalize_axis(a, typeof(m).ndim) for a in axes)
    if first == second:
        msg = f"rot90: the axes of the rotation must differ, got {tuple(axes)}."
        raise ValueError(msg)
    k = concrete_int(k, "rot90: k") % 4
    if k == 2:
        return rev_p.bind(m, dimensions=(first, second))
    if k == 1:
        return swapaxes(rev_p.bind(m, dimensions=(second,)), first, second)
    return rev_p.bind(swapaxes(m, first, second), dimensions=(second,)) if k else array_of(m)


@fused(values=("a",), static_argnames=("axis",))
def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Moves the elements along axes cyclically.

    Args:
      a: array.
      shift: the number of places; an integer, or one for each axis.
      axis: an axis or several; by default the elements are moved in the order of `ravel`.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: an axis is out of range, or the numbers of shifts and axes do not fit.

    Source: `numpy.roll`.

    Example:
      >>> jnp.roll(jnp.arange(5), 2)
      Array([3, 4, 0, 1, 2], dtype=int32)
    """
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), shape_of(a))
    axes = tuple(canonicalize_axis(i, typeof(a).ndim) for i in as_axes(axis))
    if not isinstance(shift, (list, tuple)):
        shift = check_fill("roll", shift, 1)
        if type(shift) is not int and typeof(shift).dtype == np.bool_:
            shift = convert(shift, np.dtype(np.int32))
        count = np.shape(shift)[0] if np.ndim(shift) else None
        shift = [shift] if count is None else [
            shift[i] if isinstance(shift, np.ndarray) else index_in_dim(shift, i, keepdims=False)
            for i in range(count)]
    rank = max(len(shift), len(axes))
    if {len(shift), len(axes)} - {1, rank}:
        msg = f"roll: {len(shift)} shifts do not fit {len(axes)} axes."
        raise ValueError(msg)
    shifts = list(shift) * (rank if len(shift) == 1 else 1)
    for i, by in zip(axes * (rank if len(axes) == 1 else 1), shifts, strict=True):
        a = _rolled(a, by, i)
    return array_of(a)


def _rolled(a: Any, shift: Any, axis: int) -> Any:
    size = shape_of(a)[axis]
    if size == 0:
        return a
    if not isinstance(shift, (int, np.integer, np.ndarray)):
        if not dtypes.is_integer(typeof(shift).dtype):
            msg = f"roll: shift must be an integer, got {typeof(shift)}."
            raise TypeError(msg)
        n = np.int32(size)
        start = rem(convert(shift, np.dtype(np.int32)), n)
        start = rem(sub(np.int32(2 * size), start), n)
        twice = concatenate_p.bind(a, a, dimension=axis)
        return dynamic_slice_in_dim(twice, start, size, axis)
    start = -concrete_int(shift, "roll: shift") % size
    if start == 0:
        return a
    return concatenate_p.bind(slice_in_dim(a, start, None, axis=axis),
                              slice_in_dim(a, 0, start, axis=axis), dimension=axis)


__all__ = ["flip", "fliplr", "flipud", "roll", "rot90"]
