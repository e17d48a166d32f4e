"""Objects and functions that make indices and grids: mgrid, r_, ix_, unravel_index."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, overload

import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import listed
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add, mul
from mjax._engine.primitives.clamp import clamp
from mjax._engine.primitives.shapes import array_of, as_settled, own, scalar_of
from mjax._engine.runtime.arrays.array import Array
from mjax._numpy.arithmetic import floor_divide, remainder
from mjax._numpy.core import (
    cast,
    check_array,
    check_arrays,
    concrete_int,
    concrete_size,
    dtype_argument,
    promote_args,
    shape_of,
    weak_type_of,
)
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate, stack
from mjax._numpy.ranges import arange, linspace, meshgrid
from mjax._numpy.selecting import nonzero
from mjax._numpy.shapes import atleast_1d, expand_dims, moveaxis, reshape

_Item = TypeVar("_Item")

# ---- grids from slices -----------------------------------------------------------------


def _from_slice(s: slice) -> Any:
    """The numbers of a slice: `arange`, or `linspace` if the step is imaginary."""
    start = 0 if s.start is None else s.start
    if s.stop is None:
        msg = f"a slice that makes a range needs an end, got {s}."
        raise ValueError(msg)
    if isinstance(s.step, complex) or (s.step is not None and np.iscomplexobj(s.step)):
        return linspace(start, s.stop, int(abs(s.step)))
    return arange(start, s.stop, 1 if s.step is None else s.step)


def _grid(key: Any, sparse: bool) -> list[Any]:
    """Coordinates along each axis, in one dtype, as arguments of meshgrid."""
    axes = [_from_slice(s) for s in key]
    dtype, weak = common_type(*map(weak_type_of, axes))
    return meshgrid(*[cast(x, dtype, weak) for x in axes], indexing="ij", sparse=sparse)


class _Mgrid:
    """Dense grids: `mgrid[0:2, 0:3]` is an array of shape `(2, 2, 3)` of coordinates.

    Slices are `start:stop:step`; an imaginary step `nj` means `n` numbers, the end included.

    Source: `numpy.mgrid`.

    Example:
      >>> jnp.mgrid[0:2, 0:3]
      Array([[[0, 0, 0],
              [1, 1, 1]],
      <BLANKLINE>
             [[0, 1, 2],
              [0, 1, 2]]], dtype=int32)
    """

    @boundary
    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, slice):
            return _from_slice(key)
        return stack(_grid(key, sparse=False))


class _Ogrid:
    """Open grids: `ogrid[0:2, 0:3]` is a list of arrays of shapes `(2, 1)` and `(1, 3)`.

    Slices are as in `mgrid`.

    Source: `numpy.ogrid`.

    Example:
      >>> jnp.ogrid[0:2, 0:3]
      [Array([[0],
             [1]], dtype=int32), Array([[0, 1, 2]], dtype=int32)]
    """

    @overload
    def __getitem__(self, key: slice) -> Array: ...
    @overload
    def __getitem__(self, key: tuple[slice, ...]) -> list[Array]: ...
    @boundary
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _from_slice(key)
        return _grid(key, sparse=True)


mgrid: Final = _Mgrid()
ogrid: Final = _Ogrid()


# ---- r_, c_, s_, index_exp -------------------------------------------------------------


class _Joiner:
    """Joins the items between the brackets along an axis.

    Args:
      axis: the axis.
      ndim: least number of axes of the parts.
      trans1d: the position of a vector's axis among them; -1: the end.
      doc: the docstring.
    """

    def __init__(self, axis: int, ndim: int, trans1d: int, doc: str):
        self.axis: int = axis
        self.ndim: int = ndim
        self.trans1d: int = trans1d
        self.__doc__ = doc

    @boundary
    def __getitem__(self, key: Any) -> Array:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, trans1d = self.axis, self.ndim, self.trans1d
        matrix = None
        if isinstance(items[0], str):
            text = items.pop(0)
            matrix = {"r": 0, "c": 1}.get(text)
            if matrix is None:
                axis, ndim, trans1d = self._directive(text)
        out = concatenate([self._part(item, ndim, trans1d) for item in items], axis)
        return out if matrix is None or typeof(out).ndim != 1 else expand_dims(out, (matrix,))

    def _directive(self, text: str) -> tuple[int, int, int]:
        """Axis, least number of axes and place of a vector's axis from a leading string."""
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            msg = (f"unknown special directive {text!r}; give one to three integers, as '0,2', or "
                   "'r' or 'c' for a matrix of one row or column.")
            raise ValueError(msg)
        return tuple([*numbers, self.ndim, self.trans1d][: len(numbers)]  # type: ignore[return-value]
                     + [self.axis, self.ndim, self.trans1d][len(numbers) :])

    def _part(self, item: Any, ndim: int, trans1d: int) -> Any:
        value = atleast_1d(_from_slice(item) if isinstance(item, slice) else asarray(item))
        rank = typeof(value).ndim
        if rank >= ndim:
            return value
        value = reshape(value, (1,) * (ndim - rank) + shape_of(value))
        place = trans1d if trans1d >= 0 else ndim - rank + 1 + trans1d
        if place == ndim - rank:
            return value
        own = list(range(ndim - rank, ndim))
        return moveaxis(value, own, list(range(place, place + rank)))


