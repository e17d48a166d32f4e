"""Elementwise exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.util import alias, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import trigonometric
from mjax._engine.primitives.cumulative import cumsum_p
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.elementwise import settling_constant
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import array_of, moveaxis
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._numpy.arithmetic import divide, floor_divide, remainder
from mjax._numpy.core import (
    broadcast_values,
    cast,
    choose,
    promote_dtypes,
    promote_dtypes_numeric,
)
from mjax._numpy.fused import fused
from mjax._numpy.ufunc import binary, if_scalar, unary

_X1_X2 = ("x1", "x2")

# ---- exponentials and logarithms -------------------------------------------------------

exp = unary("exp", lax.exp_p.bind, "inexact", """
    Elementwise exponential, `e ** x`.

    >>> print(f"{jnp.exp(1):.3f}")
    2.718
    """)
exp2 = unary("exp2", lax.exp2_p.bind, "inexact", """
    Elementwise `2 ** x`.

    >>> print(f"{jnp.exp2(3):.3f}")
    8.000
    """)
expm1 = unary("expm1", lax.expm1_p.bind, "inexact", """
    Elementwise `exp(x) - 1`, exact for small `x`.

    >>> print(f"{jnp.expm1(1):.3f}")
    1.718
    """)
log = unary("log", lax.log_p.bind, "inexact", """
    Elementwise natural logarithm; NaN for negative reals.

    >>> print(f"{jnp.log(jnp.e):.3f}")
    1.000
    """)
log1p = unary("log1p", lax.log1p_p.bind, "inexact", """
    Elementwise `log(1 + x)`, exact for small `x`.

    >>> print(f"{jnp.log1p(1):.3f}")
    0.693
    """)


def _log_to(base: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        out = lax.log(x)
        if dtypes.is_complex(typeof(x).dtype):
            # Part by part: a complex quotient turns infinite parts into NaN.
            return lax.complex(scaled(lax.real(out)), scaled(lax.imag(out)))
        return scaled(out)

    def scaled(part: Any) -> Any:
        # The divisor is strongly typed, and so is the result, as in JAX.
        return lax.div(part, np.asarray(math.log(base), typeof(part).dtype)[()])

    return function


log2 = unary("log2", _log_to(2), "inexact", """
    Elementwise logarithm to base 2.

    >>> print(f"{jnp.log2(8):.3f}")
    3.000
    """)
log10 = unary("log10", _log_to(10), "inexact", """
    Elementwise logarithm to base 10.

    >>> print(f"{jnp.log10(100):.3f}")
    2.000
    """)


def _log_of_sum(x: Any, y: Any, exponential: Any, log1p_: Any, turn: float) -> Any:
    """The greater operand, plus the contribution of the other.

    The formula is smooth and equal for either order of operands. So derivatives are correct where
    both are equal, unlike those of a maximum. Imaginary parts are angles of period `turn`.
    """
    if dtypes.is_complex(typeof(x).dtype):
        ordered = lax.eq(lax.max(x, y), x)
        greater, less = choose(ordered, x, y), choose(ordered, y, x)
        out = lax.add(greater, log1p_(exponential(lax.sub(less, greater))))
        return lax.complex(lax.real(out), _principal(lax.imag(out), turn))
    difference = lax.sub(x, y)
    # Equal infinities: their difference is NaN, their sum is the result.
    equal = lax.bitwise_and(lax.eq(x, y), lax.ne(difference, difference))
    safe = choose(equal, _c(x, 0), difference)
    ordered = lax.ge(x, y)
    rest = choose(ordered, lax.neg(safe), safe)
    out = lax.add(choose(ordered, x, y), log1p_(exponential(rest)))
    return choose(equal, lax.add(x, y), out)


def _principal(angle: Any, turn: float) -> Any:
    """Angles reduced to at most half a turn in size; smaller ones are unchanged."""
    half, whole = _c(angle, turn / 2), _c(angle, turn)
    rest = lax.rem(lax.add(angle, half), whole)
    wrapped = lax.sub(choose(lax.lt(rest, _c(rest, 0)), lax.add(rest, whole), rest), half)
    return choose(lax.gt(lax.abs(angle), half), wrapped, angle)


@fused
def _logaddexp(x: Any, y: Any) -> Any:
    return _log_of_sum(x, y, lax.exp, lax.log1p, 2 * math.pi)


@fused
def _logaddexp2(x: Any, y: Any) -> Any:
    return _log_of_sum(x, y, lax.exp2, lambda z: lax.div(lax.log1p(z), _c(z, math.log(2))),
                       2 * math.pi / math.log(2))


logaddexp = binary("logaddexp", _logaddexp, "inexact", """
    Elementwise `log(exp(x1) + exp(x2))`, without overflow.

    >>> print(f"{jnp.logaddexp(0, 0):.3f}")
    0.693
    """, _X1_X2, weak_rule=lambda types, shapes, dtype: (
        not dtypes.is_complex(dtype) or if_scalar(types, shapes, dtype)))
logaddexp2 = binary("logaddexp2", _logaddexp2, "inexact", """
    Elementwise `log2(2**x1 + 2**x2)`, without overflow.

    >>> print(f"{jnp.logaddexp2(0, 0):.3f}")
    1.000
    """, _X1_X2, weak_rule=if_scalar)

# ---- trigonometric functions -----------------------------------------------------------

sin = unary("sin", trigonometric.sin_p.bind, "inexact", """
    Elementwise sine of an angle in radians.

    >>> print(f"{jnp.sin(jnp.pi / 2):.3f}")
    1.000
    """)
cos = unary("cos", trigonometric.cos_p.bind, "inexact", """
    Elementwise cosine of an angle in radians.

    >>> print(f"{jnp.cos(jnp.pi):.3f}")
    -1.000
    """)
tan = unary("tan", trigonometric.tan_p.bind, "inexact", """
    Elementwise tangent of an angle in radians.

    >>> print(f"{jnp.tan(jnp.pi / 4):.3f}")
    1.000
    """)
arcsin = unary("arcsin", trigonometric.asin_p.bind, "inexact", """
    Elementwise inverse sine, in `[-pi/2, pi/2]`; NaN outside of `[-1, 1]` for reals.

    >>> print(f"{jnp.arcsin(1):.3f}")
    1.571
    """)
arccos = unary("arccos", trigonometric.acos_p.bind, "inexact", """
    Elementwise inverse cosine, in `[0, pi]`; NaN outside of `[-1, 1]` for reals.

    >>> print(f"{jnp.arccos(-1):.3f}")
    3.142
    """)
arctan = unary("arctan", trigonometric.atan_p.bind, "inexact", """
    Elementwise inverse tangent, in `[-pi/2, pi/2]`.

    >>> print(f"{jnp.arctan(1):.3f}")
    0.785
    """)
arctan2 = binary("arctan2", trigonometric.atan2_p.bind, "inexact", """
    Elementwise angle of the point with ordinate `x1` and abscissa `x2`, in `[-pi, pi]`.

    >>> print(f"{jnp.arctan2(1, -1):.3f}")
    2.356
    """, _X1_X2)
asin, acos = alias(arcsin, "asin"), alias(arccos, "acos")
atan, atan2 = alias(arctan, "atan"), alias(arctan2, "atan2")


@fused
def _hypot(x: Any, y: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        msg = "hypot does not support complex-valued inputs."
        raise ValueError(msg)
    x, y = broadcast_values("hypot", x, y)
    # Without absolute values: they do not have derivatives at 0, and squares do not need them.
    ordered = lax.ge(lax.abs(x), lax.abs(y))
    greater, less = choose(ordered, x, y), choose(ordered, y, x)
    high = lax.abs(greater)
    # Scaled by the greater one, so that squares do not overflow; 0 / 0 and inf / inf are avoided.
    # Subnormal numbers are 0 to processors that flush them.
    least = float(ml_dtypes.finfo(typeof(x).dtype).smallest_normal)
    regular = lax.bitwise_and(lax.ge(high, _c(x, least)), lax.is_finite(high))
    ratio = lax.div(less, choose(regular, greater, _c(x, 1)))
    root = lax.mul(high, lax.sqrt(lax.add(_c(x, 1), lax.square(ratio))))
    infinite = lax.bitwise_or(lax.eq(lax.abs(x), _c(x, np.inf)), lax.eq(lax.abs(y), _c(x, np.inf)))
    return choose(regular, root, choose(infinite, _c(x, np.inf), lax.add(high, lax.abs(less))))


hypot = binary("hypot", _hypot, "inexact", """
    Elementwise length of the hypotenuse, `sqrt(x1**2 + x2**2)`, without overflow.

    >>> print(f"{jnp.hypot(3, 4):.3f}")
    5.000
    """, _X1_X2, weak_rule=if_scalar)


def _times(factor: float) -> Callable[[Any], Any]:
    return lambda x: lax.mul(x, settling_constant(x, factor))


deg2rad = unary("deg2rad", _times(math.pi / 180), "inexact", """
    Elementwise conversion of degrees to radians.

    >>> print(f"{jnp.deg2rad(180):.3f}")
    3.142
    """)
rad2deg = unary("rad2deg", _times(180 / math.pi), "inexact", """
    Elementwise conversion of radians to degrees.

    >>> print(f"{jnp.rad2deg(jnp.pi):.3f}")
    180.000
    """)
radians, degrees = alias(deg2rad, "radians"), alias(rad2deg, "degrees")


@fused
def _sinc(x: Any) -> Any:
    t = lax.mul(settling_constant(x, math.pi), x)
    # Near 0 the Taylor polynomial, for the value and all derivatives there.
    near = lax.lt(lax.abs(t), _c(lax.abs(t), 0.1))
    safe = choose(near, _c(x, 1), t)
    # Powers of large numbers would overflow in the series, and its slope be NaN.
    series, square = _c(x, -1 / 39916800), lax.square(choose(near, t, _c(x, 0)))
    for factor in (9, 7, 5, 3, 1):
        coefficient = (-1) ** ((factor - 1) // 2) / math.factorial(factor)
        series = lax.add(lax.mul(series, square), _c(x, coefficient))
    return choose(near, series, lax.div(trigonometric.sin(safe), safe))


sinc = unary("sinc", _sinc, "inexact", """
    Elementwise `sin(pi * x) / (pi * x)`, which is 1 at 0.

    >>> print(f"{jnp.sinc(0.5):.3f}")
    0.637
    """)

@fused(values=("discont", "p", "period"), static_argnames=("axis",))
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    """Angles along an axis made continuous by adding multiples of the period.

    Args:
      p: array of angles.
      discont: the least jump that is corrected; half a period if not given.
      axis: the axis.
      period: the period.

    Returns:
      An array of the shape of `p`, of the dtype that `p` and the period promote to.

    Raises:
      ValueError: complex angles, or an axis out of range.

    Source: `numpy.unwrap`.

    Example:
      >>> jnp.unwrap(jnp.array([0.0, 3.0, 7.0]), period=6)
      Array([0., 3., 1.], dtype=float32)
    """
    p, period = promote_dtypes_numeric(p, period)
    kind = dtypes.kind(typeof(p).dtype)
    if kind == "c":
        msg = f"unwrap is for real angles, got dtypes {typeof(p).dtype}."
        raise ValueError(msg)
    axis = canonicalize_axis(axis, typeof(p).ndim)
    if not typeof(p).shape[axis]:
        return array_of(p)
    p, period = cast(p, typeof(p).dtype), cast(period, typeof(p).dtype)
    # Half a period is rounded down for ints; then the nearest place is unique.
    half = lax.mul(period, _c(p, 0.5)) if kind == "f" else floor_divide(period, 2)
    p, n = moveaxis(p, axis, 0), typeof(p).shape[axis]
    steps = lax.sub(slice_in_dim(p, min(1, n), n), slice_in_dim(p, 0, max(n - 1, 0)))
    wrapped = lax.sub(remainder(lax.add(steps, half), period), half)
    upward = lax.bitwise_and(lax.eq(*broadcast_values("unwrap", wrapped, lax.neg(half))),
                             lax.gt(steps, _c(steps, 0)))
    if kind != "f":
        even = lax.eq(remainder(period, 2), _c(period, 0))
        upward = lax.bitwise_and(*broadcast_values("unwrap", upward, even))
    wrapped = choose(upward, half, wrapped)
    limit = divide(period, 2) if discont is None else discont
    size, limit = promote_dtypes(steps if kind == "u" else lax.abs(steps), limit)
    small = lax.lt(*broadcast_values("unwrap", size, limit))
    correction = choose(small, _c(steps, 0), lax.sub(wrapped, steps))
    total = cumsum_p.bind(correction, axis=0, reverse=False)
    first, others = slice_in_dim(p, 0, min(1, n)), slice_in_dim(p, min(1, n), n)
    out = concatenate([first, lax.add(others, total)], 0)
    return cast(moveaxis(out, 0, axis), typeof(p).dtype)


# ---- hyperbolic functions --------------------------------------------------------------

sinh = unary("sinh", trigonometric.sinh_p.bind, "inexact", """
    Elementwise hyperbolic sine.

    >>> print(f"{jnp.sinh(1):.3f}")
    1.175
    """)
cosh = unary("cosh", trigonometric.cosh_p.bind, "inexact", """
    Elementwise hyperbolic cosine.

    >>> print(f"{jnp.cosh(1):.3f}")
    1.543
    """)
tanh = unary("tanh", trigonometric.tanh_p.bind, "inexact", """
    Elementwise hyperbolic tangent.

    >>> print(f"{jnp.tanh(1):.3f}")
    0.762
    """)
arcsinh = unary("arcsinh", trigonometric.asinh_p.bind, "inexact", """
    Elementwise inverse hyperbolic sine.

    >>> print(f"{jnp.arcsinh(1):.3f}")
    0.881
    """)
arccosh = unary("arccosh", trigonometric.acosh_p.bind, "inexact", """
    Elementwise inverse hyperbolic cosine; NaN below 1 for reals.

    >>> print(f"{jnp.arccosh(2):.3f}")
    1.317
    """)
arctanh = unary("arctanh", trigonometric.atanh_p.bind, "inexact", """
    Elementwise inverse hyperbolic tangent; NaN outside of `[-1, 1]` for reals.

    >>> print(f"{jnp.arctanh(0.5):.3f}")
    0.549
    """)
asinh, acosh = alias(arcsinh, "asinh"), alias(arccosh, "acosh")
atanh = alias(arctanh, "atanh")
