"""Interpolation on grids: `RegularGridInterpolator`."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.faces import rehome
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import GetAttrKey
from mjax._engine.ir.tree_registration import register_pytree_with_keys
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._engine.runtime.arrays.array import Array
from mjax._numpy.core import (
    broadcast_values,
    cast,
    check_array,
    check_arrays,
    promote_dtypes_inexact,
    shape_of,
    size_of,
)
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.joining import stack
from mjax._numpy.searching import searchsorted
from mjax._numpy.selecting import clip, where

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Interpolates values on a rectangular grid; call it with points.

    Args:
      points: for each axis of the grid a vector of coordinates, strictly increasing.
      values: the values on the grid; trailing axes are those of each value.
      method: "linear" or "nearest".
      bounds_error: must be False, since a compiled program cannot raise on values.
      fill_value: the value outside the grid; None extrapolates.

    Raises:
      ValueError: `method` is unknown, the grid does not match the shape of `values`, or
        `fill_value` does not match their dtype.
      NotImplementedError: `bounds_error` is true.

    It is a pytree of the grid, the values and the fill value. SciPy's version also takes decreasing
    coordinates, has splines, and by default raises outside the grid.

    Source: `scipy.interpolate.RegularGridInterpolator`.

    Example:
      >>> from mjax.scipy.interpolate import RegularGridInterpolator
      >>> x, y = jnp.array([0.0, 1.0, 3.0]), jnp.array([0.0, 2.0])
      >>> f = RegularGridInterpolator((x, y), x[:, None] + 10 * y)
      >>> f(jnp.array([[0.5, 1.0], [2.0, 0.0], [4.0, 0.0]]))
      Array([10.5,  2. ,  nan], dtype=float32)
    """

    method: str
    grid: tuple[Array, ...]
    values: Array

    @boundary
    def __init__(self, points: Sequence[Any], values: Any, method: str = "linear",
                 bounds_error: bool = False, fill_value: Any = np.nan):
        self.method = _known(method)
        self.bounds_error = bounds_error
        if bounds_error:
            msg = ("RegularGridInterpolator: bounds_error must be False: a compiled program "
                   "cannot raise on values. Points outside the grid get fill_value.")
            raise NotImplementedError(msg)
        name = "RegularGridInterpolator"
        (values,) = promote_dtypes_inexact(check_array(name, values, "values"))
        if len(points) > len(shape_of(values)):
            raise LazyValueError(lambda: (
                f"{name}: the grid has {len(points)} axes, but values of shape {shape_of(values)} "
                f"only {len(shape_of(values))}."))
        if fill_value is not None:
            fill_value = array_of(check_array(name, fill_value, "fill_value"))
            given, own = typeof(fill_value).dtype, typeof(values).dtype
            if dtypes.is_complex(given) and not dtypes.is_complex(own):
                msg = f"{name}: a fill_value of dtype {given} does not fit values of dtype {own}."
                raise ValueError(msg)
        self.fill_value = fill_value
        self.grid = tuple([array_of(p) for p in check_arrays(name, *points)])
        sizes = tuple([typeof(p).size for p in self.grid])
        if sizes != shape_of(values)[:len(sizes)]:
            raise LazyValueError(lambda: (
                f"{name}: points has {sizes} coordinates along the axes of the grid; the "
                f"shape of values must begin with them, got {shape_of(values)}."))
        self.values = array_of(values)

    @boundary
    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """Interpolated values.

        Args:
          xi: points, an array of shape `(..., n)` for a grid of `n` axes; or a tuple of `n` arrays
            of coordinates, which broadcast. A vector is one point, or several if `n` is 1.
          method: "linear" or "nearest"; by default that of the interpolator.

        Returns:
          An array of the shape of the points and the further axes of the values.

        Raises:
          ValueError: the points have another number of coordinates, or `method` is unknown.
        """
        method = self.method if method is None else _known(method)
        n, xi = len(self.grid), _places(xi, len(self.grid))
        shape = shape_of(xi)
        if not shape or shape[-1] != n:
            raise LazyValueError(lambda: (
                f"RegularGridInterpolator: the grid has {n} axes, so points must have "
                f"shape (..., {n}), got {shape}."))
        return _interpolated(xi, list(self.grid), self.values, self.fill_value, method=method)