r_: Final = _Joiner(0, 1, -1, """Joins slices, numbers and arrays along the first axis.

    `r_[0:3, 7, x]`. A leading string `"axis,ndim,place"` sets the axis, the least number of axes of
    the parts, and the position of the axes of parts with fewer axes. `"r"` makes a vector a matrix
    of one row, `"c"` of one column. Slices are as in `mgrid`.

    Source: `numpy.r_`.

    Example:
      >>> jnp.r_[0:3, 7, jnp.array([9, 8])]
      Array([0, 1, 2, 7, 9, 8], dtype=int32)
    """)
c_: Final = _Joiner(-1, 2, 0, """Joins slices, numbers and arrays along the last axis.

    Vectors are columns.

    See `r_`.

    Source: `numpy.c_`.

    Example:
      >>> jnp.c_[jnp.array([1, 2]), jnp.array([3, 4])]
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """)


class _Index:
    """The index between the brackets, as a value.

    Args:
      doc: the docstring.
    """

    def __init__(self, doc: str):
        self.__doc__ = doc

    def __getitem__(self, item: _Item) -> _Item:
        return item


class _IndexTuple:
    """The index between the brackets, as a tuple.

    Args:
      doc: the docstring.
    """

    def __init__(self, doc: str):
        self.__doc__ = doc

    def __getitem__(self, item: Any) -> tuple[Any, ...]:
        return item if isinstance(item, tuple) else (item,)


s_: Final = _Index("""An index as a value: `x[s_[1:3]]` is `x[1:3]`.

    Source: `numpy.s_`.

    Example:
      >>> jnp.s_[1:3, ...]
      (slice(1, 3, None), Ellipsis)
    """)
index_exp: Final = _IndexTuple("""An index as a tuple: `index_exp[1]` is `(1,)`.

    Source: `numpy.index_exp`.

    Example:
      >>> jnp.index_exp[1:3]
      (slice(1, 3, None),)
    """)


# ---- index arrays ----------------------------------------------------------------------


