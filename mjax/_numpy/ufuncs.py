"""Ufuncs: elementwise functions as objects, which also reduce, accumulate and update.

`jnp.add` and other common functions are objects of class `ufunc`; `frompyfunc` makes more. A table
lists the methods that primitives implement; the others are loops.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis, pickled_as
from mjax._engine.control.loops.looping import scan
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import reductions as prims
from mjax._engine.primitives.cumulative import cummax_p, cummin_p
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import array_of, expand_dims, moveaxis, reshape
from mjax._engine.primitives.slicing import index_in_dim, slice_in_dim
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.dispatch.jit import eval_shape
from mjax._numpy import arithmetic, bits, comparison, elementary, reductions
from mjax._numpy.comparison import to_bool
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    choose,
    dtype_argument,
    expand_rank,
    shape_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.indexing.read import getitem
from mjax._numpy.indexing.update import _IndexUpdateHelper
from mjax._numpy.reductions import keep_axes
from mjax._numpy.ufunc_rules import (
    by_primitive,
    doubling,
    extreme,
    parity,
    piece_bounds,
    running,
    running_parity,
    running_sum_in_logs,
    sum_in_logs,
    toggles,
    updates,
    updates_of_truth,
)
from mjax._numpy.vectorizing import vectorize


class Methods(Record):
    """Implementations of methods without loops, with the methods' signatures except for `out`."""

    reduce: Callable[..., Any] | None = None
    accumulate: Callable[..., Any] | None = None
    at: Callable[..., Any] | None = None
    reduceat: Callable[..., Any] | None = None


