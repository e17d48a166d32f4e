"""Error functions and their relatives: Faddeeva's, Dawson's and Fresnel's."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import promote_types
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.trigonometric import cos, sin
from mjax._numpy.core import cast
from mjax._numpy.fused import fused
from mjax._scipy.special import tables
from mjax._scipy.special.arguments import (
    GIVES,
    X,
    inexact_arguments,
    polynomial,
    rational,
    real_arguments,
    strong,
    where,
    widened,
)


@fused
@documented(**X, **GIVES)
def erf(x: Any) -> Any:
    """The error function.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.erf`.

    Example:
      >>> print(f"{mjax.scipy.special.erf(1.0):.4f}")
      0.8427
    """
    return prims.erf(*inexact_arguments("erf", x))


@fused
@documented(**X, **GIVES)
def erfc(x: Any) -> Any:
    """The complementary error function: `1 - erf(x)`, accurate for large `x`.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.erfc`.

    Example:
      >>> print(f"{mjax.scipy.special.erfc(1.0):.4f}")
      0.1573
    """
    return prims.erfc(*inexact_arguments("erfc", x))


@fused
@documented(**X, **GIVES)
def erfinv(x: Any) -> Any:
    """The inverse of the error function; infinite at -1 and 1.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.erfinv`.

    Example:
      >>> print(f"{mjax.scipy.special.erfinv(0.5):.4f}")
      0.4769
    """
    return prims.erf_inv(*inexact_arguments("erfinv", x))


# ---- Faddeeva's function ---------------------------------------------------------------


@functools.cache
def _weideman(n: int) -> tuple[float, list[float]]:
    """The scale of Weideman's expansion of n terms, and its coefficients from the first on."""
    scale = math.sqrt(n / math.sqrt(2))
    count = 4 * n
    t = scale * np.tan(np.arange(-count // 2 + 1, count // 2) * (math.pi / count))
    values = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    spectrum = np.real(np.fft.fft(np.fft.fftshift(values))) / count
    return scale, [float(c) for c in spectrum[1:n + 1]]


def _above(z: Any) -> Any:
    """`wofz` in the upper half plane."""
    scale, coefficients = _weideman(40 if typeof(z).dtype == np.complex128 else 20)
    iz = lax.complex(-lax.imag(z), lax.real(z))
    divisor = scale - iz
    series = polynomial((scale + iz) / divisor, coefficients)
    return 2 * series / (divisor * divisor) + (1 / math.sqrt(math.pi)) / divisor


@custom_jvp
def faddeeva(z: Any) -> Any:
    """`wofz` of a complex value."""
    upper = lax.imag(z) >= 0
    out = _above(where(upper, z, -z))
    return where(upper, out, 2 * lax.exp(where(upper, 0, -(z * z))) - out)


@faddeeva.defjvp
def _faddeeva_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    upper = lax.imag(z) >= 0
    slope = _slope_above(where(upper, z, -z))
    # The slope of the reflection, 2 exp(-z**2) - w(-z).
    low = where(upper, 0, z)
    return faddeeva(z), t * (slope - 4 * low * lax.exp(-(low * low)))


def _slope_above(z: Any) -> Any:
    """The slope of `wofz` in the upper half plane, `2i / sqrt(pi) - 2 z w(z)`, whose terms cancel
    far out. Source: DLMF 7.12.1."""
    start = _start(z)
    far = lax.abs(z) > start
    distant = where(far, z, start)
    near = 2j / math.sqrt(math.pi) - 2 * z * faddeeva(where(far, 0, z))
    # wofz(z) = erfcx(-1j * z)
    return where(far, -1j * _far_slope(-(distant * distant)), near)


@fused
def wofz(z: Any) -> Any:
    """Faddeeva's function, `exp(-z**2) * erfc(-1j * z)`.

    Args:
      z: array or scalar; real numbers become complex ones.

    Returns:
      A complex array of the shape of `z`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.wofz`. Algorithm: Weideman 1994, "Computation of the complex error
    function"; accurate to 13 digits in complex128.

    Example:
      >>> print(f"{mjax.scipy.special.wofz(1j):.4f}")
      0.4276+0.0000j
    """
    z, = inexact_arguments("wofz", z)
    return faddeeva(cast(z, promote_types(typeof(z).dtype, np.complex64)))


# ---- erfcx -----------------------------------------------------------------------------

#: (-1)**k (2k - 1)!! / 2**k: the asymptotic series of `sqrt(pi) x erfcx(x)` in 1/x**2.
_FAR = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875, -1055.7421875)


def _start(x: Any) -> float:
    """Where the series begins; beyond this, erfc loses digits to subnormal numbers."""
    return 25.0 if dtypes.real_dtype(typeof(x).dtype) == np.float64 else 8.5


def _far_slope(square: Any) -> Any:
    """The slope of `erfcx` by the series, from the square of its argument."""
    return polynomial(1 / square, _FAR[1:]) / square * (2 / math.sqrt(math.pi))


def _scaled_erfc(x: Any) -> Any:
    start = _start(x)
    far = x > start
    near = where(far, 1, x)
    # Squares of short numbers are exact; the exponential would magnify a rounding error.
    short = lax.round(near * 32, lax.RoundingMethod.TO_NEAREST_EVEN) / 32
    scale = lax.exp(short * short) * lax.exp((near - short) * (near + short))
    distant = where(far, x, start)
    series = polynomial(1 / (distant * distant), _FAR, start ** -2) / (distant * math.sqrt(math.pi))
    return where(x == -math.inf, math.inf, where(far, series, scale * prims.erfc(near)))


@custom_jvp
def _erfcx(x: Any) -> Any:
    return widened(_scaled_erfc, x)


@_erfcx.defjvp
def _erfcx_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _erfcx(x), t * widened(_erfcx_slope, x)


def _erfcx_slope(x: Any) -> Any:
    """`2 x erfcx(x) - 2 / sqrt(pi)`, by the series where the terms cancel."""
    start = _start(x)
    far = x > start
    distant = where(far, x, start)
    near = 2 * x * _erfcx(where(far, 0, x)) - 2 / math.sqrt(math.pi)
    return where(far, _far_slope(distant * distant), near)


@fused
@documented(**X, **GIVES)
def erfcx(x: Any) -> Any:
    """The scaled complementary error function, `exp(x**2) * erfc(x)`.

    Args:
      [x]

    [one]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.erfcx`. Complex numbers: `wofz`.

    Example:
      >>> print(f"{mjax.scipy.special.erfcx(30.0):.4f}")
      0.0188
    """
    x, = strong(*inexact_arguments("erfcx", x))
    if dtypes.is_complex(typeof(x).dtype):
        return faddeeva(lax.complex(-lax.imag(x), lax.real(x)))
    return _erfcx(x)


# ---- Dawson's integral -----------------------------------------------------------------


def _dawson(x: Any) -> Any:
    square = x * x
    far = rational(1 / square, tables.DAWSON_FAR) * 0.5 / x
    return where(square <= 6.25, x * rational(square, tables.DAWSON_NEAR), far)


@custom_jvp
def _dawsn(x: Any) -> Any:
    return widened(_dawson, x)


@_dawsn.defjvp
def _dawsn_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _dawsn(x), t * widened(_dawsn_slope, x)


#: (2 k - 1)!!, for k from 1.
_ODD = [float(math.prod(range(1, 2 * k, 2))) for k in range(1, 33)]


def _dawsn_slope(x: Any) -> Any:
    """`1 - 2 x F(x)`, by an asymptotic series where the terms cancel. Source: DLMF 7.12.1."""
    far = lax.abs(x) > 6.5
    u = 0.5 / lax.square(where(far, x, 6.5))
    near = where(far, 0.0, x)
    return where(far, -u * polynomial(u, _ODD, 1 / 84), 1 - 2 * near * _dawsn(near))


@fused
@documented(**X, **GIVES)
def dawsn(x: Any) -> Any:
    """Dawson's integral, `exp(-x**2)` times the integral of `exp(t**2)` from 0 to `x`.

    Args:
      [x]

    [one]

    [real]

    Source: `scipy.special.dawsn`. Rational approximations; see `tables`.

    Example:
      >>> print(f"{mjax.scipy.special.dawsn(1.0):.4f}")
      0.5381
    """
    return _dawsn(*strong(*real_arguments("dawsn", x)))


# ---- Fresnel integrals -----------------------------------------------------------------


def _turn(square: Any, low: Any) -> tuple[Any, Any]:
    """Sine and cosine of `pi/2 * (square + low)`, exact for large squares."""
    rest = (square - 4 * lax.floor(square / 4)) + low
    return sin(rest * (math.pi / 2)), cos(rest * (math.pi / 2))


def _square_in_parts(x: Any) -> tuple[Any, Any]:
    """The square of x and its rounding error. Source: Dekker 1971."""
    big = x * (2.0 ** (27 if typeof(x).dtype == np.float64 else 12) + 1)
    high = big - (big - x)
    low = x - high
    square = x * x
    return square, low * low - ((square - high * high) - 2 * high * low)


def _fresnel_parts(x: Any) -> tuple[Any, Any]:
    near = lax.abs(x) <= 1.6
    square, low = _square_in_parts(x)
    fourth = square * square
    near_s = x * square * rational(fourth, tables.FRESNEL_S)
    near_c = x * rational(fourth, tables.FRESNEL_C)
    inverse = 1 / (math.pi * square)
    t = inverse * inverse
    f = rational(t, tables.FRESNEL_F) / (math.pi * x)
    g = rational(t, tables.FRESNEL_G) * inverse / (math.pi * x)
    # Beyond this, the oscillation is below the rounding error of the limit.
    limit = lax.abs(x) > (1e16 if typeof(x).dtype == np.float64 else 1e7)
    half = lax.sign(x) * 0.5
    s, c = _turn(square, low)
    far_s = where(limit, half, half - (f * c + g * s))
    far_c = where(limit, half, half + (f * s - g * c))
    return where(near, near_s, far_s), where(near, near_c, far_c)


@custom_jvp
def _fresnel(x: Any) -> tuple[Any, Any]:
    s, c = widened(_fresnel_parts, x)
    return s, c


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    s, c = widened(lambda x: _turn(*_square_in_parts(x)), x)
    return _fresnel(x), (t * s, t * c)


@fused
@documented(**X)
def fresnel(x: Any) -> tuple[Any, Any]:
    """Fresnel's integrals of `sin(pi/2 * t**2)` and of `cos(pi/2 * t**2)` from 0 to `x`.

    Args:
      [x]

    Returns:
      Two arrays of the shape of `x`, the sine integral first.

    Raises:
      NotImplementedError: `x` is complex.

    Source: `scipy.special.fresnel`, which has complex numbers, too. Rational approximations; see
    `tables`.

    Example:
      >>> s, c = mjax.scipy.special.fresnel(1.0)
      >>> print(f"{s:.4f} {c:.4f}")
      0.4383 0.7799
    """
    x, = strong(*inexact_arguments("fresnel", x))
    if dtypes.is_complex(typeof(x).dtype):
        msg = f"fresnel: x must be real, got {typeof(x)}; complex numbers are not implemented."
        raise NotImplementedError(msg)
    return _fresnel(x)
