"""Reductions that leave NaN out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype
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
    cast,
    choose,
    dtype_argument,
    refuse_out,
)
from mjax._numpy.fused import fused
from mjax._numpy.reductions import keep_axes, wide_dtype
from mjax._numpy.statistics import mean_over, refuse_rounded_root, variance

_STATIC = ("axis", "dtype", "out", "keepdims")


def _numbers(name: str, a: Any, fill: Any) -> Any:
    """`a` with another number in place of NaN."""
    if not dtypes.is_inexact(typeof(a).dtype):
        return a
    return choose(is_nan(a), as_settled(np.asarray(fill).astype(typeof(a).dtype)[()]), a)


def _mask(name: str, a: Any, where: Any) -> Any:
    """Where there are numbers that count."""
    there = lax.bitwise_not(is_nan(a))
    if where is None:
        return there
    return lax.bitwise_and(*broadcast_values(name, there, reductions.mask_argument(name, where)))


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

    Source: `numpy.nansum`.

    Example:
      >>> jnp.nansum(jnp.array([1.0, jnp.nan, 2.0]))
      Array(3., dtype=float32)
    """
    return reductions.sum(_numbers("nansum", a, 0), axis, dtype, out, keepdims, initial, where)


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

    Source: `numpy.nanprod`.

    Example:
      >>> jnp.nanprod(jnp.array([3.0, jnp.nan, 2.0]))
      Array(6., dtype=float32)
    """
    return reductions.prod(_numbers("nanprod", a, 1), axis, dtype, out, keepdims, initial, where)


def _nan_extreme(name: str, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any,
                 reduce: Callable[..., Any], identity: Callable[[Any], Any]) -> Any:
    dtype = typeof(a).dtype
    if not dtypes.is_inexact(dtype):
        return reduce(a, axis, out, keepdims, initial, where)
    result = reduce(_numbers(name, a, identity(dtype)), axis, out, keepdims, initial, where)
    if initial is not None:
        return result
    return choose(reductions.all(is_nan(a), axis, keepdims=keepdims), _c(result, np.nan), result)


@fused(values=("a", "initial", "where"), static_argnames=_STATIC)
def nanmax(a: Any, axis: Any = None, out: None = None, keepdims: bool = False,
           initial: Any = None, where: Any = None) -> Any:
    """Greatest element over axes that is not NaN; NaN where there is none.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that takes part.
      where: mask of the elements that count; needs `initial`.

    Source: `numpy.nanmax`.

    Example:
      >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 2.0]))
      Array(2., dtype=float32)
    """
    return _nan_extreme("nanmax", a, axis, out, keepdims, initial, where, reductions.max,
                        prims.lowest)


@fused(values=("a", "initial", "where"), static_argnames=_STATIC)
def nanmin(a: Any, axis: Any = None, out: None = None, keepdims: bool = False,
           initial: Any = None, where: Any = None) -> Any:
    """Least element over axes that is not NaN; NaN where there is none.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      initial: scalar that takes part.
      where: mask of the elements that count; needs `initial`.

    Source: `numpy.nanmin`.

    Example:
      >>> jnp.nanmin(jnp.array([1.0, jnp.nan, 2.0]))
      Array(1., dtype=float32)
    """
    return _nan_extreme("nanmin", a, axis, out, keepdims, initial, where, reductions.min,
                        prims.highest)


def _nan_position(name: str, a: Any, axis: Any, out: Any, keepdims: Any,
                  find: Callable[..., Any], identity: Callable[[Any], Any]) -> Any:
    if not dtypes.is_inexact(typeof(a).dtype):
        return find(a, axis, out, keepdims)
    position = find(_numbers(name, a, identity(typeof(a).dtype)), axis, out, keepdims)
    none = reductions.all(is_nan(a), axis, keepdims=bool(keepdims))
    return choose(none, _c(position, -1), position)


@fused(values=("a",), static_argnames=_STATIC)
def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
              ) -> Any:
    """Index of the greatest element along an axis that is not NaN; -1 where there is none.

    Args:
      a: real array.
      axis: the axis; None: of the elements in row-major order.
      out: not supported.
      keepdims: whether the axis stays, with size 1.

    Source: `numpy.nanargmax`.

    Example:
      >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 2.0]))
      Array(2, dtype=int32)
    """
    return _nan_position("nanargmax", a, axis, out, keepdims, reductions.argmax, prims.lowest)


@fused(values=("a",), static_argnames=_STATIC)
def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
              ) -> Any:
    """Index of the least element along an axis that is not NaN; -1 where there is none.

    Args:
      a: real array.
      axis: the axis; None: of the elements in row-major order.
      out: not supported.
      keepdims: whether the axis stays, with size 1.

    Source: `numpy.nanargmin`.

    Example:
      >>> jnp.nanargmin(jnp.array([1.0, jnp.nan, 2.0]))
      Array(0, dtype=int32)
    """
    return _nan_position("nanargmin", a, axis, out, keepdims, reductions.argmin, prims.highest)


@fused(values=("a",), static_argnames=("axis", "dtype", "out"))
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running sums along an axis, in which NaN counts as 0.

    Args:
      a: array or scalar.
      axis: the axis; None: of the elements in row-major order.
      dtype: dtype of the result.
      out: not supported.

    Source: `numpy.nancumsum`.

    Example:
      >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 2.0]))
      Array([1., 1., 3.], dtype=float32)
    """
    return reductions.cumsum(_numbers("nancumsum", a, 0), axis, dtype, out)


