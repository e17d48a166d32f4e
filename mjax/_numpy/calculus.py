"""Differences, integrals, interpolation, polynomials: functions of sampled functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.cumulative import cumsum_p
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.gather import take_on_axis
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import broadcast_in_dim_p, moveaxis, reduce_sum, reshape
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._engine.primitives.sort import sort
from mjax._numpy.core import (
    as_array,
    broadcast_to,
    broadcast_values,
    cast,
    check_array,
    check_arrays,
    choose,
    concrete_int,
    promote_args,
    promote_dtypes,
    promote_dtypes_inexact,
)
from mjax._numpy.fused import fused

# ---- differences -----------------------------------------------------------------------


def _neighbours(a: Any, axis: int) -> tuple[Any, Any]:
    n = typeof(a).shape[axis]
    return (slice_in_dim(a, min(1, n), n, axis=axis),
            slice_in_dim(a, 0, max(n - 1, 0), axis=axis))


def _subtract(x: Any, y: Any) -> Any:
    return lax.ne(x, y) if typeof(x).dtype == np.bool_ else lax.sub(x, y)


@fused(static_argnames=("n", "axis"))
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis.

    Args:
      a: array of at least one axis.
      n: how often differences are taken.
      axis: the axis.
      prepend: array or scalar that is put in front of `a` first.
      append: array or scalar that is put behind `a` first.

    Returns:
      An array whose axis is shorter by `n`; of booleans, whether neighbours differ.

    Raises:
      ValueError: `a` is a scalar, `n` is negative, the axis is out of range.

    Source: `numpy.diff`.

    Example:
      >>> jnp.diff(jnp.array([1, 4, 9]))
      Array([3, 5], dtype=int32)
    """
    a = check_array("diff", a)
    n = concrete_int(n, "diff: n")
    if n < 0 or not typeof(a).shape:
        msg = f"diff needs n >= 0 and an array of an axis, got n={n} and shape {typeof(a).shape}."
        raise ValueError(msg)
    axis = canonicalize_axis(axis, typeof(a).ndim)
    if n == 0:
        return as_array(a)
    parts = [x for x in (prepend, a, append) if x is not None]
    if len(parts) > 1:
        parts = promote_dtypes(*check_arrays("diff", *parts))
        a = concatenate([_as_slice(x, typeof(a).shape, axis) for x in parts], axis)
    for _ in range(min(n, typeof(a).shape[axis])):
        a = _subtract(*_neighbours(a, axis))
    return a


def _as_slice(x: Any, shape: tuple[int, ...], axis: int) -> Any:
    if typeof(x).shape:
        return x
    return broadcast_to(x, [1 if i == axis else n for i, n in enumerate(shape)])


