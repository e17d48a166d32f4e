"""Arrays as sets: unique elements, membership, union, intersection, difference.

Elements are sorted, so that equal ones are neighbours; the first of each group of equal ones is
*marked*. The number of marks is the size of a result: it is read from the values, or given as
`size`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import (
    bitwise_and,
    bitwise_not,
    eq,
    ge,
    lt,
    ne,
    sub,
)
from mjax._engine.primitives.arithmetic import min as minimum
from mjax._engine.primitives.cumulative import cummax, cumsum
from mjax._engine.primitives.gather import GatherScatterMode, take_on_axis
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.reductions import reduce_or
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter, scatter_max
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    array_of,
    as_settled,
    broadcast_in_dim,
    full,
    reshape,
    scalar_of,
)
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.sort import argsort as order_of
from mjax._engine.primitives.sort import sort_p
from mjax._numpy.core import (
    cast,
    check_array,
    check_arrays,
    concrete_int,
    promote_dtypes,
    shape_of,
    weak_type_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.searching import equal_to_any, searchsorted
from mjax._numpy.selecting import flatnonzero
from mjax._numpy.shapes import moveaxis, ravel
from mjax._numpy.taking import compress

if TYPE_CHECKING:
    from mjax._engine.runtime.arrays.array import Array

_INSIDE = GatherScatterMode.PROMISE_IN_BOUNDS


# ---- groups of equal elements ----------------------------------------------------------


def _one_nan(x: Any) -> Any:
    """Complex numbers with one NaN in place of all: a number with a NaN in its imaginary part would
    be sorted by its real part."""
    if not dtypes.is_complex(typeof(x).dtype):
        return x
    x = cast(x, typeof(x).dtype)  # JAX sorts their parts, and its result is strongly typed
    return select_n(ne(x, x), x, full(shape_of(x), np.nan, typeof(x).dtype))


def _differ(x: Any, y: Any, equal_nan: bool) -> Any:
    different = ne(x, y)
    if equal_nan and dtypes.is_inexact(typeof(x).dtype):
        both = bitwise_and(ne(x, x), ne(y, y))
        different = bitwise_and(different, bitwise_not(both))
    return different


@fused(static_argnames=("equal_nan",))
def _groups(x: Any, *, equal_nan: bool) -> tuple[Any, Any]:
    """The indices that sort the rows of `x`, and marks at the first row of each group."""
    n, rest = shape_of(x)[0], math.prod(shape_of(x)[1:])
    rows = reshape(x, (n, rest))
    if typeof(x).ndim == 1:
        order = order_of(x)
    elif rest == 0:
        order = iota(np.int32, n)
    else:
        columns = [reshape(slice_in_dim(rows, i, i + 1, axis=1), (n,)) for i in range(rest)]
        *_, order = sort_p.bind(*columns, iota(np.int32, n), dimension=0, is_stable=True,
                                num_keys=rest)
    rows = take_on_axis(rows, order, 0)
    if n == 0:
        return order, full((0,), False, np.bool_)
    different = _differ(slice_in_dim(rows, 1, n), slice_in_dim(rows, 0, n - 1), equal_nan)
    return order, concatenate([full((1,), True, np.bool_), reduce_or(different, (1,))])


@fused
def _inverse(order: Any, marks: Any) -> Any:
    """For each element the number of its group."""
    n, dtype = shape_of(order)[0], dtypes.dtype_of_python(int)
    numbers = sub(cumsum(cast(marks, dtype), 0), np.ones((), dtype))
    return scatter(full((n,), 0, dtype), reshape(order, (n, 1)), numbers,
                   ScatterDimensionNumbers((), (0,), (0,)), unique_indices=True,
                   mode="promise_in_bounds")


def _known(name: str, value: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except ConcretizationTypeError:
        raise ConcretizationTypeError(lambda: (
            f"{name}: the number of resulting elements depends on traced values, so the result "
            "does not have a static shape. Give the argument `size`.")) from None


# ---- unique ----------------------------------------------------------------------------


class UniqueAllResult(Record):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(Record):
    values: Array
    counts: Array


class UniqueInverseResult(Record):
    values: Array
    inverse_indices: Array


@boundary
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False,
           return_counts: bool = False, axis: int | None = None, *, equal_nan: bool = True,
           size: int | None = None, fill_value: Any = None, sorted: bool = True) -> Any:
    """The distinct elements of an array, sorted.

    Args:
      ar: array.
      return_index: whether to return the index of each one's first occurrence too.
      return_inverse: whether to return each element's index among the distinct ones too.
      return_counts: whether to return the count of each too.
      axis: slices along this axis are compared; by default single elements.
      equal_nan: whether NaNs count as one element.
      size: the number of elements to return: more are cut off, missing ones are filled. It is
        needed under `jit`.
      fill_value: the value of missing ones; by default the least element.
      sorted: accepted for compatibility with NumPy; the result is always sorted.

    Returns:
      An array, or a tuple of it and the requested arrays.

    Raises:
      ConcretizationTypeError: `ar` is traced and the size is missing.
      ValueError: the axis is out of range, or a fill value is needed.

    Source: `numpy.unique`.

    Example:
      >>> jnp.unique(jnp.array([3, 1, 3, 2]), return_counts=True)
      (Array([1, 2, 3], dtype=int32), Array([1, 1, 2], dtype=int32))
    """
    ar = check_array("unique", ar)
    x = ravel(ar) if axis is None else moveaxis(ar, canonicalize_axis(axis, typeof(ar).ndim), 0)
    x = _one_nan(x)
    order, marks = _groups(x, equal_nan=bool(equal_nan))
    if size is None:
        values, index, counts = _unique_known(x, order, marks)
    else:
        size = concrete_int(size, "unique: size")
        if size and shape_of(x)[0] == 0 and fill_value is None:
            msg = ("unique: an array without elements does not have a least one; give a "
                   "fill_value.")
            raise ValueError(msg)
        fill = [] if fill_value is None else [check_array("unique", fill_value, "fill_value")]
        values, index, counts = _unique_sized(x, order, marks, fill, size=size)
    if axis is not None:
        values = moveaxis(values, 0, axis)
    results = [values]
    if return_index:
        results.append(index)
    if return_inverse:
        inverse = _inverse(order, marks)
        results.append(reshape(inverse, shape_of(ar)) if axis is None else inverse)
    if return_counts:
        results.append(counts)
    return results[0] if len(results) == 1 else tuple(results)


def _unique_known(x: Any, order: Any, marks: Any) -> tuple[Any, Any, Any]:
    starts = np.flatnonzero(_known("unique", marks))
    first = np.asarray(order)[starts]
    counts = np.diff(np.append(starts, shape_of(x)[0]))
    dtype = dtypes.dtype_of_python(int)
    return (take_on_axis(x, first, 0), array_of(first.astype(dtype)),
            array_of(counts.astype(dtype)))


@fused(static_argnames=("size",))
def _unique_sized(x: Any, order: Any, marks: Any, fill: Sequence[Any], *, size: int
                  ) -> tuple[Any, Any, Any]:
    n, dtype = shape_of(x)[0], dtypes.dtype_of_python(int)
    shape = (size, *shape_of(x)[1:])
    if n == 0:
        value = cast(fill[0], typeof(x).dtype) if fill else np.zeros((), typeof(x).dtype)
        none = full((size,), 0, dtype)
        return broadcast_in_dim(value, shape, ()), none, none
    starts = flatnonzero(marks, size=size + 1, fill_value=n)
    ends, starts = slice_in_dim(starts, 1, size + 1), slice_in_dim(starts, 0, size)
    found = lt(starts, scalar_of(typeof(starts), n))
    places = select_n(found, full((size,), 0, typeof(starts).dtype), starts)
    index = cast(take_on_axis(order, places, 0), dtype)
    values = take_on_axis(x, index, 0)
    if fill:
        filling = broadcast_in_dim(cast(fill[0], typeof(x).dtype), shape, range(
            len(shape) - typeof(fill[0]).ndim, len(shape)))
        values = select_n(broadcast_in_dim(found, shape, (0,)), filling, values)
    return values, index, cast(sub(ends, starts), dtype)


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None
               ) -> UniqueAllResult:
    """The distinct elements, their first indices, the inverse indices, and their counts.

    Args:
      x: array.
      size: as in `unique`.
      fill_value: as in `unique`.

    Returns:
      A named tuple `(values, indices, inverse_indices, counts)`; NaNs are distinct.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: the array API standard, `unique_all`.

    Example:
      >>> jnp.unique_all(jnp.array([3, 1, 3])).inverse_indices
      Array([1, 0, 1], dtype=int32)
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size,
                                    fill_value=fill_value))


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None
                  ) -> UniqueCountsResult:
    """The distinct elements, and their counts.

    Args:
      x: array.
      size: as in `unique`.
      fill_value: as in `unique`.

    Returns:
      A named tuple `(values, counts)`; NaNs are distinct.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: the array API standard, `unique_counts`.

    Example:
      >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
      Array([1, 2], dtype=int32)
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size,
                                       fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None
                   ) -> UniqueInverseResult:
    """The distinct elements, and the index of each element among them.

    Args:
      x: array.
      size: as in `unique`.
      fill_value: as in `unique`.

    Returns:
      A named tuple `(values, inverse_indices)`; NaNs are distinct.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: the array API standard, `unique_inverse`.

    Example:
      >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
      Array([1, 0, 1], dtype=int32)
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size,
                                        fill_value=fill_value))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements; NaNs are distinct.

    Args:
      x: array.
      size: as in `unique`.
      fill_value: as in `unique`.

    Returns:
      A vector of the dtype of `x`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: the array API standard, `unique_values`.

    Example:
      >>> jnp.unique_values(jnp.array([3, 1, 3]))
      Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ---- membership ------------------------------------------------------------------------


