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
from mjax._engine.primitives.joining import concatenate, stack
from mjax._engine.primitives.shapes import array_of, expand_dims
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.trigonometric import cos, sin
from mjax._numpy.bessel import bessel_i0, bessel_i1
from mjax._numpy.core import cast, concrete_int, promote_dtypes_inexact
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.reductions import sum
from mjax._scipy.special.arguments import GIVES, X, inexact_arguments, polynomial, where

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
    return bessel_i0(*inexact_arguments("i0", x))


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
    return bessel_i1(*inexact_arguments("i1", x))


@fused(static_argnames=("v", "n_iter"))
def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """Bessel functions of the first kind, of orders 0 to `v`.

    Args:
      z: array or scalar; ints and booleans become the default float.
      v: the greatest order, a Python int.
      n_iter: the greatest computed order, a Python int; orders above it are left out.

    Returns:
      An array of shape `(min(v, n_iter) + 1, *z.shape)`: the order is the first axis.

    Raises:
      ValueError: `z` is complex.
      TypeError: `v` or `n_iter` is an array that is being traced: mark it as static.

    Source: `scipy.special.jv`, one order at a time. Algorithm: Miller's, DLMF 3.6(iii), with
    quotients of neighbours, which do not overflow; for great `z` Hankel's expansion, DLMF 10.17(i),
    and the forward recurrence.

    Example:
      >>> j0, j1 = mjax.scipy.special.bessel_jn(1.0, v=1)
      >>> print(f"{j0:.4f} {j1:.4f}")
      0.7652 0.4401
    """
    z, = map(array_of, promote_dtypes_inexact(asarray(z)))
    dtype = typeof(z).dtype
    if dtypes.is_complex(dtype):
        msg = f"bessel_jn: z must be real, got {typeof(z)}: complex input not supported."
        raise ValueError(msg)
    v, n_iter = concrete_int(v, "bessel_jn: v"), concrete_int(n_iter, "bessel_jn: n_iter", True)
    z = cast(z, np.promote_types(np.float32, dtype))
    last, reach = min(v, n_iter), max(n_iter, _HANKEL)
    far = lax.abs(z) > reach
    near = _miller(where(far, 1.0, z), last, reach + _MARGIN)
    return cast(where(far, _upward(where(far, z, reach), last), near), dtype)


#: From here on, 16 terms of Hankel's expansion are accurate to all digits of float64.
_HANKEL = 25
#: The start of the backward recurrence above the argument and the greatest order.
_MARGIN = 50


def _miller(z: Any, last: int, start: int) -> Any:
    """Orders 0 to `last`, by a backward recurrence of quotients of neighbours."""

    def quotient(after: Any, k: Any) -> tuple[Any, Any]:
        """The quotient of the functions of orders k and k - 1."""
        divisor = 2 * k - z * after
        divisor = where(divisor == 0, float(np.finfo(np.float32).tiny), divisor)
        out = z / divisor
        return out, out

    orders = np.arange(1, start + 1).astype(typeof(z).dtype)
    _, quotients = scan(quotient, z * 0, orders, reverse=True)
    to_first = concatenate([expand_dims(z * 0 + 1, (0,)), cumprod(quotients)], 0)
    # J_0 + 2 (J_2 + J_4 + ...) = 1.
    total = 2 * sum(to_first[2:start + 1:2], 0) + 1
    return slice_in_dim(to_first, 0, last + 1) / total


def _upward(z: Any, last: int) -> Any:
    """Orders 0 to `last`, all below `abs(z)`: the forward recurrence is stable there."""
    found = [_hankel(z, order) for order in (0, 1)][:last + 1]
    if last < 2:
        return stack(found)

    def step(two: tuple[Any, Any], k: Any) -> tuple[Any, Any]:
        before, now = two
        after = 2 * k / z * now - before
        return (now, after), after

    _, rest = scan(step, (found[0], found[1]), np.arange(1, last).astype(typeof(z).dtype))
    return concatenate([stack(found), rest], 0)


def _hankel(z: Any, order: int) -> Any:
    """Order 0 or 1 of a large argument, by its asymptotic expansion."""
    x, terms = lax.abs(z), [1.0]
    for k in range(1, 17):
        terms.append(terms[-1] * (4 * order**2 - (2 * k - 1)**2) / (8 * k))
    u = 1 / (x * x)
    p, q = (polynomial(u, [(-1)**k * c for k, c in enumerate(half)])
            for half in (terms[::2], terms[1::2]))
    # The cosine and the sine of x - (2 order + 1) pi / 4, times the root of 2.
    up, along = sin(x), cos(x)
    c, s = (up + along, up - along) if order == 0 else (up - along, -up - along)
    out = (p * c - q / x * s) / lax.sqrt(np.pi * x)
    return out * lax.sign(z) if order else out
