"""The Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, widened
from mjax._scipy.special.gamma import log_large_poch
from mjax._scipy.stats.arguments import described

_DOC = described(
    "t", "of density proportional to `(1 + y**2 / df) ** (-(df + 1) / 2)`",
    x="x: array or scalar, points; ints and booleans become the default float.",
    df="df: array or scalar, degrees of freedom.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")

#: Beyond this number, Stirling's series has all digits of float64.
_FAR = 10


def _log_half_step(z: Any) -> Any:
    """`log(gamma(z + 1/2) / gamma(z))`, accurate for large `z`, too."""
    ratio = 1.0
    for k in range(_FAR):
        ratio = ratio / (1 + 0.5 / (z + k))
    return lax.log(ratio) + log_large_poch(z + _FAR, 0.5)


@fused
@documented(**_DOC)
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the Student's t distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.t.logpdf(1.0, 3.0):.4f}")
      -1.5763
    """
    x, df, loc, scale = settled_arguments("t.logpdf", x, df, loc, scale, ordered=True)
    y = (x - loc) / scale
    half = df / 2
    root = lax.log(scale * scale * math.pi * df) / 2
    rise = widened(_log_half_step, half)
    constant = root - rise
    return -(constant + (half + 0.5) * lax.log1p(y * y / df))


@fused
@documented(**_DOC)
def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the Student's t distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.t.pdf(1.0, 3.0):.4f}")
      0.2067
    """
    return lax.exp(logpdf(*settled_arguments("t.pdf", x, df, loc, scale)))
