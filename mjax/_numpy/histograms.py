"""Counting: bincount, histogram and its variants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add, div, eq, mul, sub
from mjax._engine.primitives.arithmetic import max as maximum
from mjax._engine.primitives.reductions import reduce_max, reduce_min
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter_add
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    array_of,
    as_settled,
    expand_dims,
    full,
    reshape,
    scalar_of,
)
from mjax._engine.primitives.slicing import index_in_dim, slice_in_dim
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.core import (
    cast,
    check_array,
    check_arrays,
    concrete_int,
    promote_dtypes_inexact,
    shape_of,
    wide_dtype,
    wide_sum,
)
from mjax._numpy.fused import fused
from mjax._numpy.ranges import linspace
from mjax._numpy.searching import searchsorted
from mjax._numpy.shapes import ravel


def _counted(places: Any, weights: Any, size: int) -> Any:
    """The sum of the weights at each place; places outside are ignored."""
    (n,) = shape_of(places)
    dtype = typeof(weights).dtype
    wide = wide_dtype(dtype)  # 256 + 1 is 256 in bfloat16
    total = scatter_add(full((size,), 0, wide), reshape(places, (n, 1)), cast(weights, wide),
                        ScatterDimensionNumbers((), (0,), (0,)), mode="drop")
    return cast(total, dtype)


# ---- bincount --------------------------------------------------------------------------


@lays_out
def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """The number of occurrences of each of the integers 0, 1, ...

    Args:
      x: a vector of integers; negative ones count as 0.
      weights: the weight of each occurrence; by default 1.
      minlength: least size of the result.
      length: size of the result; greater integers are ignored. It is needed under `jit`; by
        default the greatest integer plus one.

    Returns:
      An array of one axis.

    Raises:
      TypeError: `x` does not hold integers.
      ValueError: `x` does not have one axis, or the weights have another shape.
      ConcretizationTypeError: `x` is traced and the length is missing.

    Source: `numpy.bincount`.

    Example:
      >>> jnp.bincount(jnp.array([1, 0, 1, 3]))
      Array([1, 2, 0, 1], dtype=int32)
    """
    x = check_array("bincount", x)
    if dtypes.kind(typeof(x).dtype) not in "biu":
        msg = f"bincount: x must have an integer type, got {typeof(x).dtype}."
        raise TypeError(msg)
    if typeof(x).ndim != 1:
        msg = f"bincount: only 1-dimensional input is supported, got shape {shape_of(x)}."
        raise ValueError(msg)
    minlength = concrete_int(minlength, "bincount: minlength")
    if length is None:
        try:
            values = np.asarray(x)
        except ConcretizationTypeError:
            raise ConcretizationTypeError(lambda: (
                f"bincount: the values of x, {typeof(x)}, are traced, so the size of the "
                "result is not known. Give the argument `length`.")) from None
        length = max(minlength, int(values.max()) + 1 if values.size else 0)
    if weights is not None:
        weights = check_array("bincount", weights, "weights")
        if shape_of(weights) != shape_of(x):
            msg = (f"bincount: the shape of the weights, {shape_of(weights)}, must be that of x, "
                   f"{shape_of(x)}.")
            raise ValueError(msg)
    return _bincount(x, weights, length=concrete_int(length, "bincount: length"))


@fused(static_argnames=("length",))
def _bincount(x: Any, weights: Any, *, length: int) -> Any:
    if weights is None:
        weights = full(shape_of(x), 1, dtypes.dtype_of_python(int))
    if typeof(x).dtype == np.bool_:
        x = cast(x, np.dtype(np.int32))
    return _counted(maximum(x, scalar_of(typeof(x), 0)), array_of(weights), length)


# ---- histograms ------------------------------------------------------------------------


def _edges(a: Any, bins: Any, range: Any) -> Any:
    """The bounds of the bins, in the dtype of `a`, which is inexact."""
    dtype = typeof(a).dtype
    if np.ndim(bins) == 1:
        return cast(array_of(check_array("histogram", bins, "bins")), dtype)
    if np.ndim(bins) != 0:
        msg = f"histogram: bins must be an integer or have one axis, got {typeof(bins)}."
        raise ValueError(msg)
    if range is None:
        a = ravel(a)
        if 0 in shape_of(a):
            low, high = np.zeros((), dtype), np.ones((), dtype)
        else:
            low, high = reduce_min(a, (0,)), reduce_max(a, (0,))
    else:
        low, high = [cast(check_array("histogram", r, "range"), dtype) for r in (
            range if isinstance(range, (list, tuple)) else
            [index_in_dim(check_array("histogram", range, "range"), i, keepdims=False)
             for i in (0, 1)])]
    half = as_settled(np.asarray(0.5).astype(dtype))
    same = eq(low, high)
    low, high = select_n(same, low, sub(low, half)), select_n(same, high, add(high, half))
    return linspace(low, high, concrete_int(bins, "histogram: bins") + 1, dtype=dtype)


def _check_bins(name: str, bins: Any) -> Any:
    """`bins` as an int, which is static, or as an array."""
    if isinstance(bins, str):
        msg = f"{name}: the strategy {bins!r} for bins is not supported; give their number."
        raise NotImplementedError(msg)
    if isinstance(bins, (list, tuple)):
        return np.asarray(bins)
    return bins if np.ndim(bins) else concrete_int(bins, f"{name}: bins")


def _arrays_and_statics(bins: Any) -> tuple[list[Any], int | None]:
    return ([], bins) if isinstance(bins, int) else ([bins], None)


@boundary
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The bounds of the bins of a histogram.

    Args:
      a: values.
      bins: the number of bins, or their bounds.
      range: the least and greatest bound; by default of the values.
      weights: accepted for compatibility with NumPy; ignored.

    Returns:
      An array of one axis, of the inexact dtype of `a`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.histogram_bin_edges`.

    Example:
      >>> jnp.histogram_bin_edges(jnp.array([0., 2., 4.]), 2)
      Array([0., 2., 4.], dtype=float32)
    """
    a = check_array("histogram_bin_edges", a)
    given, number = _arrays_and_statics(_check_bins("histogram_bin_edges", bins))
    return _bin_edges(a, given, _bounds(range), number=number)


