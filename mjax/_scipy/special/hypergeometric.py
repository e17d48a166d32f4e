"""Hypergeometric functions 1F1 and 2F1 of real numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.control.loops.looping import while_loop
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.core import broadcast_values, cast
from mjax._numpy.fused import fused
from mjax._numpy.reductions import any
from mjax._scipy.special.arguments import GIVES, inexact_arguments, real_arguments, where, widened
from mjax._scipy.special.gamma import gamma

#: Limit of the number of terms of a series.
_STEPS = 1000
#: Beyond this, 1F1 uses its asymptotic series, and the series of 2F1 converges slowly.
_FAR, _NEAR_ONE = 100.0, 0.9

_PARAMETERS = {
    "a": "a: array or scalar; ints and booleans become the default float.",
    "b": "b: the same.", "c": "c: the same.", "x": "x: the argument.",
}

#: The quotient of term k + 1 and term k, for k = 0, 1, ...
Ratio = Callable[[Any], Any]


def _eps(x: Any) -> float:
    return float(ml_dtypes.finfo(typeof(x).dtype).eps)


def _whole(x: Any) -> Any:
    return x == lax.floor(x)


def _stops(x: Any) -> Any:
    """Whether a factor of x (x + 1) (x + 2) ... is 0."""
    return _whole(x) & (x <= 0)


def _inverse_gamma(x: Any) -> Any:
    return where(_stops(x), 0, 1 / gamma(x))


def _sum(ratio: Ratio, active: Any, weight: Ratio | None = None, steps: int = _STEPS) -> Any:
    """`1 + r(0) + r(0) r(1) + ...` to the last digit, for all elements at once.

    Args:
      ratio: the quotient of successive terms; see `Ratio`.
      active: flags the elements that need the sum.
      weight: if given, `weight(k)` multiplies term k.
      steps: the limit of the number of terms.
    """
    like = ratio(0.0)
    eps, dtype = _eps(like), typeof(like).dtype
    one = cast(like * 0, dtype) + 1
    one = where(one == 1, one, 1)  # the ratio may be infinite in inactive elements

    def step(state: Any) -> Any:
        k, going, term, total = state
        term = where(going, term * ratio(k), term)
        change = term if weight is None else term * weight(k + 1)
        total = where(going, total + change, total)
        return k + 1, going & (lax.abs(change) > eps * lax.abs(total)), term, total

    start = one if weight is None else one * weight(0.0)
    zero = cast(np.int32(0), dtype)
    return while_loop(lambda state: any(state[1]) & (state[0] < steps), step,
                      (zero, active & (like == like), one, start))[-1]


def _slope(ratio: Ratio, change: Ratio, active: Any) -> Any:
    """The derivative of `_sum` in a parameter; `change` is the ratio's derivative in it."""
    like = ratio(0.0)
    eps, dtype = _eps(like), typeof(like).dtype
    zero = where(like == like, 0, like)

    def step(state: Any) -> Any:
        k, going, term, slope, total = state
        slope = slope * ratio(k) + term * change(k)
        term = term * ratio(k)
        total = where(going, total + slope, total)
        more = (lax.abs(slope) > eps * lax.abs(total)) | (lax.abs(term) > eps * lax.abs(total))
        return k + 1, going & more, term, slope, total

    first = cast(np.int32(0), dtype)
    return while_loop(lambda state: any(state[1]) & (state[0] < _STEPS), step,
                      (first, active, zero + 1, zero, zero))[-1]


# ---- 1F1 -------------------------------------------------------------------------------


def _confluent_ratio(a: Any, b: Any, x: Any) -> Ratio:
    return lambda k: (a + k) / (b + k) * x / (k + 1)


