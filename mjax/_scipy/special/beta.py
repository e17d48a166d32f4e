"""The beta function, and the incomplete gamma and beta functions."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.fused import fused
from mjax._scipy.special import tables
from mjax._scipy.special.arguments import (
    GIVES,
    inexact_arguments,
    polynomial,
    real_arguments,
    where,
    widened,
)
from mjax._scipy.special.gamma import gammasgn

#: From here on the series is accurate to 50 bits.
_LARGE = 8.0

_A_B = {"a": "a: array or scalar; ints and booleans become the default float.",
        "b": "b: the same."}


def _stirling_error(x: Any) -> Any:
    return polynomial(1 / (x * x), tables.STIRLING, _LARGE ** -2) / x


def log_beta(a: Any, b: Any) -> Any:
    """`betaln` of promoted values.

    Logarithms of large gamma functions cancel. If the larger argument is large, Stirling's series
    without the cancelling terms replace them.

    Source: DLMF 5.11.1.
    """
    ordered = a <= b
    a, b = where(ordered, a, b), where(ordered, b, a)
    # A negative number must leave the sum large, too.
    one = (b >= _LARGE) & ((a > 0) | (a + b >= _LARGE))
    both = one & (a >= _LARGE)
    of_a = prims.lgamma(a)
    few = of_a + (prims.lgamma(b) - prims.lgamma(a + b))
    # Safe inputs where the series is not used.
    large = where(one, b, _LARGE)
    small = where(one, a, 1)
    ratio = small / large
    change = _stirling_error(large) - _stirling_error(large + small)
    growth = (small + large - 0.5) * lax.log1p(ratio)
    step = of_a - small * (lax.log(large) - 1) - growth + change
    small = where(both, a, _LARGE)
    ratio = where(both, ratio, 1)
    wide = ((small - 0.5) * lax.log(ratio) - 0.5 * lax.log(large) - growth
            + 0.5 * math.log(2 * math.pi) + change + _stirling_error(small))
    return where(both, wide, where(one, step, few))


@fused
@documented(**_A_B, **GIVES)
def betaln(a: Any, b: Any) -> Any:
    """Logarithm of the absolute value of the beta function.

    Args:
      [a]
      [b]

    [broadcast]

    [float]

    Source: `scipy.special.betaln`. Large arguments: Stirling's series, DLMF 5.11.1.

    Example:
      >>> print(f"{mjax.scipy.special.betaln(2.0, 3.0):.4f}")
      -2.4849
    """
    return widened(log_beta, *inexact_arguments("betaln", a, b, ordered=True))


@fused
@documented(**_A_B, **GIVES)
def beta(a: Any, b: Any) -> Any:
    """The beta function, `gamma(a) * gamma(b) / gamma(a + b)`.

    Args:
      [a]
      [b]

    [broadcast]

    [real]

    Source: `scipy.special.beta`.

    Example:
      >>> print(f"{mjax.scipy.special.beta(2.0, 3.0):.4f}")
      0.0833
    """
    a, b = real_arguments("beta", a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * lax.exp(log_beta(a, b))


@fused
@documented(**_A_B, **GIVES)
def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function, I_x(a, b).

    Args:
      [a]
      [b]
      x: upper limit of the integral; the result is NaN unless it is in [0, 1].

    [broadcast]

    [real]

    Source: `scipy.special.betainc`. Differentiable only in `x`.

    Example:
      >>> print(f"{mjax.scipy.special.betainc(2.0, 2.0, 0.5):.4f}")
      0.5000
    """
    return prims.betainc(*real_arguments("betainc", a, b, x))


@fused
@documented(**GIVES)
def gammainc(a: Any, x: Any) -> Any:
    """The regularized lower incomplete gamma function, P(a, x).

    Args:
      a: array or scalar, the shape parameter; ints and booleans become the default float.
      x: upper limit of the integral; NaN is the result where an argument is negative.

    [broadcast]

    [float]

    Source: `scipy.special.gammainc`.

    Example:
      >>> print(f"{mjax.scipy.special.gammainc(1.0, 2.0):.4f}")
      0.8647
    """
    return prims.igamma(*inexact_arguments("gammainc", a, x))


@fused
@documented(**GIVES)
def gammaincc(a: Any, x: Any) -> Any:
    """The regularized upper incomplete gamma function, Q(a, x) = 1 - P(a, x).

    Args:
      a: array or scalar, the shape parameter; ints and booleans become the default float.
      x: lower limit of the integral; NaN is the result where an argument is negative.

    [broadcast]

    [float]

    Source: `scipy.special.gammaincc`.

    Example:
      >>> print(f"{mjax.scipy.special.gammaincc(1.0, 2.0):.4f}")
      0.1353
    """
    return prims.igammac(*inexact_arguments("gammaincc", a, x))
