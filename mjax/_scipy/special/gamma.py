"""The gamma function, its logarithm and functions derived from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.shapes import expand_dims
from mjax._engine.primitives.trigonometric import sin
from mjax._numpy.arithmetic import signbit
from mjax._numpy.comparison import isnan
from mjax._numpy.core import cast, check_array, dtype_of
from mjax._numpy.fused import fused
from mjax._numpy.reductions import sum
from mjax._scipy.special import tables
from mjax._scipy.special.arguments import (
    GIVES,
    X,
    inexact_arguments,
    polynomial,
    real_arguments,
    strong,
    where,
    widened,
)

# ---- complex numbers -------------------------------------------------------------------

#: From this size of the real or imaginary part on, the series is accurate to 50 bits.
_FAR = 7


def _stirling(z: Any) -> Any:
    inverse = 1 / z
    series = polynomial(inverse * inverse, tables.STIRLING) * inverse
    return (z - 0.5) * lax.log(z) - z + 0.5 * math.log(2 * math.pi) + series


def _to_the_right(z: Any) -> tuple[Any, Any]:
    """`z + n` with a real part beyond `_FAR`, and the logarithm of `gamma(z + n) / gamma(z)`.

    The imaginary part must not be negative. The logarithm is continuous: each time the product
    `z (z + 1) ...` crosses the negative axis, a full turn is added.
    """
    near = (lax.real(z) < _FAR) & (lax.imag(z) < _FAR)
    factor = where(near, z, 1)
    turns = lax.real(z) * 0
    for k in range(1, _FAR):
        following = factor * where(near, z + k, 1)
        turns = turns + where((lax.imag(factor) >= 0) & (lax.imag(following) < 0),
                              _c(turns, 2 * math.pi), _c(turns, 0))
        factor = following
    return where(near, z + _FAR, z), lax.log(factor) + lax.complex(_c(turns, 0), turns)


def _above(z: Any) -> Any:
    """The principal branch in the upper half plane."""
    reflected = (lax.real(z) < 0.5) & (lax.imag(z) < _FAR)
    # `1 - z` is in the lower half plane: its conjugate is used.
    mirror = where(reflected, 1 - lax.conj(z), z)
    shifted, growth = _to_the_right(mirror)
    out = _stirling(shifted) - growth
    # Up to sign, sin(pi z) depends on the distance to the nearest integer only.
    x = where(reflected, lax.real(z), 0.25)
    y = where(reflected, lax.imag(z), 0)
    whole = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    sine = sin(lax.complex((x - whole) * math.pi, y * math.pi))
    # The cosine of pi / 2 may be rounded below 0.
    sine = lax.complex(lax.real(sine), lax.abs(lax.imag(sine)))
    half_turns = lax.floor(x * 0.5 + 0.25) * (2 * math.pi)
    odd = whole - 2 * lax.floor(whole / 2)
    log_sine = lax.log(where(odd.astype(bool), -sine, sine))
    mirrored = lax.complex(_c(x, math.log(math.pi)) + x * 0, half_turns) - log_sine - lax.conj(out)
    return where(reflected, mirrored, out)


def _complex_loggamma(z: Any) -> Any:
    """The principal branch, cut along the negative real axis; NaN at the poles.

    Source: Hare 1997, "Computing the principal branch of log-Gamma".
    """
    x, y = lax.real(z), lax.imag(z)
    bad = isnan(z) | ((y == 0) & (x == lax.floor(x)) & (x <= 0))
    safe = where(bad, 1, z)
    below = signbit(lax.imag(safe))
    out = _above(where(below, lax.conj(safe), safe))
    return where(bad, complex(math.nan, math.nan), where(below, lax.conj(out), out))


# ---- the gamma function ----------------------------------------------------------------


@fused
@documented(**X, **GIVES)
def gammaln(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.gammaln`.

    Example:
      >>> print(f"{mjax.scipy.special.gammaln(5.0):.4f}")
      3.1781
    """
    return prims.lgamma(*inexact_arguments("gammaln", x))