class ufunc:
    """An elementwise function with the methods of NumPy's ufuncs.

    Args:
      func: the function, of scalars.
      nin: the number of its arguments.
      nout: the number of its results.
      name: its name; that of `func` if not given.
      nargs: `nin + nout`.
      identity: the identity element, for empty reductions.
      call: `func` for arrays; by default `func` is vectorized.
      reduce, accumulate, at, reduceat: the implementations of these methods, instead of loops.

    Source: `numpy.ufunc`.

    Example:
      >>> jnp.multiply.outer(jnp.array([1, 2]), jnp.array([3, 4]))
      Array([[3, 4],
             [6, 8]], dtype=int32)
    """

    __module__ = "mjax.numpy"  # pickles look NumPy's names up there
    __name__: str

    def __init__(self, func: Callable[..., Any], /, nin: int, nout: int, *,
                 name: str | None = None, nargs: int | None = None, identity: Any = None,
                 call: Callable[..., Any] | None = None,
                 reduce: Callable[..., Any] | None = None,
                 accumulate: Callable[..., Any] | None = None,
                 at: Callable[..., Any] | None = None,
                 reduceat: Callable[..., Any] | None = None):
        self.__name__ = name or func.__name__
        self.__doc__ = func.__doc__
        self._func = func
        self._call = vectorize(func) if call is None else call
        self._methods = Methods(reduce, accumulate, at, reduceat)
        self._nin, self._nout = operator.index(nin), operator.index(nout)
        self._nargs = self._nin + self._nout if nargs is None else operator.index(nargs)
        self._identity = identity

    @property
    def nin(self) -> int:
        """The number of arguments."""
        return self._nin

    @property
    def nout(self) -> int:
        """The number of results."""
        return self._nout

    @property
    def nargs(self) -> int:
        """The number of arguments and results."""
        return self._nargs

    @property
    def identity(self) -> Any:
        """The identity element of the function, or None."""
        return self._identity

    def __repr__(self) -> str:
        return f"<jnp.ufunc {self.__name__!r}>"

    def _facts(self) -> tuple[Any, ...]:
        return (self._func, self.__name__, self._nin, self._nout, self._nargs, self._identity,
                self._methods)

    def __eq__(self, other: Any) -> bool:
        return self is other or (type(other) is ufunc and self._facts() == other._facts())

    def __hash__(self) -> int:
        return hash((self._func, self.__name__))

    def __reduce__(self) -> Any:
        if globals().get(self.__name__) is self:
            return self.__name__
        return _rebuilt, (self._func, self._nin, self._nout, self.__name__, self._identity)

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            msg = (f"{'where' if out is None else 'out'} argument of {self} is not supported: "
                   "arrays are immutable. Use the result, and mjax.numpy.where.")
            raise NotImplementedError(msg)
        return self._call(*args)

    def _check(self, method: str, out: Any = None) -> None:
        if self._nin != 2:
            msg = f"{method} only supported for binary ufuncs; {self} takes {self._nin} arguments."
            raise ValueError(msg)
        if self._nout != 1:
            msg = (f"{method} only supported for functions returning a single value; {self} "
                   f"returns {self._nout}.")
            raise ValueError(msg)
        if out is not None:
            msg = (f"out argument of {self.__name__}.{method}() is not supported: arrays are "
                   "immutable. Use the result.")
            raise NotImplementedError(msg)

    @boundary
    def reduce(self, a: Any, axis: int | None = 0, dtype: Any = None, out: None = None,
               keepdims: bool = False, initial: Any = None, where: Any = None) -> Array:
        """Combines the elements along an axis to one, from the first to the last.

        Args:
          a: array.
          axis: the axis; None: all elements. Several axes only if the order does not matter.
          dtype: dtype of the result.
          out: not supported.
          keepdims: whether the axis stays, with size 1.
          initial: the value to combine with the first element.
          where: mask of the elements that count.

        Raises:
          ValueError: the axis is out of range; or it is empty, or `where` is given, and there is
            neither an identity nor an initial value.
          NotImplementedError: several axes of a function that is not a commutative operation.

        Source: `numpy.ufunc.reduce`.

        Example:
          >>> jnp.bitwise_or.reduce(jnp.array([[1, 2], [4, 8]]), axis=1)
          Array([ 3, 12], dtype=int32)
        """
        self._check("reduce", out)
        a = check_array(f"{self.__name__}.reduce", a)
        initial, where = [x if x is None else check_array(self.__name__, x, name) for name, x in (
            ("initial", initial), ("where", where))]
        axes = canonicalize_axes(axis, len(shape_of(a)))
        if self._identity is None and initial is None:
            if where is not None:
                msg = (f"reduction operation {self.__name__!r} does not have an identity, so to "
                       "use a where mask one has to specify 'initial'.")
                raise ValueError(msg)
            if any(shape_of(a)[i] == 0 for i in axes):
                msg = (f"zero-size array to reduction operation {self.__name__} which has no "
                       f"identity: its shape is {shape_of(a)}; specify 'initial'.")
                raise ValueError(msg)
        method = self._methods.reduce or self._reduce_in_loop
        return method(a, axis=axes, dtype=dtype_argument(dtype, "reduce"), keepdims=keepdims,
                      initial=initial, where=where)

    def _reduce_in_loop(self, a: Any, axis: tuple[int, ...], dtype: Any, keepdims: bool,
                        initial: Any, where: Any) -> Any:
        rank = len(shape_of(a))
        if len(axis) != 1 and len(axis) != rank:
            msg = (f"{self}.reduce over several axes, {axis}: the order in which elements are "
                   "combined matters. Reduce one axis, or all with axis=None.")
            raise NotImplementedError(msg)
        initial = self._identity if initial is None else initial
        out = _reduce_in_loop(self, a, axis, dtype, initial, where)
        return keep_axes(out, shape_of(a), axis) if keepdims else out

    @boundary
    def accumulate(self, a: Any, axis: int | None = 0, dtype: Any = None, out: None = None
                   ) -> Array:
        """Combines each element along an axis with all before it, from the first on.

        Args:
          a: array.
          axis: the axis; None: all elements.
          dtype: dtype of the result.
          out: not supported.

        Raises:
          ValueError: the axis is out of range.

        Source: `numpy.ufunc.accumulate`.

        Example:
          >>> jnp.maximum.accumulate(jnp.array([1, 3, 2]))
          Array([1, 3, 3], dtype=int32)
        """
        self._check("accumulate", out)
        a = check_array(f"{self.__name__}.accumulate", a)
        if axis is None or not shape_of(a):
            a, axis = reshape(a, (typeof(a).size,)), 0 if axis is None else axis
        axis, dtype = canonicalize_axis(axis, len(shape_of(a))), dtype_argument(dtype, "accumulate")
        if self._methods.accumulate is not None:
            return self._methods.accumulate(a, axis=axis, dtype=dtype)
        return _accumulate_in_loop(self, a, axis, dtype)

    @boundary
    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
        """An array with the function applied to its elements at indices, once for each index.

        Args:
          a: array.
          indices: an index, as in `a[indices]`; places that occur twice count twice.
          b: second argument of the function, if it takes two; it broadcasts.
          inplace: must be False: arrays are immutable.

        Raises:
          NotImplementedError: `inplace` is not False.
          TypeError: `b` is missing, or the function takes one argument.

        Source: `numpy.ufunc.at`.

        Example:
          >>> jnp.add.at(jnp.zeros(3), jnp.array([0, 0, 2]), 1, inplace=False)
          Array([2., 0., 1.], dtype=float32)
        """
        if inplace:
            msg = (f"arrays are immutable: {self.__name__}.at() cannot change one in place as "
                   f"NumPy's does. Use x = jnp.{self.__name__}.at(x, indices, b, inplace=False).")
            raise NotImplementedError(msg)
        name = f"{self.__name__}.at"
        a = array_of(check_array(name, a))
        operands = () if b is None else (check_array(name, b, 2),)
        if 1 + len(operands) != self._nin or self._nout != 1:
            msg = (f"{name} takes an array, indices and an operand for each further argument of "
                   f"the function, which must return one result; {self} takes {self._nin} "
                   f"arguments and returns {self._nout} results, and {len(operands)} operands "
                   "were given.")
            raise TypeError(msg)
        if self._methods.at is not None:
            return self._methods.at(a, indices, *operands)
        return _update_in_loop(self, a, indices, *operands)

    @boundary
    def outer(self, A: Any, B: Any, /) -> Array:
        """The function of all pairs of elements of two arrays.

        Args:
          A: array.
          B: array.

        Returns:
          An array of shape `(*A.shape, *B.shape)`.

        Source: `numpy.ufunc.outer`.

        Example:
          >>> jnp.add.outer(jnp.array([0, 10]), jnp.array([1, 2, 3]))
          Array([[ 1,  2,  3],
                 [11, 12, 13]], dtype=int32)
        """
        if self._nin != 2:
            msg = f"outer only supported for binary ufuncs; {self} takes {self._nin} arguments."
            raise ValueError(msg)
        left, right = [check_array(f"{self.__name__}.outer", x, i) for i, x in enumerate((A, B))]
        rank, rest = len(shape_of(left)), len(shape_of(right))
        return self(expand_dims(left, range(rank, rank + rest)) if rest else left,
                    expand_rank(right, rank + rest) if rest else right)

    @boundary
    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
                 ) -> Array:
        """Reduces pieces of an axis: from each index to the next one, from the last to the end.

        If an index is not below the next one, the piece is one element.

        Args:
          a: array.
          indices: vector of integers; negative ones count from the end, others out of range are
            clamped.
          axis: the axis.
          dtype: dtype of the result; that of `a` if not given, bool for logical functions.
          out: not supported.

        Returns:
          An array with an axis of the pieces in place of `axis`.

        Raises:
          ValueError: the axis is out of range, or the indices are not a vector of integers.
          IndexError: pieces of an empty axis.

        Source: `numpy.ufunc.reduceat`.

        Example:
          >>> jnp.add.reduceat(jnp.array([1, 2, 3, 4]), jnp.array([0, 3]))
          Array([6, 4], dtype=int32)
        """
        self._check("reduceat", out)
        a, indices = [check_array(f"{self.__name__}.reduceat", x, i)
                      for i, x in enumerate((a, indices))]
        shape, places = shape_of(a), typeof(indices)
        if places.ndim != 1 or not dtypes.is_integer(places.dtype):
            msg = f"reduceat: indices must be a vector of integers, got {places}."
            raise ValueError(msg)
        if axis is None or not shape:
            msg = f"reduceat requires a single integer axis of an array; got {axis} of {typeof(a)}."
            raise ValueError(msg)
        axis = canonicalize_axis(axis, len(shape))
        if not shape[axis] and places.size:
            msg = f"reduceat: there are no pieces of axis {axis} of shape {shape}: it is empty."
            raise IndexError(msg)
        method = self._methods.reduceat or (lambda *args, **kwargs: _pieces_in_loop(
            self, *args, **kwargs))
        return method(a, indices, axis=axis, dtype=dtype_argument(dtype, "reduceat"))


