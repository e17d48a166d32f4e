"""The normal distribution function, its logarithm and inverse; Owen's T function."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._numpy.creation import asarray
from mjax._numpy.elementary import arctan
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import (
    GIVES,
    polynomial,
    real_arguments,
    strong,
    where,
    wide_argument,
    widened,
)

_ARGUMENT = {
    "x": "x: array or scalar of dtype float32 or float64.",
    "gives": "Returns:\n  An array of the shape and dtype of `x`.\n\nRaises:\n"
             "  TypeError: the dtype is neither float32 nor float64.",
}


def distribution(x: Any) -> Any:
    """`ndtr` of a value, accurate in both tails."""
    w = x * _c(x, math.sqrt(0.5))
    z = lax.abs(w)
    tail = prims.erfc(z)
    return 0.5 * where(z < math.sqrt(0.5), 1 + prims.erf(w), where(w > 0, 2 - tail, tail))


@fused
@documented(**_ARGUMENT)
def ndtr(x: Any) -> Any:
    """The distribution function of the standard normal distribution.

    Args:
      [x]

    [gives]

    Source: `scipy.special.ndtr`.

    Example:
      >>> print(f"{mjax.scipy.special.ndtr(1.0):.4f}")
      0.8413
    """
    x = wide_argument("ndtr", asarray(x))
    return distribution(*strong(x))


# ---- the inverse -----------------------------------------------------------------------

#: Numerators and denominators of the approximations: center, tails, far tails.
_MIDDLE = ((3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
            1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
            3.3430575583588128105e4, 2.5090809287301226727e3),
           (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
            2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
            5.2264952788528545610e3))
_TAIL = ((1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
          3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
          2.27238449892691845833e-2, 7.74545014278341407640e-4),
         (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
          1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
          1.05075007164441684324e-9))
_FAR = ((6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
         2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
         2.71155556874348757815e-5, 2.01033439929228813265e-7),
        (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
         7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
         2.04426310338993978564e-15))


def _rational(x: Any, numerator: Any, denominator: Any) -> Any:
    return polynomial(x, numerator) / polynomial(x, denominator)


@custom_jvp
def quantile(p: Any) -> Any:
    """`ndtri` of a value.

    Source: Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution".
    """
    q = p - 0.5
    middle = q * _rational(0.180625 - q * q, *_MIDDLE)
    smaller = where(q < 0, p, 1 - p)
    root = lax.sqrt(-lax.log(smaller))
    near = root <= 5
    tail = where(near, _rational(where(near, root - 1.6, 0), *_TAIL),
                 _rational(where(near, 0, root - 5), *_FAR))
    # At infinity the quotient is NaN.
    tail = where(smaller == 0, math.inf, tail)
    return where(lax.abs(q) <= 0.425, middle, where(q < 0, -tail, tail))


@quantile.defjvp
def _quantile_jvp(primals: Any, tangents: Any) -> Any:
    (p,), (t,) = primals, tangents
    out = quantile(p)
    finite = lax.is_finite(out)
    slope = lax.exp(lax.square(where(finite, out, 0)) * 0.5) * math.sqrt(2 * math.pi)
    # At 0 and 1 the quantile is infinite and its derivative 0; outside [0, 1] it is NaN.
    return out, where((p == 0) | (p == 1), 0, where(finite, slope, math.nan)) * t


@fused
@documented(**_ARGUMENT)
def ndtri(p: Any) -> Any:
    """The inverse of `ndtr`: quantiles of the standard normal distribution.

    Args:
      p: array or scalar of dtype float32 or float64, probabilities.

    [gives]

    Source: `scipy.special.ndtri`. Algorithm: Wichura 1988, "Algorithm AS 241".

    Example:
      >>> print(f"{mjax.scipy.special.ndtri(0.975):.4f}")
      1.9600
    """
    p = wide_argument("ndtri", p, "p")
    return quantile(*strong(p))


# ---- the logarithm ---------------------------------------------------------------------


def _low(x: Any) -> float:
    """The end of the range of the asymptotic series."""
    return -20.0 if typeof(x).dtype == np.float64 else -10.0


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def log_distribution(terms: int, x: Any) -> Any:
    """`log_ndtr` of a value."""
    low = _low(x)
    below, above = x <= low, x > 0
    # The nearer tail's probability is accurate.
    tail = distribution(where(below, low, -lax.abs(x)))
    far = where(below, x, low)
    return where(above, lax.log1p(-tail), where(below, _log_far_tail(far, terms), lax.log(tail)))


def _log_far_tail(x: Any, terms: int) -> Any:
    """The asymptotic series for large negative `x`: 1 - 1/x**2 + 3/x**4 - 15/x**6 + ..."""
    square = lax.square(x)
    scale = -0.5 * square - lax.log(-x) - 0.5 * math.log(2 * math.pi)
    if not terms:
        return scale
    return scale + lax.log(_far_tail(square, terms))


def _far_tail(square: Any, terms: int) -> Any:
    """`ndtr(x) * -x / density(x)` for large negative `x`, from its square."""
    coefficients = [float(np.prod(np.arange(1.0, 2 * n, 2.0)) * (-1) ** n)
                    for n in range(terms + 1)]
    return polynomial(1 / square, coefficients)


@log_distribution.defjvp
def _log_distribution_jvp(terms: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out, low = log_distribution(terms, x), _low(x)
    below = x <= low
    far = where(below, x, low)
    log_density = -0.5 * lax.square(x) - 0.5 * math.log(2 * math.pi)
    # The difference of large logarithms has no digits far out.
    slope = where(below, -far / _far_tail(lax.square(far), terms),
                  lax.exp(where(below, 0, log_density - out)))
    return out, t * slope


@fused(static_argnames=("series_order",))
@documented(**_ARGUMENT)
def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """The logarithm of `ndtr`, accurate in both tails.

    Args:
      [x]
      series_order: the number of terms of the lower tail's series, a Python int up to 30.

    [gives]
      TypeError: `series_order` is not an int.
      ValueError: `series_order` is negative or above 30.

    Source: `scipy.special.log_ndtr`, which does not have `series_order`. Below -20 (-10 for
    float32): the asymptotic series, Abramowitz and Stegun 26.2.12.

    Example:
      >>> print(f"{mjax.scipy.special.log_ndtr(-40.0):.2f}")
      -804.61
    """
    if not isinstance(series_order, int):
        msg = (f"log_ndtr: series_order must be a Python int, got {series_order!r} of type "
               f"{type(series_order).__name__}.")
        raise TypeError(msg)
    if not 0 <= series_order <= 30:
        msg = f"log_ndtr: series_order must be between 0 and 30, got {series_order}."
        raise ValueError(msg)
    return log_distribution(series_order, *strong(wide_argument("log_ndtr", asarray(x))))


# ---- Owen's T --------------------------------------------------------------------------


def _integral(h: Any, a: Any) -> Any:
    """T for `0 <= a <= 1`, by half of the symmetric Gauss-Legendre rule of 26 points."""
    points, weights = np.polynomial.legendre.leggauss(26)
    total = 0.0
    for point, weight in zip(points[13:], weights[13:], strict=True):
        rest = lax.square(a * float(point)) + 1
        total = total + lax.exp(lax.square(h) * -0.5 * rest) / rest * float(weight / (2 * math.pi))
    return a * total


def _owen(h: Any, a: Any) -> Any:
    height, size = lax.abs(h), lax.abs(a)
    outer = size > 1
    scaled = height * size
    # Infinity times 0 is NaN.
    scaled = where((height == 0) | (size == 0), 0, scaled)
    out = _integral(where(outer, scaled, height), where(outer, 1 / size, size))
    out = where(height == 0, arctan(where(outer, 1 / size, size)) / (2 * math.pi), out)
    # T(h, a) + T(a h, 1 / a), in the form that does not cancel.
    x, y = height * math.sqrt(0.5), scaled * math.sqrt(0.5)
    p, q = prims.erfc(x), prims.erfc(y)
    whole = where(scaled <= 0.67, 0.25 - 0.25 * prims.erf(x) * prims.erf(y),
                  0.25 * (p + q - p * q))
    return lax.sign(a) * where(outer, whole - out, out)


@custom_jvp
def _owens_t(h: Any, a: Any) -> Any:
    return where((h != h) | (a != a), math.nan, widened(_owen, h, a))


@_owens_t.defjvp
def _owens_t_jvp(primals: Any, tangents: Any) -> Any:
    (h, a), (dh, da) = primals, tangents
    square = lax.square(h)
    in_h = lax.exp(square * -0.5) * prims.erf(a * h * math.sqrt(0.5)) / -math.sqrt(8 * math.pi)
    rest = lax.square(a) + 1
    in_a = lax.exp(rest * square * -0.5) / (rest * (2 * math.pi))
    return _owens_t(h, a), in_h * dh + in_a * da


@fused
@documented(**GIVES)
def owens_t(h: Any, a: Any) -> Any:
    """Owen's T function: the probability of `X > h` and `0 < Y < a * X` for normal X and Y.

    Args:
      h: array or scalar; ints and booleans become the default float.
      a: array or scalar, the slope.

    [broadcast]

    [real]

    Source: `scipy.special.owens_t`. Algorithm: Patefield and Tandy 2000, "Fast and accurate
    calculation of Owen's T function", method T5.

    Example:
      >>> print(f"{mjax.scipy.special.owens_t(1.0, 0.5):.4f}")
      0.0431
    """
    return _owens_t(*strong(*real_arguments("owens_t", h, a)))
