"""Methods of ufuncs that do not need loops: reduce, accumulate, reduceat, at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import clamp
from mjax._engine.primitives.cumulative import cumlogsumexp_p
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import array_of, expand_dims, moveaxis, reshape
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.tangents import stop_gradient
from mjax._numpy import elementary, reductions
from mjax._numpy.comparison import to_bool
from mjax._numpy.core import cast, choose, promote_dtypes_inexact, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.indexing.update import _IndexUpdateHelper
from mjax._numpy.reductions import keep_axes, masked
from mjax._numpy.taking import take


def piece_bounds(size: int, indices: Any) -> tuple[Any, Any]:
    """First positions of the pieces of an axis, and their sizes."""
    starts = cast(indices, np.dtype(np.int32))
    starts = choose(lax.lt(starts, _c(starts, 0)), lax.add(starts, _c(starts, size)), starts)
    starts = clamp.clamp(_c(starts, 0), starts, _c(starts, size - 1))
    ends = concatenate([slice_in_dim(starts, 1, None), np.full(1, size, np.int32)], 0)
    return starts, lax.max(lax.sub(ends, starts), _c(starts, 1))


def doubling(f: Callable[..., Any], combine: Callable[..., Any]) -> Callable[..., Any]:
    """`reduceat` for `f(f(x, y), z) = f(x, combine(y, z))` with an associative `combine`.

    Pieces are assembled from runs of 1, 2, 4, ... elements: that is log(n) steps, and no
    result is the difference of two greater ones.
    """

    @fused(static_argnames=("axis", "dtype"))
    def reduceat(a: Any, indices: Any, axis: int, dtype: Any) -> Any:
        dtype = typeof(a).dtype if dtype is None else dtype
        runs = cast(moveaxis(a, axis, 0), dtype)
        size, rank, width = shape_of(runs)[0], len(shape_of(runs)), 1
        if not typeof(indices).size:
            return moveaxis(slice_in_dim(runs, 0, 0), 0, axis)
        position, left = piece_bounds(size, indices)
        total = take(runs, position, 0, mode="clip")
        position, left = lax.add(position, _c(position, 1)), lax.sub(left, _c(left, 1))
        while width < size:
            odd = lax.ne(lax.bitwise_and(left, _c(left, width)), _c(left, 0))
            longer = cast(f(total, take(runs, position, 0, mode="clip")), dtype)
            total = choose(expand_dims(odd, range(1, rank)), longer, total)
            position = choose(odd, lax.add(position, _c(position, width)), position)
            if 2 * width < size:
                runs = cast(combine(slice_in_dim(runs, 0, shape_of(runs)[0] - width),
                                    slice_in_dim(runs, width, None)), dtype)
            width *= 2
        return moveaxis(total, 0, axis)

    return reduceat


def by_primitive(f: Callable[..., Any], reduce: Callable[..., Any], identity: Any,
                  of_truth: bool = False) -> Callable[..., Any]:
    """`reduce` by a primitive, maybe of the elements as booleans."""

    @fused(static_argnames=("axis", "dtype", "keepdims"))
    def method(a: Any, axis: tuple[int, ...], dtype: Any, keepdims: bool, initial: Any, where: Any
               ) -> Any:
        x = to_bool(a) if of_truth else a if dtype is None else cast(a, dtype)
        x = masked(f.__name__, x, where, identity)
        out = reduce(x, axis) if axis else x
        if initial is not None:
            out = f(out, reductions.initial_argument(f.__name__, initial))
        out = cast(out, typeof(x).dtype if dtype is None else dtype)
        return array_of(keep_axes(out, shape_of(x), axis) if keepdims else out)

    return method


def extreme(reduce: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis, dtype, keepdims, initial, where: reduce(
        a if dtype is None else cast(a, dtype), axis, keepdims=keepdims, initial=initial,
        where=where)


def _is_odd(counts: Any) -> Any:
    return lax.ne(lax.bitwise_and(counts, _c(counts, 1)), _c(counts, 0))


def running(primitive: Any, of_truth: bool = False) -> Callable[..., Any]:
    """`accumulate` by a primitive, maybe of the elements as booleans."""

    @fused(static_argnames=("axis", "dtype"))
    def accumulate(a: Any, axis: int, dtype: Any) -> Any:
        x = to_bool(a) if of_truth else a if dtype is None else cast(a, dtype)
        own = typeof(x).dtype
        number = cast(x, np.dtype(np.uint8)) if own == np.bool_ else x
        out = cast(primitive.bind(array_of(number), axis=axis, reverse=False), own)
        return out if dtype is None else cast(out, dtype)

    return accumulate


@fused(static_argnames=("axis", "dtype"))
def running_parity(a: Any, axis: int, dtype: Any) -> Any:
    out = _is_odd(reductions.cumsum(to_bool(a), axis, np.int32))
    return out if dtype is None else cast(out, dtype)


def _scaled(x: Any, dtype: Any, factor: float) -> Any:
    """Inexact numbers times a factor."""
    x, = promote_dtypes_inexact(x if dtype is None else cast(x, dtype))
    x = cast(x, typeof(x).dtype)
    return x if factor == 1 else lax.mul(x, _c(x, factor))


def sum_in_logs(base: float) -> Callable[..., Any]:
    """`reduce` of the logarithm of a sum of powers of a base."""
    unit = math.log(base)

    @fused(static_argnames=("axis", "dtype", "keepdims"))
    def reduce(a: Any, axis: tuple[int, ...], dtype: Any, keepdims: bool, initial: Any, where: Any
               ) -> Any:
        x = masked("logaddexp", _scaled(a, dtype, unit), where, -np.inf)
        size = lax.real(x) if dtypes.is_complex(typeof(x).dtype) else x
        high = stop_gradient(reductions.max(size, axis, keepdims=True, initial=-np.inf))
        high = cast(choose(lax.is_finite(high), high, _c(high, 0)), typeof(x).dtype)
        sums = reductions.sum(lax.exp(lax.sub(x, high)), axis, keepdims=True)
        # The derivative of an empty sum is 0, not that of the logarithm at 0.
        nothing = lax.eq(sums, _c(sums, 0))
        logs = lax.log(choose(nothing, _c(sums, 1), sums))
        out = choose(nothing, _c(sums, -np.inf), lax.add(logs, high))
        if initial is not None:
            initial = reductions.initial_argument("logaddexp", initial)
            initial = _scaled(initial, typeof(x).dtype, unit)
            out = elementary.logaddexp(out, initial)
        out = _scaled(out, None, 1 / unit)
        return out if keepdims else reshape(out, tuple(
            n for i, n in enumerate(shape_of(out)) if i not in axis))

    return reduce


def running_sum_in_logs(base: float) -> Callable[..., Any]:
    """`accumulate` of the same."""
    unit, accumulated = math.log(base), running(cumlogsumexp_p)

    @fused(static_argnames=("axis", "dtype"))
    def accumulate(a: Any, axis: int, dtype: Any) -> Any:
        return _scaled(accumulated(_scaled(a, dtype, unit), axis, None), None, 1 / unit)

    return accumulate


def updates(name: str) -> Callable[..., Any]:
    """`at` by a method of `x.at[...]`; sums and products of booleans are those of ints."""

    def at(a: Any, indices: Any, b: Any) -> Any:
        dtype = typeof(a).dtype
        number = cast(a, np.dtype(np.int32)) if dtype == np.bool_ and name in (
            "add", "multiply") else a
        return cast(getattr(_IndexUpdateHelper(number)[indices], name)(b), dtype)

    return at


def updates_of_truth(name: str) -> Callable[..., Any]:
    update = updates(name)
    return lambda a, indices, b: update(to_bool(a), indices, to_bool(b))


def toggles(a: Any, indices: Any, b: Any) -> Any:
    counts = updates("add")(cast(to_bool(a), np.dtype(np.int32)), indices,
                             cast(to_bool(b), np.dtype(np.int32)))
    return _is_odd(counts)


def parity(x: Any, axes: tuple[int, ...]) -> Any:
    return _is_odd(reductions.sum(x, axes, np.int32))


__all__ = [
    "by_primitive", "doubling", "extreme", "parity", "piece_bounds", "running", "running_parity",
    "running_sum_in_logs", "sum_in_logs", "toggles", "updates", "updates_of_truth",
]
