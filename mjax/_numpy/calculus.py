"""Differences, gradients, integrals, interpolation, values of polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis
from mjax._engine.control.loops.looping import scan
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import max_dim, min_dim
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import (
    abs as absolute,
)
from mjax._engine.primitives.arithmetic import (
    add,
    bitwise_and,
    bitwise_or,
    div,
    gt,
    le,
    lt,
    mul,
    ne,
    sub,
)
from mjax._engine.primitives.clamp import clamp
from mjax._engine.primitives.gather import take_on_axis
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    array_of,
    as_settled,
    expand_dims,
    full,
    moveaxis,
    reshape,
)
from mjax._engine.primitives.slicing import index_in_dim, slice_in_dim
from mjax._engine.primitives.sort import sort_key_val
from mjax._numpy.arithmetic import remainder
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    check_arrays,
    concrete_int,
    promote_dtypes,
    promote_dtypes_inexact,
    promote_shapes,
    shape_of,
    weak_type_of,
    wide_dtype,
    wide_sum,
)
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.searching import searchsorted
from mjax._numpy.shapes import ravel


def _constant(x: Any, value: float) -> Any:
    return as_settled(np.asarray(value).astype(typeof(x).dtype)[()])


def _neighbours(a: Any, axis: int) -> tuple[Any, Any]:
    """All but the first elements along an axis, and all but the last."""
    n = shape_of(a)[axis]
    return (slice_in_dim(a, min_dim(1, n), n, axis=axis),
            slice_in_dim(a, 0, max_dim(n - 1, 0), axis=axis))


# ---- differences -----------------------------------------------------------------------


@fused(values=("a", "prepend", "append"), static_argnames=("n", "axis"))
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis.

    Args:
      a: array of at least one axis; for booleans, results say whether neighbours differ.
      n: the number of times differences are taken.
      axis: the axis.
      prepend: values to insert before the first element: a scalar, or an array that fits.
      append: values to insert after the last element.

    Returns:
      An array that is `n` shorter along the axis.

    Raises:
      ValueError: `a` is a scalar, `n` is negative, or the axis is out of range.

    Source: `numpy.diff`.

    Example:
      >>> jnp.diff(jnp.array([1, 4, 9, 16]))
      Array([3, 5, 7], dtype=int32)
    """
    n = concrete_int(n, "diff: the order n")
    if n < 0:
        msg = f"diff: order must be non-negative but got {n}."
        raise ValueError(msg)
    if not shape_of(a):
        msg = "diff requires input that is at least one dimensional, got a scalar."
        raise ValueError(msg)
    axis = canonicalize_axis(axis, typeof(a).ndim)
    if n == 0:
        return array_of(a)
    parts = [a]
    for extra, place in ((prepend, 0), (append, len(parts) + 1)):
        if extra is not None:
            if not shape_of(extra):
                shape = shape_of(a)
                extra = broadcast_to(extra, (*shape[:axis], 1, *shape[axis + 1 :]))
            parts.insert(place, extra)
    a = concatenate(parts, axis)
    for _ in range(n):
        after, before = _neighbours(a, axis)
        a = ne(after, before) if typeof(a).dtype == np.bool_ else sub(after, before)
    return a


