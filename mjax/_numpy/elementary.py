"""Elementwise exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.special import bessel_i0e
from mjax._numpy.core import broadcast_values, check_arrays, choose, promote_dtypes_inexact
from mjax._numpy.fused import fused
from mjax._numpy.ufunc import binary, unary

_X1_X2 = ("x1", "x2")

# ---- exponentials and logarithms -------------------------------------------------------

exp = unary("exp", lax.exp_p.bind, "inexact", """
    Elementwise exponential, `e ** x`.

    >>> jnp.exp(jnp.array([0, 1]))
    Array([1.       , 2.7182817], dtype=float32)
    """)
exp2 = unary("exp2", lax.exp2_p.bind, "inexact", """
    Elementwise `2 ** x`.

    >>> jnp.exp2(jnp.array([0, 3]))
    Array([1., 8.], dtype=float32)
    """)
expm1 = unary("expm1", lax.expm1_p.bind, "inexact", """
    Elementwise `exp(x) - 1`, exact for small `x`.

    >>> jnp.expm1(jnp.array([0.0, 1e-6]))
    Array([0.e+00, 1.e-06], dtype=float32)
    """)
log = unary("log", lax.log_p.bind, "inexact", """
    Elementwise natural logarithm; NaN for negative reals.

    >>> jnp.log(jnp.array([1.0, jnp.e]))
    Array([0., 1.], dtype=float32)
    """)
log1p = unary("log1p", lax.log1p_p.bind, "inexact", """
    Elementwise `log(1 + x)`, exact for small `x`.

    >>> jnp.log1p(jnp.array([0.0, 1e-6]))
    Array([0.e+00, 1.e-06], dtype=float32)
    """)
log2 = unary("log2", lambda x: lax.div(lax.log(x), _c(x, math.log(2))), "inexact", """
    Elementwise logarithm to base 2.

    >>> jnp.log2(jnp.array([1, 8]))
    Array([0., 3.], dtype=float32)
    """)
log10 = unary("log10", lambda x: lax.div(lax.log(x), _c(x, math.log(10))), "inexact", """
    Elementwise logarithm to base 10.

    >>> jnp.log10(jnp.array([1, 100]))
    Array([0., 2.], dtype=float32)
    """)


def _log_of_sum(x: Any, y: Any, exponential: Any, log1p_: Any) -> Any:
    """The greater one, plus what the other adds to it."""
    if dtypes.is_complex(typeof(x).dtype):
        greater = lax.max(x, y)
        rest = lax.sub(lax.min(x, y), greater)
        return lax.add(greater, log1p_(exponential(rest)))
    difference = lax.sub(x, y)
    # Equal infinities: their difference is NaN, their sum is what we want.
    equal = lax.ne(difference, difference)
    safe = choose(equal, _c(x, 0), difference)
    out = lax.add(lax.max(x, y), log1p_(exponential(lax.neg(lax.abs(safe)))))
    return choose(equal, lax.add(x, y), out)


logaddexp = binary("logaddexp", lambda x, y: _log_of_sum(x, y, lax.exp, lax.log1p), "inexact", """
    Elementwise `log(exp(x1) + exp(x2))`, without overflow.

    >>> jnp.logaddexp(jnp.array([0.0, 1000.0]), 0.0)
    Array([6.931472e-01, 1.000000e+03], dtype=float32)
    """, _X1_X2)
logaddexp2 = binary("logaddexp2", lambda x, y: _log_of_sum(
    x, y, lax.exp2, lambda z: lax.div(lax.log1p(z), _c(z, math.log(2)))), "inexact", """
    Elementwise `log2(2**x1 + 2**x2)`, without overflow.

    >>> jnp.logaddexp2(jnp.array([0.0, 1000.0]), 0.0)
    Array([   1., 1000.], dtype=float32)
    """, _X1_X2)

# ---- trigonometric functions -----------------------------------------------------------

sin = unary("sin", lax.sin_p.bind, "inexact", """
    Elementwise sine of an angle in radians.

    >>> jnp.sin(jnp.array([0.0, jnp.pi / 2]))
    Array([0., 1.], dtype=float32)
    """)
cos = unary("cos", lax.cos_p.bind, "inexact", """
    Elementwise cosine of an angle in radians.

    >>> jnp.cos(jnp.array([0.0, jnp.pi]))
    Array([ 1., -1.], dtype=float32)
    """)
tan = unary("tan", lax.tan_p.bind, "inexact", """
    Elementwise tangent of an angle in radians.

    >>> jnp.tan(jnp.array([0.0, jnp.pi / 4]))
    Array([0., 1.], dtype=float32)
    """)
arcsin = unary("arcsin", lax.asin_p.bind, "inexact", """
    Elementwise inverse sine, in `[-pi/2, pi/2]`; NaN outside of `[-1, 1]` for reals.

    >>> jnp.arcsin(jnp.array([0.0, 1.0]))
    Array([0.       , 1.5707964], dtype=float32)
    """)
arccos = unary("arccos", lax.acos_p.bind, "inexact", """
    Elementwise inverse cosine, in `[0, pi]`; NaN outside of `[-1, 1]` for reals.

    >>> jnp.arccos(jnp.array([1.0, -1.0]))
    Array([0.       , 3.1415927], dtype=float32)
    """)
arctan = unary("arctan", lax.atan_p.bind, "inexact", """
    Elementwise inverse tangent, in `[-pi/2, pi/2]`.

    >>> jnp.arctan(jnp.array([0.0, 1.0]))
    Array([0.       , 0.7853982], dtype=float32)
    """)
arctan2 = binary("arctan2", lax.atan2_p.bind, "inexact", """
    Elementwise angle of the point with ordinate `x1` and abscissa `x2`, in `[-pi, pi]`.

    >>> jnp.arctan2(jnp.array([0.0, 1.0]), -1.0)
    Array([3.1415927, 2.3561945], dtype=float32)
    """, _X1_X2)
asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2


def _hypot(x: Any, y: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        msg = "hypot does not support complex-valued inputs."
        raise ValueError(msg)
    x, y = broadcast_values("hypot", lax.abs(x), lax.abs(y))
    high, low = lax.max(x, y), lax.min(x, y)
    # Scaled by the greater one, so that no square overflows; 0 / 0 and inf / inf kept out.
    regular = lax.bitwise_and(lax.gt(high, _c(x, 0)), lax.is_finite(high))
    ratio = lax.div(low, choose(regular, high, _c(x, 1)))
    root = lax.mul(high, lax.sqrt(lax.add(_c(x, 1), lax.square(ratio))))
    infinite = lax.bitwise_or(lax.eq(x, _c(x, np.inf)), lax.eq(y, _c(x, np.inf)))
    return choose(regular, root, choose(infinite, _c(x, np.inf), high))


hypot = binary("hypot", _hypot, "inexact", """
    Elementwise length of the hypotenuse, `sqrt(x1**2 + x2**2)`, without overflow.

    >>> jnp.hypot(jnp.array([3.0, 5.0]), jnp.array([4.0, 12.0]))
    Array([ 5., 13.], dtype=float32)
    """, _X1_X2)

deg2rad = unary("deg2rad", lambda x: lax.mul(x, _c(x, math.pi / 180)), "inexact", """
    Elementwise conversion of degrees to radians.

    >>> jnp.deg2rad(jnp.array([0, 180]))
    Array([0.       , 3.1415927], dtype=float32)
    """)
rad2deg = unary("rad2deg", lambda x: lax.mul(x, _c(x, 180 / math.pi)), "inexact", """
    Elementwise conversion of radians to degrees.

    >>> jnp.rad2deg(jnp.array([0.0, jnp.pi]))
    Array([  0., 180.], dtype=float32)
    """)
radians, degrees = deg2rad, rad2deg


def _sinc(x: Any) -> Any:
    t = lax.mul(_c(x, math.pi), x)
    # Near 0 its Taylor polynomial, for the value and all derivatives there.
    near = lax.lt(lax.abs(t), _c(lax.abs(t), 0.1))
    safe = choose(near, _c(x, 1), t)
    series, square = _c(x, -1 / 39916800), lax.square(t)
    for factor in (9, 7, 5, 3, 1):
        coefficient = (-1) ** ((factor - 1) // 2) / math.factorial(factor)
        series = lax.add(lax.mul(series, square), _c(x, coefficient))
    return choose(near, series, lax.div(lax.sin(safe), safe))


sinc = unary("sinc", _sinc, "inexact", """
    Elementwise `sin(pi * x) / (pi * x)`, which is 1 at 0.

    >>> jnp.sinc(jnp.array([0.0, 0.5]))
    Array([1.       , 0.6366198], dtype=float32)
    """)

# ---- hyperbolic functions --------------------------------------------------------------

sinh = unary("sinh", lax.sinh_p.bind, "inexact", """
    Elementwise hyperbolic sine.

    >>> jnp.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """)
cosh = unary("cosh", lax.cosh_p.bind, "inexact", """
    Elementwise hyperbolic cosine.

    >>> jnp.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.5430807], dtype=float32)
    """)
tanh = unary("tanh", lax.tanh_p.bind, "inexact", """
    Elementwise hyperbolic tangent.

    >>> jnp.tanh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.7615942], dtype=float32)
    """)
arcsinh = unary("arcsinh", lax.asinh_p.bind, "inexact", """
    Elementwise inverse hyperbolic sine.

    >>> jnp.arcsinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """)
arccosh = unary("arccosh", lax.acosh_p.bind, "inexact", """
    Elementwise inverse hyperbolic cosine; NaN below 1 for reals.

    >>> jnp.arccosh(jnp.array([1.0, 2.0]))
    Array([0.       , 1.3169578], dtype=float32)
    """)
arctanh = unary("arctanh", lax.atanh_p.bind, "inexact", """
    Elementwise inverse hyperbolic tangent; NaN outside of `[-1, 1]` for reals.

    >>> jnp.arctanh(jnp.array([0.0, 0.5]))
    Array([0.       , 0.5493061], dtype=float32)
    """)
asinh, acosh, atanh = arcsinh, arccosh, arctanh


@fused
def i0(x: Any) -> Any:
    """Elementwise modified Bessel function of the first kind and order 0.

    Args:
      x: real array or scalar.

    Returns:
      An array of the shape of `x`.

    Raises:
      ValueError: complex `x`.

    Source: `numpy.i0`.

    Example:
      >>> jnp.i0(jnp.array([0.0, 1.0]))
      Array([1.       , 1.2660658], dtype=float32)
    """
    x, = promote_dtypes_inexact(*check_arrays("i0", x))
    if dtypes.is_complex(typeof(x).dtype):
        msg = f"i0 is for real numbers, got dtype {typeof(x).dtype}."
        raise ValueError(msg)
    size = lax.abs(x)
    return lax.mul(lax.exp(size), bessel_i0e(size))
