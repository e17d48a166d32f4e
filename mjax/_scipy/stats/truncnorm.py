"""The truncated normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, strong, where, wide_argument
from mjax._scipy.special.normal import distribution, log_distribution
from mjax._scipy.stats.arguments import described, log_one_minus_exp
from mjax._scipy.stats.norm import log_density

_DOC = described(
    "truncnorm", "normal between `loc + a * scale` and `loc + b * scale`",
    "The density is 0 outside the support. NaN unless `a < b`.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    a="a: array or scalar, the lower end, in deviations from `loc`.",
    b="b: array or scalar, the upper end.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


#: Terms of the series of the lower tail, as `log_ndtr` has them by default.
_TERMS = 3


def _log_difference(x: Any, y: Any) -> Any:
    """`log(exp(x) - exp(y))` for `x >= y`."""
    nothing = x == -math.inf
    return x + log_one_minus_exp(where(nothing, 1, x) - where(nothing, 0, y))


@custom_jvp
def _log_mass(a: Any, b: Any) -> Any:
    """Logarithm of the probability between a and b of the standard normal distribution."""
    right = a > 0
    # By symmetry, the lower tail suffices.
    low, high = where(right, -b, a), where(right, -a, b)
    tail = _log_difference(log_distribution(_TERMS, high), log_distribution(_TERMS, low))
    central = lax.log1p(-distribution(a) - distribution(-b))
    return where((a <= 0) & (b > 0), central, tail)


@_log_mass.defjvp
def _log_mass_jvp(primals: Any, tangents: Any) -> Any:
    (a, b), (da, db) = primals, tangents
    out = _log_mass(a, b)

    def share(x: Any) -> Any:
        """The density of the truncated distribution at `x`; 0 at infinity."""
        return lax.exp(-0.5 * x * x - 0.5 * math.log(2 * math.pi) - out)

    return out, db * share(b) - da * share(a)


def _log_density(x: Any, a: Any, b: Any, loc: Any, scale: Any) -> Any:
    x, a, b, loc, scale = strong(x, wide_argument("truncnorm", a), b, loc, scale)
    y = (x - loc) / scale
    out = log_density(x, loc, scale) - _log_mass(a, b)
    return where(a >= b, math.nan, where((y < a) | (y > b), -math.inf, out))


def _log_lower(y: Any, a: Any, b: Any) -> Any:
    """`logcdf` of the standard distribution."""
    y, a, b = strong(y, wide_argument("truncnorm", a), b)
    below, above, empty = y <= a, y >= b, a >= b
    # Safe inputs outside the support: derivatives flow through them.
    outside = below | above
    y, a, b = where(outside, 0, y), where(outside, -1, a), where(outside, 1, b)
    whole = _log_mass(a, b)
    out, rest = _log_mass(a, y) - whole, _log_mass(y, b) - whole
    near = out > -0.1
    out = where(near, lax.log1p(-lax.exp(where(near, rest, -1))), out)
    out = where(above, 0, where(below, -math.inf, out))
    return where(empty, math.nan, out)


@fused
@documented(**_DOC)
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the truncated normal distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.truncnorm.logpdf(1.0, -1.0, 2.0):.4f}")
      -1.2188
    """
    return _log_density(*inexact_arguments("truncnorm.logpdf", x, a, b, loc, scale))


@fused
@documented(**_DOC)
def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the truncated normal distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.truncnorm.pdf(1.0, -1.0, 2.0):.4f}")
      0.2956
    """
    return lax.exp(_log_density(*inexact_arguments("truncnorm.pdf", x, a, b, loc, scale)))


@fused
@documented(**_DOC)
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the truncated normal distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.truncnorm.logcdf(1.0, -1.0, 2.0):.4f}")
      -0.1815
    """
    x, a, b, loc, scale = inexact_arguments("truncnorm.logcdf", x, a, b, loc, scale)
    return _log_lower((x - loc) / scale, a, b)


@fused
@documented(**_DOC)
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the truncated normal distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.truncnorm.cdf(1.0, -1.0, 2.0):.4f}")
      0.8340
    """
    x, a, b, loc, scale = inexact_arguments("truncnorm.cdf", x, a, b, loc, scale)
    return lax.exp(_log_lower((x - loc) / scale, a, b))


@fused
@documented(**_DOC)
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the truncated normal distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.truncnorm.logsf(1.0, -1.0, 2.0):.4f}")
      -1.7956
    """
    x, a, b, loc, scale = inexact_arguments("truncnorm.logsf", x, a, b, loc, scale)
    return _log_lower((loc - x) / scale, -b, -a)


@fused
@documented(**_DOC)
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the truncated normal distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.truncnorm.sf(1.0, -1.0, 2.0):.4f}")
      0.1660
    """
    x, a, b, loc, scale = inexact_arguments("truncnorm.sf", x, a, b, loc, scale)
    return lax.exp(_log_lower((loc - x) / scale, -b, -a))