def _bounds(range: Any) -> list[Any]:
    if range is None:
        return []
    if isinstance(range, (list, tuple)):
        return check_arrays("histogram", *range)
    range = check_array("histogram", range, "range")
    return [index_in_dim(range, i, keepdims=False) for i in (0, 1)]


@fused(static_argnames=("number",))
def _bin_edges(a: Any, given: Sequence[Any], range: Sequence[Any], *, number: int | None) -> Any:
    (a,) = promote_dtypes_inexact(a)
    return _edges(a, number if number is not None else given[0], range or None)


@boundary
def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None,
              density: bool | None = None) -> tuple[Any, Any]:
    """The number of values in each bin.

    Args:
      a: values.
      bins: the number of bins of equal width, or their bounds, increasing. A bin includes its
        left bound; the last one includes both.
      range: the least and greatest bound; by default of the values.
      weights: the weight of each value; by default 1.
      density: whether counts are divided by their sum and the widths, so that the integral is 1.

    Returns:
      The counts, floats, and the bounds.

    Raises:
      ValueError: the weights have another shape.

    Source: `numpy.histogram`.

    Example:
      >>> jnp.histogram(jnp.array([0., 1., 1., 4.]), bins=2)
      (Array([3., 1.], dtype=float32), Array([0., 2., 4.], dtype=float32))
    """
    a = check_array("histogram", a)
    if weights is not None:
        weights = check_array("histogram", weights, "weights")
        if shape_of(weights) != shape_of(a):
            msg = (f"histogram: weights should have the same shape as a, got {shape_of(weights)} "
                   f"and {shape_of(a)}.")
            raise ValueError(msg)
    given, number = _arrays_and_statics(_check_bins("histogram", bins))
    return _histogram(a, given, _bounds(range), weights, number=number, density=bool(density))


@fused(static_argnames=("number", "density"))
def _histogram(a: Any, given: Sequence[Any], range: Sequence[Any], weights: Any, *,
               number: int | None, density: bool) -> tuple[Any, Any]:
    (a,) = promote_dtypes_inexact(a)
    if weights is None:
        weights = full(shape_of(a), 1, typeof(a).dtype)
    else:
        a, weights = promote_dtypes_inexact(a, weights)
    edges = _edges(a, number if number is not None else given[0], range or None)
    n = shape_of(edges)[0]
    # One additional bin at either end, for points outside.
    counts = slice_in_dim(
        _counted(ravel(_bin_of(a, edges)), ravel(array_of(weights)), n + 1), 1, n)
    if density:
        widths = sub(slice_in_dim(edges, 1, n), slice_in_dim(edges, 0, n - 1))
        counts = div(div(counts, widths), wide_sum(counts, (0,)))
    return counts, edges


def _bin_of(values: Any, edges: Any) -> Any:
    """The bin of each value: the number of bounds up to it; the last bin includes its end."""
    n = shape_of(edges)[0]
    numbers = searchsorted(edges, values, side="right")
    last = eq(values, index_in_dim(edges, n - 1, keepdims=False))
    return select_n(last, numbers, full(shape_of(numbers), n - 1, typeof(numbers).dtype))


