"""Arithmetic of polynomials, given by their coefficients from the highest power down."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._numpy.core import (
    as_array,
    check_array,
    check_arrays,
    concrete_int,
    promote_dtypes,
    promote_dtypes_inexact,
)
from mjax._numpy.fused import fused


def _aligned(name: str, a1: Any, a2: Any) -> tuple[Any, Any]:
    """Coefficients of two polynomials, filled up with zeros in front."""
    a1, a2 = promote_dtypes(*check_arrays(name, a1, a2))
    size = max(typeof(a).shape[0] for a in (a1, a2))
    return tuple(pad(a, _c(a, 0), [(size - typeof(a).shape[0], 0, 0)])
                 for a in (a1, a2))


@fused
def polyadd(a1: Any, a2: Any) -> Any:
    """Coefficients of the sum of two polynomials.

    Args:
      a1: coefficients, from that of the highest power down.
      a2: coefficients.

    Source: `numpy.polyadd`.

    Example:
      >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([3, 0, 1]))
      Array([3, 1, 3], dtype=int32)
    """
    return lax.add(*_aligned("polyadd", a1, a2))


@fused
def polysub(a1: Any, a2: Any) -> Any:
    """Coefficients of the difference of two polynomials.

    Args:
      a1: coefficients, from that of the highest power down.
      a2: coefficients.

    Source: `numpy.polysub`.

    Example:
      >>> jnp.polysub(jnp.array([1, 2]), jnp.array([3, 0, 1]))
      Array([-3,  1,  1], dtype=int32)
    """
    return lax.sub(*_aligned("polysub", a1, a2))


@fused(static_argnames=("m",))
def polyder(p: Any, m: int = 1) -> Any:
    """Coefficients of a derivative of a polynomial.

    Args:
      p: coefficients, from that of the highest power down.
      m: which derivative.

    Raises:
      ValueError: `m` is negative.

    Source: `numpy.polyder`.

    Example:
      >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
      Array([2., 2.], dtype=float32)
    """
    m = concrete_int(m, "polyder: m")
    if m < 0:
        msg = f"polyder: m must not be negative, got {m}."
        raise ValueError(msg)
    p = check_array("polyder", p)
    if m == 0:
        return as_array(p)
    p, = promote_dtypes_inexact(p)
    n = typeof(p).shape[0]
    powers = np.arange(n - 1, m - 1, -1)
    factor = np.prod([powers - i for i in range(m)], axis=0) if n > m else powers
    return lax.mul(slice_in_dim(p, 0, max(n - m, 0)), factor.astype(typeof(p).dtype))
