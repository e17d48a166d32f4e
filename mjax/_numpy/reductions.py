"""Reductions: sums, products, extrema, all, any, positions of extrema, cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.util import alias, canonicalize_axes, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import reductions as prims
from mjax._engine.primitives.cumulative import cumprod_p, cumsum_p
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import array_of, as_settled, reduce_sum_p, reshape
from mjax._engine.tracing.primitive import Primitive
from mjax._numpy.comparison import to_bool
from mjax._numpy.core import (
    broadcast_shapes,
    broadcast_to,
    cast,
    choose,
    dtype_argument,
    refuse_out,
    wide_dtype,
)
from mjax._numpy.creation import filled
from mjax._numpy.fused import fused

_AXES = ("axis", "out", "keepdims")


def keep_axes(out: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """A result of a reduction with axes of size 1 where the reduced ones were."""
    return reshape(out, [1 if i in axes else n for i, n in enumerate(shape)])


def mask_argument(name: str, where: Any) -> Any:
    """The argument `where` as a value of booleans."""
    if typeof(where).dtype != np.bool_:
        msg = (f"{name}: where must be None or a boolean array, got dtype {typeof(where).dtype}; "
               "compare it with 0.")
        raise ValueError(msg)
    return where


def initial_argument(name: str, initial: Any) -> Any:
    """The argument `initial` as a scalar value."""
    if typeof(initial).shape:
        msg = (f"{name}: initial must be a scalar, got an array of shape {typeof(initial).shape}; "
               "combine it with the result.")
        raise ValueError(msg)
    return initial


def masked(name: str, a: Any, where: Any, fill: Any) -> Any:
    """`a` with another value where `where` is false."""
    if where is None:
        return a
    where = mask_argument(name, where)
    shape = broadcast_shapes(typeof(a).shape, typeof(where).shape)
    return choose(broadcast_to(where, shape), a,
                  as_settled(np.asarray(fill).astype(typeof(a).dtype)[()]))


def total_dtype(dtype: Any, promote_integers: bool = True) -> Any:
    """The dtype of sums: that of the elements; for integers at least of the default size."""
    kind = dtypes.kind(dtype)
    default = dtypes.dtype_of_python(int)
    if kind == "b":
        return default
    if kind in "iu" and promote_integers and dtype.itemsize < default.itemsize:
        return default if kind == "i" else np.dtype(f"u{default.itemsize}")
    return dtypes.canonicalize(dtype)


def _truth_for(target: Any, a: Any) -> Any:
    """Booleans for a boolean total: -1 and 1 do not cancel, and 0.5 is true."""
    return cast(a, target) if target == np.bool_ else a


def _reduced(name: str, a: Any, axes: tuple[int, ...], keepdims: bool, where: Any,
             primitive: Primitive, fill: Any, initial: Any = None,
             combine: Callable[..., Any] | None = None) -> Any:
    """A value reduced over its axes.

    Args:
      name: the function that was called, for messages.
      a: the value.
      axes: its axes.
      keepdims: whether they stay, with size 1.
      where: mask of the elements that count. `a` is broadcast to its additional sizes or axes, and
        its axes are then counted from the left, as in JAX.
      primitive: reduces over axes.
      fill: replaces masked elements.
      initial: the start value, if given.
      combine: combines the start value and the result.
    """
    a = masked(name, a, where, fill)
    result = primitive.bind(a, axes=axes) if axes else a
    if combine is not None and initial is not None:
        result = combine(result, cast(initial_argument(name, initial), typeof(a).dtype))
    return keep_axes(result, typeof(a).shape, axes) if keepdims else result


# ---- sum and prod ----------------------------------------------------------------------


def _total(name: str, a: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any,
           where: Any, promote_integers: bool, primitive: Primitive, identity: int,
           combine: Callable[..., Any]) -> Any:
    refuse_out(name, out)
    if dtypes.is_extended(typeof(a).dtype):
        msg = f"{name} does not accept dtype {typeof(a).dtype}: keys are not numbers."
        raise LazyArgumentError(msg)
    target = dtype_argument(dtype, name) or total_dtype(typeof(a).dtype, promote_integers)
    a = cast(_truth_for(target, a), wide_dtype(target))
    axes = canonicalize_axes(axis, typeof(a).ndim)
    return array_of(cast(_reduced(name, a, axes, keepdims, where, primitive, identity, initial,
                                  combine), target))


@fused(values=("a", "initial", "where"), static_argnames=(*_AXES, "dtype", "promote_integers"))
def sum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = None, promote_integers: bool = True) -> Any:
    """Sum over axes.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result; by default that of `a`, for integers and booleans of the
        default int's size at least.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that is added.
      where: mask of the elements that count.
      promote_integers: whether narrow integers are summed in the default int's size.

    Returns:
      An array without the axes. Sums of 16-bit floats are computed in 32 bits.

    Raises:
      ValueError: an axis is out of range or named twice.

    Source: `numpy.sum`.

    Example:
      >>> jnp.sum(jnp.array([[1, 2], [3, 4]]), axis=0)
      Array([4, 6], dtype=int32)
    """
    return _total("sum", a, axis, dtype, out, keepdims, initial, where, promote_integers,
                  reduce_sum_p, 0, lax.add)


@fused(values=("a", "initial", "where"), static_argnames=(*_AXES, "dtype", "promote_integers"))
def prod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
         initial: Any = None, where: Any = None, promote_integers: bool = True) -> Any:
    """Product over axes.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result; by default that of `a`, for integers and booleans of the
        default int's size at least.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar factor.
      where: mask of the elements that count.
      promote_integers: whether narrow integers are multiplied in the default int's size.

    Returns:
      An array without the axes.

    Raises:
      ValueError: an axis is out of range or named twice.

    Source: `numpy.prod`.

    Example:
      >>> jnp.prod(jnp.array([[1, 2], [3, 4]]), axis=1)
      Array([ 2, 12], dtype=int32)
    """
    return _total("prod", a, axis, dtype, out, keepdims, initial, where, promote_integers,
                  prims.reduce_prod_p, 1, lax.mul)


@fused(values=("a",), static_argnames=("axis", "keepdims"))
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The number of elements over axes that are not 0.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      keepdims: whether the axes stay, with size 1.

    Returns:
      An int array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.count_nonzero`.

    Example:
      >>> jnp.count_nonzero(jnp.array([0, 1, 2]))
      Array(2, dtype=int32)
    """
    return sum(to_bool(a), axis, int, keepdims=keepdims)


