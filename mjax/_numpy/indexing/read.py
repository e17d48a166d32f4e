"""Reading elements: `x[index]`, and the selection of a parsed index by the cheapest primitives."""

from __future__ import annotations

import operator
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.base.util import exact
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import eq
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dot import dot_general
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_p
from mjax._engine.primitives.gather import GatherScatterMode, gather
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.rev import (
    rev,
    rev_p,
)
from mjax._engine.primitives.shapes import (
    expand_dims,
    squeeze_p,
    transpose,
)
from mjax._engine.primitives.slicing import slice_p
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import staging
from mjax._numpy.core import shape_of
from mjax._numpy.indexing.eager import (
    Programs,
    grown_shape,
    place,
    put_together,
    take_apart,
    with_operands,
)
from mjax._numpy.indexing.parse import (
    NEW,
    At,
    Each,
    Index,
    Range,
    outside_of_nothing,
    parse,
    whole,
)
from mjax._numpy.indexing.plan import box, is_box, result_axes, windows

# ---- x[index] --------------------------------------------------------------------------


@boundary
def getitem(x: Any, idx: Any) -> Any:
    """`x[idx]`: the elements that an index selects.

    Args:
      x: array of shape `(n_0, n_1, ...)`.
      idx: an integer, slice, ellipsis, None, array of integers or booleans, or a tuple of
        these. Slices are static; masks are concrete. Integers outside of the array are
        clamped; use `x.at[idx].get(mode=...)` for another choice.

    Returns:
      An array of the dtype of `x`, whose axes are those of NumPy's indexing.

    Raises:
      IndexError: too many indices, a slice with traced bounds, a mask that does not fit.
      NonConcreteBooleanIndexError: a mask that is traced.
      TypeError: a list, a float, a string.
      ValueError: index arrays that do not broadcast together.
    """
    if thread.interpreter is evaluation and type(x) is Array:
        if type(idx) is int:
            return _row(x, idx)
    return select(x, parse(shape_of(x), idx))


def select(x: Any, index: Index, *options: Any) -> Any:
    """The selection of an index from an array, in any context; `options` are those of `read`."""
    if thread.settings.check_static_indices:
        _check_static(grown_shape(shape_of(x), index), index, *options)
    shape = grown_shape(shape_of(x), index)
    if thread.interpreter is evaluation and type(x) is Array:
        structure, numbers = take_apart(index, shape)
        if not numbers and structure[0] == tuple(map(whole, shape)) and not index.grown:
            return x
        return _read_programs((structure, options), x, *numbers,
                              known_as=(structure, exact(options)))
    return read(x, index if staging() else with_operands(index, shape), *options)


def _check_static(shape: tuple[int, ...], index: Index,
                  mode: GatherScatterMode = GatherScatterMode.PROMISE_IN_BOUNDS, *_: Any) -> None:
    """Refuses known integers that are out of bounds, with the setting `check_static_indices`."""
    if mode is not GatherScatterMode.PROMISE_IN_BOUNDS:
        return
    for axis, e in enumerate(e for e in index.entries if e is not NEW):
        if type(e) is At and type(e.index) is int and not 0 <= e.index < shape[axis]:
            given = e.index if e.index > 0 else e.index - shape[axis]
            msg = (f"index {given} is out of bounds for axis {axis} with size {shape[axis]}, which "
                   "the flag check_static_indices refuses.")
            raise IndexError(msg)


def _row(x: Array, i: int) -> Array:
    """`x[i]`, the most common index."""
    known = _rows.get((thread.settings, x._placement))
    if known is None:
        if thread.settings.check_static_indices:
            return select(x, parse(x.shape, i))
        index = parse(x.shape, 0)
        structure, numbers = take_apart(index, x.shape)
        known = _rows.put((thread.settings, x._placement), (
            x.shape[0], _read_programs.program((structure, ()), x, *numbers)))
    size, (run, of_buffers) = known
    if i < 0:
        i += size
    at = place(i if 0 <= i < size else 0 if i < 0 else size - 1)
    return run(x, at) if of_buffers is None else of_buffers([x._buffer, at._buffer])


#: (settings, placement) -> size of the first axis, program that reads the elements at one place.
_rows = ProgramCache()


# ---- selection -------------------------------------------------------------------------

_FILL = GatherScatterMode.FILL_OR_DROP


def _read_structure(static: Any, x: Any, *numbers: Any) -> Any:
    structure, options = static
    return read(x, put_together(structure, numbers)[0], *options)


_read_programs = Programs(_read_structure, "getitem")