@fused(values=("ary", "to_end", "to_begin"))
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours, in the order of `ravel`.

    Args:
      ary: array.
      to_end: values to append to the differences.
      to_begin: values to insert before them.

    Returns:
      An array of one axis, of the dtype of `ary`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.ediff1d`.

    Example:
      >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_begin=0)
      Array([0, 3, 5], dtype=int32)
    """
    ary = ravel(ary)
    parts = [sub(*_neighbours(ary, 0))]
    for name, extra in (("to_begin", to_begin), ("to_end", to_end)):
        if extra is not None:
            extra = ravel(cast(extra, typeof(ary).dtype))
            parts.insert(0 if name == "to_begin" else len(parts), extra)
    return concatenate(parts)


# ---- gradient --------------------------------------------------------------------------


@boundary
def gradient(f: Any, *varargs: Any, axis: int | Sequence[int] | None = None,
             edge_order: int | None = None) -> Any:
    """Derivatives by differences: central ones inside, one-sided ones at the ends.

    Args:
      f: values on a grid.
      varargs: distances of neighbours, 1 by default: one number for all axes, or for each axis
        either a number or the coordinates.
      axis: the axis or axes; by default all.
      edge_order: not supported.

    Returns:
      An array for a single axis, else a list of arrays.

    Raises:
      ValueError: an axis has fewer than two elements, or the coordinates do not fit.
      TypeError: the number of distances is wrong.

    Source: `numpy.gradient`.

    Example:
      >>> jnp.gradient(jnp.array([1., 4., 9., 16.]))
      Array([3., 4., 6., 7.], dtype=float32)
    """
    if edge_order is not None:
        msg = "gradient: the argument `edge_order` is not supported."
        raise NotImplementedError(msg)
    f, *spacings = check_arrays("gradient", f, *varargs)
    ndim = typeof(f).ndim
    axes = canonicalize_axes(tuple(axis) if isinstance(axis, Sequence) else axis, ndim)
    if len(spacings) not in (0, 1, len(axes)) or (
            len(spacings) == 1 and shape_of(spacings[0]) and len(axes) != 1):
        msg = (f"gradient: invalid number of spacing arguments {len(spacings)} for axis={axis} of "
               f"an array of shape {shape_of(f)}.")
        raise TypeError(msg)
    for i in axes:
        if shape_of(f)[i] < 2:
            msg = (f"gradient: at least 2 elements are required along axis {i} of an array of "
                   f"shape {shape_of(f)}.")
            raise ValueError(msg)
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings or [None] * len(axes)
    for i, h in zip(axes, spacings, strict=True):
        if h is not None and shape_of(h) not in ((), (shape_of(f)[i],)):
            msg = (f"gradient: coordinates must be one for each of the {shape_of(f)[i]} places "
                   f"along axis {i}, got shape {shape_of(h)}.")
            raise ValueError(msg)
    out = [_gradient_along(f, h, axis=i) for i, h in zip(axes, spacings, strict=True)]
    return out[0] if len(axes) == 1 else out


@fused(static_argnames=("axis",))
def _gradient_along(f: Any, h: Any, *, axis: int) -> Any:
    if h is None:
        (f,) = promote_dtypes_inexact(f)
        h = _constant(f, 1)
    else:
        f, h = promote_dtypes_inexact(f, h)
    target = typeof(f)
    # Quotients of small differences lose all digits in 16 bits.
    f, h = [cast(x, wide_dtype(target.dtype), target.weak_type) for x in (f, h)]
    return cast(_slopes(f, h, axis), target.dtype, target.weak_type)


def _slopes(f: Any, h: Any, axis: int) -> Any:
    n = shape_of(f)[axis]
    steps = sub(*_neighbours(f, axis))
    if not shape_of(h):
        # The first, the sums of two neighbouring steps, the last.
        inside = mul(add(*_neighbours(steps, axis)), _constant(f, 0.5))
        ends = slice_in_dim(steps, 0, 1, axis=axis), slice_in_dim(steps, n - 2, None, axis=axis)
        return div(concatenate([ends[0], inside, ends[1]], axis), h)
    others = [i for i in range(typeof(f).ndim) if i != axis]
    widths = expand_dims(sub(*_neighbours(h, 0)), others)
    slopes = div(steps, widths)
    (right, left), (slope_right, slope_left) = (_neighbours(x, axis) for x in (widths, slopes))
    # The slope at a place is the mean of the adjacent ones, each weighted by the other's width.
    inside = div(add(mul(slope_left, right), mul(slope_right, left)), add(left, right))
    return concatenate([slice_in_dim(slopes, 0, 1, axis=axis), inside,
                        slice_in_dim(slopes, n - 2, None, axis=axis)], axis)


# ---- integrals -------------------------------------------------------------------------


@fused(values=("y", "x", "dx"), static_argnames=("axis",))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule.

    Args:
      y: values.
      x: coordinates: one for each place along the axis, or an array that broadcasts with `y`.
      dx: distance of neighbours, if `x` is not given.
      axis: the axis.

    Returns:
      An array without that axis.

    Raises:
      ValueError: the axis is out of range, or the coordinates do not fit.

    Source: `numpy.trapezoid`.

    Example:
      >>> jnp.trapezoid(jnp.array([1., 2., 3.]))
      Array(4., dtype=float32)
    """
    width = dx if x is None else x
    if x is None:
        y, = promote_dtypes_inexact(y)
    y, width = promote_dtypes_inexact(y, width)
    given, axis = axis, canonicalize_axis(axis, typeof(y).ndim)
    if x is not None:
        if typeof(width).ndim == 1:
            width = expand_dims(sub(*_neighbours(width, 0)),
                                [i for i in range(typeof(y).ndim) if i != axis])
        else:
            place = canonicalize_axis(given, typeof(width).ndim)
            width = sub(*_neighbours(width, place))
            if typeof(width).ndim != typeof(y).ndim:  # Places from the start would not align.
                y, width = moveaxis(y, axis, -1), moveaxis(width, place, -1)
                axis = typeof(y).ndim - 1
    pairs, width = promote_shapes("trapezoid", add(*_neighbours(y, axis)), width)
    total = wide_sum(mul(pairs, width), (axis + typeof(pairs).ndim - typeof(y).ndim,))
    return mul(total, _constant(total, 0.5))


# ---- interpolation ---------------------------------------------------------------------


@boundary
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
           ) -> Any:
    """Piecewise linear interpolation.

    Args:
      x: coordinates at which to interpolate.
      xp: coordinates of the given points, increasing.
      fp: their values.
      left: value before the first point; by default that point's; `"extrapolate"` continues
        the line.
      right: value after the last point; by default that point's; `"extrapolate"` continues
        the line.
      period: length after which points repeat; `xp` need not be sorted then.

    Returns:
      Values of the shape of `x`.

    Raises:
      ValueError: `xp` and `fp` are not vectors of one size, or `x` is complex.

    Source: `numpy.interp`.

    Example:
      >>> jnp.interp(jnp.array([0.5, 3.]), jnp.array([0., 1., 2.]), jnp.array([0., 10., 5.]))
      Array([5., 5.], dtype=float32)
    """
    x, xp, fp = check_arrays("interp", x, xp, fp)
    if shape_of(xp) != shape_of(fp) or typeof(xp).ndim != 1:
        msg = (f"interp: xp and fp must be one-dimensional arrays of equal size, got shapes "
               f"{shape_of(xp)} and {shape_of(fp)}.")
        raise ValueError(msg)
    if shape_of(xp)[0] == 0:
        msg = "interp: there must be at least one point; xp and fp are empty."
        raise ValueError(msg)
    if any(dtypes.is_complex(typeof(v).dtype) for v in (x, xp)):
        msg = "interp: complex x values are not supported: they are not ordered."
        raise ValueError(msg)
    ends = []
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            msg = f"interp: the only string for {name} is 'extrapolate', got {value!r}."
            raise ValueError(msg)
        ends.append(None if isinstance(value, str) else value)
    further = (isinstance(left, str), isinstance(right, str))
    if period is not None:
        period = check_array("interp", period, "period")
        if shape_of(period):
            msg = f"interp: period must be a scalar, got shape {shape_of(period)}."
            raise ValueError(msg)
        return _interp_periodic(x, xp, fp, period)
    return _interp(x, xp, fp, ends, further=further)


@fused(static_argnames=("further",))
def _interp(x: Any, xp: Any, fp: Any, ends: Sequence[Any], *, further: tuple[bool, bool]) -> Any:
    x, xp = promote_dtypes_inexact(x, xp)
    given = [e for e in ends if e is not None]
    fp, *given = promote_dtypes_inexact(fp, *check_arrays("interp", *given))
    dtype, weak = common_type(*map(weak_type_of, [x, fp, *given]))
    dtype = dtypes.canonicalize(dtype)  # without x64, 64-bit operands are narrowed, as in JAX
    fp, *given = [cast(v, dtype, weak) for v in (fp, *given)]
    values = iter(given)
    left, right = [None if e is None else next(values) for e in ends]
    out = _on_lines(x, xp, fp)
    n = shape_of(xp)[0]
    for end, place, outside, free in ((left, 0, lt, further[0]), (right, n - 1, gt, further[1])):
        if free:
            continue
        edge = index_in_dim(xp, place, keepdims=False)
        value = index_in_dim(fp, place, keepdims=False) if end is None else end
        out = select_n(outside(x, edge), out, broadcast_to(value, shape_of(x)))
    return out


def _on_lines(x: Any, xp: Any, fp: Any) -> Any:
    """The value at `x` of the line through the two points around it."""
    n, dtype, weak = shape_of(xp)[0], *weak_type_of(fp)
    if n == 1:
        value = broadcast_to(index_in_dim(fp, 0, keepdims=False), shape_of(x))
        return add(value, mul(cast(x, dtype, weak), _constant(fp, 0)))
    places = searchsorted(xp, x, side="right")
    places = clamp(np.int32(1), places, np.int32(n - 1))
    before = sub(places, np.int32(1))
    x0, y0 = take_on_axis(xp, before, 0), take_on_axis(fp, before, 0)
    width = sub(take_on_axis(xp, places, 0), x0)
    rise = sub(take_on_axis(fp, places, 0), y0)
    # If points coincide, the first one counts.
    tiny = np.spacing(np.finfo(typeof(xp).dtype).eps) if typeof(xp).dtype.kind == "f" else 0
    none = le(absolute(width), _constant(width, tiny))
    safe = select_n(none, width, full(shape_of(width), 1, typeof(width).dtype))
    part = cast(div(sub(x, x0), safe), dtype, weak)
    return select_n(none, add(y0, mul(part, rise)), y0)


@fused
def _interp_periodic(x: Any, xp: Any, fp: Any, period: Any) -> Any:
    x, xp, period = promote_dtypes_inexact(x, xp, period)
    period = absolute(period)
    x, xp = remainder(x, period), remainder(xp, period)
    xp, fp = sort_key_val(xp, array_of(fp))
    n = shape_of(xp)[0]
    first, last = [slice_in_dim(xp, i, i + 1) for i in (0, n - 1)]
    xp = concatenate([sub(last, reshape(period, (1,))), xp, add(first, reshape(period, (1,)))])
    fp = concatenate([slice_in_dim(fp, n - 1, n), fp, slice_in_dim(fp, 0, 1)])
    return _interp(x, xp, fp, [None, None], further=(True, True))


# ---- polynomials -----------------------------------------------------------------------


@fused(values=("p", "x"), static_argnames=("unroll",))
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value of a polynomial.

    Args:
      p: coefficients, from the highest power down; further axes broadcast with `x`.
      x: the places at which to evaluate it.
      unroll: accepted for compatibility with JAX; the loop is unrolled if the number of
        coefficients is known.

    Returns:
      An array of the shape to which `x` and the further axes of `p` broadcast.

    Raises:
      TypeError: an argument is not an array.

    Source: `numpy.polyval`, by Horner's rule.

    Example:
      >>> jnp.polyval(jnp.array([1, 2, 3]), 2)
      Array(11, dtype=int32)
    """
    concrete_int(unroll, "polyval: unroll")
    if not shape_of(p):
        msg = "polyval: p must have at least one axis, for its coefficients; got a scalar."
        raise ValueError(msg)
    p, x = promote_dtypes(p, x)
    plus, times = ((bitwise_or, bitwise_and) if typeof(p).dtype == np.bool_ else (add, mul))
    total, x = promote_shapes("polyval", full(shape_of(p)[1:], 0, typeof(p).dtype), x)
    shape = shape_of(plus(total, x))
    total = broadcast_to(total, shape)
    step = lambda total, c: plus(times(total, x), broadcast_to(c, shape))
    count = shape_of(p)[0]
    if is_symbolic_dim(count):
        return scan(lambda total, c: (step(total, c), None), total, p)[0]
    for i in range(count):
        total = step(total, index_in_dim(p, i, keepdims=False))
    return total


__all__ = ["diff", "ediff1d", "gradient", "interp", "polyval", "trapezoid"]
