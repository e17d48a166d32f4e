"""The uniform distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, strong, where
from mjax._scipy.stats.arguments import described

_DOC = described(
    "uniform", "of density `1 / scale` between `loc` and `loc + scale`",
    "The density is 0 outside the support. The quantile is NaN unless `q` is in [0, 1].",
    q="q: array or scalar, probabilities; ints and booleans become the default float.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the uniform distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.uniform.logpdf(0.5, 0.0, 2.0):.4f}")
      -0.6931
    """
    x, loc, scale = inexact_arguments("uniform.logpdf", x, loc, scale, ordered=True)
    return where((x > loc + scale) | (x < loc), -math.inf, -lax.log(scale))


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the uniform distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.uniform.pdf(0.5, 0.0, 2.0):.4f}")
      0.5000
    """
    return lax.exp(logpdf(*inexact_arguments("uniform.pdf", x, loc, scale, ordered=True)))


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the uniform distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.uniform.cdf(0.25, 0.0, 2.0):.4f}")
      0.1250
    """
    x, loc, scale = inexact_arguments("uniform.cdf", x, loc, scale, ordered=True)
    x, loc, scale = strong(x, loc, scale)
    return where(x < loc, 0, where(x > loc + scale, 1, (x - loc) / scale))


@fused
@documented(**_DOC)
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the uniform distribution: the inverse of `cdf`.

    Args:
      [q]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.uniform.ppf(0.25, 0.0, 2.0):.4f}")
      0.5000
    """
    q, loc, scale = inexact_arguments("uniform.ppf", q, loc, scale)
    return where((q >= 0) & (q <= 1), loc + scale * q, math.nan)