# ---- max, min, all, any ----------------------------------------------------------------


def _extreme(name: str, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any,
             primitive: Primitive, identity: Callable[[Any], Any], combine: Callable[..., Any]
             ) -> Any:
    refuse_out(name, out)
    aval = typeof(a)
    axes = canonicalize_axes(axis, aval.ndim)
    if initial is None:
        if 0 in [aval.shape[i] for i in axes]:
            msg = (f"zero-size array to reduction operation {name} which has no identity: shape "
                   f"{aval.shape}, axes {axes}; give initial.")
            raise ValueError(msg)
        if where is not None:
            msg = (f"reduction operation {name} does not have an identity, so to use a where mask "
                   "one has to specify 'initial'.")
            raise ValueError(msg)
    return array_of(_reduced(name, cast(a, aval.dtype), axes, keepdims, where, primitive,
                             identity(aval.dtype), initial, combine))


@fused(values=("a", "initial", "where"), static_argnames=_AXES)
def max(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    """Greatest element over axes; NaN if there is one.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that takes part.
      where: mask of the elements that count; needs `initial`.

    Returns:
      An array without the axes, of the dtype of `a`.

    Raises:
      ValueError: the array is empty and `initial` is missing; an axis is out of range.

    Source: `numpy.max`.

    Example:
      >>> jnp.max(jnp.array([[1, 5], [3, 4]]), axis=0)
      Array([3, 5], dtype=int32)
    """
    return _extreme("max", a, axis, out, keepdims, initial, where, prims.reduce_max_p,
                    prims.lowest, lax.max)


@fused(values=("a", "initial", "where"), static_argnames=_AXES)
def min(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    """Least element over axes; NaN if there is one.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that takes part.
      where: mask of the elements that count; needs `initial`.

    Returns:
      An array without the axes, of the dtype of `a`.

    Raises:
      ValueError: the array is empty and `initial` is missing; an axis is out of range.

    Source: `numpy.min`.

    Example:
      >>> jnp.min(jnp.array([[1, 5], [3, 4]]), axis=0)
      Array([1, 4], dtype=int32)
    """
    return _extreme("min", a, axis, out, keepdims, initial, where, prims.reduce_min_p,
                    prims.highest, lax.min)


amax, amin = alias(max, "amax"), alias(min, "amin")


def _truth(name: str, a: Any, axis: Any, out: Any, keepdims: bool, where: Any,
           primitive: Primitive, identity: bool) -> Any:
    refuse_out(name, out)
    a = cast(to_bool(a), np.dtype(bool))
    axes = canonicalize_axes(axis, typeof(a).ndim)
    return array_of(_reduced(name, a, axes, keepdims, where, primitive, identity))


@fused(values=("a", "where"), static_argnames=_AXES)
def all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *,
        where: Any = None) -> Any:
    """Whether all elements over axes are true (not 0).

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.

    Returns:
      A bool array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.all`.

    Example:
      >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=0)
      Array([ True, False], dtype=bool)
    """
    return _truth("all", a, axis, out, keepdims, where, prims.reduce_and_p, True)


@fused(values=("a", "where"), static_argnames=_AXES)
def any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *,
        where: Any = None) -> Any:
    """Whether any element over axes is true (not 0).

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.

    Returns:
      A bool array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.any`.

    Example:
      >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=0)
      Array([ True, False], dtype=bool)
    """
    return _truth("any", a, axis, out, keepdims, where, prims.reduce_or_p, False)