rehome(RegularGridInterpolator, "mjax.scipy.interpolate")


def _known(method: str) -> str:
    if method not in _METHODS:
        msg = (f"RegularGridInterpolator: method must be one of {', '.join(_METHODS)}, got "
               f"{method!r}.")
        raise ValueError(msg)
    return method


def _places(xi: Any, n: int) -> Any:
    """The points, with their coordinates on the last axis."""
    if isinstance(xi, tuple) and len(xi) == 1:
        xi = xi[0]
    if isinstance(xi, tuple):
        parts = broadcast_values("RegularGridInterpolator", *[asarray(x) for x in xi])
        return stack([cast(x, dtypes.dtype_of_python(float)) for x in parts], axis=-1)
    xi = array_of(check_array("RegularGridInterpolator", xi, "xi"))
    return xi.reshape(-1, n) if typeof(xi).ndim == 1 else xi


@fused(static_argnames=("method",))
def _interpolated(xi: Any, grid: list[Any], values: Any, fill: Any, *, method: str) -> Any:
    shape, n = shape_of(xi), len(grid)
    rest = shape_of(values)[n:]
    rows = xi.reshape(size_of(shape[:-1]), n).T
    cells = [_cell(rows[i], g) for i, g in enumerate(grid)]
    if method == "nearest":
        out = values[tuple([where(part <= 0.5, i, i + 1) for i, part, _ in cells])]
    else:
        out = _on_corners(values, cells)
    if fill is not None:
        outside = functools.reduce(operator.or_, [outside for _, _, outside in cells])
        out = where(outside.reshape(-1, *[1] * len(rest)), fill, out)
    return out.reshape(*shape[:-1], *rest)


def _cell(x: Any, grid: Any) -> tuple[Any, Any, Any]:
    """The cells of a grid axis in which coordinates lie.

    Returns:
      The index of the lower end of each cell, the fraction of the cell below the coordinate, and
      whether the coordinate is outside the grid.
    """
    i = clip(searchsorted(grid, x) - 1, 0, shape_of(grid)[0] - 2)
    start = grid[i]
    return i, (x - start) / (grid[i + 1] - start), (x < grid[0]) | (x > grid[-1])


def _on_corners(values: Any, cells: Sequence[tuple[Any, Any, Any]]) -> Any:
    """The sum of the values at the corners of the cells, with their weights."""
    terms = []
    for corner in itertools.product((0, 1), repeat=len(cells)):
        index = tuple([i + 1 if end else i for end, (i, _, _) in zip(corner, cells, strict=True)])
        weights = [part if end else 1 - part
                   for end, (_, part, _) in zip(corner, cells, strict=True)]
        weight = functools.reduce(operator.mul, weights)
        here = values[index]
        terms.append(here * weight.reshape(-1, *[1] * (typeof(here).ndim - 1)))
    return functools.reduce(operator.add, terms)


# ---- as a pytree -----------------------------------------------------------------------


def _flatten(f: RegularGridInterpolator) -> tuple[Any, Any]:
    return ([(GetAttrKey(name), getattr(f, name)) for name in ("grid", "values", "fill_value")],
            (f.method, f.bounds_error))


def _unflatten(aux: tuple[str, bool], children: Sequence[Any]) -> RegularGridInterpolator:
    # Unchecked: children may be any object.
    f = object.__new__(RegularGridInterpolator)
    f.grid, f.values, f.fill_value = children
    f.method, f.bounds_error = aux
    return f


register_pytree_with_keys(RegularGridInterpolator, _flatten, _unflatten)

__all__ = ["RegularGridInterpolator"]