@boundary
def ix_(*args: Any) -> tuple[Any, ...]:
    """Index arrays that select all combinations: `x[ix_(rows, columns)]`.

    Args:
      args: for each axis integers along one axis, or a mask whose values are known.

    Returns:
      A tuple of arrays that broadcast together, one for each argument.

    Raises:
      ValueError: an argument does not have one axis.

    Source: `numpy.ix_`.

    Example:
      >>> x = jnp.arange(9).reshape(3, 3)
      >>> x[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 2]))]
      Array([[1, 2],
             [7, 8]], dtype=int32)
    """
    out = []
    for i, x in enumerate(check_arrays("ix_", *args)):
        if typeof(x).ndim != 1:
            msg = f"ix_: arguments must be 1-dimensional, got shape {shape_of(x)} at position {i}."
            raise ValueError(msg)
        if typeof(x).dtype == np.bool_:
            (x,) = nonzero(x)
        elif shape_of(x) == (0,):
            x = cast(x, dtypes.dtype_of_python(int))
        shape = [-1 if i == j else 1 for j in range(len(args))]
        out.append(reshape(x, shape) if len(args) > 1 else own(x))
    return tuple(out)


@boundary
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Indices along each axis from places in the order of `ravel`.

    Args:
      indices: integers; negative ones count from the end. Those out of range are clamped.
      shape: the shape, static.

    Returns:
      A tuple of arrays of the shape of `indices`, one for each axis.

    Raises:
      TypeError: `indices` are not integers.

    Source: `numpy.unravel_index`.

    Example:
      >>> jnp.unravel_index(jnp.array([0, 5]), (2, 3))
      (Array([0, 1], dtype=int32), Array([0, 2], dtype=int32))
    """
    indices = check_array("unravel_index", indices)
    if not dtypes.is_integer(typeof(indices).dtype):
        msg = f"unravel_index: indices must be integers, got {typeof(indices)}."
        raise TypeError(msg)
    sizes = tuple(concrete_size(n, "unravel_index: each size") for n in listed(shape))
    return tuple(_unravel_index(indices, sizes=sizes))


@fused(static_argnames=("sizes",))
def _unravel_index(indices: Any, *, sizes: tuple[int, ...]) -> list[Any]:
    indices = array_of(indices)
    dtype = typeof(indices).dtype
    number = lambda n: scalar_of(typeof(indices), n)
    total = math.prod(sizes)
    # Places before the first element keep their sign, and are clamped to the first.
    signed = dtypes.kind(dtype) == "i"
    indices = clamp(number(-total) if signed else number(0), indices, number(max(total - 1, 0)))
    if signed and total:
        indices = remainder(indices, number(total))
    out = []
    for n in reversed(sizes):
        out.append(remainder(indices, number(max(n, 1))))
        indices = floor_divide(indices, number(max(n, 1)))
    return out[::-1]


@boundary
def ravel_multi_index(multi_index: Any, dims: Sequence[int], mode: str | Sequence[str] = "raise",
                      order: str = "C", *, dtype: Any = None) -> Any:
    """Places in the order of `ravel` from indices along each axis.

    Args:
      multi_index: for each axis an array of integers; they broadcast together.
      dims: the shape.
      mode: for indices out of range: `"raise"` (indices must then be known), `"wrap"`,
        `"clip"` or `"ignore"`.
      order: `"C"`, last axis fastest, or `"F"`, first axis fastest.
      dtype: dtype of the result.

    Returns:
      Integers of the shape that the indices broadcast to.

    Raises:
      ValueError: an index is out of range, the number of axes is wrong, or the mode unknown.
      ConcretizationTypeError: indices are traced and the mode is `"raise"`.
      TypeError: an index is not an integer.

    Source: `numpy.ravel_multi_index`.

    Example:
      >>> jnp.ravel_multi_index((jnp.array([1, 0]), jnp.array([2, 1])), (2, 3))
      Array([5, 1], dtype=int32)
    """
    if not isinstance(multi_index, (list, tuple)):
        multi_index = list(array_of(check_array("ravel_multi_index", multi_index)))
    indices = check_arrays("ravel_multi_index", *multi_index)
    sizes = [concrete_int(n, "ravel_multi_index: each of dims") for n in dims]
    if len(indices) != len(sizes):
        msg = (f"ravel_multi_index: {len(indices)} arrays of indices do not fit dims={dims}: "
               "there must be one for each axis.")
        raise ValueError(msg)
    if order not in ("C", "F"):
        msg = f"ravel_multi_index: order must be 'C' or 'F', got {order!r}."
        raise ValueError(msg)
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    if len(modes) != len(sizes) or not set(modes) <= {"raise", "wrap", "clip", "ignore"}:
        msg = (f"ravel_multi_index: mode must be 'raise', 'wrap', 'clip' or 'ignore', or one of "
               f"them for each axis, got {mode!r}.")
        raise ValueError(msg)
    if any(not dtypes.is_integer(typeof(i).dtype) for i in indices):
        msg = (f"ravel_multi_index: indices must be integers, got dtypes "
               f"{', '.join(str(typeof(i).dtype) for i in indices)}.")
        raise TypeError(msg)
    _check_inside(indices, sizes, modes)
    target = dtype_argument(dtype, "ravel_multi_index") or dtypes.dtype_of_python(int)
    return _ravel_multi_index(indices, sizes=tuple(sizes), modes=tuple(modes), order=order,
                              dtype=target)


def _check_inside(indices: Sequence[Any], sizes: Sequence[int], modes: Sequence[str]) -> None:
    for axis, (i, n, mode) in enumerate(zip(indices, sizes, modes, strict=True)):
        if mode != "raise":
            continue
        try:
            known = np.asarray(i)
        except ConcretizationTypeError:
            raise ConcretizationTypeError(lambda i=i: (  # type: ignore[misc]
                f"ravel_multi_index: with mode='raise' indices must be known, but {typeof(i)} is "
                "traced; use mode='clip' or mode='wrap'.")) from None
        if ((known < 0) | (known >= n)).any():
            msg = (f"ravel_multi_index: invalid entry in coordinates array: axis {axis} has size "
                   f"{n}, got {known}.")
            raise ValueError(msg)


@fused(static_argnames=("sizes", "modes", "order", "dtype"))
def _ravel_multi_index(indices: Sequence[Any], *, sizes: tuple[int, ...], modes: tuple[str, ...],
                       order: str, dtype: Any) -> Any:
    bounded = []
    for i, n, mode in zip(promote_args("ravel_multi_index", *indices), sizes, modes, strict=True):
        own = typeof(i).dtype
        if mode == "wrap":
            i = remainder(i, as_settled(np.asarray(n, own)))
        elif mode == "clip":
            i = clamp(as_settled(np.asarray(0, own)), i, as_settled(np.asarray(n - 1, own)))
        bounded.append(cast(i, dtype))
    strides = [math.prod(sizes[i + 1 :]) if order == "C" else math.prod(sizes[:i])
               for i in range(len(sizes))]
    total = array_of(np.zeros((), dtype))
    for i, stride in zip(bounded, strides, strict=True):
        total = add(total, mul(i, as_settled(np.asarray(stride, dtype))))
    return total


def mask_indices(n: int, mask_func: Callable[[Any, int], Any], k: int = 0, *,
                 size: int | None = None) -> tuple[Any, Any]:
    """Indices of the elements of an `(n, n)` matrix that a function such as `triu` keeps.

    Args:
      n: the size of the matrix.
      mask_func: takes a matrix of ones and `k`.
      k: passed to it.
      size: how many indices to return; see `nonzero`.

    Returns:
      A pair of arrays: row and column indices.

    Raises:
      TypeError: `n` or `size` is not an integer, or `size` is negative. `mask_func` is not a
        function, does not give an array, or gives a traced one without `size`.
      ValueError: `n` is negative; the result of `mask_func` does not have two axes.

    Source: `numpy.mask_indices`.

    Example:
      >>> jnp.mask_indices(3, jnp.triu, 1)
      (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """
    rows, columns = nonzero(mask_func(array_of(np.ones((n, n), np.int32)), k), size=size)
    return rows, columns


__all__ = [
    "c_", "index_exp", "ix_", "mask_indices", "mgrid", "ogrid", "r_", "ravel_multi_index", "s_",
    "unravel_index",
]