@fused
@documented(**X, **GIVES)
def gammasgn(x: Any) -> Any:
    """Sign of the gamma function; NaN at its poles, the negative integers.

    Args:
      [x]

    [one]

    [real]

    Source: `scipy.special.gammasgn`, which gives 0 at the poles.

    Example:
      >>> print(mjax.scipy.special.gammasgn(jnp.array([1.5, -0.5, -1.5])))
      [ 1. -1.  1.]
    """
    x, = real_arguments("gammasgn", x)
    floor = lax.floor(x)
    negative = x < 0
    odd = floor - 2 * lax.floor(floor * 0.5) != 0
    out = where((negative & odd) | ((x == 0) & signbit(x)), _c(x, -1), _c(x, 1))
    out, = strong(out)
    return where((negative & (x == floor)) | isnan(x), math.nan, out)


@fused
@documented(**X, **GIVES)
def gamma(x: Any) -> Any:
    """The gamma function; NaN at the negative integers and, for complex `x`, at 0.

    Args:
      [x]

    [one]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.gamma`. Complex numbers: `loggamma`.

    Example:
      >>> print(f"{mjax.scipy.special.gamma(5.0):.4f}")
      24.0000
    """
    x, = inexact_arguments("gamma", x)
    if dtypes.is_complex(typeof(x).dtype):
        return cast(lax.exp(_complex_loggamma(x)), typeof(x).dtype)  # strongly typed, as in JAX
    return gammasgn(x) * lax.exp(prims.lgamma(x))


@fused
@documented(**X, **GIVES)
def loggamma(x: Any) -> Any:
    """Principal branch of the logarithm of the gamma function; NaN for real `x <= 0`.

    Args:
      [x]

    [one]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.loggamma`, which is infinite at 0. Complex numbers: Hare 1997,
    "Computing the principal branch of log-Gamma".

    Example:
      >>> print(f"{mjax.scipy.special.loggamma(-0.5 + 0j):.4f}")
      1.2655-3.1416j
    """
    x, = inexact_arguments("loggamma", x)
    if dtypes.is_complex(typeof(x).dtype):
        return cast(_complex_loggamma(x), typeof(x).dtype)  # strongly typed, as in JAX
    return where(x > 0, prims.lgamma(x), math.nan)


@custom_jvp
def _digamma(x: Any) -> Any:
    return prims.digamma(x)


@_digamma.defjvp
def _digamma_jvp(primals: Any, tangents: Any) -> Any:
    """The slope left of 0 is that of the mirrored point: the series there has no digits."""
    (x,), (t,) = primals, tangents
    left = x < 0
    mirrored = prims.polygamma(_c(x, 1), where(left, 1 - x, x))
    part = where(left, x - lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), 0.5)
    return _digamma(x), t * where(left, lax.square(math.pi / sin(math.pi * part)) - mirrored,
                                  mirrored)


@fused
@documented(**X, **GIVES)
def digamma(x: Any) -> Any:
    """Derivative of the logarithm of the gamma function.

    Args:
      [x]

    [one]

    [float]

    Source: `scipy.special.digamma`.

    Example:
      >>> print(f"{mjax.scipy.special.digamma(1.0):.4f}")
      -0.5772
    """
    return _digamma(*inexact_arguments("digamma", x))


@fused
@documented(**X, **GIVES)
def polygamma(n: Any, x: Any) -> Any:
    """Derivative of order `n` of `digamma`.

    Args:
      n: array or scalar of ints.
      [x]

    [broadcast]

    Raises:
      ValueError: the dtype of `n` is not an integer dtype, or `x` is complex.

    Source: `scipy.special.polygamma`.

    Example:
      >>> print(f"{mjax.scipy.special.polygamma(1, 1.0):.4f}")
      1.6449
    """
    n = check_array("polygamma", n)
    if not dtypes.is_integer(dtype_of(n)):
        msg = (f"polygamma: the order n must be of an integer dtype, got {typeof(n)}. Convert it "
               "with n.astype(int).")
        raise ValueError(msg)
    return prims.polygamma(*real_arguments("polygamma", n, x))


# ---- products --------------------------------------------------------------------------


@fused(static_argnames=("exact",))
def factorial(n: Any, exact: bool = False) -> Any:
    """Factorials, `gamma(n + 1)`; 0 for negative `n`.

    Args:
      n: array or scalar; ints and booleans become the default float.
      exact: must be False: array integers have a limited size.

    Returns:
      An array of the shape of `n`, in its dtype if inexact.

    Raises:
      NotImplementedError: `exact` is true.

    Source: `scipy.special.factorial`.

    Example:
      >>> print(mjax.scipy.special.factorial(jnp.array([0, 3, 5])).round(2))
      [  1.   6. 120.]
    """
    if exact:
        msg = ("factorial: exact=True is not supported: array integers have a limited size. Use "
               "math.factorial for Python integers.")
        raise NotImplementedError(msg)
    n, = inexact_arguments("factorial", n)
    return where(n < 0, 0, lax.exp(prims.lgamma(n + 1)))


