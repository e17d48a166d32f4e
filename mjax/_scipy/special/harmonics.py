"""Spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import fori_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.shapes import reshape
from mjax._engine.primitives.trigonometric import cos, sin
from mjax._numpy.core import broadcast_values, cast, concrete_int, promote_dtypes_inexact
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.reductions import max
from mjax._scipy.special.arguments import where


def _legendre(n: Any, m: Any, theta: Any, n_max: int) -> Any:
    """Associated Legendre functions of cos(theta), normalized for the sphere, for `0 <= m`.

    The recurrence starts at degree m, where the functions are products, and ends at degree n.

    Source: Holmes and Featherstone 2002, "A unified approach to the Clenshaw summation and the
    recursive computation of very high degree and order normalised associated Legendre functions".
    """
    x, y = cos(theta), lax.abs(sin(theta))

    def climb(k: Any, state: Any) -> Any:
        last, current, out = state
        degree = cast(k, typeof(theta).dtype)
        # Up to degree m, order and degree increase together.
        step = -y * lax.sqrt(1 + 0.5 / degree)
        square = lax.square(degree) - lax.square(m)
        apart = degree > m
        square = where(apart, square, 1)
        scale = lax.sqrt((4 * lax.square(degree) - 1) / square)
        before = where(apart, lax.square(degree - 1) - lax.square(m), 0)
        back = lax.sqrt((2 * degree + 1) * before
                        / where(apart, (2 * degree - 3) * square, 1))
        following = where(apart, scale * x * current - back * last, step * current)
        last = where(apart, current, 0)
        return last, following, where((degree == n) & (m <= n), following, out)

    first = x * 0 + math.sqrt(0.25 / math.pi)
    start = (x * 0, first, where((n == 0) & (m == 0), first, 0))
    return fori_loop(1, n_max + 1, climb, start)[2]


@fused(static_argnames=("n_max",))
def _harmonics(n: Any, m: Any, theta: Any, phi: Any, n_max: int) -> Any:
    theta, phi = promote_dtypes_inexact(*map(asarray, (theta, phi)))
    dtype = typeof(theta).dtype
    negative = m < 0
    n, m, theta, phi = broadcast_values("sph_harm_y", *[
        cast(x, dtype) for x in (lax.min(n, constant_like(n, n_max)), lax.abs(m), theta, phi)])
    size = _legendre(n, m, theta, n_max)
    angle = m * phi
    # A negative order gives the conjugate, negated if the order is odd.
    odd = m - 2 * lax.floor(m * 0.5) == 1
    sign = where(negative & odd, -1 + m * 0, 1)
    real, imaginary = sign * size * cos(angle), sign * size * sin(angle)
    return lax.complex(real, where(negative, -imaginary, imaginary))


@boundary
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: None = None,
               n_max: int | None = None) -> Any:
    """Spherical harmonics of degree `n` and order `m`.

    Args:
      n: array of ints, degrees from 0 on.
      m: array of ints, orders; the function is 0 where they are greater than `n`.
      theta: array of polar angles, from 0 to pi; a scalar counts as an array of one.
      phi: array of azimuths.
      diff_n: not supported; differentiate this function instead.
      n_max: the greatest degree, a Python int; greater degrees are clamped to it. By default the
        maximum of `n`, which must then be static.

    Returns:
      A complex array of the shape that the arguments broadcast to.

    Raises:
      NotImplementedError: `diff_n` is given.
      TypeError: `n` is traced, and `n_max` is not given; degrees or orders are not ints.

    Source: `scipy.special.sph_harm_y`. Algorithm: Holmes and Featherstone 2002, "A unified approach
    to the Clenshaw summation and the recursive computation of very high degree and order
    normalised associated Legendre functions".

    Example:
      >>> degree, order, angle = jnp.array([1]), jnp.array([0]), jnp.array([0.0])
      >>> print(mjax.scipy.special.sph_harm_y(degree, order, angle, angle))
      [0.48860252+0.j]
    """
    if diff_n is not None:
        msg = "sph_harm_y: diff_n is not supported. Differentiate sph_harm_y in theta and phi."
        raise NotImplementedError(msg)
    n, m = asarray(n), asarray(m)
    for name, x in (("n", n), ("m", m)):
        if not dtypes.is_integer(typeof(x).dtype):
            msg = f"sph_harm_y: {name} must be of an integer dtype, got {typeof(x)}."
            raise TypeError(msg)
    if n_max is None:
        try:
            n_max = int(max(n))
        except TypeError as error:
            error.add_note("sph_harm_y: give n_max, a Python int, if n is traced.")
            raise
    theta = asarray(theta)
    if not typeof(theta).shape:
        theta = reshape(theta, (1,))
    return _harmonics(n, m, theta, asarray(phi), concrete_int(n_max, "sph_harm_y: n_max", True))
