"""The right-skewed Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, settled_arguments, where
from mjax._scipy.stats.arguments import described, one_minus_exp
from mjax._scipy.stats.gumbel_l import density, log_density, log_near, power

_DOC = described(
    "gumbel_r", "of density `exp(-y - exp(-y)) / scale`",
    "NaN unless `scale` is positive and, for quantiles, `p` is in [0, 1].",
    p="p: array or scalar, probabilities; ints and booleans become the default float.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the right-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_r.logpdf(1.0):.4f}")
      -1.3679
    """
    x, loc, scale = inexact_arguments("gumbel_r.logpdf", x, loc, scale, ordered=True)
    return log_density((loc - x) / scale, scale)


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the right-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_r.pdf(1.0):.4f}")
      0.2546
    """
    x, loc, scale = inexact_arguments("gumbel_r.pdf", x, loc, scale, ordered=True)
    return density((loc - x) / scale, scale)


@fused
@documented(**_DOC)
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the right-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_r.logcdf(1.0):.4f}")
      -0.3679
    """
    x, loc, scale = inexact_arguments("gumbel_r.logcdf", x, loc, scale, ordered=True)
    return where(scale > 0, -lax.exp((loc - x) / scale), math.nan)


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the right-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_r.cdf(1.0):.4f}")
      0.6922
    """
    x, loc, scale = inexact_arguments("gumbel_r.cdf", x, loc, scale, ordered=True)
    return where(scale > 0, lax.exp(-power((loc - x) / scale)), math.nan)


@fused
@documented(**_DOC)
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the right-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_r.logsf(1.0):.4f}")
      -1.1783
    """
    x, loc, scale = inexact_arguments("gumbel_r.logsf", x, loc, scale, ordered=True)
    return where(scale > 0, log_near((loc - x) / scale), math.nan)


@fused
@documented(**_DOC)
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the right-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_r.sf(1.0):.4f}")
      0.3078
    """
    x, loc, scale = settled_arguments("gumbel_r.sf", x, loc, scale, ordered=True)
    return where(scale > 0, one_minus_exp(power((loc - x) / scale)), math.nan)


@fused
@documented(**_DOC)
def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the right-skewed Gumbel distribution: the inverse of `cdf`.

    Args:
      [p]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_r.ppf(0.5):.4f}")
      0.3665
    """
    p, loc, scale = inexact_arguments("gumbel_r.ppf", p, loc, scale, ordered=True)
    return where((p > 0) & (p < 1), loc - scale * lax.log(-lax.log(p)), math.nan)