def read(x: Any, index: Index, mode: GatherScatterMode = GatherScatterMode.PROMISE_IN_BOUNDS,
         fill_value: Any = None, indices_are_sorted: bool = False, unique_indices: bool = False
         ) -> Any:
    """The elements that an index selects, by the cheapest primitives.

    Args:
      x: array.
      index: parsed for its shape.
      mode: the treatment of places outside.
      fill_value: the value for them with `FILL_OR_DROP`.
      indices_are_sorted: a promise of the user.
      unique_indices: a promise of the user.
    """
    entries = index.entries
    if index.grown:
        x = expand_dims(x, index.grown)
    shape = shape_of(x)
    if is_box(entries, only_inside=mode is _FILL):
        return _read_box(x, shape, entries, mode is GatherScatterMode.CLIP)
    if mode is GatherScatterMode.ONE_HOT:
        return _read_one_hot(x, shape, entries)
    _, new, flipped = result_axes(entries)
    w = windows(shape, entries)
    if 0 in shape:
        _refuse_places_in_nothing(shape, entries)
    ordered = not any(type(e) is Each for e in entries)
    out = gather(x, w.indices, w.dims, w.sizes, mode=mode, fill_value=fill_value,
                 indices_are_sorted=indices_are_sorted or ordered,
                 unique_indices=unique_indices or ordered)
    out = expand_dims(out, new) if new else out
    return rev(out, flipped) if flipped else out


def _refuse_places_in_nothing(shape: tuple[int, ...], entries: tuple[Any, ...]) -> None:
    for axis, e in enumerate(e for e in entries if e is not NEW):
        if type(e) is Each and shape[axis] == 0 and 0 not in shape_of(e.indices):
            raise outside_of_nothing(axis)


def _read_box(x: Any, shape: tuple[int, ...], entries: tuple[Any, ...], clip: bool) -> Any:
    lows, sizes, static = box(shape, entries, clip)
    dropped: list[int] = []
    flipped: list[int] = []
    new: list[int] = []
    strides: list[int] = []
    place = 0
    for e in entries:
        if e is NEW:
            new.append(place)
        elif type(e) is At:
            dropped.append(len(strides))
            strides.append(1)
            continue
        else:
            if e.step < 0:
                flipped.append(len(strides))
            strides.append(abs(e.step))
        place += 1
    if not static:
        x = dynamic_slice_p.bind(x, *lows, slice_sizes=tuple(sizes))
        lows, shape = [0] * len(sizes), tuple(sizes)
    strided = max(strides, default=1) != 1
    if strided or tuple(sizes) != shape:
        x = slice_p.bind(x, start_indices=tuple(lows),
                         limit_indices=tuple(map(operator.add, lows, sizes)),
                         strides=tuple(strides) if strided else None)
    if flipped:
        x = rev_p.bind(x, dimensions=tuple(flipped))
    if dropped:
        x = squeeze_p.bind(x, dimensions=tuple(dropped))
    return expand_dims(x, new) if new else x


def _read_one_hot(x: Any, shape: tuple[int, ...], entries: tuple[Any, ...]) -> Any:
    """Reads along one axis by a product with a one-hot matrix.

    Raises:
      NotImplementedError: the index is more than one array.
    """
    arrays = [i for i, e in enumerate(entries) if type(e) is Each]
    if len(arrays) != 1 or len(entries) != len(shape) or any(
            i not in arrays and (type(e) is not Range or e.size != n or e.step != 1)
            for i, (e, n) in enumerate(zip(entries, shape, strict=False))):
        msg = "mode 'one_hot' reads along one axis, at the places of one array."
        raise NotImplementedError(msg)
    return one_hot_product(x, windows(shape, entries).indices, arrays[0])


def one_hot_product(x: Any, indices: Any, axis: int) -> Any:
    """`take` along an axis as a product; zeros for places outside.

    Args:
      x: array.
      indices: integers of shape `(..., 1)`.
      axis: the axis of `x` that the axes of the indices replace.
    """
    aval, rank = typeof(x), len(shape_of(indices)) - 1
    places = (1,) * rank + (aval.shape[axis],)
    hot = convert(eq(indices, broadcasted_iota(typeof(indices).dtype, places, rank)), aval.dtype)
    out = dot_general(hot, x, (((rank,), (axis,)), ((), ())), "highest", aval.dtype)
    order = [*range(rank, rank + axis), *range(rank), *range(rank + axis, aval.ndim - 1 + rank)]
    return transpose(out, order)
