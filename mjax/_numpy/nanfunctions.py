"""Reductions that ignore NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import reductions as prims
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.shapes import as_settled
from mjax._numpy import reductions
from mjax._numpy.comparison import is_nan
from mjax._numpy.core import (
    broadcast_to,
    broadcast_values,
    choose,
)
from mjax._numpy.fused import fused
from mjax._numpy.statistics import mean_of, variance_of

_STATIC = ("axis", "dtype", "out", "keepdims")


def _numbers(a: Any, fill: Any) -> Any:
    """`a` with another number in place of NaN."""
    if not dtypes.is_inexact(typeof(a).dtype):
        return a
    return choose(is_nan(a), as_settled(np.asarray(fill).astype(typeof(a).dtype)[()]), a)


def _counted(name: str, a: Any, axis: Any, where: Any) -> tuple[Any, tuple[int, ...], Any]:
    """The array broadcast to its mask, its own axes, and the mask of elements that count."""
    axes = canonicalize_axes(axis, typeof(a).ndim)
    there = lax.bitwise_not(is_nan(a))
    if where is not None:
        where = reductions.mask_argument(name, where)
        there = lax.bitwise_and(*broadcast_values(name, there, where))
    return broadcast_to(a, typeof(there).shape), axes, there


# ---- sums, products, extrema -----------------------------------------------------------


@fused(values=("a", "initial", "where"), static_argnames=_STATIC)
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
           initial: Any = None, where: Any = None) -> Any:
    """Sum over axes of the elements that are not NaN.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that is added.
      where: mask of the elements that count.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nansum`.

    Example:
      >>> jnp.nansum(jnp.array([1.0, jnp.nan, 2.0]))
      Array(3., dtype=float32)
    """
    return reductions.sum(_numbers(a, 0), axis, dtype, out, keepdims, initial, where)


@fused(values=("a", "initial", "where"), static_argnames=_STATIC)
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
            initial: Any = None, where: Any = None) -> Any:
    """Product over axes of the elements that are not NaN.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar factor.
      where: mask of the elements that count.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanprod`.

    Example:
      >>> jnp.nanprod(jnp.array([3.0, jnp.nan, 2.0]))
      Array(6., dtype=float32)
    """
    return reductions.prod(_numbers(a, 1), axis, dtype, out, keepdims, initial, where)


def _nan_extreme(a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any,
                 reduce: Callable[..., Any], identity: Callable[[Any], Any]) -> Any:
    dtype = typeof(a).dtype
    if not dtypes.is_inexact(dtype):
        return reduce(a, axis, out, keepdims, initial, where)
    result = reduce(_numbers(a, identity(dtype)), axis, out, keepdims, initial, where)
    if initial is not None:
        return result
    return choose(reductions.all(is_nan(a), axis, keepdims=keepdims), _c(result, np.nan), result)


@fused(values=("a", "initial", "where"), static_argnames=_STATIC)
def nanmax(a: Any, axis: Any = None, out: None = None, keepdims: bool = False,
           initial: Any = None, where: Any = None) -> Any:
    """Greatest element over axes that is not NaN; NaN if all are.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that takes part.
      where: mask of the elements that count; needs `initial`.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanmax`.

    Example:
      >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 2.0]))
      Array(2., dtype=float32)
    """
    return _nan_extreme(a, axis, out, keepdims, initial, where, reductions.max,
                        prims.lowest)


@fused(values=("a", "initial", "where"), static_argnames=_STATIC)
def nanmin(a: Any, axis: Any = None, out: None = None, keepdims: bool = False,
           initial: Any = None, where: Any = None) -> Any:
    """Least element over axes that is not NaN; NaN if all are.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that takes part.
      where: mask of the elements that count; needs `initial`.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanmin`.

    Example:
      >>> jnp.nanmin(jnp.array([1.0, jnp.nan, 2.0]))
      Array(1., dtype=float32)
    """
    return _nan_extreme(a, axis, out, keepdims, initial, where, reductions.min,
                        prims.highest)


def _nan_position(a: Any, axis: Any, out: Any, keepdims: Any,
                  find: Callable[..., Any], identity: Callable[[Any], Any]) -> Any:
    if not dtypes.is_inexact(typeof(a).dtype):
        return find(a, axis, out, keepdims)
    position = find(_numbers(a, identity(typeof(a).dtype)), axis, out, keepdims)
    none = reductions.all(is_nan(a), axis, keepdims=bool(keepdims))
    return choose(none, _c(position, -1), position)


@fused(values=("a",), static_argnames=_STATIC)
def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
              ) -> Any:
    """Index of the greatest element along an axis that is not NaN; -1 if all are.

    Args:
      a: real array.
      axis: the axis; None: of the elements in row-major order.
      out: not supported.
      keepdims: whether the axis stays, with size 1.

    Returns:
      Integers, without the axis.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanargmax`.

    Example:
      >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 2.0]))
      Array(2, dtype=int32)
    """
    return _nan_position(a, axis, out, keepdims, reductions.argmax, prims.lowest)


@fused(values=("a",), static_argnames=_STATIC)
def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
              ) -> Any:
    """Index of the least element along an axis that is not NaN; -1 if all are.

    Args:
      a: real array.
      axis: the axis; None: of the elements in row-major order.
      out: not supported.
      keepdims: whether the axis stays, with size 1.

    Returns:
      Integers, without the axis.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanargmin`.

    Example:
      >>> jnp.nanargmin(jnp.array([1.0, jnp.nan, 2.0]))
      Array(0, dtype=int32)
    """
    return _nan_position(a, axis, out, keepdims, reductions.argmin, prims.highest)


@fused(values=("a",), static_argnames=("axis", "dtype", "out"))
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Cumulative sums along an axis, in which NaN counts as 0.

    Args:
      a: array or scalar.
      axis: the axis; None: of the elements in row-major order.
      dtype: dtype of the result.
      out: not supported.

    Returns:
      An array of the shape of `a`; a vector with `axis=None`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nancumsum`.

    Example:
      >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 2.0]))
      Array([1., 1., 3.], dtype=float32)
    """
    return reductions.cumsum(_numbers(a, 0), axis, dtype, out)


