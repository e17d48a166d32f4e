"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.core import cast, check_arrays, promote_dtypes_numeric
from mjax._numpy.fused import fused
from mjax._numpy.reductions import sum
from mjax._scipy.special.arguments import inexact_arguments, where
from mjax._scipy.special.entropy import times_log

_DOC = {
    "arguments": "Args:\n  x: array of ints of shape `(..., m)`, the count of each outcome.\n"
                 "  n: array or scalar of ints, the number of trials.\n"
                 "  p: array of shape `(..., m)`, the probabilities of the outcomes.",
    "gives": "Returns:\n  An array without the last axis; probabilities are 0 where `x` does not "
             "add up to `n`.\n\nRaises:\n  ValueError: `x` or `n` is not of an integer dtype.\n\n"
             "Source: `scipy.stats.multinomial`.",
}


def _log_probability(x: Any, n: Any, p: Any) -> Any:
    p, = inexact_arguments("multinomial", p)
    x, n = promote_dtypes_numeric(*check_arrays("multinomial", x, n))
    if not dtypes.is_integer(typeof(x).dtype):
        msg = (f"multinomial: x and n must be of integer dtypes, got {typeof(x)} and {typeof(n)}. "
               "Convert them with astype(int).")
        raise ValueError(msg)
    dtype = typeof(p).dtype
    complete = sum(x, -1) == n if typeof(x).shape else x == n
    x, n = cast(x, dtype), cast(n, dtype)
    terms = times_log(*inexact_arguments("multinomial", x, p)) - prims.lgamma(x + 1)
    return where(complete, prims.lgamma(n + 1) + sum(terms, -1), -np.inf)


@fused
@documented(**_DOC)
def logpmf(x: Any, n: Any, p: Any) -> Any:
    """Logarithms of the probabilities of the multinomial distribution.

    [arguments]

    [gives]

    Example:
      >>> x, p = jnp.array([1, 2]), jnp.array([0.25, 0.75])
      >>> print(f"{mjax.scipy.stats.multinomial.logpmf(x, 3, p):.4f}")
      -0.8630
    """
    return _log_probability(x, n, p)


@fused
@documented(**_DOC)
def pmf(x: Any, n: Any, p: Any) -> Any:
    """Probabilities of the multinomial distribution.

    [arguments]

    [gives]

    Example:
      >>> x, p = jnp.array([1, 2]), jnp.array([0.25, 0.75])
      >>> print(f"{mjax.scipy.stats.multinomial.pmf(x, 3, p):.4f}")
      0.4219
    """
    return lax.exp(_log_probability(x, n, p))
