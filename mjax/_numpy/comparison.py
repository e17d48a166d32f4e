"""Elementwise comparisons, tests, logic, and comparisons of whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.elementwise import settling_constant
from mjax._engine.primitives.reductions import reduce_and
from mjax._engine.primitives.shapes import broadcast_in_dim_p
from mjax._numpy.core import (
    broadcast_shapes,
    broadcast_to,
    cast,
    choose,
    kind_of,
    promote_args,
    promote_args_inexact,
    promote_dtypes,
    refuse_out,
)
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.ufunc import binary, unary

_BOOL = " and dtype bool"


def to_bool(x: Any) -> Any:
    """Whether each element differs from 0."""
    return x if kind_of(x) == "b" else lax.ne(x, settling_constant(x, 0))


def _constant_like(x: Any, value: bool) -> Any:
    return broadcast_in_dim_p.bind(np.bool_(value), shape=typeof(x).shape,
                                   broadcast_dimensions=())


# ---- comparisons -----------------------------------------------------------------------


def _ordered(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison that orders complex numbers by real parts, then by imaginary parts."""

    def function(x: Any, y: Any) -> Any:
        if kind_of(x) != "c":
            return compare(x, y)
        real_x, real_y = lax.real(x), lax.real(y)
        return choose(lax.eq(real_x, real_y), compare(lax.imag(x), lax.imag(y)),
                      compare(real_x, real_y))

    return function


equal = binary("equal", lax.eq_p.bind, "any", """
    Elementwise `x == y`.

    >>> jnp.equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True, False], dtype=bool)
    """, gives=_BOOL)
not_equal = binary("not_equal", lax.ne_p.bind, "any", """
    Elementwise `x != y`.

    >>> jnp.not_equal(jnp.array([1, 2, 3]), 2)
    Array([ True, False,  True], dtype=bool)
    """, gives=_BOOL)
less = binary("less", _ordered(lax.lt_p.bind), "any", """
    Elementwise `x < y`.

    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """, gives=_BOOL)
less_equal = binary("less_equal", _ordered(lax.le_p.bind), "any", """
    Elementwise `x <= y`.

    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """, gives=_BOOL)
greater = binary("greater", _ordered(lax.gt_p.bind), "any", """
    Elementwise `x > y`.

    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """, gives=_BOOL)
greater_equal = binary("greater_equal", _ordered(lax.ge_p.bind), "any", """
    Elementwise `x >= y`.

    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """, gives=_BOOL)

# ---- logic -----------------------------------------------------------------------------


