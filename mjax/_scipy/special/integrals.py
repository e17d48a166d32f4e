"""Exponential, sine and cosine integrals; the dilogarithm."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.control.loops.looping import while_loop
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.trigonometric import cos, sin
from mjax._numpy.core import broadcast_values, cast
from mjax._numpy.elementary import sinc
from mjax._numpy.fused import fused
from mjax._numpy.reductions import any
from mjax._scipy.special import tables
from mjax._scipy.special.arguments import (
    GIVES,
    X,
    polynomial,
    rational,
    real_arguments,
    strong,
    where,
    wide_argument,
    widened,
)

# ---- exponential integrals -------------------------------------------------------------


def _integral_of_decay(x: Any) -> Any:
    """E_1 of positive numbers, infinite at 0; NaN for negative ones."""
    near = x * rational(x, tables.E1_NEAR) - lax.log(x) - np.euler_gamma
    far = lax.exp(-x) * rational(1 / x, tables.E1_FAR) / x
    return where(x <= 1, near, far)


def _integral_of_growth(x: Any) -> Any:
    """Ei of positive numbers."""
    near = x * rational(x, tables.EI_NEAR) + lax.log(x) + np.euler_gamma
    # The exponential may overflow although the quotient does not.
    half = lax.exp(x * 0.5)
    far = half * (rational(1 / x, tables.EI_FAR) / x) * half
    return where(x <= 4, near, where(x == math.inf, x, far))


def _both_integrals(x: Any) -> Any:
    return where(x < 0, -_integral_of_decay(-x), _integral_of_growth(x))


@custom_jvp
def _expi(x: Any) -> Any:
    return widened(_both_integrals, x)


@_expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    half = lax.exp(x * 0.5)  # the exponential may overflow although the quotient does not
    return _expi(x), half / x * half * t


@custom_jvp
def _exp1(x: Any) -> Any:
    return widened(_integral_of_decay, x)


@_exp1.defjvp
def _exp1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _exp1(x), where(x < 0, math.nan, -lax.exp(-x) / x) * t


@fused
@documented(**X, **GIVES)
def expi(x: Any) -> Any:
    """The exponential integral Ei, the principal value of the integral of `exp(t) / t` up to `x`.

    Args:
      [x]

    [one]

    [real]

    Source: `scipy.special.expi`, which has complex numbers, too. Rational approximations; see
    `tables`.

    Example:
      >>> print(f"{mjax.scipy.special.expi(1.0):.4f}")
      1.8951
    """
    return _expi(*strong(*real_arguments("expi", x)))


@fused
@documented(**X, **GIVES)
def exp1(x: Any) -> Any:
    """The exponential integral E_1, the integral of `exp(-t) / t` from `x` on.

    Args:
      [x]

    [one] NaN for negative `x`.

    [real]

    Returns:
      An array of the shape of `x`, in a floating dtype.

    Source: `scipy.special.exp1`, which has complex numbers, too. Rational approximations; see
    `tables`.

    Example:
      >>> print(f"{mjax.scipy.special.exp1(1.0):.4f}")
      0.2194
    """
    return _exp1(*strong(*real_arguments("exp1", x)))


def _by_series(n: Any, x: Any, active: Any) -> Any:
    """E_n for n >= 1 and 0 < x <= 1. Source: DLMF 8.19.8."""
    eps = float(ml_dtypes.finfo(typeof(x).dtype).eps)

    def step(state: Any) -> Any:
        k, going, power, total = state
        power = where(k == 0, 1, power * -x / where(k == 0, 1, k))
        apart = k - n + 1
        # Leaves out the term that the logarithm replaces.
        term = where(apart == 0, 0, power / where(apart == 0, 1, apart))
        total = total - term
        going = going & ((lax.abs(term) > eps * lax.abs(total)) | (apart <= 0))
        return k + 1, going, power, total

    # x <= 1: terms from x**50 / 50! on are below the rounding error of the first ones.
    zero = x * 0
    _, _, _, total = while_loop(lambda state: any(state[1]) & (state[0] < 60), step,
                                (cast(np.int32(0), typeof(x).dtype), active, zero, zero))
    logarithm = prims.digamma(n) - lax.log(x)
    odd = n - 2 * lax.floor(n * 0.5) == 0
    size = lax.exp((n - 1) * lax.log(x) - prims.lgamma(n))
    return where(odd, -size, size) * logarithm + total


def _by_fraction(n: Any, x: Any, active: Any) -> Any:
    """E_n for x > 1, by the modified Lentz method. Source: DLMF 8.19.17, its even part."""
    eps = float(ml_dtypes.finfo(typeof(x).dtype).eps)

    def step(state: Any) -> Any:
        k, going, b, c, d, out = state
        numerator = -k * (n - 1 + k)
        b = b + 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        change = c * d
        return k + 1, going & (lax.abs(change - 1) > eps), b, c, d, out * change

    b = x + n
    first = 1 / b
    large = b * 0 + 1e30
    out = while_loop(lambda state: any(state[1]) & (state[0] < 200), step, (
        cast(np.int32(1), typeof(x).dtype), active, b, large, first, first))[-1]
    return out * lax.exp(-x)


def _generalized(n: Any, x: Any) -> Any:
    n, x = broadcast_values("expn", n, x)
    regular = (x > 0) & (n >= 1) & (x < math.inf)
    near, far = regular & (x <= 1), regular & (x > 1)
    series = _by_series(where(near, n, 1), where(near, x, 1), near)
    fraction = _by_fraction(where(far, n, 1), where(far, x, 2), far)
    out = where(near, series, where(far, fraction, lax.exp(-x) / x))
    # The series of these orders cancels around 1.
    first = _integral_of_decay(where(regular, x, 1))
    out = where(regular & (n == 1), first, out)
    out = where(near & (n == 2), lax.exp(-x) - x * first, out)
    at_zero = where(n > 1, 1 / where(n > 1, n - 1, 1), math.inf)
    out = where(x == 0, at_zero, out)
    return where((n < 0) | (x < 0) | (x != x), math.nan, out)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _expn(n: Any, x: Any) -> Any:
    return widened(_generalized, n, x)


@_expn.defjvp
def _expn_jvp(n: Any, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    zero = n == 0  # E_{-1} by the recurrence, DLMF 8.19.12
    below = _expn(where(zero, n, n - 1), x)
    safe = where(zero, x, 1)
    return _expn(n, x), -t * where(zero, (below + lax.exp(-safe)) / safe, below)


@fused
@documented(**X, **GIVES)
def expn(n: Any, x: Any) -> Any:
    """The generalized exponential integral E_n, of `exp(-x * t) / t**n` from 1 on.

    Args:
      n: array or scalar, the order: a non-negative integer.
      [x]

    [broadcast] NaN for negative arguments. Not differentiable in `n`.

    [real]

    Returns:
      An array of the shape that `n` and `x` broadcast to, in a floating dtype.

    Source: `scipy.special.expn`. Algorithms: DLMF 8.19.8 and 8.19.17.

    Example:
      >>> print(f"{mjax.scipy.special.expn(2, 1.0):.4f}")
      0.1485
    """
    return _expn(*real_arguments("expn", n, x))


# ---- sine and cosine integrals ---------------------------------------------------------


def _sine_and_cosine(x: Any) -> tuple[Any, Any]:
    size = lax.abs(x)
    square = size * size
    near_s = size * rational(square, tables.SI_NEAR)
    near_c = np.euler_gamma + lax.log(size) + square * rational(square, tables.CI_NEAR)
    inverse = 1 / square
    f = rational(inverse, tables.SICI_F) / size
    g = rational(inverse, tables.SICI_G) * inverse
    s, c = sin(size), cos(size)
    infinite, near = size == math.inf, size <= 4
    far_s = math.pi / 2 - where(infinite, 0, f * c + g * s)
    far_c = where(infinite, 0, f * s - g * c)
    si = lax.sign(x) * where(near, near_s, far_s)
    return si, where(x == -math.inf, math.nan, where(near, near_c, far_c))


@custom_jvp
def _sici(x: Any) -> tuple[Any, Any]:
    si, ci = widened(_sine_and_cosine, x)
    return si, ci


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    near = lax.abs(x) < 1
    # Dividing by pi and multiplying again would round the angle.
    slope = where(near, sinc(where(near, x, 0) / math.pi), sin(x) / where(near, 1, x))
    return _sici(x), (slope * t, cos(x) / x * t)


@fused
@documented(**X)
def sici(x: Any) -> tuple[Any, Any]:
    """The sine integral Si, from 0 to `x`, and the cosine integral Ci, from infinity to `x`.

    Args:
      [x]

    Returns:
      Two arrays of the shape of `x`. The cosine integral of a negative number is that of its
      absolute value; of -inf it is NaN.

    Raises:
      ValueError: `x` is complex.

    Source: `scipy.special.sici`, which has complex numbers, too. Rational approximations; see
    `tables`.

    Example:
      >>> si, ci = mjax.scipy.special.sici(1.0)
      >>> print(f"{si:.4f} {ci:.4f}")
      0.9461 0.3374
    """
    return _sici(*strong(*real_arguments("sici", x)))


# ---- the dilogarithm -------------------------------------------------------------------

def _dilogarithm(u: Any) -> Any:
    """The dilogarithm of `1 - exp(-u)`, for `u` between -log(2) and log(2)."""
    square = u * u
    return u - square * 0.25 + u * square * polynomial(square, tables.BERNOULLI)


@custom_jvp
def _spence(x: Any) -> Any:
    large = x > 2
    y = where(large, 1 / x, x)
    small = y < 0.5
    # Near 0 the result hardly depends on x, so rounding x is harmless.
    log, rest = lax.log(y), lax.log(1 - y)
    out = _dilogarithm(-where(small, rest, log))
    out = where(small, math.pi**2 / 6 - where(y == 0, 0, log * rest) - out, out)
    out = where(large, -0.5 * lax.square(log) - out, out)
    return where(x < 0, math.nan, out)


@_spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    one = x == 1
    safe = where(one, 2, x)
    return _spence(x), where(one, -1, lax.log(safe) / (1 - safe)) * t


@fused
def spence(x: Any) -> Any:
    """Spence's function, the dilogarithm of `1 - x`: the integral of `log(t) / (1 - t)` from 1 on.

    Args:
      x: array or scalar of dtype float32 or float64.

    Returns:
      An array of the shape and dtype of `x`; NaN for negative `x`.

    Raises:
      TypeError: the dtype is neither float32 nor float64.

    Source: `scipy.special.spence`. Algorithm: 't Hooft and Veltman 1979, "Scalar one-loop
    integrals", appendix A.

    Example:
      >>> print(f"{mjax.scipy.special.spence(2.0):.4f}")
      -0.8225
    """
    return _spence(*strong(wide_argument("spence", x)))
