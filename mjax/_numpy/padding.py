"""Padding: `pad`, with one function per mode, each for one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add, mul
from mjax._engine.primitives.joining import concatenate_p
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.shapes import (
    array_of,
    broadcast_in_dim,
    squeeze,
)
from mjax._engine.primitives.slicing import pad_p, slice_in_dim
from mjax._numpy.core import broadcast_to, cast, check_array, concrete_int, shape_of, weak_type_of
from mjax._numpy.fused import fused
from mjax._numpy.quantiles import median
from mjax._numpy.ranges import linspace
from mjax._numpy.reductions import max as maximum
from mjax._numpy.reductions import min as minimum
from mjax._numpy.rounding import round as rounded
from mjax._numpy.statistics import mean
from mjax._numpy.vectorizing import apply_along_axis

Widths = tuple[tuple[int, int], ...]

#: Mode -> its keyword argument and its default.
_MODES: dict[str, tuple[str | None, Any]] = {
    "constant": ("constant_values", 0), "edge": (None, None), "empty": (None, None),
    "linear_ramp": ("end_values", 0), "maximum": ("stat_length", None),
    "mean": ("stat_length", None), "median": ("stat_length", None),
    "minimum": ("stat_length", None), "reflect": ("reflect_type", "even"),
    "symmetric": ("reflect_type", "even"), "wrap": (None, None)}


@boundary
def pad(array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any
        ) -> Any:
    """Adds elements at the ends of the axes.

    Args:
      array: array.
      pad_width: the numbers of elements before and after each axis, static:
        `((before_0, after_0), ...)`, or `((before, after),)`, `(before, after)`, `(both,)` or
        `both` for all axes.
      mode: the added values:

        - `"constant"`: `constant_values`, by default 0.
        - `"edge"`: the elements at the ends.
        - `"empty"`: unspecified.
        - `"linear_ramp"`: a ramp from the end to `end_values`, by default 0.
        - `"maximum"`, `"mean"`, `"median"`, `"minimum"`: of the `stat_length` elements next to
          the end, by default of all.
        - `"reflect"`, `"symmetric"`: a reflection, without or with the element at the end; with
          `reflect_type="odd"` reflected in value, too.
        - `"wrap"`: the elements from the other end.
        - a function `(vector, (before, after), axis, kwargs) -> vector`.
      kwargs: the argument of the mode, shaped like `pad_width` except for `reflect_type`.

    Returns:
      An array of the dtype of `array`.

    Raises:
      ValueError: a negative width, an argument that the mode does not take, an axis without
        elements to take from.
      TypeError: a width is not an integer.
      NotImplementedError: unknown mode.

    Source: `numpy.pad`.

    Example:
      >>> jnp.pad(jnp.array([1, 2, 3]), (2, 1), mode="reflect")
      Array([3, 2, 1, 2, 3, 2], dtype=int32)
    """
    if callable(mode):
        widths = _widths(pad_width, typeof(check_array("pad", array)).ndim)
        array = pad(array, widths)
        for axis, width in enumerate(widths):
            array = apply_along_axis(mode, axis, array, width, axis, kwargs)
        return array
    if mode not in _MODES:
        msg = f"pad: unknown mode {mode!r}; known are a function and {', '.join(_MODES)}."
        raise NotImplementedError(msg)
    argument, default = _MODES[mode]
    if not set(kwargs) <= {argument}:
        msg = f"pad: unsupported keyword arguments for mode {mode!r}: {sorted(kwargs)}."
        raise ValueError(msg)
    option = kwargs.get(argument, default) if argument else None
    given = pad_width if type(pad_width) is int else _ints(pad_width)
    if mode in ("constant", "linear_ramp"):
        return _pad(array, option, pad_width=given, mode=mode, option=None)
    return _pad(array, None, pad_width=given, mode=mode, option=_hashable(option))


def _hashable(x: Any) -> Any:
    return tuple(map(_hashable, x)) if isinstance(x, (list, tuple)) else x


@fused(values=("array",), static_argnames=("pad_width", "mode", "option"))
def _pad(array: Any, values: Any, *, pad_width: Any, mode: str, option: Any) -> Any:
    array = array_of(array)
    shape = shape_of(array)
    widths = _widths(pad_width, len(shape))
    for axis, ((before, after), n) in enumerate(zip(widths, shape, strict=True)):
        if n == 0 and (before or after) and mode not in ("constant", "empty"):
            msg = f"pad: cannot apply mode {mode!r} to axis {axis} of size 0, of shape {shape}."
            raise ValueError(msg)
    if mode == "linear_ramp":
        return _pad_ramp(array, _per_axis(values, len(shape)), widths)
    if mode in ("constant", "empty"):
        return _pad_constant(array, _per_axis(0 if mode == "empty" else values, len(shape)),
                             widths)
    if mode in _STATISTICS:
        return _pad_statistic(array, widths, mode, _lengths(option, shape))
    return _pad_with_elements(array, widths, mode, _is_odd(option))


# ---- arguments -------------------------------------------------------------------------


def _widths(pad_width: Any, ndim: int) -> Widths:
    nested = np.asarray(_ints(pad_width))
    try:
        pairs = np.broadcast_to(nested, (ndim, 2)) if nested.shape in (
            (ndim, 2), (1, 2), (2,), (1,), ()) else None
    except ValueError:
        pairs = None
    if pairs is None:
        msg = (f"pad: pad_width of shape {nested.shape} does not fit an array of {ndim} axes; "
               f"it must have shape ({ndim}, 2), (1, 2), (2,), (1,) or ().")
        raise ValueError(msg)
    if (pairs < 0).any():
        msg = f"pad: pad_width must not be negative, got {pad_width}."
        raise ValueError(msg)
    return tuple((int(a), int(b)) for a, b in pairs)


def _ints(widths: Any) -> Any:
    if isinstance(widths, (list, tuple)):
        return tuple(map(_ints, widths))
    if isinstance(widths, np.ndarray):
        return _ints(widths.tolist())
    if hasattr(widths, "aval") and typeof(widths).ndim:
        return _ints(np.asarray(widths))
    return concrete_int(widths, "pad: each of pad_width")


def _per_axis(values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Pairs of scalars for each axis, from pairs or scalars for one or all axes."""
    if hasattr(values, "ndim") and values.ndim:
        values = [list(v) if values.ndim > 1 else v for v in values]
    if not isinstance(values, (list, tuple)):
        return [(values, values)] * ndim
    if all(not isinstance(v, (list, tuple)) for v in values):
        values = [values]
    pairs = [tuple(v) * 2 if len(v) == 1 else tuple(v) for v in values]
    pairs = pairs * ndim if len(pairs) == 1 else pairs
    if len(pairs) != ndim or any(len(p) != 2 for p in pairs):
        msg = f"pad: {values} does not give a pair of values for each of {ndim} axes."
        raise ValueError(msg)
    return pairs


