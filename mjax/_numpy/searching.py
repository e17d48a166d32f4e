"""Searching sorted arrays: searchsorted, digitize."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.sizes import beyond, is_symbolic_dim
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import (
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    eq,
    imag,
    le,
    lt,
    ne,
    real,
    sub,
)
from mjax._engine.primitives.arithmetic import min as minimum
from mjax._engine.primitives.gather import GatherScatterMode, take_on_axis
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    as_settled,
    broadcast_in_dim,
    expand_dims,
    full,
    reduce_sum,
    reshape,
    scalar_of,
)
from mjax._engine.primitives.slicing import index_in_dim, slice_in_dim
from mjax._engine.primitives.sort import argsort
from mjax._numpy.core import broadcast_to, cast, promote_dtypes, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.shapes import ravel

_METHODS = ("compare_all", "scan", "scan_unrolled", "sort")


def less(x: Any, y: Any) -> Any:
    """`x < y` in the order of `sort`: NaN comes last, complex numbers by real, imaginary part."""
    kind = dtypes.kind(typeof(x).dtype)
    if kind == "c":
        first, second = [(f(x), f(y)) for f in (real, imag)]
        same = bitwise_not(bitwise_or(less(*first), less(*first[::-1])))
        return bitwise_or(less(*first), bitwise_and(same, less(*second)))
    if kind != "f":
        return lt(x, y)
    return bitwise_or(lt(x, y), bitwise_and(ne(y, y), eq(x, x)))


def _goes_before(a: Any, v: Any, side: str) -> Any:
    """Whether elements of the sorted array come before the result's position."""
    return less(a, v) if side == "left" else bitwise_not(less(v, a))


def _by_bisection(a: Any, v: Any, side: str, dtype: np.dtype[Any]) -> Any:
    """Counts the smaller elements, from the highest binary digit of the count down."""
    n, shape = shape_of(a)[0], shape_of(v)
    count, (size, last_place) = full(shape, 0, dtype), [
        scalar_of(ShapedArray((), dtype), x) for x in (n, n - 1)]
    for digit in reversed(range(31 if is_symbolic_dim(n) else n.bit_length())):
        more = add(count, as_settled(np.asarray(2**digit, dtype)))
        place = minimum(sub(more, np.ones((), dtype)), last_place)
        last = take_on_axis(a, place, 0, mode=GatherScatterMode.PROMISE_IN_BOUNDS)
        fits = bitwise_and(le(more, size), _goes_before(last, v, side))
        count = select_n(fits, count, more)
    return count


def _by_comparison(a: Any, v: Any, side: str, dtype: np.dtype[Any]) -> Any:
    shape = (*shape_of(v), *shape_of(a))
    a = broadcast_in_dim(a, shape, (len(shape) - 1,))
    v = broadcast_in_dim(v, shape, tuple(range(len(shape) - 1)))
    return reduce_sum(cast(_goes_before(a, v, side), dtype), (len(shape) - 1,))


def _ranks(x: Any, dtype: np.dtype[Any]) -> Any:
    """The position of each element in the sorted array."""
    n = shape_of(x)[0]
    places = reshape(cast(argsort(x), dtype), (n, 1))
    return scatter(full((n,), 0, dtype), places, iota(dtype, n),
                   ScatterDimensionNumbers((), (0,), (0,)), unique_indices=True,
                   mode="promise_in_bounds")


def _by_sorting(a: Any, v: Any, side: str, dtype: np.dtype[Any]) -> Any:
    flat, size = ravel(v), math.prod(shape_of(v))
    both = concatenate([flat, a] if side == "left" else [a, flat])
    start = 0 if side == "left" else shape_of(a)[0]
    in_both = slice_in_dim(_ranks(both, dtype), start, start + size)
    return reshape(sub(in_both, _ranks(flat, dtype)), shape_of(v))


@fused(values=("a", "v", "sorter"), static_argnames=("side", "method"))
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
                 ) -> Any:
    """The indices at which values can be inserted into a sorted array in order.

    Args:
      a: sorted array of one axis.
      v: values.
      side: `"left"`: before equal elements; `"right"`: after them.
      sorter: indices that sort `a`, if it is not sorted.
      method: the algorithm: `"scan"` and `"scan_unrolled"` (bisection), `"compare_all"` (fast for
        small arrays), `"sort"` (fast for many values on accelerators).

    Returns:
      Indices (int32) of the shape of `v`, from 0 to the size of `a`.

    Raises:
      ValueError: `a` does not have one axis; unknown side or method.

    Source: `numpy.searchsorted`.

    Example:
      >>> jnp.searchsorted(jnp.array([1, 2, 2, 4]), jnp.array([2, 3]))
      Array([1, 3], dtype=int32)
    """
    for name, value, accepted in (("side", side, ("left", "right")), ("method", method, _METHODS)):
        if value not in accepted:
            msg = f"searchsorted: {name} must be one of {', '.join(accepted)}, got {value!r}."
            raise ValueError(msg)
    if typeof(a).ndim != 1:
        msg = f"searchsorted: a should be 1-dimensional, got shape {shape_of(a)}."
        raise ValueError(msg)
    a, v = promote_dtypes(a, v)
    if sorter is not None:
        a = take_on_axis(a, sorter, 0)
    dtype = np.dtype(np.int64 if beyond(shape_of(a)[0], 2**30 - 1) else np.int32)
    if shape_of(a)[0] == 0:
        return full(shape_of(v), 0, dtype)
    search = {"compare_all": _by_comparison, "sort": _by_sorting}.get(method, _by_bisection)
    return search(a, v, side, dtype)


@fused(values=("x", "bins"), static_argnames=("right", "method"))
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The numbers of the bins to which values belong.

    Args:
      x: values.
      bins: bounds of the bins, increasing or decreasing.
      right: whether each bin includes its right bound, `bins[i-1] < x <= bins[i]`, instead of
        the left one.
      method: as in `searchsorted`.

    Returns:
      Indices (int32) of the shape of `x`: 0 before the first bound, the number of bounds after
      the last.

    Raises:
      ValueError: `bins` does not have one axis.

    Source: `numpy.digitize`.

    Example:
      >>> jnp.digitize(jnp.array([0.5, 1., 7.]), jnp.array([0., 1., 2.]))
      Array([1, 2, 3], dtype=int32)
    """
    if typeof(bins).ndim != 1:
        msg = f"digitize: bins must be a 1-dimensional array, got shape {shape_of(bins)}."
        raise ValueError(msg)
    n, side, method = shape_of(bins)[0], "left" if right else "right", method or "scan"
    if n == 0 or 0 in shape_of(x):
        return full(shape_of(x), 0, np.int32)
    up = searchsorted(bins, x, side, method=method)
    down = searchsorted(rev(bins, (0,)), x, side, method=method)
    down = sub(scalar_of(typeof(down), n), down)
    first, last = [index_in_dim(bins, i, keepdims=False) for i in (0, n - 1)]
    rising = (bitwise_not(less(last, first)) if dtypes.is_complex(typeof(bins).dtype) else
              le(first, last))
    return select_n(rising, down, up)


def equal_to_any(element: Any, test_elements: Any) -> Any:
    """Whether each element is among others, by comparing all pairs."""
    last = typeof(element).ndim
    pairs = eq(*[broadcast_to(x, (*shape_of(element), *shape_of(test_elements)))
                 for x in (expand_dims(element, (last,)), test_elements)])
    counts = reduce_sum(cast(pairs, np.dtype(np.int32)), (last,))
    return ne(counts, np.int32(0))


__all__ = ["digitize", "equal_to_any", "less", "searchsorted"]