def _confluent(a: Any, b: Any, x: Any) -> Any:
    a, b, x = broadcast_values("hyp1f1", a, b, x)
    # Kummer's transformation makes the terms of one sign.
    negative = x < 0
    scale = where(negative, lax.exp(x), 1)
    first, argument = where(negative, b - a, a), lax.abs(x)
    far = (argument >= _FAR) & ~_stops(first)
    series = _sum(_confluent_ratio(first, b, argument), ~far)
    inverse = 1 / where(far, argument, _FAR)
    distant = _sum(lambda k: (b - first + k) * (1 - first + k) * inverse / (k + 1), far, steps=99)
    growth = where(negative, 1, lax.exp(x)) * lax.pow(where(far, argument, 1), first - b)
    ratio = gamma(b) * _inverse_gamma(first)
    out = where(far, ratio * growth * distant, scale * series)
    out = where(a == b, lax.exp(x), out)
    return where(a == 0, 1, where(b == 0, np.inf, out))


@custom_jvp
def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    return widened(_confluent, a, b, x)


def _confluent_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    a, b, x = broadcast_values("hyp1f1", a, b, x)
    ratio, everywhere = _confluent_ratio(a, b, x), x == x
    in_a = _slope(ratio, lambda k: x / ((b + k) * (k + 1)), everywhere)
    in_b = _slope(ratio, lambda k: -ratio(k) / (b + k), everywhere)
    return in_a, in_b


@_hyp1f1.defjvp
def _hyp1f1_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, x), (da, db, dx) = primals, tangents
    in_a, in_b = _confluent_slopes(a, b, x)
    in_x = a / b * _hyp1f1(a + 1, b + 1, x)
    return _hyp1f1(a, b, x), in_a * da + in_b * db + in_x * dx


@fused
@documented(**_PARAMETERS, **GIVES)
def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """The confluent hypergeometric function 1F1 (Kummer's M).

    Args:
      [a]
      [b]
      [x]

    [broadcast]

    [real]

    Source: `scipy.special.hyp1f1`. Algorithms: Pearson, Olver and Porter 2014, "Numerical methods
    for the computation of the confluent and Gauss hypergeometric functions".

    Example:
      >>> print(f"{mjax.scipy.special.hyp1f1(1.0, 2.0, 1.0):.4f}")
      1.7183
    """
    return _hyp1f1(*real_arguments("hyp1f1", a, b, x))


# ---- 2F1 -------------------------------------------------------------------------------


def _gauss_ratio(a: Any, b: Any, c: Any, x: Any) -> Ratio:
    return lambda k: (a + k) * (b + k) / (c + k) / (k + 1) * x


def _near_one(a: Any, b: Any, c: Any, x: Any, here: Any) -> Any:
    """2F1 near x = 1 if c - a - b is positive and not an integer. Source: DLMF 15.8.4."""
    d, y = c - a - b, 1 - x
    direct = _sum(_gauss_ratio(a, b, 1 - d, y), here)
    crossed = _sum(_gauss_ratio(c - a, c - b, 1 + d, y), here)
    return gamma(c) * (
        gamma(d) * _inverse_gamma(c - a) * _inverse_gamma(c - b) * direct
        + lax.pow(y, d) * gamma(-d) * _inverse_gamma(a) * _inverse_gamma(b) * crossed)


def _near_one_whole(a: Any, b: Any, c: Any, x: Any, here: Any) -> Any:
    """2F1 near x = 1 if m = c - a - b is 0, 1, 2, ... Source: DLMF 15.8.10."""
    y = where(here, 1 - x, 0.5)
    m = where(here, lax.round(c - a - b, lax.RoundingMethod.TO_NEAREST_EVEN), 0)
    # Terms k = 0, 1, ..., m - 1; the factorials decrease.
    finite = _sum(lambda k: where(k + 1 < m, -(a + k) * (b + k) * y / (
        (k + 1) * where(k + 1 < m, m - 1 - k, 1)), 0), here & (m > 1))
    finite = where(m > 0, finite * gamma(m) * _inverse_gamma(a + m) * _inverse_gamma(b + m), 0)
    log = lax.log(y)
    psi = prims.digamma
    weight = lambda k: log - psi(k + 1 + y * 0) - psi(k + 1 + m) + psi(a + k + m) + psi(b + k + m)
    endless = _sum(lambda k: (a + m + k) * (b + m + k) / ((k + 1) * (k + 1 + m)) * y, here, weight)
    odd = m - 2 * lax.floor(m * 0.5) == 1
    power = where(odd, -1 + y * 0, 1) * lax.pow(y, m) / gamma(m + 1)
    return gamma(c) * (finite - power * _inverse_gamma(a) * _inverse_gamma(b) * endless)