def _lengths(stat_length: Any, shape: Sequence[int]) -> Widths | None:
    if stat_length is None:
        return None
    lengths = tuple((concrete_int(a, "pad: stat_length"), concrete_int(b, "pad: stat_length"))
                    for a, b in _per_axis(stat_length, len(shape)))
    if any(n <= 0 for pair in lengths for n in pair):
        msg = f"pad: stat_length must be positive, got {stat_length}."
        raise ValueError(msg)
    return lengths


def _is_odd(reflect_type: Any) -> bool:
    if reflect_type not in (None, "even", "odd"):
        msg = f"pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}."
        raise ValueError(msg)
    return reflect_type == "odd"


# ---- modes -----------------------------------------------------------------------------


def _pad_constant(array: Any, values: Sequence[tuple[Any, Any]], widths: Widths) -> Any:
    dtype = typeof(array).dtype
    used = [(v, w) for pair, width in zip(values, widths, strict=True)
            for v, w in zip(pair, width, strict=True) if w]
    if dtypes.is_extended(dtype):
        msg = f"pad: an array of dtype {dtype} cannot be padded with constants."
        raise TypeError(msg)
    if not used:
        return array
    weak = typeof(array).weak_type
    scalars = [[cast(check_array("pad", v), dtype, weak) for v in pair] for pair in values]
    if all(v is used[0][0] for v, _ in used):
        config = tuple((before, after, 0) for before, after in widths)
        return pad_p.bind(array, cast(used[0][0], dtype, weak), padding_config=config)
    for axis, (pair, (before, after)) in enumerate(zip(scalars, widths, strict=True)):
        for value, low, high in ((pair[0], before, 0), (pair[1], 0, after)):
            config = tuple((low, high, 0) if i == axis else (0, 0, 0) for i in range(len(widths)))
            array = pad_p.bind(array, value, padding_config=config) if low or high else array
    return array


def _join(parts: Sequence[Any], axis: int) -> Any:
    parts = [p for p in parts if shape_of(p)[axis]]
    return concatenate_p.bind(*parts, dimension=axis) if len(parts) > 1 else parts[0]


def _at_ends(array: Any, axis: int) -> tuple[Any, Any]:
    """The first and the last element along an axis, with the axis kept."""
    return (slice_in_dim(array, 0, 1, axis=axis),
            slice_in_dim(array, shape_of(array)[axis] - 1, None, axis=axis))


def _stretched(x: Any, axis: int, size: int) -> Any:
    """`x`, of size 1 along an axis, repeated."""
    shape = shape_of(x)
    return broadcast_to(x, (*shape[:axis], size, *shape[axis + 1 :]))


def _pad_ramp(array: Any, values: Sequence[tuple[Any, Any]], widths: Widths) -> Any:
    dtype, weak = weak_type_of(array)
    for axis, (pair, width) in enumerate(zip(values, widths, strict=True)):
        ramps = []
        for end, edge, n in zip(pair, _at_ends(array, axis), width, strict=True):
            ramp = linspace(cast(check_array("pad", end), dtype), squeeze(edge, (axis,)), n,
                            endpoint=False, dtype=dtype, axis=axis)
            ramps.append(cast(ramp, dtype, weak))
        array = _join([ramps[0], array, rev(ramps[1], (axis,))], axis)
    return array


