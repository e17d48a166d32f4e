"""Medians, quantiles and percentiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import max_dim
from mjax._engine.ir.promotion import common_type, inexact_dtype
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import clamp
from mjax._engine.primitives.cumulative import cumsum
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.gather import take_along_axis
from mjax._engine.primitives.reductions import reduce_or
from mjax._engine.primitives.shapes import (
    as_settled,
    broadcast_in_dim,
    expand_dims,
    moveaxis,
    reduce_sum,
    reshape,
    scalar_of,
    transpose,
)
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.sort import sort, sort_key_val
from mjax._numpy.comparison import is_nan
from mjax._numpy.core import (
    broadcast_to,
    broadcast_values,
    cast,
    check_array,
    choose,
    promote_args,
    promote_shapes,
    refuse_out,
    weak_type_of,
    wide_dtype,
)
from mjax._numpy.fused import fused

#: Interpolation between neighbours; "midpoint" is the mean of "lower" and "higher".
_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")
_STATIC = ("axis", "out", "overwrite_input", "method", "keepdims")


def _rows(name: str, a: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """The array with the reduced axes merged into a last one, and these axes."""
    shape = typeof(a).shape
    axes = tuple(sorted(canonicalize_axes(axis, len(shape))))
    kept = [i for i in range(len(shape)) if i not in axes]
    a = transpose(a, (*kept, *axes))
    size = math.prod(shape[i] for i in axes)
    if size == 0:
        msg = f"{name} of no elements is not defined: shape {shape}, axes {axes}."
        raise ValueError(msg)
    return reshape(a, (*[shape[i] for i in kept], size)), axes


def _weights(name: str, weights: Any, a: Any, axis: Any, method: str) -> Any:
    """Weights in the shape of the array; None stays None.

    Raises:
      NotImplementedError: another method than "inverted_cdf".
      ValueError: complex weights, or weights of another shape.
    """
    if weights is None:
        return None
    weights = check_array(name, weights, "weights")
    if dtypes.is_complex(typeof(weights).dtype):
        msg = f"{name}: weights must be real, got dtype {typeof(weights).dtype}."
        raise ValueError(msg)
    if method != "inverted_cdf":
        msg = (f"{name}: method {method!r} is not defined with weights; give "
               "method='inverted_cdf'.")
        raise NotImplementedError(msg)
    shape, own = typeof(a).shape, typeof(weights).shape
    if own == shape:
        return weights
    axes = canonicalize_axes(axis, len(shape))
    if axis is None or own != tuple(shape[i] for i in axes):
        msg = (f"{name}: weights of shape {own} must have the shape {shape} of the array, or that "
               "of the given axes.")
        raise ValueError(msg)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return broadcast_in_dim(transpose(weights, order), shape, sorted(axes))


def _check_arguments(name: str, a: Any, q: Any, method: str) -> None:
    if method not in _METHODS:
        msg = f"{name}: method must be one of {', '.join(_METHODS)}, got {method!r}."
        raise ValueError(msg)
    for x in (a, q):
        if dtypes.is_complex(typeof(x).dtype):
            msg = f"{name} of complex numbers is not defined: they are not ordered."
            raise ValueError(msg)
    if typeof(q).ndim > 1:
        msg = f"{name}: q must be a scalar or have one axis, got shape {typeof(q).shape}."
        raise ValueError(msg)


def _quantile(name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool,
              weights: Any = None, out: None = None) -> Any:
    refuse_out(name, out)
    _check_arguments(name, a, q, method)
    shape, q_shape = typeof(a).shape, typeof(q).shape
    weights = _weights(name, weights, a, axis, method)
    dtype = inexact_dtype(typeof(a).dtype)
    if weights is not None:
        dtype = inexact_dtype(common_type(weak_type_of(a), weak_type_of(weights))[0])
    a, axes = _rows(name, cast(a, dtype), axis)
    if method == "inverted_cdf":
        if weights is not None:
            weights, _ = _rows(name, weights, axis)
        return _in_place(_inverted_cdf(a, q, weights, skip_nan), shape, q_shape, axes, keepdims)
    a = sort(a, dimension=-1)  # NaN comes last
    n = typeof(a).shape[-1]
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    q = reshape(cast(q, wide), (1,) * (typeof(a).ndim - 1) + (math.prod(q_shape),))
    if skip_nan:
        numbers = reduce_sum(cast(lax.bitwise_not(is_nan(a)), np.dtype(np.int32)),
                             (typeof(a).ndim - 1,))
        last = lax.sub(cast(numbers, wide), np.asarray(1, wide)[()])
        last = reshape(last, (*typeof(a).shape[:-1], 1))
    else:
        last = reshape(scalar_of(ShapedArray((), wide), n - 1), (1,) * typeof(a).ndim)
    out = _interpolate(a, lax.mul(*promote_args(name, q, last)), last, method)
    out = choose(lax.is_finite(q), out, _c(out, np.nan))
    if not skip_nan:
        greatest = slice_in_dim(a, max_dim(n - 1, 0), n, axis=-1)
        spoilt = broadcast_to(is_nan(greatest), typeof(out).shape)
        out = choose(spoilt, _c(out, np.nan), out)
    return _in_place(out, shape, q_shape, axes, keepdims)


def _inverted_cdf(a: Any, q: Any, weights: Any, skip_nan: bool) -> Any:
    """The first elements along the last axis at which the share `q` of the weights is reached."""
    aval = typeof(a)
    wide = np.dtype(np.float64) if aval.dtype == np.float64 else np.dtype(np.float32)
    last, one = aval.ndim - 1, np.ones((), wide)
    weights = broadcast_to(one, aval.shape) if weights is None else cast(weights, wide)
    a, weights = sort_key_val(a, weights, dimension=-1)  # NaN comes last
    bad = lax.bitwise_or(lax.lt(weights, _c(weights, 0)), is_nan(weights))
    absent = is_nan(a)
    totals = cumsum(choose(lax.bitwise_or(bad, absent), _c(weights, 0), weights), last)
    q = reshape(cast(q, wide), (1,) * last + (typeof(q).size,))
    share = lax.mul(*promote_shapes("quantile", slice_in_dim(totals, -1, None, axis=last), q))
    before = lax.lt(*broadcast_values("quantile", expand_dims(totals, (last + 1,)),
                                      expand_dims(share, (last,))))
    int32 = np.dtype(np.int32)
    index = reduce_sum(cast(before, int32), (last,))
    present = reshape(reduce_sum(cast(lax.bitwise_not(absent), int32), (last,)),
                      (*aval.shape[:-1], 1))
    highest = lax.sub(present, _c(present, 1)) if skip_nan else np.int32(aval.shape[-1] - 1)
    highest = lax.max(*broadcast_values("quantile", highest, np.int32(0)))
    out = take_along_axis(a, lax.min(*broadcast_values("quantile", index, highest)), -1)
    spoilt = reduce_or(bad if skip_nan else lax.bitwise_or(bad, absent), (last,))
    spoilt = lax.bitwise_or(reshape(spoilt, typeof(present).shape), lax.eq(present, np.int32(0)))
    out = choose(broadcast_to(spoilt, typeof(out).shape), _c(out, np.nan), out)
    return choose(lax.is_finite(q), out, _c(out, np.nan))


def _interpolate(a: Any, position: Any, last: Any, method: str) -> Any:
    """Values between the sorted elements, at fractional positions along the last axis."""
    zero = _c(position, 0)
    top = broadcast_values("quantile", last, position)[0]
    position = clamp.clamp(*broadcast_values("quantile", zero, position, lax.max(top, zero)))
    low, high = lax.floor(position), lax.ceil(position)
    if method == "nearest":  # the lower one of two equally near
        low = lax.ceil(lax.sub(position, _c(position, 0.5)))

    def read(place: Any) -> Any:
        index = cast(place, np.dtype(np.int32))
        if typeof(index).shape[:-1] != typeof(a).shape[:-1]:
            index = broadcast_to(index, (*typeof(a).shape[:-1], typeof(index).shape[-1]))
        return take_along_axis(a, index, -1)

    if method in ("lower", "nearest"):
        return read(low)
    if method == "higher":
        return read(high)
    below, above = read(low), read(high)
    if method == "midpoint":
        dtype, weak = weak_type_of(below)
        below, above = [cast(x, wide_dtype(dtype), weak) for x in (below, above)]
        return cast(lax.mul(lax.add(below, above), _c(below, 0.5)), dtype, weak)
    weight = cast(broadcast_to(lax.sub(position, low), typeof(below).shape), typeof(below).dtype)
    mixed = lax.add(lax.mul(below, lax.sub(_c(weight, 1), weight)), lax.mul(above, weight))
    # Equal neighbours are returned exactly, with the derivative of an interpolation.
    # Infinities do not have a difference; with weight 0 they are left out.
    finite = lax.bitwise_and(lax.eq(below, above), lax.is_finite(below))
    step = choose(finite, lax.sub(above, below), _c(below, 0))
    alone = lax.bitwise_or(finite, lax.eq(weight, _c(weight, 0)))
    return choose(alone, lax.add(below, lax.mul(step, weight)), mixed)


def _in_place(out: Any, shape: tuple[int, ...], q_shape: tuple[int, ...], axes: tuple[int, ...],
              keepdims: bool) -> Any:
    """Moves the axis of `q` from the end to the front, or removes it for a scalar `q`."""
    kept = [n for i, n in enumerate(shape) if i not in axes]
    if keepdims:
        kept = [1 if i in axes else n for i, n in enumerate(shape)]
    out = moveaxis(out, -1, 0)
    return reshape(out, (*q_shape, *kept))


@fused(values=("a", "q"), static_argnames=_STATIC)
def quantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *,
             weights: Any = None) -> Any:
    """Quantiles over axes: the value below which a fraction `q` of the elements lies.

    Args:
      a: real array.
      q: fractions in `[0, 1]`, a scalar or an array of one axis.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      overwrite_input: ignored.
      method: the interpolation between neighbours: "linear", "lower", "higher", "midpoint" or
        "nearest"; or "inverted_cdf": the first element at which the share is reached.
      keepdims: whether the axes stay, with size 1.
      weights: weights of the elements, for the method "inverted_cdf": not negative, of the shape
        of `a` or of its reduced axes.

    Returns:
      An array without the axes, with that of `q` in front. It is NaN if `a` holds one, if `q` is
      not finite, or if a weight is negative or NaN. A finite `q` outside of `[0, 1]` is
      clipped.

    Raises:
      ValueError: complex numbers, no elements, an unknown method, `q` of several axes; weights
        of another shape.
      NotImplementedError: weights, with another method.

    Source: `numpy.quantile`.

    Example:
      >>> jnp.quantile(jnp.array([1.0, 2.0, 4.0]), 0.25)
      Array(1.5, dtype=float32)
    """
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights, out)


@fused(values=("a", "q"), static_argnames=_STATIC)
def nanquantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False, *,
                weights: Any = None) -> Any:
    """Quantiles over axes of the elements that are not NaN.

    Args:
      a: real array.
      q: fractions in `[0, 1]`, a scalar or an array of one axis.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      overwrite_input: has no effect.
      method: as in `quantile`.
      keepdims: whether the axes stay, with size 1.
      weights: as in `quantile`.

    Returns:
      An array whose first axes are those of `q`, followed by those of `a` without the reduced axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanquantile`.

    Example:
      >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 2.0]), 0.5)
      Array(1.5, dtype=float32)
    """
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights, out)


def _hundredth(q: Any) -> Any:
    dtype = inexact_dtype(typeof(q).dtype)
    return lax.div(cast(q, dtype), as_settled(np.asarray(100, dtype)[()]))


@fused(values=("a", "q"), static_argnames=_STATIC, out_sharding=True)
def percentile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False, *,
               weights: Any = None) -> Any:
    """Percentiles over axes: `quantile` with `q` in `[0, 100]`.

    Args:
      a: real array.
      q: percentages, a scalar or an array of one axis.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      overwrite_input: has no effect.
      method: as in `quantile`.
      keepdims: whether the axes stay, with size 1.
      weights: as in `quantile`.

    Returns:
      An array whose first axes are those of `q`, followed by those of `a` without the reduced axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.percentile`.

    Example:
      >>> jnp.percentile(jnp.array([1.0, 2.0, 4.0]), 25)
      Array(1.5, dtype=float32)
    """
    return _quantile("percentile", a, _hundredth(q), axis, method, keepdims, False, weights, out)


@fused(values=("a", "q"), static_argnames=_STATIC)
def nanpercentile(a: Any, q: Any, axis: Any = None, out: None = None,
                  overwrite_input: bool = False, method: str = "linear", keepdims: bool = False,
                  *, weights: Any = None) -> Any:
    """Percentiles over axes of the elements that are not NaN.

    Args:
      a: real array.
      q: percentages, a scalar or an array of one axis.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      overwrite_input: has no effect.
      method: as in `quantile`.
      keepdims: whether the axes stay, with size 1.
      weights: as in `quantile`.

    Returns:
      An array whose first axes are those of `q`, followed by those of `a` without the reduced axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanpercentile`.

    Example:
      >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 2.0]), 50)
      Array(1.5, dtype=float32)
    """
    return _quantile("nanpercentile", a, _hundredth(q), axis, method, keepdims, True, weights, out)


@fused(values=("a",), static_argnames=("axis", "out", "overwrite_input", "keepdims"))
def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Any:
    """Median over axes.

    Args:
      a: real array.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      overwrite_input: has no effect.
      keepdims: whether the axes stay, with size 1.

    Returns:
      An array without the axes; NaN if `a` holds one.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.median`.

    Example:
      >>> jnp.median(jnp.array([5.0, 1.0, 2.0, 4.0]))
      Array(3., dtype=float32)
    """
    refuse_out("median", out)
    half = np.float32(0.5)
    return _quantile("median", a, half, axis, "midpoint", keepdims, False)


@fused(values=("a",), static_argnames=("axis", "out", "overwrite_input", "keepdims"))
def nanmedian(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:
    """Median over axes of the elements that are not NaN.

    Args:
      a: real array.
      axis: an axis or a sequence of them; None: all.
      out: not supported.
      overwrite_input: has no effect.
      keepdims: whether the axes stay, with size 1.

    Returns:
      An array without the axes.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.nanmedian`.

    Example:
      >>> jnp.nanmedian(jnp.array([5.0, jnp.nan, 2.0, 4.0]))
      Array(4., dtype=float32)
    """
    refuse_out("nanmedian", out)
    half = np.float32(0.5)
    return _quantile("nanmedian", a, half, axis, "midpoint", keepdims,
                     True)