@fused(values=("element", "test_elements"), static_argnames=("assume_unique", "invert", "method"))
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         method: str = "auto") -> Any:
    """Whether each element is among others.

    Args:
      element: array.
      test_elements: array.
      assume_unique: accepted for compatibility with NumPy; ignored.
      invert: whether the result is negated.
      method: `"compare_all"` compares all pairs, `"binary_search"` and `"sort"` sort;
        `"auto"` chooses by size.

    Returns:
      A boolean array of the shape of `element`.

    Raises:
      ValueError: unknown method.

    Source: `numpy.isin`.

    Example:
      >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([3, 1]))
      Array([ True, False,  True], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        msg = (f"isin: method must be 'auto', 'compare_all', 'binary_search' or 'sort', got "
               f"{method!r}.")
        raise ValueError(msg)
    element, others = promote_dtypes(element, test_elements)
    others = ravel(others)
    n = shape_of(others)[0]
    if n == 0:
        found = full(shape_of(element), False, np.bool_)
    elif method == "compare_all" or (method == "auto" and n <= 32):
        found = equal_to_any(array_of(element), others)
    else:
        (others,) = sort_p.bind(others, dimension=0, is_stable=False, num_keys=1)
        places = searchsorted(others, element, method="sort" if method == "sort" else "scan")
        places = minimum(places, as_settled(np.array(n - 1, typeof(places).dtype)))
        found = eq(take_on_axis(others, places, 0, mode=_INSIDE), element)
    return bitwise_not(found) if invert else found


# ---- sets of elements of two arrays ----------------------------------------------------


def _with_fill(name: str, values: Any, size: int | None, fill_value: Any) -> tuple[Any, Any]:
    """Values and their fill value, in a common dtype; weak if the fill value is."""
    if size is None:
        return values, fill_value
    values = cast(values, typeof(values).dtype)
    if fill_value is None:
        return values, fill_value
    values, fill_value = promote_dtypes(values, check_array(name, fill_value, "fill_value"))
    return values, fill_value


def _choose(name: str, mask: Any, size: int | None, arrays: Sequence[tuple[Any, Any]]
            ) -> list[Any]:
    """The elements of arrays that a mask selects, each with its fill value; None: the first one."""
    if size is None:
        _known(name, mask)
        return [compress(mask, x) for x, _ in arrays]
    size = concrete_int(size, f"{name}: size")
    out = []
    for x, fill in arrays:
        if fill is None:
            fill = reshape(compress(mask, x, size=1), ()) if shape_of(x)[0] else 0
        out.append(cast(compress(mask, x, size=size, fill_value=fill), *weak_type_of(x)))
    return out


def _pair(name: str, ar1: Any, ar2: Any) -> tuple[Any, Any]:
    ar1, ar2 = promote_dtypes(*check_arrays(name, ar1, ar2))
    return ravel(ar1), ravel(ar2)


@boundary
def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of two arrays, sorted.

    Args:
      ar1: array.
      ar2: array.
      size: as in `unique`.
      fill_value: as in `unique`.

    Returns:
      A vector.

    Raises:
      ConcretizationTypeError: an array is traced and the size is missing.

    Source: `numpy.union1d`.

    Example:
      >>> jnp.union1d(jnp.array([3, 1]), jnp.array([2, 3]))
      Array([1, 2, 3], dtype=int32)
    """
    return unique(concatenate(list(_pair("union1d", ar1, ar2))), size=size,
                  fill_value=fill_value)