@boundary
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None,
                density: bool | None = None) -> tuple[Any, Any, Any]:
    """The number of points of a plane in each rectangle.

    Args:
      x: first coordinates, a vector.
      y: second coordinates.
      bins: the number of bins, or their bounds, for both coordinates; or a pair of these.
      range: for each coordinate None or the least and greatest bound.
      weights: what each point counts for; by default 1.
      density: whether counts are divided by their sum and the areas.

    Returns:
      The counts, of shape `(nx, ny)`, and the bounds for `x` and for `y`.

    Raises:
      ValueError: shapes do not fit.

    Source: `numpy.histogram2d`.

    Example:
      >>> jnp.histogram2d(jnp.array([0., 1.]), jnp.array([0., 1.]), bins=2)[0]
      Array([[1, 0],
             [0, 1]], dtype=int32)
    """
    x, y = check_arrays("histogram2d", x, y)
    if shape_of(x) != shape_of(y) or typeof(x).ndim != 1:
        msg = (f"histogram2d: x and y must be one-dimensional arrays of one size, got shapes "
               f"{shape_of(x)} and {shape_of(y)}.")
        raise ValueError(msg)
    if (isinstance(bins, (list, tuple)) and len(bins) > 2) or (
            not isinstance(bins, (list, tuple)) and np.ndim(bins) == 1):
        bins = [bins, bins]
    counts, edges = _histogramdd("histogram2d", [x, y], bins, range, weights, density)
    return counts, edges[0], edges[1]


@boundary
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, weights: Any = None,
                density: bool | None = None) -> tuple[Any, list[Any]]:
    """The number of points of a space in each box.

    Args:
      sample: points, of shape `(n, d)`.
      bins: the number of bins, or their bounds, for all coordinates; or a list of these, one
        for each.
      range: for each coordinate None or the least and greatest bound.
      weights: what each point counts for; by default 1.
      density: whether counts are divided by their sum and the volumes.

    Returns:
      The counts, of shape `(n_1, ..., n_d)`, and a list of the bounds.

    Raises:
      ValueError: shapes do not fit.

    Source: `numpy.histogramdd`.

    Example:
      >>> jnp.histogramdd(jnp.array([[0., 0.], [1., 1.]]), bins=2)[0]
      Array([[1, 0],
             [0, 1]], dtype=int32)
    """
    sample = check_array("histogramdd", sample)
    if typeof(sample).ndim != 2:
        msg = f"histogramdd: sample must have shape (n, d), got {shape_of(sample)}."
        raise ValueError(msg)
    columns = [index_in_dim(sample, int(i), 1, keepdims=False)
               for i in np.arange(shape_of(sample)[1])]
    return _histogramdd("histogramdd", columns, bins, range, weights, density)


def _histogramdd(name: str, columns: list[Any], bins: Any, range: Any, weights: Any,
                 density: bool | None) -> tuple[Any, list[Any]]:
    d = len(columns)
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * d
    ranges = [None] * d if range is None else list(range)
    if len(each) != d or len(ranges) != d:
        msg = (f"{name}: bins and range must have one entry for each of the {d} coordinates, got "
               f"{len(each)} and {len(ranges)}.")
        raise ValueError(msg)
    if weights is not None and shape_of(check_array(name, weights)) != shape_of(columns[0]):
        msg = (f"{name}: weights must have one entry for each of the {shape_of(columns[0])[0]} "
               f"points, got shape {shape_of(weights)}.")
        raise ValueError(msg)
    parts = [_arrays_and_statics(_check_bins(name, b)) for b in each]
    return _histogram_of_columns(columns, [g for g, _ in parts], [_bounds(r) for r in ranges],
                                 weights, numbers=tuple(n for _, n in parts),
                                 density=bool(density))


@fused(static_argnames=("numbers", "density"))
def _histogram_of_columns(columns: Sequence[Any], given: Sequence[Any], ranges: Sequence[Any],
                          weights: Any, *, numbers: tuple[int | None, ...], density: bool
                          ) -> tuple[Any, list[Any]]:
    if weights is None:
        columns = promote_dtypes_inexact(*columns)
    else:
        *columns, weights = promote_dtypes_inexact(*columns, weights)
    edges = [_edges(x, n if n is not None else g[0], r or None)
             for x, n, g, r in zip(columns, numbers, given, ranges, strict=True)]
    # One additional bin at either end of each axis, for points outside.
    shape = [shape_of(e)[0] + 1 for e in edges]
    flat = full(shape_of(columns[0]), 0, np.int32)
    for x, e, n in zip(columns, edges, shape, strict=True):
        flat = add(mul(flat, np.int32(n)), _bin_of(x, e))
    if weights is None:
        weights = full(shape_of(flat), 1, dtypes.dtype_of_python(int))
    counts = reshape(_counted(flat, array_of(weights), math.prod(shape)), shape)
    for axis, n in enumerate(shape):
        counts = slice_in_dim(counts, 1, n - 1, axis=axis)
    if not density:
        return counts, edges
    (counts,) = promote_dtypes_inexact(counts)
    total = wide_sum(counts, range_of(len(shape)))
    for axis, e in enumerate(edges):
        n = shape_of(e)[0]
        widths = sub(slice_in_dim(e, 1, n), slice_in_dim(e, 0, n - 1))
        others = [i for i in range_of(len(shape)) if i != axis]
        counts = div(counts, cast(expand_dims(widths, others), typeof(counts).dtype))
    return div(counts, total), edges


#: The builtin; an argument has the same name.
range_of = range

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]