@fused
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in row-major order.

    Args:
      ary: array.
      to_end: numbers to put behind the differences.
      to_begin: numbers to put in front of them.

    Returns:
      An array of one axis, of the dtype of `ary`.

    Source: `numpy.ediff1d`.

    Example:
      >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_end=0)
      Array([3, 5, 0], dtype=int32)
    """
    ary = check_array("ediff1d", ary)
    flat = as_array(reshape(ary, (typeof(ary).size,)))
    parts = [_subtract(*_neighbours(flat, 0))]
    for ends, place in ((to_begin, 0), (to_end, len(parts) + 1)):
        if ends is not None:
            ends = cast(check_array("ediff1d", ends), typeof(flat).dtype)
            parts.insert(place, reshape(ends, (typeof(ends).size,)))
    return concatenate(parts, 0) if len(parts) > 1 else parts[0]


def _gradient_along(f: Any, spacing: Any, axis: int) -> Any:
    """Second-order differences inside, first-order ones at the ends."""
    n = typeof(f).shape[axis]
    if n < 2:
        msg = f"gradient needs two or more elements along axis {axis}, got shape {typeof(f).shape}."
        raise ValueError(msg)
    steps = _subtract(*_neighbours(f, axis))
    shape = [1] * typeof(f).ndim
    if typeof(spacing).shape:
        if typeof(spacing).shape != (n,):
            msg = (f"gradient: coordinates along axis {axis} must have shape ({n},), got "
                   f"{typeof(spacing).shape}.")
            raise ValueError(msg)
        shape[axis] = n - 1
        spacing = reshape(_subtract(*_neighbours(spacing, 0)), shape)
        slopes = lax.div(steps, spacing)
        left = slice_in_dim(spacing, 0, n - 2, axis=axis)
        right = slice_in_dim(spacing, 1, n - 1, axis=axis)
        # Each slope weighs as much as the interval on the other side is long.
        inner = lax.div(lax.add(lax.mul(slice_in_dim(slopes, 0, n - 2, axis=axis), right),
                                lax.mul(slice_in_dim(slopes, 1, n - 1, axis=axis), left)),
                        lax.add(left, right))
    else:
        slopes = lax.div(steps, spacing)
        inner = lax.mul(lax.add(slice_in_dim(slopes, 0, n - 2, axis=axis),
                                slice_in_dim(slopes, 1, n - 1, axis=axis)), _c(slopes, 0.5))
    return concatenate([slice_in_dim(slopes, 0, 1, axis=axis), inner,
                        slice_in_dim(slopes, n - 2, n - 1, axis=axis)], axis)


@fused(static_argnames=("axis", "edge_order"))
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """Derivatives of a sampled function, by central differences.

    Args:
      f: array, of at least two elements along each axis that is differentiated.
      varargs: nothing, one distance for all axes, or for each axis a distance or the
        coordinates.
      axis: an axis or a sequence of them; None: all.
      edge_order: must be None or 1.

    Returns:
      An array of the shape of `f`, or a list of one for each axis if there are several.

    Raises:
      ValueError: an axis is too short; the distances do not fit the axes.

    Source: `numpy.gradient`.

    Example:
      >>> jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
      Array([3., 4., 5.], dtype=float32)
    """
    if edge_order not in (None, 1):
        msg = f"gradient: edge_order {edge_order} is not implemented, only 1."
        raise NotImplementedError(msg)
    f, *spacings = promote_dtypes_inexact(*check_arrays("gradient", f, *varargs))
    axes = canonicalize_axes(axis, typeof(f).ndim)
    if len(spacings) < 2:
        spacings = (spacings or [_c(f, 1)]) * len(axes)
    if len(spacings) != len(axes):
        msg = f"gradient: {len(axes)} axes need as many distances, got {len(spacings)}."
        raise ValueError(msg)
    out = [_gradient_along(f, s, i) for s, i in zip(spacings, axes, strict=True)]
    return out[0] if len(out) == 1 else out


@fused(static_argnames=("axis",))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule.

    Args:
      y: array of samples.
      x: their coordinates, of the shape of `y` or of one axis.
      dx: their distance, where `x` is not given.
      axis: the axis.

    Returns:
      An array without the axis.

    Source: `numpy.trapezoid`.

    Example:
      >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]))
      Array(4., dtype=float32)
    """
    if x is None:
        y, step = promote_dtypes_inexact(*check_arrays("trapezoid", y, dx))
        axis = canonicalize_axis(axis, typeof(y).ndim)
    else:
        y, x = promote_dtypes_inexact(*check_arrays("trapezoid", y, x))
        axis = canonicalize_axis(axis, typeof(y).ndim)
        if typeof(x).ndim == 1:
            step = _subtract(*_neighbours(x, 0))
            shape = [1] * typeof(y).ndim
            shape[axis] = typeof(step).shape[0]
            step = reshape(step, shape)
        else:
            step = _subtract(*_neighbours(x, axis))
    right, left = _neighbours(y, axis)
    means = lax.mul(lax.add(right, left), _c(y, 0.5))
    return reduce_sum(lax.mul(*promote_args("trapezoid", step, means)), (axis,))


# ---- interpolation ---------------------------------------------------------------------


@boundary
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
           ) -> Any:
    """Piecewise linear interpolation of a sampled function.

    Args:
      x: where to evaluate it, array or scalar.
      xp: coordinates of the samples, increasing, of shape `(n,)`.
      fp: values of the samples, of shape `(n,)`.
      left: what holds left of `xp[0]`; `fp[0]` if not given, "extrapolate" for the line.
      right: what holds right of `xp[-1]`; `fp[-1]` if not given, "extrapolate" for the line.
      period: the period of the coordinates; then `left` and `right` have no effect.

    Returns:
      An array of the shape of `x`.

    Raises:
      ValueError: `xp` and `fp` are not of one shape `(n,)`; the period is 0.

    Source: `numpy.interp`.

    Example:
      >>> jnp.interp(1.5, jnp.array([1.0, 2.0]), jnp.array([10.0, 20.0]))
      Array(15., dtype=float32)
    """
    x, xp, fp = check_arrays("interp", x, xp, fp)
    if typeof(xp).shape != typeof(fp).shape or typeof(xp).ndim != 1:
        msg = (f"interp: xp and fp must have one shape (n,), got {typeof(xp).shape} and "
               f"{typeof(fp).shape}.")
        raise ValueError(msg)
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            msg = f"interp: {name} must be a number or 'extrapolate', got {value!r}."
            raise ValueError(msg)
    texts = tuple(v if isinstance(v, str) else None for v in (left, right))
    numbers = [None if isinstance(v, str) else v for v in (left, right)]
    if period is not None and not hasattr(period, "aval") and period == 0:
        msg = "interp: the period must not be 0."
        raise ValueError(msg)
    return _interp(x, xp, fp, *numbers, period, beyond=texts)


