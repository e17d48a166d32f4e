"""Inserting and deleting elements: insert, delete."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import max_dim, surely
from mjax._engine.ir.foreign_values import refuse_masked_array
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add, lt, mul
from mjax._engine.primitives.clamp import clamp
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.gather import take_on_axis
from mjax._engine.primitives.joining import (
    concatenate_p,
)
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter_add
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import full, reshape, scalar_of
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.sort import argsort
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    expand_rank,
    shape_of,
    weak_type_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.ranges import arange
from mjax._numpy.shapes import moveaxis, ravel


def _places(name: str, obj: Any, size: int) -> Any:
    """The indices of an `obj` argument: ints, a slice or a mask; a traced array is unchanged.

    Raises:
      TypeError: it does not hold integers.
      ValueError: a mask that does not fit; a NumPy masked array.
    """
    if isinstance(obj, slice):
        return np.arange(int(size))[obj]
    refuse_masked_array(obj)
    if hasattr(obj, "__jax_array__"):
        obj = obj.__jax_array__()
    places = obj if isinstance(obj, Tracer) else np.asarray(obj)
    if places.dtype == np.bool_:
        if places.shape != (size,):
            msg = (f"{name}: the mask of shape {places.shape} must have one element for each of "
                   f"the {size} indices of the axis.")
            raise ValueError(msg)
        return np.flatnonzero(np.asarray(places))
    if places.size == 0:
        return np.zeros(places.shape, int)
    if not dtypes.is_integer(places.dtype):
        msg = f"{name}: obj must hold integers, a slice or a mask, got dtype {places.dtype}."
        raise TypeError(msg)
    return places


def _flattened(name: str, arr: Any, axis: int | None) -> tuple[Any, int]:
    arr = check_array(name, arr)
    if axis is None:
        return ravel(arr), 0
    return arr, canonicalize_axis(axis, typeof(arr).ndim)


@boundary
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Inserts values between the elements of an array.

    Args:
      arr: array.
      obj: the indices before which to insert: an integer, a slice or an array of integers.
      values: the values to insert; converted to the dtype of `arr`, and broadcast.
      axis: the axis; by default all elements in the order of `ravel`.

    Returns:
      An array of the dtype of `arr`.

    Raises:
      ValueError: the values do not fit, or the axis is out of range.

    Source: `numpy.insert`.

    Example:
      >>> jnp.insert(jnp.array([1, 2, 3]), 1, 9)
      Array([1, 9, 2, 3], dtype=int32)
    """
    arr, axis = _flattened("insert", arr, axis)
    shape = shape_of(arr)
    places = _places("insert", obj, shape[axis])
    values = cast(check_array("insert", values, "values"), *weak_type_of(arr))
    if typeof(values).ndim < len(shape):
        values = expand_rank(values, len(shape))
    if not places.shape:
        # At one index the first axis of the values runs along the axis of the array.
        values = moveaxis(values, 0, axis)
    count = places.size if places.size != 1 else shape_of(values)[axis]
    values = broadcast_to(values, (*shape[:axis], count, *shape[axis + 1 :]))
    both = concatenate([arr, values], axis)
    if isinstance(places, Tracer) or is_symbolic_dim(shape[axis]):
        return _inserted(both, places, axis=axis, count=count)
    return take_on_axis(both, _order_of_insertion(places, shape[axis], count), axis,
                        unique_indices=True)


@fused(static_argnames=("axis", "count"))
def _inserted(both: Any, places: Any, *, axis: int, count: int) -> Any:
    size = shape_of(both)[axis] - count
    places = convert(ravel(places), np.dtype(np.int32))
    last = scalar_of(typeof(places), size)
    places = select_n(lt(places, np.int32(0)), places, add(places, last))
    places = broadcast_to(clamp(np.int32(0), places, last), (count,))
    old, two = arange(1, 2 * size, 2, dtype=np.int32), np.int32(2)
    source = argsort(concatenate_p.bind(old, mul(places, two), dimension=0))
    return take_on_axis(both, source, axis, unique_indices=True)


def _order_of_insertion(places: np.ndarray[Any, Any], size: int, count: int
                        ) -> np.ndarray[Any, Any]:
    """The source of each element of the result, among the array's elements, then new ones."""
    places = np.clip(np.where(places < 0, places + size, places).ravel(), 0, size)
    # Element i has key 2i + 1; values inserted before it have key 2i.
    keys = np.concatenate([np.arange(1, 2 * size, 2), 2 * np.broadcast_to(places, (count,))])
    return np.argsort(keys, kind="stable").astype(np.int32)


@boundary
def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
           ) -> Any:
    """An array without some of its elements.

    Args:
      arr: array.
      obj: the indices: an integer, a slice, an array of integers or a mask, static.
      axis: the axis; by default all elements in the order of `ravel`.
      assume_unique_indices: a promise that no index occurs twice; the values of an array of
        integers then need not be known.

    Returns:
      An array of the dtype of `arr`.

    Raises:
      IndexError: an index is out of range.
      ConcretizationTypeError: `obj` is traced, and unique indices are not promised.

    Source: `numpy.delete`.

    Example:
      >>> jnp.delete(jnp.array([1, 2, 3]), 1)
      Array([1, 3], dtype=int32)
    """
    arr, axis = _flattened("delete", arr, axis)
    size = shape_of(arr)[axis]
    places = _places("delete", obj, size)
    if isinstance(places, Tracer) and (assume_unique_indices or not places.shape):
        return _deleted(arr, places, axis=axis)
    places = np.asarray(places).ravel()
    if is_symbolic_dim(size) and places.size and places.min() >= 0 and surely(
            lambda: int(places.max()) < size):
        return _deleted(arr, np.unique(places), axis=axis)
    size = int(size)
    if ((places < -size) | (places >= size)).any():
        msg = (f"delete: index {obj} is out of bounds for axis {axis} with size {size}, of an "
               f"array of shape {shape_of(arr)}.")
        raise IndexError(msg)
    kept = np.delete(np.arange(size, dtype=np.int32), places)
    return take_on_axis(arr, kept, axis, indices_are_sorted=True, unique_indices=True)


@fused(static_argnames=("axis",))
def _deleted(arr: Any, places: Any, *, axis: int) -> Any:
    size, int32 = shape_of(arr)[axis], np.dtype(np.int32)
    places = convert(reshape(places, (places.size, 1)), int32)
    places = select_n(lt(places, np.int32(0)), places, add(places, scalar_of(typeof(places), size)))
    gone = scatter_add(full((size,), 0, int32), places, full((places.size,), 1, int32),
                       ScatterDimensionNumbers((), (0,), (0,)))
    # A stable sort puts the remaining elements first, in order.
    kept = slice_in_dim(argsort(gone), 0, max_dim(size - places.size, 0))
    return take_on_axis(arr, kept, axis, indices_are_sorted=True, unique_indices=True)


__all__ = ["delete", "insert"]
