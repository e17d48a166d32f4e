"""Bessel functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.control.loops.looping import scan
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.cumulative import cumprod
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import expand_dims
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._numpy.core import as_array, cast, concrete_int, promote_dtypes_inexact
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.reductions import sum
from mjax._scipy.special.arguments import GIVES, X, inexact_arguments, where

_MODIFIED = {**X, **GIVES}


@fused
@documented(**_MODIFIED)
def i0e(x: Any) -> Any:
    """Modified Bessel function of order 0, times `exp(-abs(x))`.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.i0e`.

    Example:
      >>> print(f"{mjax.scipy.special.i0e(1.0):.4f}")
      0.4658
    """
    return prims.bessel_i0e(*inexact_arguments("i0e", x))


@fused
@documented(**_MODIFIED)
def i0(x: Any) -> Any:
    """Modified Bessel function of order 0.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.i0`.

    Example:
      >>> print(f"{mjax.scipy.special.i0(1.0):.4f}")
      1.2661
    """
    x, = inexact_arguments("i0", x)
    return lax.exp(lax.abs(x)) * prims.bessel_i0e(x)


@fused
@documented(**_MODIFIED)
def i1e(x: Any) -> Any:
    """Modified Bessel function of order 1, times `exp(-abs(x))`.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.i1e`.

    Example:
      >>> print(f"{mjax.scipy.special.i1e(1.0):.4f}")
      0.2079
    """
    return prims.bessel_i1e(*inexact_arguments("i1e", x))


@fused
@documented(**_MODIFIED)
def i1(x: Any) -> Any:
    """Modified Bessel function of order 1.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.i1`.

    Example:
      >>> print(f"{mjax.scipy.special.i1(1.0):.4f}")
      0.5652
    """
    x, = inexact_arguments("i1", x)
    return lax.exp(lax.abs(x)) * prims.bessel_i1e(x)


@fused(static_argnames=("v", "n_iter"))
def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """Bessel functions of the first kind, of orders 0 to `v`.

    Args:
      z: array or scalar; ints and booleans become the default float.
      v: the greatest order, a Python int.
      n_iter: the order to begin at, a Python int: some tens more than `v` and `z`.

    Returns:
      An array of shape `(v + 1, *z.shape)`: the order is the first axis.

    Raises:
      ValueError: `z` is complex.
      TypeError: `v` or `n_iter` is an array that is being traced: mark it as static.

    Source: `scipy.special.jv`, one order at a time. Algorithm: Miller's, DLMF 3.6(iii), with
    quotients of neighbours, which do not overflow.

    Example:
      >>> j0, j1 = mjax.scipy.special.bessel_jn(1.0, v=1)
      >>> print(f"{j0:.4f} {j1:.4f}")
      0.7652 0.4401
    """
    z, = map(as_array, promote_dtypes_inexact(asarray(z)))
    if dtypes.is_complex(typeof(z).dtype):
        msg = f"bessel_jn: z must be real, got {typeof(z)}: complex input not supported."
        raise ValueError(msg)
    v, n_iter = concrete_int(v, "bessel_jn: v"), concrete_int(n_iter, "bessel_jn: n_iter", True)
    dtype = typeof(z).dtype
    z = cast(z, dtype)

    def quotient(after: Any, k: Any) -> tuple[Any, Any]:
        """The function of order k over that of order k - 1."""
        divisor = 2 * k - z * after
        divisor = where(divisor == 0, float(np.finfo(np.float32).tiny), divisor)
        out = z / divisor
        return out, out

    orders = np.arange(1, n_iter + 1).astype(dtype)
    _, quotients = scan(quotient, z * 0, orders, reverse=True)
    to_first = concatenate([expand_dims(z * 0 + 1, (0,)), cumprod(quotients)], 0)
    # J_0 + 2 (J_2 + J_4 + ...) = 1.
    even = typeof(to_first).shape[0] - 1 & ~1
    total = 2 * sum(to_first[2:even + 1:2], 0) + 1
    return slice_in_dim(to_first, 0, min(v, n_iter) + 1) / total