@pickled_as("ufunc_v1")
def _rebuilt(func: Any, nin: int, nout: int, name: str, identity: Any) -> ufunc:
    return ufunc(func, nin, nout, name=name, identity=identity)


@boundary
def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc from a function of scalars.

    Args:
      func: a traceable function.
      nin: the number of its arguments.
      nout: the number of its results.
      identity: the identity element, for empty reductions.

    Returns:
      A `ufunc`.

    Raises:
      TypeError: the first argument is not a function.

    Source: `numpy.frompyfunc`.

    Example:
      >>> f = jnp.frompyfunc(lambda x, y: 2 * x + y, 2, 1)
      >>> f.reduce(jnp.array([1, 0, 1]))
      Array(5, dtype=int32)
    """
    if not callable(func):
        msg = f"frompyfunc: func must be a function, got {func!r}."
        raise TypeError(msg)
    return ufunc(func, nin, nout, identity=identity)


# ---- loops -----------------------------------------------------------------------------


def _rows(f: ufunc, x: Any, dtype: Any, *axes: int) -> tuple[Any, Any]:
    """An array with the reduced axis in front (several merged), and the dtype of results."""
    rest = [n for i, n in enumerate(shape_of(x)) if i not in axes]
    x = moveaxis(x, axes[0], 0) if len(axes) == 1 else reshape(x, (typeof(x).size, *rest))
    if dtype is None:
        element = np.zeros((), typeof(x).dtype)
        dtype = eval_shape(f, element, element).dtype
        return x, dtype
    return cast(x, dtype), dtype


@fused(static_argnames=("f", "axes", "dtype"))
def _reduce_in_loop(f: ufunc, a: Any, axes: tuple[int, ...], dtype: Any, initial: Any, where: Any
                    ) -> Any:
    shape = shape_of(a)
    if not axes:
        return array_of(a if initial is None else f(initial, a))
    x, dtype = _rows(f, a, dtype, *axes)
    mask = np.ones(shape_of(x)[:1], bool)
    if where is not None:
        mask = _rows(f, broadcast_to(reductions.mask_argument("reduce", where), shape),
                     np.dtype(bool), *axes)[0]
    if initial is None:
        first, x, mask = index_in_dim(x, 0, keepdims=False), slice_in_dim(x, 1, None), mask[1:]
    else:
        first = broadcast_to(reductions.initial_argument("reduce", initial), shape_of(x)[1:])

    def step(total: Any, row: tuple[Any, Any]) -> tuple[Any, None]:
        counts, value = row
        return choose(counts, cast(f(total, value), dtype), total), None

    return scan(step, cast(first, dtype), (mask, x))[0]


@fused(static_argnames=("f", "axis", "dtype"))
def _accumulate_in_loop(f: ufunc, a: Any, axis: int, dtype: Any) -> Any:
    x, dtype = _rows(f, a, dtype, axis)
    if not shape_of(x)[0]:
        return array_of(cast(a, dtype))
    first = cast(slice_in_dim(x, 0, 1), dtype)

    def step(total: Any, value: Any) -> tuple[Any, Any]:
        total = cast(f(total, value), dtype)
        return total, total

    _, rest = scan(step, index_in_dim(first, 0, keepdims=False), slice_in_dim(x, 1, None))
    return moveaxis(concatenate([first, rest], 0), 0, axis)


def _update_in_loop(f: ufunc, a: Any, indices: Any, *operands: Any) -> Any:
    """One update after the other, in the order of the indices."""
    shape, size, dtype = shape_of(a), typeof(a).size, typeof(a).dtype
    numbers = _IndexUpdateHelper(reshape(iota(np.int32, size), shape))
    # Places out of range get an index beyond all elements, so their updates are dropped.
    places = numbers[indices].get(mode="fill", fill_value=size)
    values = [reshape(broadcast_to(x, shape_of(places)), (typeof(places).size,)) for x in operands]

    def step(flat: Any, row: list[Any]) -> tuple[Any, None]:
        place, *others = row
        new = f(getitem(flat, place), *others)
        return updates("set")(flat, place, cast(new, dtype)), None

    flat = reshape(a, (size,))
    if typeof(places).size:
        flat, _ = scan(step, flat, [reshape(places, (typeof(places).size,)), *values])
    return reshape(flat, shape)


@fused(static_argnames=("f", "axis", "dtype"))
def _pieces_in_loop(f: ufunc, a: Any, indices: Any, axis: int, dtype: Any) -> Any:
    """`reduceat` by one loop over the axis, for all pieces at once."""
    count, rest = typeof(indices).size, len(shape_of(a)) - 1
    x, dtype = _rows(f, a, typeof(a).dtype if dtype is None else dtype, axis)
    if not count:
        return moveaxis(slice_in_dim(x, 0, 0), 0, axis)
    starts, lengths = [expand_dims(v, range(1, rest + 1)) for v in piece_bounds(
        shape_of(x)[0], indices)]

    def step(totals: Any, row: tuple[Any, Any]) -> tuple[Any, None]:
        position, value = row
        place = lax.sub(position, starts)
        going = lax.bitwise_and(lax.gt(place, _c(place, 0)), lax.lt(place, lengths))
        totals = choose(lax.eq(place, _c(place, 0)), value, totals)
        return choose(going, cast(f(totals, value), dtype), totals), None

    start = broadcast_to(np.zeros((), dtype), (count, *shape_of(x)[1:]))
    totals, _ = scan(step, start, (iota(np.int32, shape_of(x)[0]), x))
    return moveaxis(totals, 0, axis)


# ---- the table -------------------------------------------------------------------------


def _pieces_of_truth(f: Callable[..., Any]) -> Callable[..., Any]:
    """`reduceat` of the elements as booleans."""
    pieces = doubling(f, f)

    def reduceat(a: Any, indices: Any, axis: int, dtype: Any) -> Any:
        out = pieces(to_bool(a), indices, axis=axis, dtype=None)
        return out if dtype is None else cast(out, dtype)

    return reduceat


def _row(f: Callable[..., Any], identity: Any = None, reduce: Callable[..., Any] | None = None,
         accumulate: Callable[..., Any] | None = None, at: Callable[..., Any] | None = None,
         reduceat: Callable[..., Any] | None = None) -> ufunc:
    """A binary ufunc of an associative function."""
    return ufunc(f, 2, 1, identity=identity, call=f, reduce=reduce, accumulate=accumulate, at=at,
                 reduceat=reduceat or doubling(f, f))


add = _row(arithmetic.add, 0, reductions.sum, reductions.cumsum, updates("add"))
multiply = _row(arithmetic.multiply, 1, reductions.prod, reductions.cumprod, updates("multiply"))
subtract = _row(arithmetic.subtract, at=updates("subtract"),
                reduceat=doubling(arithmetic.subtract, arithmetic.add))
negative = ufunc(arithmetic.negative, 1, 1, call=arithmetic.negative)
maximum = _row(arithmetic.maximum, None, extreme(reductions.max), running(cummax_p),
               updates("max"))
minimum = _row(arithmetic.minimum, None, extreme(reductions.min), running(cummin_p),
               updates("min"))
bitwise_and = _row(bits.bitwise_and, -1, by_primitive(bits.bitwise_and, prims.reduce_and, -1))
bitwise_or = _row(bits.bitwise_or, 0, by_primitive(bits.bitwise_or, prims.reduce_or, 0))
bitwise_xor = _row(bits.bitwise_xor, 0, by_primitive(bits.bitwise_xor, prims.reduce_xor, 0))
logical_and = _row(comparison.logical_and, True, by_primitive(
    comparison.logical_and, prims.reduce_and, True, of_truth=True),
    running(cummin_p, of_truth=True), updates_of_truth("min"),
    _pieces_of_truth(comparison.logical_and))
logical_or = _row(comparison.logical_or, False, by_primitive(
    comparison.logical_or, prims.reduce_or, False, of_truth=True),
    running(cummax_p, of_truth=True), updates_of_truth("max"),
    _pieces_of_truth(comparison.logical_or))
logical_xor = _row(comparison.logical_xor, False, by_primitive(
    comparison.logical_xor, parity, False, of_truth=True), running_parity, toggles,
    _pieces_of_truth(comparison.logical_xor))
logaddexp = _row(elementary.logaddexp, -np.inf, sum_in_logs(math.e), running_sum_in_logs(math.e))
logaddexp2 = _row(elementary.logaddexp2, -np.inf, sum_in_logs(2), running_sum_in_logs(2))

__all__ = ["add", "bitwise_and", "bitwise_or", "bitwise_xor", "frompyfunc", "logaddexp",
           "logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum", "minimum",
           "multiply", "negative", "subtract", "ufunc"]