@fused(static_argnames=("repetition",))
@documented(**GIVES)
def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """The number of ways to choose `k` of `N` things; 0 unless `0 <= k <= N`.

    Args:
      N: array or scalar, the number of things; ints and booleans become the default float.
      k: array or scalar, the number of things chosen.
      repetition: whether a thing may be chosen more than once.

    [broadcast]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.comb`, which also has exact integers.

    Example:
      >>> print(f"{mjax.scipy.special.comb(5, 2):.4f}")
      10.0000
    """
    N, k = inexact_arguments("comb", N, k)
    if repetition:
        return where((k == 0) & (N >= 0), 1, widened(_binomial, N + k - 1, k))
    return widened(_binomial, N, k)


def _binomial(N: Any, k: Any) -> Any:
    possible = (k <= N) & (N >= 0) & (k >= 0)
    N, k = where(possible, N, 0), where(possible, k, 0)
    k = where(2 * k > N, N - k, k)
    rest, large = N - k + 1, N > 30
    falling = where(large, log_large_poch(where(large, rest, 30), where(large, k, 0)),
                    prims.lgamma(N + 1) - prims.lgamma(rest))
    return where(possible, lax.exp(falling - prims.lgamma(k + 1)), 0)


@custom_jvp
def _poch(z: Any, m: Any) -> Any:
    large = (z > 8) & (z + m > 8) & (lax.max(z, z + m) > 30)
    far = lax.exp(log_large_poch(where(large, z, 30), where(large, m, 0)))
    return where(m == 0, 1, where(large, far, gamma(z + m) / gamma(z)))


def log_large_poch(z: Any, m: Any) -> Any:
    """`log(poch(z, m))` by Stirling's series, of numbers whose gamma functions may overflow."""
    corrections = [polynomial(1 / lax.square(y), tables.STIRLING[:6]) / y for y in (z, z + m)]
    return (m * lax.log(z) + ((z + m - 0.5) * lax.log1p(m / z) - m)
            + (corrections[1] - corrections[0]))


@_poch.defjvp
def _poch_jvp(primals: Any, tangents: Any) -> Any:
    (z, m), (dz, dm) = primals, tangents
    out = _poch(z, m)
    after = prims.digamma(z + m)
    return out, (after - prims.digamma(z)) * out * dz + after * out * dm


@fused
@documented(**GIVES)
def poch(z: Any, m: Any) -> Any:
    """The rising factorial, Pochhammer's symbol: `gamma(z + m) / gamma(z)`.

    Args:
      z: array or scalar; ints and booleans become the default float.
      m: array or scalar, the number of factors.

    [broadcast]

    [real]

    Source: `scipy.special.poch`.

    Example:
      >>> print(f"{mjax.scipy.special.poch(2.0, 3.0):.4f}")
      24.0000
    """
    return widened(_poch, *real_arguments("poch", z, m))


@fused(static_argnames=("d",))
def multigammaln(a: Any, d: Any) -> Any:
    """Logarithm of the multivariate gamma function, of the Wishart distribution.

    Args:
      a: array or scalar; ints and booleans become the default float.
      d: the dimension, a Python int.

    Returns:
      An array of the shape of `a`, in its dtype if inexact.

    Raises:
      TypeError: `d` is an array that is being traced: mark it as static.

    Source: `scipy.special.multigammaln`, which refuses `a` up to `(d - 1) / 2`.

    Example:
      >>> print(f"{mjax.scipy.special.multigammaln(3.0, 2):.4f}")
      1.5502
    """
    count = int(d)
    a, _ = inexact_arguments("multigammaln", a, d)
    halves = np.arange(count).astype(typeof(a).dtype) / 2
    total = sum(prims.lgamma(expand_dims(a, (typeof(a).ndim,)) - halves), -1)
    return total + _c(a, count * (count - 1) / 4 * math.log(math.pi))
