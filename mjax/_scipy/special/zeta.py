"""Hurwitz's zeta function and Bernoulli's numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.shapes import array_of
from mjax._engine.transforms.forward import jvp
from mjax._numpy.core import concrete_int
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import GIVES, inexact_arguments


def _bernoulli_numbers(count: int) -> list[Fraction]:
    """B_2, B_4, ...: exact, from tangent numbers.

    Source: Brent and Harvey 2013, "Fast computation of Bernoulli, tangent and secant numbers".
    """
    tangent = [math.factorial(k) for k in range(count)]
    for k in range(1, count):
        for j in range(k, count):
            tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j]
    return [Fraction((-1) ** k * (2 * k + 2) * t, 4 ** (k + 1) * (4 ** (k + 1) - 1))
            for k, t in enumerate(tangent)]


# ---- zeta ------------------------------------------------------------------------------

#: Direct terms and terms of the correction: enough for float32, and for float64.
_TERMS = {4: (8, 6), 8: (12, 14)}


def _series(s: Any, a: Any) -> Any:
    """`zeta` by the Euler-Maclaurin formula, from which both derivatives follow.

    Source: Johansson 2015, "Rigorous high-precision computation of the Hurwitz zeta function and
    its derivatives", formula 5.
    """
    direct, corrections = _TERMS[8 if typeof(s).dtype.itemsize == 8 else 4]
    power = lambda base: lax.exp(-s * lax.log(base))
    total = power(a)
    for k in range(1, direct):
        total = total + power(a + k)
    end = a + direct
    last = power(end)
    total = total + last * end / (s - 1) + last * 0.5
    rising = s / end
    for k, number in enumerate(_bernoulli_numbers(corrections)):
        total = total + last * rising * float(number / math.factorial(2 * k + 2))
        if k + 1 < corrections:
            rising = rising * ((s + 2 * k + 1) / end) * ((s + 2 * k + 2) / end)
    return total


@custom_jvp
def _zeta(x: Any, q: Any) -> Any:
    return prims.zeta(x, q)


@_zeta.defjvp
def _zeta_jvp(primals: Any, tangents: Any) -> Any:
    return _zeta(*primals), jvp(_series, primals, tangents)[1]


@fused
@documented(**GIVES)
def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz's zeta function: the sum of `(q + k) ** -x` over k = 0, 1, ...

    Args:
      x: array or scalar, the exponent; ints and booleans become the default float.
      q: array or scalar. It must be given: 1 for Riemann's zeta function.

    [broadcast]

    Raises:
      NotImplementedError: `q` is None.

    Source: `scipy.special.zeta`, which also takes complex `x` and makes `q` optional.

    Example:
      >>> print(f"{mjax.scipy.special.zeta(2.0, 1.0):.4f}")
      1.6449
    """
    if q is None:
        msg = "zeta: q must be given. Riemann's zeta function is zeta(x, 1)."
        raise NotImplementedError(msg)
    return _zeta(*inexact_arguments("zeta", x, q))


# ---- Bernoulli's numbers ---------------------------------------------------------------

#: From here on they are infinite as float64.
_INFINITE = 260


@boundary
def bernoulli(n: int) -> Any:
    """Bernoulli's numbers B_0 to B_n.

    Args:
      n: a Python int.

    Returns:
      An array of shape `(n + 1,)` and the default float dtype, with B_1 = -1/2. Numbers that
      overflow are infinite.

    Raises:
      ValueError: `n` is negative.
      TypeError: `n` is not an int.

    Source: `scipy.special.bernoulli`. Algorithm: Brent and Harvey 2013, "Fast computation of
    Bernoulli, tangent and secant numbers".

    Example:
      >>> print(mjax.scipy.special.bernoulli(4))
      [ 1.         -0.5         0.16666667  0.         -0.03333334]
    """
    n = concrete_int(n, "bernoulli: n")
    if n < 0:
        msg = f"bernoulli: n must be a non-negative integer, got {n}."
        raise ValueError(msg)
    values = np.zeros(max(n + 1, 2))
    values[:2] = 1.0, -0.5
    even = [float(b) for b in _bernoulli_numbers(min(n, _INFINITE - 2) // 2)]
    values[2:2 + 2 * len(even):2] = even
    values[_INFINITE::4], values[_INFINITE + 2::4] = -math.inf, math.inf
    with np.errstate(over="ignore"):
        return array_of(values[:n + 1].astype(dtypes.dtype_of_python(float)))