@boundary
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None,
              fill_value: Any = None) -> Any:
    """The distinct elements of one array that are not in another, sorted.

    Args:
      ar1: array.
      ar2: array.
      assume_unique: whether the elements of `ar1` are distinct; they then keep their order.
      size: the number of elements to return: more are cut off, missing ones are filled. It is
        needed under `jit`.
      fill_value: the value of missing ones; by default 0.

    Returns:
      A vector.

    Raises:
      ConcretizationTypeError: an array is traced and the size is missing.

    Source: `numpy.setdiff1d`.

    Example:
      >>> jnp.setdiff1d(jnp.array([3, 1, 2]), jnp.array([2]))
      Array([1, 3], dtype=int32)
    """
    ar1, ar2 = map(ravel, check_arrays("setdiff1d", ar1, ar2))
    mask = isin(ar1, ar2, invert=True)
    if not assume_unique:
        ar1 = _one_nan(ar1)
        order, marks = _groups(ar1, equal_nan=True)
        ar1, mask = take_on_axis(ar1, order, 0), bitwise_and(marks, take_on_axis(mask, order, 0))
    fill_value = 0 if fill_value is None else fill_value
    if type(fill_value) is int:  # of any size: the dtype is known
        fill_value = cast(fill_value, typeof(ar1).dtype)
    return _choose("setdiff1d", mask, size, [(ar1, fill_value)])[0]