@fused(static_argnames=("beyond",))
def _interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any,
            beyond: tuple[str | None, str | None]) -> Any:
    x, xp = promote_dtypes_inexact(x, xp)
    fp, = promote_dtypes_inexact(fp)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, lax.abs(cast(check_array("interp", period),
                                                      typeof(xp).dtype)))
        left, right, beyond = None, None, (None, None)
    n = typeof(xp).shape[0]
    shape = typeof(x).shape
    flat = reshape(x, (math.prod(shape), 1))
    # The number of samples up to x: where n is small, counting beats a search.
    upto = reduce_sum(cast(lax.ge(*broadcast_values("interp", flat, reshape(xp, (1, n)))),
                           np.dtype(np.int32)), (1,))
    high = lax.clamp(np.int32(min(1, n - 1)), reshape(upto, shape), np.int32(n - 1))
    low = lax.max(lax.sub(high, np.int32(1)), np.int32(0))
    x0, x1 = take_on_axis(xp, low, 0), take_on_axis(xp, high, 0)
    f0, f1 = take_on_axis(fp, low, 0), take_on_axis(fp, high, 0)
    width = lax.sub(x1, x0)
    flat_piece = lax.eq(width, _c(width, 0))
    slope_weight = lax.div(lax.sub(x, x0), choose(flat_piece, _c(width, 1), width))
    weight = cast(choose(flat_piece, _c(width, 0), slope_weight), typeof(fp).dtype)
    out = lax.add(f0, lax.mul(weight, lax.sub(f1, f0)))
    ends = ((left, beyond[0], 0, lax.lt), (right, beyond[1], n - 1, lax.gt))
    for value, mode, end, outside in ends:
        if mode is None:
            bound = reshape(slice_in_dim(xp, end, end + 1), ())
            value = (reshape(slice_in_dim(fp, end, end + 1), ()) if value is None
                     else cast(check_array("interp", value), typeof(fp).dtype))
            out = choose(outside(x, bound), value, out)
    return out


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Coordinates within one period, with a sample more at both ends."""
    x, xp = _modulo(x, period), _modulo(xp, period)
    xp, fp = sort((xp, fp), num_keys=1)
    n = typeof(xp).shape[0]
    first, last = (0, 1), (n - 1, n)
    xp = concatenate([lax.sub(slice_in_dim(xp, *last), period), xp,
                      lax.add(slice_in_dim(xp, *first), period)], 0)
    fp = concatenate([slice_in_dim(fp, *last), fp, slice_in_dim(fp, *first)], 0)
    return x, xp, fp


def _modulo(x: Any, period: Any) -> Any:
    rest = lax.rem(x, period)
    return choose(lax.lt(rest, _c(rest, 0)), lax.add(rest, period), rest)


@fused(static_argnames=("axis",))
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    """Angles along an axis made continuous by adding multiples of the period.

    Args:
      p: array of angles.
      discont: the least jump that is mended; half a period if not given.
      axis: the axis.
      period: the period.

    Returns:
      An array of the shape of `p`.

    Source: `numpy.unwrap`.

    Example:
      >>> jnp.unwrap(jnp.array([0.0, 3.0, 7.0]), period=6)
      Array([0., 3., 1.], dtype=float32)
    """
    p, = promote_dtypes_inexact(check_array("unwrap", p))
    period = cast(check_array("unwrap", period), typeof(p).dtype)
    half = lax.mul(period, _c(p, 0.5))
    axis = canonicalize_axis(axis, typeof(p).ndim)
    p = moveaxis(p, axis, 0)
    steps = _subtract(*_neighbours(p, 0))
    wrapped = lax.sub(_modulo(lax.add(steps, half), period), half)
    upward = lax.bitwise_and(lax.eq(*broadcast_values("unwrap", wrapped, lax.neg(half))),
                             lax.gt(steps, _c(steps, 0)))
    wrapped = choose(upward, half, wrapped)
    limit = half if discont is None else cast(check_array("unwrap", discont), typeof(p).dtype)
    small = lax.lt(lax.abs(steps), limit)
    correction = choose(small, _c(steps, 0), lax.sub(wrapped, steps))
    total = cumsum_p.bind(correction, axis=0, reverse=False)
    head = slice_in_dim(p, 0, 1)
    out = concatenate([head, lax.add(slice_in_dim(p, 1, typeof(p).shape[0]), total)], 0)
    return moveaxis(out, 0, axis)


# ---- polynomials -----------------------------------------------------------------------


@fused(static_argnames=("unroll",))
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """Value of a polynomial, by Horner's rule.

    Args:
      p: coefficients, from that of the highest power down, of shape `(n, ...)`.
      x: where to evaluate it, array or scalar.
      unroll: has no effect: all steps are unrolled.

    Returns:
      An array of the shape of `x`, of the promoted dtype.

    Source: `numpy.polyval`.

    Example:
      >>> jnp.polyval(jnp.array([1, 2, 3]), 10)
      Array(123, dtype=int32)
    """
    p, x = promote_dtypes(*check_arrays("polyval", p, x))
    shape = typeof(p).shape
    if not shape:
        msg = "polyval: p must have an axis of coefficients, got a scalar."
        raise ValueError(msg)
    zeros = cast(_c(x, 0), typeof(x).dtype)
    out = broadcast_in_dim_p.bind(zeros, shape=typeof(x).shape, broadcast_dimensions=())
    for i in range(shape[0]):
        coefficient = reshape(slice_in_dim(p, i, i + 1), shape[1:])
        out = lax.add(*promote_args("polyval", lax.mul(*promote_args("polyval", out, x)),
                                    coefficient))
    return out


def _aligned(name: str, a1: Any, a2: Any) -> tuple[Any, Any]:
    """Coefficients of two polynomials, filled up with zeros in front."""
    a1, a2 = promote_dtypes(*check_arrays(name, a1, a2))
    size = max(typeof(a).shape[0] for a in (a1, a2))
    return tuple(pad(a, _c(a, 0), [(size - typeof(a).shape[0], 0, 0)])  # type: ignore[return-value]
                 for a in (a1, a2))


@fused
def polyadd(a1: Any, a2: Any) -> Any:
    """Coefficients of the sum of two polynomials.

    Args:
      a1: coefficients, from that of the highest power down.
      a2: coefficients.

    Source: `numpy.polyadd`.

    Example:
      >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([3, 0, 1]))
      Array([3, 1, 3], dtype=int32)
    """
    return lax.add(*_aligned("polyadd", a1, a2))


@fused
def polysub(a1: Any, a2: Any) -> Any:
    """Coefficients of the difference of two polynomials.

    Args:
      a1: coefficients, from that of the highest power down.
      a2: coefficients.

    Source: `numpy.polysub`.

    Example:
      >>> jnp.polysub(jnp.array([1, 2]), jnp.array([3, 0, 1]))
      Array([-3,  1,  1], dtype=int32)
    """
    return lax.sub(*_aligned("polysub", a1, a2))


@fused(static_argnames=("m",))
def polyder(p: Any, m: int = 1) -> Any:
    """Coefficients of a derivative of a polynomial.

    Args:
      p: coefficients, from that of the highest power down.
      m: which derivative.

    Raises:
      ValueError: `m` is negative.

    Source: `numpy.polyder`.

    Example:
      >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
      Array([2., 2.], dtype=float32)
    """
    m = concrete_int(m, "polyder: m")
    if m < 0:
        msg = f"polyder: m must not be negative, got {m}."
        raise ValueError(msg)
    p = check_array("polyder", p)
    if m == 0:
        return as_array(p)
    p, = promote_dtypes_inexact(p) if not dtypes.is_inexact(typeof(p).dtype) else [p]
    n = typeof(p).shape[0]
    powers = np.arange(n - 1, m - 1, -1)
    factor = np.prod([powers - i for i in range(m)], axis=0) if n > m else powers
    return lax.mul(slice_in_dim(p, 0, max(n - m, 0)), factor.astype(typeof(p).dtype))