@fused(values=("a",), static_argnames=("axis", "dtype", "out"))
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Cumulative products along an axis, in which NaN counts as 1.

    Args:
      a: array or scalar.
      axis: the axis; None: of the elements in row-major order.
      dtype: dtype of the result.
      out: not supported.

    Returns:
      An array of the shape of `a`; a vector with `axis=None`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nancumprod`.

    Example:
      >>> jnp.nancumprod(jnp.array([3.0, jnp.nan, 2.0]))
      Array([3., 3., 6.], dtype=float32)
    """
    return reductions.cumprod(_numbers(a, 1), axis, dtype, out)


# ---- mean, variance --------------------------------------------------------------------


@fused(values=("a", "where"), static_argnames=_STATIC)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
            where: Any = None) -> Any:
    """Mean over axes of the elements that are not NaN; NaN if all are.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanmean`.

    Example:
      >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 2.0]))
      Array(1.5, dtype=float32)
    """
    a, axes, where = _counted("nanmean", a, axis, where)
    return mean_of("nanmean", a, axes, dtype, out, keepdims, where)


@fused(values=("a", "where", "mean"), static_argnames=(*_STATIC, "ddof"))
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    """Variance over axes of the elements that are not NaN.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      ddof: the number subtracted from the number of elements in the divisor.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.
      mean: the mean, where it is known already, with the axes kept.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanvar`.

    Example:
      >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    a, axes, where = _counted("nanvar", a, axis, where)
    return variance_of("nanvar", a, axes, dtype, out, ddof, keepdims, where, mean)


@fused(values=("a", "where", "mean"), static_argnames=(*_STATIC, "ddof"))
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    """Standard deviation over axes of the elements that are not NaN.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      ddof: the number subtracted from the number of elements in the divisor.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.
      mean: the mean, where it is known already, with the axes kept.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanstd`.

    Example:
      >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    a, axes, where = _counted("nanstd", a, axis, where)
    return variance_of("nanstd", a, axes, dtype, out, ddof, keepdims, where, mean)
