"""The generalized normal distribution."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments
from mjax._scipy.stats.arguments import described

_DOC = described(
    "gennorm", "of density `beta / (2 * gamma(1 / beta)) * exp(-abs(x)**beta)`",
    x="x: array or scalar, points; ints and booleans become the default float.",
    beta="beta: array or scalar, the exponent.")


@fused
@documented(**_DOC)
def logpdf(x: Any, beta: Any) -> Any:
    """Logarithm of the density of the generalized normal distribution.

    Args:
      [x]
      [beta]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gennorm.logpdf(1.0, 1.5):.4f}")
      -1.5908
    """
    x, beta = inexact_arguments("gennorm.logpdf", x, beta)
    power = lax.pow(lax.abs(x), beta)
    return lax.log(0.5 * beta) - prims.lgamma(1 / beta) - power


@fused
@documented(**_DOC)
def pdf(x: Any, beta: Any) -> Any:
    """Density of the generalized normal distribution.

    Args:
      [x]
      [beta]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gennorm.pdf(1.0, 1.5):.4f}")
      0.2038
    """
    return lax.exp(logpdf(*inexact_arguments("gennorm.pdf", x, beta)))


@fused
@documented(**_DOC)
def cdf(x: Any, beta: Any) -> Any:
    """Distribution function of the generalized normal distribution.

    Args:
      [x]
      [beta]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gennorm.cdf(1.0, 1.5):.4f}")
      0.8876
    """
    x, beta = inexact_arguments("gennorm.cdf", x, beta)
    power = lax.pow(lax.abs(x), beta)
    return 0.5 * (1 + lax.sign(x) * prims.igamma(1 / beta, power))