def _logical(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(to_bool(x), to_bool(y))


logical_and = binary("logical_and", _logical(lax.bitwise_and), "any", """
    Elementwise: both are nonzero.

    >>> jnp.logical_and(jnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """, gives=_BOOL)
logical_or = binary("logical_or", _logical(lax.bitwise_or), "any", """
    Elementwise: one or both are nonzero.

    >>> jnp.logical_or(jnp.array([0, 1, 2]), False)
    Array([False,  True,  True], dtype=bool)
    """, gives=_BOOL)
logical_xor = binary("logical_xor", _logical(lax.bitwise_xor), "any", """
    Elementwise: exactly one is nonzero.

    >>> jnp.logical_xor(jnp.array([0, 1, 2]), True)
    Array([ True, False, False], dtype=bool)
    """, gives=_BOOL)
logical_not = unary("logical_not", lambda x: lax.bitwise_not(to_bool(x)), "any", """
    Elementwise: zero.

    >>> jnp.logical_not(jnp.array([0, 1, 2]))
    Array([ True, False, False], dtype=bool)
    """, gives=_BOOL)

# ---- tests of numbers ------------------------------------------------------------------


def is_nan(x: Any) -> Any:
    """Whether each element is NaN."""
    return lax.ne(x, x)


def _is_inf(x: Any) -> Any:
    if kind_of(x) == "c":
        return lax.bitwise_or(_is_inf(lax.real(x)), _is_inf(lax.imag(x)))
    return lax.eq(lax.abs(x), _float(x, np.inf)) if kind_of(x) == "f" else _constant_like(x, False)


def _float(x: Any, value: float) -> Any:
    """A strongly typed scalar of the dtype of `x`, for tests of infinity as in JAX."""
    return np.asarray(value, typeof(x).dtype)[()]


def _is_finite(x: Any) -> Any:
    if kind_of(x) == "c":
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.is_finite(x) if kind_of(x) == "f" else _constant_like(x, True)


isnan = unary("isnan", is_nan, "any", """
    Elementwise: NaN.

    >>> jnp.isnan(jnp.array([1.0, jnp.nan, jnp.inf]))
    Array([False,  True, False], dtype=bool)
    """, gives=_BOOL)
isinf = unary("isinf", _is_inf, "any", """
    Elementwise: infinite; of complex numbers, in either part.

    >>> jnp.isinf(jnp.array([1.0, jnp.nan, -jnp.inf]))
    Array([False, False,  True], dtype=bool)
    """, gives=_BOOL)
isfinite = unary("isfinite", _is_finite, "any", """
    Elementwise: neither infinite nor NaN.

    >>> jnp.isfinite(jnp.array([1.0, jnp.nan, jnp.inf]))
    Array([ True, False, False], dtype=bool)
    """, gives=_BOOL)


def _has_imaginary_part(x: Any) -> Any:
    if kind_of(x) == "X":
        raise dtypes.no_numbers(typeof(x).dtype)
    if kind_of(x) != "c":
        return _constant_like(x, False)
    part = lax.imag(x)
    return lax.ne(part, _c(part, 0))


def _as_weak_as(x: Any, truth: Any) -> Any:
    """Booleans, weakly typed if `x` is a weakly typed scalar, as in JAX."""
    aval = typeof(x)
    return cast(truth, np.dtype(bool), aval.weak_type and not aval.shape)


@fused(values=("x",))
def isreal(x: Any) -> Any:
    """Elementwise: the imaginary part is 0.

    Args:
      x: array or scalar.

    Returns:
      An array of the shape of `x` and dtype bool.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.isreal`.

    Example:
      >>> jnp.isreal(jnp.array([1 + 0j, 2j]))
      Array([ True, False], dtype=bool)
    """
    return _as_weak_as(x, lax.bitwise_not(_has_imaginary_part(x)))


@fused(values=("x",))
def iscomplex(x: Any) -> Any:
    """Elementwise: the imaginary part is not 0.

    Args:
      x: array or scalar.

    Returns:
      An array of the shape of `x` and dtype bool.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.iscomplex`.

    Example:
      >>> jnp.iscomplex(jnp.array([1 + 0j, 2j]))
      Array([False,  True], dtype=bool)
    """
    return _as_weak_as(x, _has_imaginary_part(x))


def _signed_infinity(name: str, x: Any, value: float, out: Any) -> Any:
    refuse_out(name, out)
    if kind_of(x) == "c":
        msg = f"{name} is not defined for complex numbers."
        raise ValueError(msg)
    return lax.eq(x, _float(x, value)) if kind_of(x) == "f" else _constant_like(x, False)


@fused(values=("x",))
def isposinf(x: Any, /, out: None = None) -> Any:
    """Elementwise: positive infinity.

    Args:
      x: real array or scalar.
      out: not supported.

    Returns:
      An array of the shape of `x` and dtype bool.

    Raises:
      ValueError: complex numbers.

    Source: `numpy.isposinf`.

    Example:
      >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf, 0.0]))
      Array([ True, False, False], dtype=bool)
    """
    return _signed_infinity("isposinf", x, np.inf, out)


@fused(values=("x",))
def isneginf(x: Any, /, out: None = None) -> Any:
    """Elementwise: negative infinity.

    Args:
      x: real array or scalar.
      out: not supported.

    Returns:
      An array of the shape of `x` and dtype bool.

    Raises:
      ValueError: complex numbers.

    Source: `numpy.isneginf`.

    Example:
      >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf, 0.0]))
      Array([False,  True, False], dtype=bool)
    """
    return _signed_infinity("isneginf", x, -np.inf, out)


# ---- whole arrays ----------------------------------------------------------------------


def _close(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    near = lax.le(*promote_args("isclose", lax.abs(lax.sub(a, b)), _tolerance(b, rtol, atol)))
    near = choose(_is_finite(b), near, np.bool_(False))
    same = lax.bitwise_or(*promote_args("isclose", lax.eq(a, b), near))
    if equal_nan:
        same = lax.bitwise_or(same, lax.bitwise_and(is_nan(a), is_nan(b)))
    return same


def _tolerance(b: Any, rtol: Any, atol: Any) -> Any:
    size = lax.abs(b)
    dtype = typeof(size).dtype
    rtol, size = promote_args("isclose", cast(rtol, dtype), size)
    atol, product = promote_args("isclose", cast(atol, dtype), lax.mul(rtol, size))
    return lax.add(atol, product)


@fused(values=("rtol", "atol"), static_argnames=("equal_nan",))
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Elementwise: `|a - b| <= atol + rtol * |b|`, or equal.

    Args:
      a: array or scalar.
      b: array or scalar, the reference.
      rtol: tolerance relative to `|b|`.
      atol: absolute tolerance.
      equal_nan: whether NaN is close to NaN.

    Returns:
      A bool array of the shape that `a` and `b` broadcast to.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.isclose`.

    Example:
      >>> jnp.isclose(jnp.array([1.0, 2.0]), jnp.array([1.000001, 2.1]))
      Array([ True, False], dtype=bool)
    """
    a, b = promote_args_inexact("isclose", a, b)
    shape = broadcast_shapes(typeof(a).shape, typeof(b).shape)
    return _close(broadcast_to(a, shape), broadcast_to(b, shape), rtol, atol, equal_nan)


def _all(x: Any) -> Any:
    return reduce_and(cast(x, np.dtype(bool)), tuple(range(typeof(x).ndim)))


@fused(static_argnames=("equal_nan",))
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements of two arrays are close; see `isclose`.

    Args:
      a: array or scalar.
      b: array or scalar, the reference.
      rtol: tolerance relative to `|b|`.
      atol: absolute tolerance.
      equal_nan: whether NaN is close to NaN.

    Returns:
      A bool array of shape `()`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.allclose`.

    Example:
      >>> jnp.allclose(jnp.array([1.0, 2.0]), jnp.array([1.000001, 2.0]))
      Array(True, dtype=bool)
    """
    return _all(isclose(a, b, rtol, atol, equal_nan))


@fused(static_argnames=("equal_nan",))
def _array_equal(a1: Any, a2: Any, equal_nan: bool) -> Any:
    a1, a2 = promote_dtypes(a1, a2)
    same = lax.eq(a1, a2)
    if equal_nan and kind_of(a1) in "fc":
        same = lax.bitwise_or(same, lax.bitwise_and(is_nan(a1), is_nan(a2)))
    return _all(same)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements.

    Args:
      a1: array-like.
      a2: array-like.
      equal_nan: whether NaN is equal to NaN.

    Returns:
      A bool array of shape `()`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.array_equal`.

    Example:
      >>> jnp.array_equal(jnp.array([1, 2]), [1, 2])
      Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return asarray(False)
    return _array_equal(a1, a2, equal_nan)


@fused
def _array_equiv(a1: Any, a2: Any) -> Any:
    return _all(lax.eq(*promote_args("array_equiv", a1, a2)))


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays are equal after broadcasting.

    Args:
      a1: array-like.
      a2: array-like.

    Returns:
      A bool array of shape `()`; False if the shapes do not broadcast.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.array_equiv`.

    Example:
      >>> jnp.array_equiv(jnp.array([[1, 2], [1, 2]]), [1, 2])
      Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    try:
        broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return asarray(False)
    return _array_equiv(a1, a2)