_STATISTICS = {"maximum": maximum, "mean": mean, "median": median, "minimum": minimum}


def _pad_statistic(array: Any, widths: Widths, mode: str, lengths: Widths | None) -> Any:
    dtype, weak = weak_type_of(array)
    for axis, width in enumerate(widths):
        size = shape_of(array)[axis]
        pair = (size, size) if lengths is None else tuple(min(n, size) for n in lengths[axis])
        parts = []
        for start, stop, n in ((0, pair[0], width[0]), (size - pair[1], size, width[1])):
            value = _STATISTICS[mode](slice_in_dim(array, start, stop, axis=axis), axis=axis,
                                      keepdims=True)
            if dtypes.is_integer(dtype):
                value = rounded(value)
            parts.append(_stretched(cast(value, dtype, weak), axis, n))
        array = _join([parts[0], array, parts[1]], axis)
    return array


def _pad_with_elements(array: Any, widths: Widths, mode: str, odd: bool) -> Any:
    for axis, width in enumerate(widths):
        size = shape_of(array)[axis]
        if any(width) and is_symbolic_dim(size) and not odd:
            array = _pad_beside(array, width, axis, mode)
        elif any(width):
            # NumPy itself computes the source of each element.
            places = np.pad(np.arange(size), width, mode=mode)  # type: ignore[call-overload]
            if odd and size > (mode == "reflect"):
                array = _pad_odd(array, places, width, axis, mode)
            else:
                array = _in_runs(array, places, axis)
    return array


def _pad_beside(array: Any, width: tuple[int, int], axis: int, mode: str) -> Any:
    """Pads along an axis of symbolic size, which must be at least the size of the padding.

    Raises:
      InconclusiveDimensionOperation: it may be less.
    """
    size = shape_of(array)[axis]
    low, high = width
    if mode == "edge":
        first, last = _at_ends(array, axis)
        return _join([_stretched(first, axis, low), array, _stretched(last, axis, high)], axis)
    if mode == "wrap":
        places = (size - low, size), (0, high)
    else:
        inner = int(mode == "reflect")  # the ends themselves are not repeated
        places = (inner, low + inner), (size - high - inner, size - inner)
    before, behind = (slice_in_dim(array, *place, axis=axis) for place in places)
    if mode != "wrap":
        before, behind = rev(before, (axis,)), rev(behind, (axis,))
    return _join([before, array, behind], axis)


def _in_runs(array: Any, places: np.ndarray[Any, Any], axis: int) -> Any:
    """The elements at the given places, as slices: forwards, backwards or of one element."""
    parts, start, n = [], 0, len(places)
    while start < n:
        step = int(places[start + 1] - places[start]) if start + 1 < n else 1
        stop = start + 1
        while stop < n and abs(step) <= 1 and places[stop] - places[stop - 1] == step:
            stop += 1
        low, high = int(min(places[start], places[stop - 1])), int(max(
            places[start], places[stop - 1]))
        part = slice_in_dim(array, low, high + 1, axis=axis)
        if step == 0:
            part = _stretched(part, axis, stop - start)
        parts.append(rev(part, (axis,)) if step == -1 else part)
        start = stop
    return _join(parts, axis)


def _pad_odd(array: Any, places: np.ndarray[Any, Any], width: tuple[int, int], axis: int,
             mode: str) -> Any:
    """Reflects places and values at the ends.

    At each reflection at an end with value `e` a value `v` becomes `2 e - v`. After
    several reflections, a value has a sign and a multiple of the difference of both ends.
    """
    size, dtype, weak = shape_of(array)[axis], *weak_type_of(array)
    period = size - 1 if mode == "reflect" else size
    distance = np.arange(-width[0], size + width[1])
    # The copy of the array that a place is in, counted from the original; odd ones are mirrored.
    copy = np.floor_divide(distance, period)
    if mode == "reflect":
        copy = np.where(distance == size - 1, 0, copy)
    mirrored = copy % 2 != 0
    # With `d = last - first`: copy 2k holds v + 2kd, copy 2k + 1 holds 2 last - v + 2kd.
    coefficients = {"value": np.where(mirrored, -1, 1),
                    "last": np.where(mirrored, copy + 1, copy),
                    "first": -np.where(mirrored, copy - 1, copy)}
    first, last = _at_ends(array, axis)
    total = None
    for x, name in ((_in_runs(array, places, axis), "value"), (last, "last"), (first, "first")):
        column = broadcast_in_dim(coefficients[name].astype(dtype), [
            len(distance) if i == axis else 1 for i in range(typeof(array).ndim)], (axis,))
        term = mul(_stretched(x, axis, len(distance)) if name != "value" else x, column)
        total = term if total is None else add(total, term)
    return cast(total, dtype, weak)


__all__ = ["pad"]