@fused
def _sorted_pair(ar1: Any, ar2: Any) -> tuple[Any, Any, Any, Any]:
    """The sorted elements of both arrays, with the facts that find common groups.

    Returns:
      The elements; for each its index in its own array and the start of its group; and marks at
      the first element of the second array in each common group.
    """
    n, both = shape_of(ar1)[0], concatenate([ar1, ar2])
    order, marks = _groups(both, equal_nan=False)
    total = shape_of(both)[0]
    if total == 0:
        return both, order, order, marks
    second = ge(order, scalar_of(typeof(order), n))
    before = concatenate([full((1,), True, np.bool_), slice_in_dim(second, 0, total - 1)])
    shared = bitwise_and(bitwise_and(second, bitwise_not(before)), bitwise_not(marks))
    starts = cummax(select_n(marks, full((total,), 0, np.int32), iota(np.int32, total)), 0)
    return take_on_axis(both, order, 0), order, starts, shared


@boundary
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False, *,
                size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements that two arrays have in common, sorted.

    Args:
      ar1: array.
      ar2: array.
      assume_unique: accepted for compatibility with NumPy; ignored.
      return_indices: whether to return each one's first index in `ar1` and in `ar2` too.
      size: the number of elements to return: more are cut off, missing ones are filled. It is
        needed under `jit`.
      fill_value: the value of missing ones; by default the least one.

    Returns:
      An array, or a tuple of it and two arrays of indices.

    Raises:
      ConcretizationTypeError: an array is traced and the size is missing.

    Source: `numpy.intersect1d`.

    Example:
      >>> jnp.intersect1d(jnp.array([3, 1, 2]), jnp.array([2, 3, 4]))
      Array([2, 3], dtype=int32)
    """
    ar1, ar2 = _pair("intersect1d", ar1, ar2)
    values, order, starts, shared = _sorted_pair(ar1, ar2)
    values, fill_value = _with_fill("intersect1d", values, size, fill_value)
    if not return_indices:
        return _choose("intersect1d", shared, size, [(values, fill_value)])[0]
    dtype, n, m = dtypes.dtype_of_python(int), shape_of(ar1)[0], shape_of(ar2)[0]
    first = cast(take_on_axis(order, starts, 0), dtype)
    second = sub(cast(order, dtype), as_settled(np.asarray(n, dtype)))
    return tuple(_choose("intersect1d", shared, size, [
        (values, fill_value), (first, n), (second, m)]))


@fused
def _in_one_only(values: Any, second: Any, starts: Any, shared: Any) -> Any:
    """Marks at the starts of the groups that only one array has; `second` marks the elements of the
    second one."""
    total = shape_of(starts)[0]
    both = scatter_max(full((total,), 0, np.int32), reshape(starts, (total, 1)),
                       cast(shared, np.dtype(np.int32)),
                       ScatterDimensionNumbers((), (0,), (0,)), indices_are_sorted=True)
    alone = bitwise_and(eq(starts, iota(np.int32, total)), eq(both, np.int32(0)))
    if total == 0 or not dtypes.is_inexact(typeof(values).dtype):
        return alone
    # NaNs are groups of their own, but those of one array are one element.
    nans = ne(values, values)
    pairs = [(slice_in_dim(x, 0, total - 1), slice_in_dim(x, 1, total)) for x in (nans, second)]
    again = bitwise_and(bitwise_and(*pairs[0]), eq(*pairs[1]))
    return bitwise_and(alone, concatenate([full((1,), True, np.bool_), bitwise_not(again)]))


@boundary
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None,
             fill_value: Any = None) -> Any:
    """The distinct elements that only one of two arrays has, sorted.

    Args:
      ar1: array.
      ar2: array.
      assume_unique: accepted for compatibility with NumPy; ignored.
      size: the number of elements to return: more are cut off, missing ones are filled. It is
        needed under `jit`.
      fill_value: the value of missing ones; by default the least one.

    Returns:
      A vector.

    Raises:
      ConcretizationTypeError: an array is traced and the size is missing.

    Source: `numpy.setxor1d`.

    Example:
      >>> jnp.setxor1d(jnp.array([3, 1, 2]), jnp.array([2, 3, 4]))
      Array([1, 4], dtype=int32)
    """
    ar1, ar2 = map(_one_nan, _pair("setxor1d", ar1, ar2))
    values, order, starts, shared = _sorted_pair(ar1, ar2)
    alone = _in_one_only(values, ge(order, np.int32(shape_of(ar1)[0])), starts, shared)
    values, fill_value = _with_fill("setxor1d", values, size, fill_value)
    return _choose("setxor1d", alone, size, [(values, fill_value)])[0]


__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]
