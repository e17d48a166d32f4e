"""Associated Legendre functions of the first kind, for all orders and degrees at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.control.loops.looping import scan
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.shapes import full, transpose
from mjax._numpy.core import check_array, concrete_int
from mjax._numpy.fused import fused
from mjax._numpy.joining import stack
from mjax._scipy.special.arguments import where

_ARGUMENTS = {
    "degrees": """m: the highest order.
n: the highest degree.""",
    "points": "z: points of shape `(k,)` in [-1, 1]: float32 or float64.",
    "errors": """TypeError: `z` has another dtype.
ValueError: `z` does not have one axis, or `m` or `n` is negative.""",
}


def _coefficients(orders: int, degrees: int, normalized: bool) -> tuple[np.ndarray, ...]:
    """Coefficients a, b of `q[l] = a z q[l - 1] - b q[l - 2]`, and d of its start, `q[l] = d`.

    The functions are `(-1)**m (1 - z**2)**(m / 2) q[l, m]`, where the `q` are polynomials.
    """
    degree, order = np.mgrid[:degrees + 1, :orders + 1].astype(float)
    apart = degree > order
    diagonal = np.arange(orders + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if normalized:
            square = degree**2 - order**2
            a = np.sqrt((4 * degree**2 - 1) / square)
            b = a * np.sqrt(((degree - 1)**2 - order**2) / (4 * (degree - 1)**2 - 1))
            starts = np.cumprod(np.sqrt(np.where(diagonal, (2 * diagonal + 1) / (2 * diagonal),
                                                 0.25 / math.pi)))
        else:
            a = (2 * degree - 1) / (degree - order)
            b = (degree + order - 1) / (degree - order)
            starts = np.cumprod(np.where(diagonal, 2.0 * diagonal - 1, 1))
    # The first step from the diagonal has no term two degrees below.
    b = np.where(degree > order + 1, b, 0)
    return np.where(apart, a, 0), np.where(apart, b, 0), np.where(degree == order, starts, 0)


def _polynomials(orders: int, degrees: int, z: Any, normalized: bool) -> Any:
    """The polynomials, of shape `(orders + 1, degrees + 1, k)`."""
    dtype = typeof(z).dtype
    tables = tuple([t.astype(dtype)[..., None] for t in
                    _coefficients(orders, degrees, normalized)])

    def climb(state: Any, row: Any) -> Any:
        before, last = state
        a, b, start = row
        following = a * z * last - b * before + start
        return (last, following), following

    nothing = full((orders + 1, *typeof(z).shape), 0, dtype) + z * 0
    found = scan(climb, (nothing, nothing), tables)[1]
    return transpose(found, (1, 0, 2))


def _checked(name: str, m: Any, n: Any, z: Any) -> tuple[int, int, Any]:
    m, n = concrete_int(m, f"{name}: m"), concrete_int(n, f"{name}: n")
    z = check_array(name, z)
    aval = typeof(z)
    if str(aval.dtype) not in ("float32", "float64"):
        raise LazyTypeError(lambda: (
            f"{name}: z must be float32 or float64, got {aval}. Convert it with .astype."))
    if aval.ndim != 1 or m < 0 or n < 0:
        raise LazyValueError(lambda: (
            f"{name}: z must have one axis, and m and n must not be negative; got {aval}, m={m}, "
            f"n={n}."))
    return m, n, z


def _powers(z: Any, orders: int) -> list[Any]:
    """Powers of `-sqrt(1 - z**2)`."""
    sine = -lax.sqrt((1 - z) * (1 + z))
    return [lax.integer_pow(sine, k) for k in range(orders + 1)]


@fused(static_argnames=("m", "n", "is_normalized"))
@documented(**_ARGUMENTS)
def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """Associated Legendre functions of all orders up to `m` and degrees up to `n`.

    Args:
      [degrees]
      [points]
      is_normalized: whether to scale the functions for spherical harmonics: their products with
        `exp(1j * order * angle)` are then orthonormal on the sphere.

    Returns:
      Values of shape `(m + 1, n + 1, k)`, with the phase of Condon and Shortley, in the dtype of
      `z`. They are 0 where the order is above the degree.

    Raises:
      [errors]

    Source: Holmes and Featherstone 2002, "A unified approach to the Clenshaw summation and the
    recursive computation of very high degree and order normalised associated Legendre functions".

    Example:
      >>> mjax.scipy.special.lpmn_values(1, 1, jnp.array([0.0, 0.6]), is_normalized=False)[:, 1]
      Array([[ 0. ,  0.6],
             [-1. , -0.8]], dtype=float32)
    """
    m, n, z = _checked("lpmn_values", m, n, z)
    q = _polynomials(m, n, z, bool(is_normalized))
    return stack([power * q[k] for k, power in enumerate(_powers(z, m))])


@fused(static_argnames=("m", "n"))
@documented(**_ARGUMENTS)
def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """Associated Legendre functions of all orders and degrees, and their derivatives.

    Args:
      [degrees]
      [points]

    Returns:
      `(values, derivatives)` of shape `(m + 1, n + 1, k)` each, in the dtype of `z`. At -1 and 1
      the derivatives of order 1 are infinite.

    Raises:
      [errors]

    Source: DLMF, 14.6 and 14.10.

    Example:
      >>> values, derivatives = mjax.scipy.special.lpmn(1, 1, jnp.array([0.6]))
      >>> derivatives[1, 1]
      Array([0.75], dtype=float32)
    """
    m, n, z = _checked("lpmn", m, n, z)
    q = _polynomials(m + 1, n, z, False)
    powers = _powers(z, max(m, 1))
    slopes = [q[1]]
    for k in range(1, m + 1):
        # The derivative of s = -sqrt(1 - z**2) is -z / s.
        falling = z / powers[1] if k == 1 else z * powers[k - 2]
        slope = powers[k] * q[k + 1] - k * falling * q[k]
        slopes.append(where((np.arange(n + 1) < k)[:, None], 0, slope))
    return stack([powers[k] * q[k] for k in range(m + 1)]), stack(slopes)
