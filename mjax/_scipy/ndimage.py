"""Images of any number of axes: `map_coordinates`."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import round as round_away
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.core import (
    as_array,
    cast,
    check_array,
    common_shape,
    dtype_of,
    incompatible_shapes,
    shape_of,
)
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.rounding import floor
from mjax._numpy.selecting import clip, where

# ---- beyond the edges ------------------------------------------------------------------


def _mirrored(index: Any, size: int) -> Any:
    """At the centres of the outermost elements."""
    last = size - 1
    return absolute((index + last) % (2 * last) - last)


def _reflected(index: Any, size: int) -> Any:
    """At the outer sides of the outermost elements: in half steps, which begin there."""
    return (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2


#: Mode -> from indices anywhere to indices of elements.
_MODES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": _reflected,
}


# ---- interpolation ---------------------------------------------------------------------


def _rounded(x: Any) -> Any:
    """Halves away from zero; integers stay."""
    return round_away(x) if dtypes.is_inexact(typeof(x).dtype) else x


def _neighbours(coordinate: Any, order: int) -> list[tuple[Any, Any]]:
    """Indices of the elements that count, with their weights."""
    if order == 0:
        one = np.ones((), typeof(coordinate).dtype)
        return [(cast(_rounded(coordinate), np.dtype(np.int32)), one)]
    below = floor(coordinate)
    part = coordinate - below
    index = cast(below, np.dtype(np.int32))
    return [(index, 1 - part), (index + 1, part)]


@fused(static_argnames=("order", "mode"))
def map_coordinates(input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant",
                    cval: Any = 0.0) -> Any:
    """Values of an array between its elements.

    Args:
      input: the array, of any number of axes.
      coordinates: for each axis an array of places; they broadcast, and 0 is the first element.
      order: 0 for the value of the nearest element, 1 for linear interpolation.
      mode: the values beyond the edges. "constant": `cval`; "nearest": the outermost element;
        "wrap": the array again. "mirror" and "reflect": the array mirrored at the centres, or at
        the outer sides, of its outermost elements.
      cval: the value of "constant".

    Returns:
      An array of the shape of the places and of the dtype of `input`; integers are rounded.

    Raises:
      TypeError: `input` is not an array of numbers, or `cval` is complex and they are real.
      TypeError, ValueError: the arrays of places do not broadcast.
      ValueError: the arrays of places are not one for each axis, or `order` is an array.
      NotImplementedError: another order or mode.

    "wrap" and "constant" are SciPy's "grid-wrap" and "grid-constant": a place between the array
    and what is beyond is interpolated, too. SciPy has splines of higher orders.

    Source: `scipy.ndimage.map_coordinates`.

    Example:
      >>> from mjax.scipy.ndimage import map_coordinates
      >>> x = jnp.arange(6.0).reshape(2, 3)
      >>> map_coordinates(x, [jnp.array([0.5, 0.0]), jnp.array([1.0, 1.5])], order=1)
      Array([2.5, 1.5], dtype=float32)
    """
    input = as_array(asarray(input))
    if dtypes.is_extended(typeof(input).dtype):
        msg = f"map_coordinates: keys of dtype {typeof(input).dtype} cannot be interpolated."
        raise TypeError(msg)
    places = [asarray(c) for c in coordinates]
    shape = shape_of(input)
    if len(places) != len(shape):
        raise LazyValueError(lambda: (
            f"map_coordinates: an array of shape {shape} takes coordinates for each of its "
            f"{len(shape)} axes, got {len(places)} arrays."))
    try:
        common_shape([shape_of(c) for c in places])
    except ValueError:
        raise incompatible_shapes("map_coordinates", [shape_of(c) for c in places]) from None
    if mode not in _MODES:
        msg = f"map_coordinates: mode must be one of {', '.join(_MODES)}, got {mode!r}."
        raise NotImplementedError(msg)
    try:
        hash(order)
    except TypeError as error:
        msg = (f"map_coordinates: order must be a number that is known when the program is traced, "
               f"got {order!r}.")
        raise ValueError(msg) from error
    if order not in (0, 1):
        msg = (f"map_coordinates: order must be 0 (nearest) or 1 (linear), got {order!r}. "
               "For cubic interpolation of images there is mjax.image.scale_and_translate.")
        raise NotImplementedError(msg)
    if dtypes.is_complex(dtype_of(check_array("map_coordinates", cval, "cval"))) and (
            not dtypes.is_complex(typeof(input).dtype)):
        msg = (f"map_coordinates: the elements are of dtype {typeof(input).dtype}, so that cval "
               f"cannot be complex, got {cval!r}.")
        raise TypeError(msg)
    return _mapped(input, places, cval, order=int(order), mode=mode)


def _mapped(input: Any, places: Any, cval: Any, *, order: int, mode: str) -> Any:
    dtype, shape = typeof(input).dtype, shape_of(input)
    cval = cast(cval, dtype)
    axes = [[((_MODES[mode](index, size), (index >= 0) & (index < size)), weight)
             for index, weight in _neighbours(place, order)]
            for place, size in zip(places, shape, strict=True)]
    terms = []
    for corner in itertools.product(*axes):
        nodes, weights = [list(parts) for parts in zip(*corner, strict=True)] or ([], [])
        value = input[tuple(index for index, _ in nodes)]
        if mode == "constant" and nodes:
            value = where(functools.reduce(operator.and_, [inside for _, inside in nodes]), value,
                          cval)
        terms.append(functools.reduce(operator.mul, weights) * value if weights else value)
    total = functools.reduce(operator.add, terms)
    return cast(_rounded(total) if dtypes.is_integer(dtype) else total, dtype)


__all__ = ["map_coordinates"]