@fused(values=("a",), static_argnames=_AXES)
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """Greatest minus least element over axes.

    Args:
      a: array or scalar of numbers.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.ptp`.

    Example:
      >>> jnp.ptp(jnp.array([3, 1, 7]))
      Array(6, dtype=int32)
    """
    refuse_out("ptp", out)
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# ---- argmax, argmin --------------------------------------------------------------------


def _position(name: str, a: Any, axis: Any, out: Any, keepdims: Any, primitive: Primitive) -> Any:
    refuse_out(name, out)
    shape = typeof(a).shape
    if axis is None:
        a = reshape(a, (math.prod(shape),))
    place = canonicalize_axis(0 if axis is None else axis, typeof(a).ndim)
    if typeof(a).shape[place] == 0:
        msg = f"attempt to get {name} of an empty sequence: shape {shape}, axis {axis}."
        raise ValueError(msg)
    result = primitive.bind(a, axes=(place,), index_dtype=dtypes.dtype_of_python(int))
    axes = range(len(shape)) if axis is None else (place,)
    return keep_axes(result, shape, axes) if keepdims else result


@fused(values=("a",), static_argnames=_AXES)
def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """Index of the greatest element along an axis: of the first NaN, else of the first one.

    Args:
      a: real array.
      axis: the axis; None: of the elements in row-major order.
      out: not supported.
      keepdims: whether the axis stays, with size 1.

    Returns:
      An int array without the axis.

    Raises:
      ValueError: the axis is empty or out of range.

    Source: `numpy.argmax`.

    Example:
      >>> jnp.argmax(jnp.array([3, 7, 1]))
      Array(1, dtype=int32)
    """
    return _position("argmax", a, axis, out, keepdims, prims.argmax_p)


@fused(values=("a",), static_argnames=_AXES)
def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """Index of the least element along an axis: of the first NaN, else of the first one.

    Args:
      a: real array.
      axis: the axis; None: of the elements in row-major order.
      out: not supported.
      keepdims: whether the axis stays, with size 1.

    Returns:
      An int array without the axis.

    Raises:
      ValueError: the axis is empty or out of range.

    Source: `numpy.argmin`.

    Example:
      >>> jnp.argmin(jnp.array([3, 7, 1]))
      Array(2, dtype=int32)
    """
    return _position("argmin", a, axis, out, keepdims, prims.argmin_p)


