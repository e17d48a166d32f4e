"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import array_of, expand_dims
from mjax._numpy.core import check_arrays, promote_dtypes_inexact
from mjax._numpy.fused import fused
from mjax._numpy.reductions import all, sum
from mjax._scipy.special.arguments import where
from mjax._scipy.special.entropy import times_log

_DOC = {
    "arguments": "Args:\n  x: array of shape `(n, ...)`, points of the simplex, or of shape "
                 "`(n - 1, ...)`: the last\n    coordinate is then 1 minus the others.\n"
                 "  alpha: array of shape `(n,)`, the concentrations.",
    "gives": "Returns:\n  An array without the first axis of `x`. The density is 0 outside the "
             "simplex, up to 1e-6.\n\nRaises:\n  ValueError: the shapes do not match.\n\n"
             "Source: `scipy.stats.dirichlet`, of density proportional to "
             "`prod(x ** (alpha - 1))`.",
}


def _log_density(x: Any, alpha: Any) -> Any:
    x, alpha = map(array_of, promote_dtypes_inexact(*check_arrays("dirichlet", x, alpha)))
    points, count = typeof(x).shape, typeof(alpha).shape
    if len(count) != 1:
        msg = f"dirichlet: alpha must be one-dimensional, got shape {count}."
        raise ValueError(msg)
    if not points or points[0] not in (count[0], count[0] - 1):
        msg = ("dirichlet: the first axis of x must be as long as alpha, or one shorter, got "
               f"shapes {points} and {count}.")
        raise ValueError(msg)
    if points[0] != count[0]:
        x = concatenate([x, 1 - sum(x, 0, keepdims=True)], 0)
    constant = sum(prims.lgamma(alpha)) - prims.lgamma(sum(alpha))
    powers = expand_dims(alpha, tuple(range(1, len(points))))
    inside = all(x > 0, 0) & (lax.abs(sum(x, 0) - 1) < 1e-6)
    return where(inside, sum(times_log(powers - 1, x), 0) - constant, -np.inf)


@fused
@documented(**_DOC)
def logpdf(x: Any, alpha: Any) -> Any:
    """Logarithm of the density of the Dirichlet distribution.

    [arguments]

    [gives]

    Example:
      >>> x, alpha = jnp.array([0.25, 0.75]), jnp.array([2.0, 3.0])
      >>> print(f"{mjax.scipy.stats.dirichlet.logpdf(x, alpha):.4f}")
      0.5232
    """
    return _log_density(x, alpha)


@fused
@documented(**_DOC)
def pdf(x: Any, alpha: Any) -> Any:
    """Density of the Dirichlet distribution.

    [arguments]

    [gives]

    Example:
      >>> x, alpha = jnp.array([0.25, 0.75]), jnp.array([2.0, 3.0])
      >>> print(f"{mjax.scipy.stats.dirichlet.pdf(x, alpha):.4f}")
      1.6875
    """
    return lax.exp(_log_density(x, alpha))
