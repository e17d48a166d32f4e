"""Arithmetic of polynomials as coefficients from the highest power down."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import scan
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.precision import Precision
from mjax._engine.primitives.shapes import array_of, expand_dims
from mjax._engine.primitives.slicing import index_in_dim, pad, slice_in_dim
from mjax._numpy.arithmetic import power
from mjax._numpy.convolving import convolve
from mjax._numpy.core import (
    broadcast_to,
    broadcast_values,
    cast,
    check_arrays,
    concrete_int,
    numeric_dtype,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    weak_type_of,
)
from mjax._numpy.decompositions import eigvals
from mjax._numpy.fused import fused
from mjax._numpy.resizing import trim_zeros


def _vectors(name: str, *args: Any) -> list[Any]:
    """Coefficients as vectors of one inexact dtype; a scalar becomes a vector of size 1."""
    values = promote_dtypes_inexact(*check_arrays(name, *args))
    for x in values:
        if len(shape_of(x)) > 1:
            msg = f"{name}: coefficients must be vectors, got {typeof(x)}."
            raise ValueError(msg)
    return [x if shape_of(x) else expand_dims(x, (0,)) for x in values]


def _aligned(name: str, a1: Any, a2: Any) -> list[Any]:
    """Coefficients of two polynomials, padded with leading zeros; for matrices, per column."""
    a1, a2 = [a if shape_of(a) else expand_dims(a, (0,))
              for a in promote_dtypes(*check_arrays(name, a1, a2))]
    size = max(shape_of(a)[0] for a in (a1, a2))
    return broadcast_values(name, *[
        pad(a, _c(a, 0), [(size - shape_of(a)[0], 0, 0), *[(0, 0, 0)] * (typeof(a).ndim - 1)])
        for a in (a1, a2)])


@fused
def polyadd(a1: Any, a2: Any) -> Any:
    """Coefficients of the sum of two polynomials.

    Args:
      a1: coefficients, from that of the highest power down.
      a2: coefficients.

    Returns:
      A vector of the longer length, in the common dtype.

    Raises:
      TypeError: an argument is not an array or scalar.

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

    Returns:
      A vector of the longer length, in the common dtype.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.polysub`.

    Example:
      >>> jnp.polysub(jnp.array([1, 2]), jnp.array([3, 0, 1]))
      Array([-3,  1,  1], dtype=int32)
    """
    return lax.sub(*_aligned("polysub", a1, a2))


@fused(values=("p",), static_argnames=("m",))
def polyder(p: Any, m: int = 1) -> Any:
    """Coefficients of a derivative of a polynomial.

    Args:
      p: coefficients, from that of the highest power down.
      m: the order of the derivative.

    Returns:
      A vector with `m` fewer coefficients.

    Raises:
      ValueError: `m` is negative.
      TypeError: `p` is a scalar.

    Source: `numpy.polyder`.

    Example:
      >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
      Array([2., 2.], dtype=float32)
    """
    m = concrete_int(m, "polyder: m")
    if m < 0:
        msg = f"polyder: m must not be negative, got {m}."
        raise ValueError(msg)
    if not shape_of(p):
        msg = "polyder: the coefficients must be a vector, got a scalar."
        raise TypeError(msg)
    p, = promote_dtypes_inexact(p)
    if m == 0:
        return array_of(p)
    n = typeof(p).shape[0]
    powers = np.arange(n - 1, m - 1, -1)
    factor = np.prod([powers - i for i in range(m)], axis=0) if n > m else powers
    # Factors of matrices broadcast along rows, as in NumPy's formula.
    return lax.mul(*broadcast_values("polyder", slice_in_dim(p, 0, max(n - m, 0)),
                                     factor.astype(typeof(p).dtype)))


@boundary
def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """Coefficients of the product of two polynomials.

    Args:
      a1: coefficients, from that of the highest power down; an empty vector means 0.
      a2: coefficients.
      trim_leading_zeros: whether leading zeros are removed, as NumPy does; the values must then
        be known.

    Returns:
      A vector of floats or complex numbers.

    Raises:
      ValueError: arrays of several axes.

    Source: `numpy.polymul`.

    Example:
      >>> jnp.polymul(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
      Array([ 3., 10.,  8.], dtype=float32)
    """
    a1, a2 = _vectors("polymul", a1, a2)
    if trim_leading_zeros and max(typeof(a).size for a in (a1, a2)) > 1:
        a1, a2 = trim_zeros(a1, "f"), trim_zeros(a2, "f")
    a1, a2 = [a if typeof(a).size else np.zeros(1, typeof(a).dtype) for a in (a1, a2)]
    return convolve(a1, a2, precision=Precision.HIGHEST)


@boundary
def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """Coefficients of the quotient of two polynomials, and of the remainder.

    Args:
      u: coefficients of the dividend, from that of the highest power down.
      v: coefficients of the divisor; the first must not be 0.
      trim_leading_zeros: whether leading coefficients of the remainder that are nearly zero are
        removed, as NumPy does; the values must then be known.

    Returns:
      The quotient, and the remainder with as many coefficients as `u`.

    Raises:
      ValueError: arrays of several axes, or a divisor without elements.

    Source: `numpy.polydiv`.

    Example:
      >>> jnp.polydiv(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0]))
      (Array([1., 1.], dtype=float32), Array([0., 0., 3.], dtype=float32))
    """
    quotient, rest = _divided(u, v)
    if trim_leading_zeros:
        known = np.abs(np.asarray(rest))
        counts = np.nonzero(known > np.sqrt(np.finfo(known.dtype).eps))[0]
        rest = slice_in_dim(rest, int(counts[0]) if len(counts) else len(known), None)
    return quotient, rest


@fused
def _divided(u: Any, v: Any) -> tuple[Any, Any]:
    u, v = _vectors("polydiv", u, v)
    dtype, weak = weak_type_of(u)
    u, v = cast(u, dtype), cast(v, dtype)
    m, n = typeof(u).size, typeof(v).size
    if not n:
        msg = f"polydiv: the divisor must have coefficients, got shapes {(m,)} and {(n,)}."
        raise ValueError(msg)
    if m < n:
        return array_of(np.zeros(1, dtype)), array_of(cast(u, dtype, weak))
    head = index_in_dim(v, 0, keepdims=False)

    def step(window: Any, entering: Any) -> tuple[Any, Any]:
        factor = lax.div(index_in_dim(window, 0, keepdims=False), head)
        rest = lax.sub(window, lax.mul(factor, v))
        # The first coefficient of the remainder is 0; NaN if the quotient is not finite.
        left = lax.sub(factor, factor)
        rest = concatenate([slice_in_dim(rest, 1, None), expand_dims(entering, (0,))], 0)
        return rest, (factor, left)

    entering = pad(slice_in_dim(u, n, None), _c(u, 0), [(0, 1, 0)])
    window, (quotient, left) = scan(step, slice_in_dim(u, 0, n), entering)
    rest = concatenate([left, slice_in_dim(window, 0, n - 1)], 0)
    return quotient, cast(rest, dtype, weak)


@fused(static_argnames=("m",))
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Coefficients of an antiderivative of a polynomial.

    Args:
      p: coefficients, from that of the highest power down.
      m: how many times to integrate.
      k: constants of integration, a scalar or one for each time; zeros if not given.

    Returns:
      A vector with `m` more coefficients.

    Raises:
      ValueError: `m` is negative, or there are not as many constants.

    Source: `numpy.polyint`.

    Example:
      >>> jnp.polyint(jnp.array([6.0, 2.0]))
      Array([3., 2., 0.], dtype=float32)
    """
    m = concrete_int(m, "polyint: m")
    if m < 0:
        msg = f"polyint: m must not be negative, got {m}; polyder differentiates."
        raise ValueError(msg)
    p, k = _vectors("polyint", p, 0 if k is None else k)
    if typeof(k).size not in (1, m):
        msg = f"polyint: k must be a scalar, or one constant for each of m={m}; got {typeof(k)}."
        raise ValueError(msg)
    p = concatenate([p, broadcast_to(k, (m,))], 0)
    # The term of a power e was integrated min(e, m) times.
    divisors = [math.prod(range(max(e - m, 0) + 1, e + 1)) for e in range(typeof(p).size)][::-1]
    return lax.div(p, np.array(divisors, np.float64).astype(typeof(p).dtype))


@fused(values=("seq_of_zeros",))
def poly(seq_of_zeros: Any) -> Any:
    """Coefficients of the polynomial with given roots, the highest of which is 1.

    Args:
      seq_of_zeros: vector of roots, or one root; or a square matrix, whose eigenvalues they are.

    Returns:
      Coefficients from that of the highest power down; `[1]` without roots. Those of a matrix
      are complex; NumPy's are real if that is exact.

    Raises:
      ValueError: an array of more axes, or a matrix that is empty or not square.

    Source: `numpy.poly`.

    Example:
      >>> jnp.poly(jnp.array([1.0, 2.0]))
      Array([ 1., -3.,  2.], dtype=float32)
    """
    roots = seq_of_zeros
    shape = shape_of(roots)
    if len(shape) == 2 and shape[0] == shape[1] > 0:
        roots = eigvals(roots)
    roots, = _vectors("poly", roots)
    n, dtype = typeof(roots).size, typeof(roots).dtype
    roots = cast(roots, dtype)
    if not n:
        return array_of(np.ones((), dtype))

    def step(coefficients: Any, root: Any) -> tuple[Any, None]:
        shifted = pad(coefficients, _c(root, 0), [(1, -1, 0)])
        return lax.sub(coefficients, lax.mul(root, shifted)), None

    start = np.zeros(n + 1, dtype)
    start[0] = 1
    return scan(step, start, roots)[0]


@fused(values=("x",), static_argnames=("N", "increasing"))
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The Vandermonde matrix: its columns are powers of a vector.

    Args:
      x: vector.
      N: the number of columns; that of the elements of `x` if not given.
      increasing: whether powers increase from left to right.

    Returns:
      An array of shape `(len(x), N)`, of the dtype of `x`; of booleans int32.

    Raises:
      ValueError: `x` is not a vector, or `N` negative.

    Source: `numpy.vander`.

    Example:
      >>> jnp.vander(jnp.array([1, 2, 3]))
      Array([[1, 1, 1],
             [4, 2, 1],
             [9, 3, 1]], dtype=int32)
    """
    if len(shape_of(x)) != 1:
        msg = f"vander: x must be a one-dimensional array, got {typeof(x)}."
        raise ValueError(msg)
    size = typeof(x).size if N is None else concrete_int(N, "vander: N")
    if size < 0:
        msg = f"vander: N must be nonnegative, got {size}."
        raise ValueError(msg)
    dtype = numeric_dtype(typeof(x).dtype)
    exponents = np.arange(size, dtype=dtype if dtypes.is_integer(dtype) else np.int32)
    exponents = exponents if increasing else exponents[::-1]
    x = expand_dims(cast(x, dtype), (1,))
    # Exponents stay integers, which have exact derivatives, in every promotion mode.
    return power(x, exponents[None]) if dtypes.is_integer(dtype) else lax.pow(x, exponents[None])