# ---- cumulative sums and products ------------------------------------------------------


def _running(name: str, a: Any, axis: Any, dtype: Any, out: Any, primitive: Any,
             promote_integers: bool = False) -> Any:
    refuse_out(name, out)
    if axis is None or not typeof(a).shape:
        a, axis = reshape(a, (typeof(a).size,)), axis or 0
    target = dtype_argument(dtype, name) or total_dtype(typeof(a).dtype, promote_integers)
    a = cast(_truth_for(target, a), dtypes.dtype_of_python(int) if target == np.bool_ else target)
    result = primitive.bind(a, axis=canonicalize_axis(axis, typeof(a).ndim), reverse=False)
    return cast(result, target)


@fused(values=("a",), static_argnames=("axis", "dtype", "out"))
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running sums along an axis.

    Args:
      a: array or scalar.
      axis: the axis; None: of the elements in row-major order.
      dtype: dtype of the result; by default that of `a`, the default int for booleans.
      out: not supported.

    Returns:
      An array of the shape of `a`, or of one axis.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.cumsum`.

    Example:
      >>> jnp.cumsum(jnp.array([1, 2, 3]))
      Array([1, 3, 6], dtype=int32)
    """
    return _running("cumsum", a, axis, dtype, out, cumsum_p)


@fused(values=("a",), static_argnames=("axis", "dtype", "out"))
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running products along an axis.

    Args:
      a: array or scalar.
      axis: the axis; None: of the elements in row-major order.
      dtype: dtype of the result; by default that of `a`, the default int for booleans.
      out: not supported.

    Returns:
      An array of the shape of `a`, or of one axis.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.cumprod`.

    Example:
      >>> jnp.cumprod(jnp.array([1, 2, 3]))
      Array([1, 2, 6], dtype=int32)
    """
    return _running("cumprod", a, axis, dtype, out, cumprod_p)


def _cumulative(name: str, x: Any, axis: Any, dtype: Any, include_initial: bool, primitive: Any,
                identity: int) -> Any:
    ndim = typeof(x).ndim
    if ndim == 0:
        msg = f"{name} needs an array of at least one axis, got a scalar."
        raise ValueError(msg)
    if axis is None and ndim > 1:
        msg = f"{name}: axis must be given for an array of {ndim} axes."
        raise ValueError(msg)
    axis = canonicalize_axis(0 if axis is None else axis, ndim)
    # As in JAX, only products stay in narrow dtypes.
    result = _running(name, x, axis, dtype, None, primitive, primitive is cumsum_p)
    if not include_initial:
        return result
    shape = list(typeof(result).shape)
    shape[axis] = 1
    return concatenate([filled(shape, identity, typeof(result).dtype), result], axis)


@fused(values=("x",), static_argnames=("axis", "dtype", "include_initial"))
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None,
                   include_initial: bool = False) -> Any:
    """Running sums along an axis.

    Args:
      x: array of at least one axis.
      axis: the axis; may be left out if there is only one.
      dtype: dtype of the result; by default as in `sum`.
      include_initial: whether the result starts with a 0.

    Returns:
      An array of the shape of `x`, with one more element along the axis if `include_initial`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.cumulative_sum`.

    Example:
      >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
      Array([0, 1, 3, 6], dtype=int32)
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial, cumsum_p, 0)


@fused(values=("x",), static_argnames=("axis", "dtype", "include_initial"))
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None,
                    include_initial: bool = False) -> Any:
    """Running products along an axis.

    Args:
      x: array of at least one axis.
      axis: the axis; may be left out if there is only one.
      dtype: dtype of the result; by default that of `x`, the default int for booleans.
      include_initial: whether the result starts with a 1.

    Returns:
      An array of the shape of `x`, with one more element along the axis if `include_initial`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.cumulative_prod`.

    Example:
      >>> jnp.cumulative_prod(jnp.array([1, 2, 3]), include_initial=True)
      Array([1, 1, 2, 6], dtype=int32)
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial, cumprod_p, 1)
