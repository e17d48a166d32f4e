"""From the entries of an index to the operands of a gather or scatter.

Two forms exist. Integers and slices select a *box*: one place and a static size along each axis.
Arrays select *windows*: index vectors, with a window at each. The axes of the result are those of
NumPy: the common axes of the index arrays replace the arrays, or come first if a slice or new axis
separates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import max_dim, min_dim
from mjax._engine.ir.sizes import beyond, dilated, is_size, is_symbolic_dim
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import add, lt, mul
from mjax._engine.primitives.arithmetic import min as minimum
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.gather import GatherDimensionNumbers
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import as_settled, broadcast_in_dim, scalar_of
from mjax._numpy.core import broadcast_shapes, broadcast_to, shape_of
from mjax._numpy.indexing.parse import FINAL, INSIDE, NEW, RAW, At, Each, Range


class Box(Record):
    """A box in an array.

    Attributes:
      lows: for each axis the first place: ints, or integer scalars of one dtype.
      sizes: for each axis its size.
      static: whether the places are ints.
    """

    lows: list[Any]
    sizes: list[int]
    static: bool


class Windows(Record):
    """Windows in an array.

    Attributes:
      indices: integer array whose last axis holds the index vectors.
      dims: which axes of array, indices and result belong together.
      sizes: sizes of a window, one for each axis of the array.
      shape: the shape of the result without new axes.
    """

    indices: Any
    dims: GatherDimensionNumbers
    sizes: tuple[int, ...]
    shape: tuple[int, ...]


# ---- values of indices -----------------------------------------------------------------


def index_dtype(entries: Sequence[Any], shape: Sequence[int]) -> np.dtype[Any]:
    """The dtype in which an index is computed: int32, or int64 if that could overflow."""
    values = [e.indices if type(e) is Each else e.index if type(e) is At else e.low
              for e in entries if e is not NEW]
    wide = any(not is_size(v) and typeof(v).dtype.itemsize == 8 for v in values)
    return np.dtype(np.int64 if wide or any(beyond(n, 2**31 - 1) for n in shape) else np.int32)


def settled(value: Any, known: str, size: int, dtype: np.dtype[Any]) -> Any:
    """An index in the given dtype; negative ones, if `known` is RAW, counted from the end."""
    highest = np.iinfo(dtype).max
    if isinstance(value, (int, np.ndarray, np.generic)) and not (
            is_symbolic_dim(size) and known is RAW):
        value = np.asarray(value)
        if known is RAW and value.dtype.kind == "i":
            value = np.where(value < 0, value.astype(np.int64) + size, value)
        return np.clip(value, None if value.dtype.kind == "u" else -1, min(
            highest, np.iinfo(value.dtype).max)).astype(dtype)
    own = typeof(value).dtype
    if dtypes.kind(own) == "u" and own.itemsize >= dtype.itemsize:
        value = minimum(value, as_settled(np.array(highest, own)))
    if typeof(value).dtype != dtype:
        value = convert(value, dtype)
    if known is not RAW:
        return value
    return select_n(lt(value, as_settled(np.zeros((), dtype))), value,
                    add(value, scalar_of(ShapedArray((), dtype), size)))


# ---- boxes -----------------------------------------------------------------------------


def is_box(entries: Sequence[Any], only_inside: bool) -> bool:
    """Whether an index selects a box.

    Args:
      entries: the index.
      only_inside: whether every place must be known to be inside the array.
    """
    return all(type(e) is not Each and (type(e) is not At or not only_inside
                                        or e.known is INSIDE) for e in entries)


def box(shape: Sequence[int], entries: Sequence[Any], clip: bool) -> Box:
    """The box of selected elements.

    Args:
      shape: the array's shape.
      entries: the index.
      clip: whether ints outside are clamped here. Otherwise the box is not static and the
        primitive clamps, so that `checkify` finds them.
    """
    lows: list[Any] = []
    sizes, axis, static = [], 0, True
    for e in entries:
        if e is NEW:
            continue
        if type(e) is At:
            low = e.index
            if is_size(low) and e.known is not INSIDE:
                if clip or type(low) is not int or type(shape[axis]) is not int:
                    low = min_dim(max_dim(low, 0), shape[axis] - 1)
                else:
                    static = False
            sizes.append(1)
        else:
            low = e.low
            sizes.append(dilated(e.size, abs(e.step)))
        static = static and is_size(low)
        lows.append(low)
        axis += 1
    if not static:
        dtype = index_dtype(entries, shape)
        known = [e.known if type(e) is At else FINAL for e in entries if e is not NEW]
        limits = np.iinfo(dtype)
        lows = [as_settled(dtype.type(min(max(low, limits.min), limits.max)))
                if type(low) is int else
                scalar_of(ShapedArray((), dtype), low) if is_size(low) else
                settled(low, k, n, dtype) for low, k, n in zip(lows, known, shape, strict=True)]
    return Box(lows, sizes, static)


# ---- windows ---------------------------------------------------------------------------

# The origin of an axis of the result.
_COMMON, _WINDOW, _STEPS, _NEW = "common", "window", "steps", "new"


def _layout(entries: Sequence[Any], common: tuple[int, ...]) -> list[tuple[str, int, Any]]:
    """The axes of the result: their origin, their size, and their axis in the array."""
    arrays = any(type(e) is Each for e in entries)
    places = [i for i, e in enumerate(entries) if type(e) in (At, Each)]
    adjacent = bool(places) and places[-1] - places[0] == len(places) - 1
    of_arrays = [(_COMMON, n, i) for i, n in enumerate(common)]
    layout: list[tuple[str, int, Any]] = [] if adjacent else list(of_arrays)
    axis = 0
    for i, e in enumerate(entries):
        if arrays and adjacent and i == places[0]:
            layout += of_arrays
        if e is NEW:
            layout.append((_NEW, 1, None))
            continue
        if type(e) is Range:
            layout.append((_WINDOW if abs(e.step) == 1 else _STEPS, e.size, axis))
        axis += 1
    return layout


def common_shape(entries: Sequence[Any]) -> tuple[int, ...]:
    """The shape that the arrays of an index broadcast to.

    Raises:
      ValueError: they do not.
    """
    shapes = [shape_of(e.indices) for e in entries if type(e) is Each]
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        msg = (f"the arrays of an index must broadcast together; incompatible shapes for "
               f"broadcasting: {', '.join(map(str, shapes))}.")
        raise ValueError(msg) from None


def result_axes(entries: Sequence[Any]) -> tuple[tuple[int, ...], list[int], list[int]]:
    """The shape of the selection, its new axes, and its reversed axes."""
    layout = _layout(entries, common_shape(entries))
    ranges = [e for e in entries if e is not NEW]
    new = [i for i, (what, _, _) in enumerate(layout) if what is _NEW]
    flipped = [i for i, (what, _, axis) in enumerate(layout)
               if what in (_WINDOW, _STEPS) and ranges[axis].step < 0]
    return tuple(n for _, n, _ in layout), new, flipped


def windows(shape: Sequence[int], entries: Sequence[Any]) -> Windows:
    """The windows that an index selects, steps taken as positive.

    Raises:
      ValueError: the arrays of the index do not broadcast together.
    """
    common, dtype = common_shape(entries), index_dtype(entries, shape)
    layout = [row for row in _layout(entries, common) if row[0] is not _NEW]
    entries = [e for e in entries if e is not NEW]
    batch = [row for row in layout if row[0] is not _WINDOW]
    batch_shape = tuple(n for _, n, _ in batch)
    first_common = next((i for i, row in enumerate(batch) if row[0] is _COMMON), 0)
    columns, index_map = [], []
    for axis, e in enumerate(entries):
        column = _column(e, shape[axis], dtype, common)
        if column is None:
            continue
        if type(e) is Range and abs(e.step) != 1:
            dims: tuple[int, ...] = (next(i for i, row in enumerate(batch) if row[2] == axis
                         and row[0] is _STEPS),)
        else:
            dims = tuple(range(first_common, first_common + np.ndim(column)))
        columns.append(broadcast_in_dim(column, (*batch_shape, 1), dims))
        index_map.append(axis)
    indices = (concatenate(columns, len(batch_shape)) if columns
               else np.zeros((*batch_shape, 0), dtype))
    kept = [type(e) is Range and abs(e.step) == 1 for e in entries]
    numbers = GatherDimensionNumbers(
        tuple(i for i, row in enumerate(layout) if row[0] is _WINDOW),
        tuple(axis for axis, k in enumerate(kept) if not k), tuple(index_map))
    sizes = tuple(e.size if k else 1 for e, k in zip(entries, kept, strict=True))
    return Windows(indices, numbers, sizes, tuple(n for _, n, _ in layout))


def _column(e: Any, size: int, dtype: np.dtype[Any], common: tuple[int, ...]) -> Any:
    """One component of the index vectors: a scalar or an array; None if it is always 0."""
    if type(e) is Each:
        indices = settled(e.indices, e.known, size, dtype)
        return indices if np.shape(indices) == common else broadcast_to(indices, common)
    if type(e) is At:
        return settled(e.index, e.known, size, dtype)
    if abs(e.step) == 1:
        return None if e.size == size else settled(e.low, FINAL, size, dtype)
    steps = iota(dtype, e.size)
    if abs(e.step) != 1:
        steps = mul(steps, np.array(abs(e.step), dtype))
    return add(steps, settled(e.low, FINAL, size, dtype))
