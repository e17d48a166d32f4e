"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.trigonometric import sin
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, where
from mjax._scipy.stats.arguments import described

_DOC = described(
    "vonmises", "of density `exp(kappa * cos(x)) / (2 * pi * i0(kappa))`",
    "NaN unless `kappa` is positive.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    kappa="kappa: array or scalar, the concentration.")


@fused
@documented(**_DOC)
def logpdf(x: Any, kappa: Any) -> Any:
    """Logarithm of the density of the von Mises distribution.

    Args:
      [x]
      [kappa]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.vonmises.logpdf(1.0, 2.0):.4f}")
      -1.5813
    """
    x, kappa = inexact_arguments("vonmises.logpdf", x, kappa)
    constant = lax.log(2 * math.pi * prims.bessel_i0e(kappa))
    # cos(x) - 1, which loses its digits near 0, is -2 sin(x / 2)**2.
    return where(kappa > 0, -2 * kappa * lax.square(sin(x * 0.5)) - constant, math.nan)


@fused
@documented(**_DOC)
def pdf(x: Any, kappa: Any) -> Any:
    """Density of the von Mises distribution.

    Args:
      [x]
      [kappa]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.vonmises.pdf(1.0, 2.0):.4f}")
      0.2057
    """
    return lax.exp(logpdf(*inexact_arguments("vonmises.pdf", x, kappa)))