@fused(values=("a",), static_argnames=("axis", "dtype", "out"))
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running products along an axis, in which NaN counts as 1.

    Args:
      a: array or scalar.
      axis: the axis; None: of the elements in row-major order.
      dtype: dtype of the result.
      out: not supported.

    Source: `numpy.nancumprod`.

    Example:
      >>> jnp.nancumprod(jnp.array([3.0, jnp.nan, 2.0]))
      Array([3., 3., 6.], dtype=float32)
    """
    return reductions.cumprod(_numbers("nancumprod", a, 1), axis, dtype, out)


# ---- mean, variance --------------------------------------------------------------------


@fused(values=("a", "where"), static_argnames=_STATIC)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
            where: Any = None) -> Any:
    """Mean over axes of the elements that are not NaN; NaN where there is none.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.

    Source: `numpy.nanmean`.

    Example:
      >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 2.0]))
      Array(1.5, dtype=float32)
    """
    refuse_out("nanmean", out)
    target = dtype_argument(dtype, "nanmean") or inexact_dtype(dtypes.canonicalize(typeof(a).dtype))
    where = _mask("nanmean", a, where)
    axes = canonicalize_axes(axis, typeof(a).ndim)
    a = cast(a, wide_dtype(target) if dtypes.is_inexact(target) else inexact_dtype(target))
    shape = typeof(where).shape
    a = broadcast_to(a, shape)
    result = mean_over("nanmean", a, axes, where)
    return cast(keep_axes(result, shape, axes) if keepdims else result, target)


def _nanvar(name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: bool,
            where: Any, mean: Any) -> Any:
    refuse_out(name, out)
    own = inexact_dtype(dtypes.canonicalize(typeof(a).dtype))
    target = dtype_argument(dtype, name) or dtypes.real_dtype(own)
    refuse_rounded_root(name, target)
    where = _mask(name, a, where)
    axes = canonicalize_axes(axis, typeof(a).ndim)
    a = cast(a, wide_dtype(own if dtypes.is_complex(own) else inexact_dtype(target)))
    shape = typeof(where).shape
    a = broadcast_to(a, shape)
    result = variance(name, a, axes, ddof, where, mean)
    return keep_axes(result, shape, axes) if keepdims else result, target


@fused(values=("a", "where", "mean"), static_argnames=(*_STATIC, "ddof"))
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    """Variance over axes of the elements that are not NaN.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      ddof: what is subtracted from the number of elements in the divisor.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.
      mean: the mean, where it is known already, with the axes kept.

    Source: `numpy.nanvar`.

    Example:
      >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    result, target = _nanvar("nanvar", a, axis, dtype, out, ddof, keepdims, where, mean)
    return cast(result, target)


@fused(values=("a", "where", "mean"), static_argnames=(*_STATIC, "ddof"))
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    """Standard deviation over axes of the elements that are not NaN.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result.
      out: not supported.
      ddof: what is subtracted from the number of elements in the divisor.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.
      mean: the mean, where it is known already, with the axes kept.

    Source: `numpy.nanstd`.

    Example:
      >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    result, target = _nanvar("nanstd", a, axis, dtype, out, ddof, keepdims, where, mean)
    return cast(lax.sqrt(result), target)