def _inside(a: Any, b: Any, c: Any, x: Any) -> Any:
    """2F1 for 0 <= x < 1, or if the series is a polynomial."""
    ends = _stops(a) | _stops(b)
    d = c - a - b
    # Euler's transformation makes the terms of one sign and of moderate size.
    turned = (d < 0) & ~ends
    scale = where(turned, lax.pow(where(turned, 1 - x, 1), d), 1)
    a, b, d = where(turned, c - a, a), where(turned, c - b, b), lax.abs(d)
    ends = ends | _stops(a) | _stops(b)
    near = (x > _NEAR_ONE) & ~ends
    distance = lax.abs(d - lax.round(d, lax.RoundingMethod.TO_NEAREST_EVEN))
    whole = near & (distance < 50 * _eps(x))
    apart = near & (distance > 0.01)
    # In between, both lose digits and the series converges slowly.
    out = _sum(_gauss_ratio(a, b, c, x), ~(whole | apart), steps=20 * _STEPS)
    out = where(apart, _near_one(a, b, c, x, apart), out)
    return scale * where(whole, _near_one_whole(a, b, c, x, whole), out)


def _gauss(a: Any, b: Any, c: Any, x: Any) -> Any:
    a, b, c, x = broadcast_values("hyp2f1", a, b, c, x)
    ends = _stops(a) | _stops(b)
    # Pfaff's transformation maps the argument into (0, 1).
    turned = (x < 0) & ~ends
    scale = where(turned, lax.pow(where(turned, 1 - x, 1), -a), 1)
    out = scale * _inside(a, where(turned, c - b, b), c, where(turned, x / (x - 1), x))
    d = c - a - b
    at_one = where(d > 0, gamma(c) * gamma(d) * _inverse_gamma(c - a) * _inverse_gamma(c - b),
                   np.inf)
    out = where((x > 1) & ~ends, np.inf, where((x == 1) & ~ends, at_one, out))
    power = lax.pow(where(x < 1, 1 - x, 1), where(b == c, -a, -b))
    out = where((x < 1) & ((b == c) | (a == c)), power, out)
    one = (x == 0) | (((a == 0) | (b == 0)) & (c != 0))
    return where(one, 1, where(_stops(c), np.inf, out))


@custom_jvp
def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    return widened(_gauss, a, b, c, x)


def _gauss_slopes(a: Any, b: Any, c: Any, x: Any) -> tuple[Any, Any, Any]:
    a, b, c, x = broadcast_values("hyp2f1", a, b, c, x)
    ratio, everywhere = _gauss_ratio(a, b, c, x), x == x
    in_a = _slope(ratio, lambda k: (b + k) / (c + k) / (k + 1) * x, everywhere)
    in_b = _slope(ratio, lambda k: (a + k) / (c + k) / (k + 1) * x, everywhere)
    in_c = _slope(ratio, lambda k: -ratio(k) / (c + k), everywhere)
    return in_a, in_b, in_c


@_hyp2f1.defjvp
def _hyp2f1_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, c, x), (da, db, dc, dx) = primals, tangents
    in_a, in_b, in_c = _gauss_slopes(a, b, c, x)
    in_x = a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x)
    return _hyp2f1(a, b, c, x), in_a * da + in_b * db + in_c * dc + in_x * dx


@fused
@documented(**_PARAMETERS, **GIVES)
def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    """The Gauss hypergeometric function 2F1; infinite for `x > 1`.

    Args:
      [a]
      [b]
      [c]
      [x]

    [broadcast]

    [float]

    Source: `scipy.special.hyp2f1`. Algorithms: Pearson, Olver and Porter 2014, "Numerical methods
    for the computation of the confluent and Gauss hypergeometric functions". Derivatives in
    the parameters differentiate the series, for `abs(x) < 1`.

    Example:
      >>> print(f"{mjax.scipy.special.hyp2f1(1.0, 1.0, 2.0, 0.5):.4f}")
      1.3863
    """
    return _hyp2f1(*inexact_arguments("hyp2f1", a, b, c, x, ordered=True))
