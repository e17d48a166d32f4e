"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.stats.arguments import described

_DOC = described(
    "laplace", "of density `exp(-abs(y)) / (2 * scale)`",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the Laplace distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.laplace.logpdf(1.0):.4f}")
      -1.6931
    """
    x, loc, scale = settled_arguments("laplace.logpdf", x, loc, scale, ordered=True)
    return -(lax.abs(x - loc) / scale + lax.log(2 * scale))


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the Laplace distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.laplace.pdf(1.0):.4f}")
      0.1839
    """
    return lax.exp(logpdf(*settled_arguments("laplace.pdf", x, loc, scale, ordered=True)))


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the Laplace distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.laplace.cdf(1.0):.4f}")
      0.8161
    """
    x, loc, scale = settled_arguments("laplace.cdf", x, loc, scale, ordered=True)
    y = (x - loc) / scale
    tail = 0.5 * lax.exp(where(y <= 0, y, -y))
    return where(y <= 0, tail, 1 - tail)
