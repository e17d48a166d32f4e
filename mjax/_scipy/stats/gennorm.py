"""The generalized normal distribution."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, where
from mjax._scipy.special.entropy import times_log
from mjax._scipy.stats.arguments import described

_DOC = described(
    "gennorm", "of density `beta / (2 * gamma(1 / beta)) * exp(-abs(x)**beta)`",
    x="x: array or scalar, points; ints and booleans become the default float.",
    beta="beta: array or scalar, the exponent.")


def _log_density(x: Any, beta: Any) -> Any:
    power = lax.pow(lax.abs(x), beta)
    return lax.log(0.5 * beta) - prims.lgamma(1 / beta) - power


@custom_jvp
def _lower(x: Any, beta: Any) -> Any:
    """`cdf`, whose slope at 0 is finite although that of the incomplete gamma function is not."""
    power = lax.pow(lax.abs(x), beta)
    tail = 0.5 * prims.igammac(1 / beta, power)
    return where(x < 0, tail, 1 - tail)


@_lower.defjvp
def _lower_jvp(primals: Any, tangents: Any) -> Any:
    (x, beta), (dx, dbeta) = primals, tangents
    size, density = lax.abs(x), lax.exp(_log_density(x, beta))
    shape = prims.igamma_grad_a(1 / beta, lax.pow(size, beta)) / (2 * beta * beta)
    slope = lax.sign(x) * (times_log(size, size) * density / beta - shape)
    return _lower(x, beta), dx * density + dbeta * slope


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
    return _log_density(*inexact_arguments("gennorm.logpdf", x, beta))


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
    return _lower(*inexact_arguments("gennorm.cdf", x, beta))
