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
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.core import (
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

# ---- indices beyond the edges ----------------------------------------------------------


def _mirrored(index: Any, size: int) -> Any:
    """Mirrors indices at the centers of the outermost elements."""
    last = size - 1
    return absolute((index + last) % (2 * last) - last)


def _reflected(index: Any, size: int) -> Any:
    """Mirrors indices at the outer edges of the outermost elements, counted in half steps."""
    return (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2


#: Mode -> function from any index to the index of an element.
_MODES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": _reflected,
}


# ---- interpolation ---------------------------------------------------------------------


def _rounded(x: Any) -> Any:
    """Rounds, halves away from zero; integers are unchanged."""
    return round_away(x) if dtypes.is_inexact(typeof(x).dtype) else x


def _neighbours(coordinate: Any, order: int) -> list[tuple[Any, Any]]:
    """The indices of the contributing elements, with their weights."""
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
    """Interpolates an array between its elements.

    Args:
      input: the array, of any number of axes.
      coordinates: an array of indices for each axis, fractions included; the arrays broadcast.
      order: 0 for the nearest element, 1 for linear interpolation.
      mode: the values beyond the edges. "constant": `cval`; "nearest": the outermost element;
        "wrap": the array repeats. "mirror" and "reflect": the array is mirrored at the centers,
        or at the outer edges, of its outermost elements.
      cval: the value of "constant".

    Returns:
      An array of the broadcast shape of the coordinates and the dtype of `input`; integers are
      rounded.

    Raises:
      TypeError: `input` is not an array of numbers, or `cval` is complex and `input` is real.
      TypeError, ValueError: the coordinates do not broadcast.
      ValueError: there is not one array of coordinates for each axis, or `order` is an array.
      NotImplementedError: `order` or `mode` is not supported.

    "wrap" and "constant" are SciPy's "grid-wrap" and "grid-constant", which interpolate across
    edges too. SciPy has splines of higher orders.

    Source: `scipy.ndimage.map_coordinates`.

    Example:
      >>> from mjax.scipy.ndimage import map_coordinates
      >>> x = jnp.arange(6.0).reshape(2, 3)
      >>> map_coordinates(x, [jnp.array([0.5, 0.0]), jnp.array([1.0, 1.5])], order=1)
      Array([2.5, 1.5], dtype=float32)
    """
    input = array_of(asarray(input))
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
        msg = (f"map_coordinates: order must be a static number, got {order!r}. "
               "Under jit, mark the argument static or close over the number.")
        raise ValueError(msg) from error
    if order not in (0, 1):
        msg = (f"map_coordinates: order must be 0 (nearest) or 1 (linear), got {order!r}. "
               "mjax.image.scale_and_translate has cubic interpolation.")
        raise NotImplementedError(msg)
    if dtypes.is_complex(dtype_of(check_array("map_coordinates", cval, "cval"))) and (
            not dtypes.is_complex(typeof(input).dtype)):
        msg = (f"map_coordinates: the elements are of dtype {typeof(input).dtype}, so cval "
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
