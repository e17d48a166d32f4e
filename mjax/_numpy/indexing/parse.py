"""Parsed indices: one entry for each axis of the array and each new axis of the result.

The parser resolves all that the host knows: ellipses, negative integers, the sizes of slices, and
boolean masks (which become integer arrays). It raises all errors.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import (
    ConcretizationTypeError,
    LazyIndexTypeError,
    LazyTypeError,
    NonConcreteBooleanIndexError,
    TracerIntegerConversionError,
)
from mjax._engine.base.records import Record
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import surely
from mjax._engine.ir.foreign_values import refuse_masked_array
from mjax._engine.ir.pytree import tree_leaves
from mjax._engine.ir.sizes import indices_of
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy.creation import asarray

#: Ranges of an index: `RAW`, negative values count from the end; `FINAL`, negative values are out
#: of range; `INSIDE`, it is in range.
RAW, FINAL, INSIDE = "raw", "final", "inside"


class At(Record):
    """One place on an axis; the result does not have that axis.

    Attributes:
      index: an int, or an integer scalar that is only known on the device or traced.
      known: `RAW`, `FINAL` or `INSIDE`.
    """

    index: Any
    known: str


class Range(Record):
    """The places `low, low + abs(step), ...` of an axis; in reverse if the step is negative."""

    low: Any
    size: int
    step: int


class Each(Record):
    """The places in an integer array; all arrays of an index broadcast together."""

    indices: Any
    known: str


class _New:
    """The type of `NEW`."""

    def __repr__(self) -> str:
        return "NEW"


#: An axis of size 1 of the result only.
NEW = _New()


class Index(Record):
    """A parsed index.

    Attributes:
      entries: one for each axis and new axis, in the order of the index.
      grown: axes of size 1 that are inserted into the array first, one per boolean scalar of
        the index, as positions in its new shape.
    """

    entries: tuple[Any, ...]
    grown: tuple[int, ...] = ()


class _Mask(Record):
    value: np.ndarray[Any, Any]


# ---- from users' indices to entries ----------------------------------------------------


def parse(shape: tuple[int, ...], idx: Any, wrap: bool = True) -> Index:
    """Parses an index.

    Args:
      shape: the array's shape.
      idx: the expression between the brackets.
      wrap: whether negative integers count from the end.

    Raises:
      IndexError: too many indices, two ellipses, a slice that is not static, a mask that does
        not fit or whose values are not known, an integer for an axis of size 0. (Reading
        refuses arrays of them; writing there changes nothing.)
      TypeError: an invalid index; for objects it is also an IndexError.
    """
    items = [_item(i) for i in (idx if isinstance(idx, tuple) else (_not_list(idx),))]
    items = _without_ellipsis(items, shape)
    entries: list[Any] = []
    grown: list[int] = []
    axis = 0
    for item in items:
        if item is NEW:
            entries.append(NEW)
        elif type(item) is _Mask:
            entries += _mask_entries(item.value, shape, axis, len(entries) - entries.count(NEW),
                                     grown)
            axis += item.value.ndim
        else:
            entries.append(_entry(item, shape[axis], axis, wrap))
            axis += 1
    return Index(tuple(entries), tuple(grown))


def whole(size: int) -> Range:
    """All of an axis."""
    return Range(0, size, 1)


def _not_list(idx: Any) -> Any:
    if isinstance(idx, Sequence) and not isinstance(idx, (str, bytes)):
        msg = (f"using a {type(idx).__name__} as an index is ambiguous: it may mean "
               "an array or a tuple; write x[jnp.array(index)] or x[tuple(index)].")
        raise TypeError(msg)
    return idx


def _item(i: Any) -> Any:
    """One item between the brackets: NEW, Ellipsis, a slice, an int, a mask, an int array."""
    kind = type(i)
    if kind is int or kind is slice or i is Ellipsis:
        return i
    if i is None:
        return NEW
    if kind is bool or kind is np.bool_:
        return _Mask(np.asarray(i))
    if isinstance(i, (list, tuple)):
        i = _array_of(i)
    if hasattr(i, "dtype") and hasattr(i, "shape"):
        return _array_item(i)
    if isinstance(i, (str, bytes)):
        msg = f"strings are not indices; got {i!r}."
        raise TypeError(msg)
    try:
        return operator.index(i)
    except TypeError:
        raise LazyIndexTypeError(lambda: _no_index(i, type(i).__name__)) from None


def _array_of(values: Any) -> Any:
    try:
        traced = any(isinstance(leaf, Tracer) for leaf in tree_leaves(values))
        array = asarray(values) if traced else np.asarray(values)
    except (ValueError, TypeError) as error:
        msg = ("a list inside an index must hold integers or booleans, in rows of one size. "
               f"({error})")
        raise TypeError(msg) from None
    return array.astype(int) if array.size == 0 else array


def _no_index(value: Any, what: str) -> str:
    return (f"an index must be an integer, a slice, an ellipsis (...), None, or an array of "
            f"integers or booleans; got {value!r} of type {what}."
            + _remedy(value, what))


def _remedy(value: Any, what: str) -> str:
    if not what.startswith("float"):
        return ""
    return (f" Write {int(value)} in its place." if isinstance(value, float) and value == value // 1
            else " Convert it with int(...)." if isinstance(value, float)
            else " Convert it with .astype(int).")


def _array_item(i: Any) -> Any:
    if isinstance(i, np.ndarray):
        refuse_masked_array(i)
    kind = dtypes.kind(i.dtype)
    if kind == "b":
        return _Mask(_concrete_mask(i))
    if kind not in "iu":
        raise LazyTypeError(lambda: _no_index(i, f"{i.dtype} array" if i.shape else str(i.dtype)))
    if i.shape == () and isinstance(i, (np.ndarray, np.generic)):
        return int(i)
    return i


def _concrete_mask(mask: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(mask)
    except ConcretizationTypeError:
        aval = typeof(mask)
        raise NonConcreteBooleanIndexError(lambda: (
            f"a boolean array used as an index must be concrete, but only the type of {aval} is "
            "known while the function is traced: the number of selected elements would be the "
            "shape of the result. Use jnp.where(mask, x, y) (and its `size` argument for indices), "
            "give "
            "reductions the mask as `where=mask`, or keep the mask out of the traced function.")
        ) from None


def _without_ellipsis(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """The items with whole slices instead of the ellipsis, or at the end."""
    consumed, ellipses = 0, []
    for place, item in enumerate(items):
        if item is Ellipsis:
            ellipses.append(place)
        elif type(item) is _Mask:
            consumed += item.value.ndim
        elif item is not NEW:
            consumed += 1
    if len(ellipses) > 1:
        msg = f"an index can have only one ellipsis (...), got {len(ellipses)}."
        raise IndexError(msg)
    rest = len(shape) - consumed
    if rest < 0:
        msg = (f"too many indices: an array of shape {shape} has {len(shape)} axes, but "
               f"{consumed} were indexed.")
        raise IndexError(msg)
    place = ellipses[0] if ellipses else len(items)
    return [*items[:place], *[_ALL] * rest, *items[place + 1 :]]


_ALL = slice(None)


def _entry(item: Any, size: int, axis: int, wrap: bool) -> Any:
    if item is _ALL:
        return Range(0, size, 1)
    if type(item) is slice:
        return _range(item, size, axis)
    if size == 0 and not np.shape(item):
        raise outside_of_nothing(axis)
    if type(item) is int:
        if item < 0 and wrap:
            item += size
        return At(item, INSIDE if surely(lambda: 0 <= item < size) else FINAL)
    known = RAW if wrap and dtypes.kind(item.dtype) == "i" else FINAL
    if isinstance(item, np.ndarray) and type(size) is int:
        item, known = _settled(item, size, wrap)
    return Each(item, known) if item.shape else At(item, known)


def outside_of_nothing(axis: int) -> IndexError:
    """The error of an index of an axis of size 0."""
    return IndexError(f"index is out of bounds: axis {axis} has size 0.")


def _settled(indices: np.ndarray[Any, Any], size: int, wrap: bool) -> tuple[Any, str]:
    """Known indices without negative ones, and their range."""
    wide = np.minimum(indices, np.array(2**62, indices.dtype) if indices.dtype == np.uint64
                      else indices).astype(np.int64)
    if wrap:
        wide = np.where(wide < 0, wide + size, wide)
    known = INSIDE if ((wide >= 0) & (wide < size)).all() else FINAL
    if size < 2**31:
        wide = np.clip(wide, -1, 2**31 - 1).astype(np.int32)
    return wide, known


def _range(item: slice, size: int, axis: int) -> Range:
    try:
        start, _, step, n = indices_of(item, size)
    except TracerIntegerConversionError:
        msg = (f"slices must have static bounds, but {item} at axis {axis} has traced ones: the "
               "size of the result would not be known. Use lax.dynamic_slice_in_dim(x, start, "
               "size, axis), or mark the bounds static.")
        raise IndexError(msg) from None
    if n == 0:
        return Range(0, 0, 1)
    if n == 1:
        return Range(start, 1, 1)
    return Range(start if step > 0 else start + (n - 1) * step, n, step)


def _mask_entries(mask: np.ndarray[Any, Any], shape: tuple[int, ...], axis: int, place: int,
                  grown: list[int]) -> list[Each]:
    """A mask as the indices of its true elements, one array for each axis that it covers."""
    if mask.ndim == 0:
        # A scalar is a mask of the one element of the axis inserted for it.
        grown.append(place)
        return [Each(np.arange(int(mask), dtype=np.int32), INSIDE)]
    covered = shape[axis : axis + mask.ndim]
    if any(own not in (0, n) for own, n in zip(mask.shape, covered, strict=True)):
        msg = (f"boolean index did not match the shape of the indexed array: the mask of shape "
               f"{mask.shape} covers axes {axis} to {axis + mask.ndim - 1}, of shape {covered}; "
               f"the array has shape {shape}.")
        raise IndexError(msg)
    return [Each(i.astype(np.int32) if n < 2**31 else i, INSIDE)
            for i, n in zip(np.nonzero(mask), covered, strict=True)]
