"""Elementwise rounding, complex parts, and the representation of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.util import alias
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import trigonometric
from mjax._engine.primitives.convert import bitcast_convert_type_p
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.elementwise import settling_constant
from mjax._engine.primitives.shapes import array_of, as_settled
from mjax._numpy.core import (
    broadcast_to,
    cast,
    choose,
    concrete_int,
    kind_of,
    promote_dtypes_inexact,
    refuse_out,
)
from mjax._numpy.creation import filled
from mjax._numpy.fused import fused
from mjax._numpy.ufunc import binary, unary


def _refuse_complex(name: str, x: Any, error: type[Exception] = TypeError) -> None:
    if kind_of(x) == "c":
        msg = f"{name} is for real numbers, got dtype {typeof(x).dtype}."
        raise error(msg)


# ---- rounding --------------------------------------------------------------------------


def _of_floats(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rounding function that leaves integers unchanged."""

    def rounded(x: Any) -> Any:
        _refuse_complex(name, x)
        if kind_of(x) == "X":
            raise dtypes.no_numbers(typeof(x).dtype)
        return function(x) if kind_of(x) == "f" else array_of(x)

    return rounded


def _truncate(x: Any) -> Any:
    return choose(lax.lt(x, _c(x, 0)), lax.ceil(x), lax.floor(x))


def to_even(x: Any) -> Any:
    """Rounds to the nearest integer, halves to the even one; complex numbers part by part."""
    if kind_of(x) == "c":
        return lax.complex(to_even(lax.real(x)), to_even(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


floor = unary("floor", _of_floats("floor", lax.floor), "any", """
    Elementwise greatest integer that is not greater; integers stay as they are.

    >>> jnp.floor(jnp.array([1.7, -1.7]))
    Array([ 1., -2.], dtype=float32)
    """)
ceil = unary("ceil", _of_floats("ceil", lax.ceil), "any", """
    Elementwise least integer that is not less; integers stay as they are.

    >>> jnp.ceil(jnp.array([1.2, -1.2]))
    Array([ 2., -1.], dtype=float32)
    """)


def _rint(x: Any) -> Any:
    return to_even(x if kind_of(x) in "fc" else cast(x, dtypes.dtype_of_python(float)))


rint = unary("rint", _rint, "any", """
    Elementwise rounding to the nearest integer, halves to the even one.

    Integers and booleans become the default float.

    >>> jnp.rint(jnp.array([0.5, 1.5, 1.7]))
    Array([0., 2., 2.], dtype=float32)
    """)


@fused(values=("x",))
def trunc(x: Any) -> Any:
    """Elementwise rounding towards zero; integers stay as they are.

    Args:
      x: real array or scalar.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.trunc`.

    Example:
      >>> jnp.trunc(jnp.array([1.7, -1.7]))
      Array([ 1., -1.], dtype=float32)
    """
    return _of_floats("trunc", _truncate)(x)


@fused(values=("a",), static_argnames=("decimals", "out"))
def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """Elementwise rounding to a number of decimals, halves to the even neighbour.

    Args:
      a: array or scalar of numbers.
      decimals: the number of decimals; negative ones round to tens, hundreds, ...
      out: not supported.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      NotImplementedError: integers and negative `decimals`.

    Source: `numpy.round`.

    Example:
      >>> jnp.round(jnp.array([1.25, -0.57]), 1)
      Array([ 1.2, -0.6], dtype=float32)
    """
    refuse_out("round", out)
    decimals = concrete_int(decimals, "round: decimals")
    kind = kind_of(a)
    if kind == "b":
        msg = "round is for numbers, got dtype bool."
        raise ValueError(msg)
    if kind in "iu":
        if decimals < 0:
            msg = "round of integers is not implemented for decimals < 0."
            raise NotImplementedError(msg)
        return array_of(a)
    if decimals == 0:
        return to_even(a)
    # 10**decimals may overflow narrow floats.
    dtype = typeof(a).dtype
    wide = cast(a, np.dtype(np.float32)) if dtypes.is_float(dtype) and dtype.itemsize < 4 else a
    factor = as_settled(np.asarray(10.0**abs(decimals)).astype(typeof(wide).dtype)[()])
    there, back = (lax.mul, lax.div) if decimals > 0 else (lax.div, lax.mul)
    weak = typeof(a).weak_type and not typeof(a).shape
    return cast(back(to_even(there(wide, factor)), factor), dtype, weak)


around = alias(round, "around")

# ---- complex parts ---------------------------------------------------------------------


def _real(x: Any) -> Any:
    return lax.real(x) if kind_of(x) == "c" else array_of(x)


def _imag(x: Any) -> Any:
    if kind_of(x) == "c":
        return lax.imag(x)
    aval = typeof(x)
    return filled(aval.shape, 0, aval.dtype, aval.weak_type)


real = unary("real", _real, "any", """
    Elementwise real part.

    >>> jnp.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """, ("val",))
imag = unary("imag", _imag, "any", """
    Elementwise imaginary part; 0 for real numbers.

    >>> jnp.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """, ("val",))
conjugate = unary("conjugate", lambda x: lax.conj(x) if kind_of(x) == "c" else array_of(x),
                  "any", """
    Elementwise complex conjugate; real numbers stay as they are.

    >>> jnp.conjugate(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """)
conj = alias(conjugate, "conj")


@fused(values=("z",), static_argnames=("deg",))
def angle(z: Any, deg: bool = False) -> Any:
    """Elementwise angle of complex numbers, in `(-pi, pi]`.

    Args:
      z: array or scalar.
      deg: whether the result is in degrees.

    Returns:
      A real array of the shape of `z`; of the default float for integers and real scalars.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.angle`.

    Example:
      >>> print(f"{jnp.angle(1j):.3f}")
      1.571
    """
    if kind_of(z) == "c":
        re, im = lax.real(z), lax.imag(z)
    else:
        # As in JAX, everything but arrays of floats becomes the default float.
        floats = kind_of(z) == "f" and bool(typeof(z).shape)
        re = z if floats else cast(z, dtypes.dtype_of_python(float))
        im = _imag(re)
    out = trigonometric.atan2(im, re)
    return lax.mul(out, settling_constant(out, 180 / np.pi)) if deg else out


@fused(values=("x", "nan", "posinf", "neginf"), static_argnames=("copy",))
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
               ) -> Any:
    """Elementwise replacement of NaN and infinities by numbers.

    Args:
      x: array or scalar.
      copy: ignored: the result is a new array.
      nan: the replacement of NaN.
      posinf: that of positive infinity; the greatest finite number if not given.
      neginf: that of negative infinity; the least finite number if not given.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.nan_to_num`.

    Example:
      >>> jnp.nan_to_num(jnp.array([jnp.nan, 1.0, jnp.inf]), posinf=9.0)
      Array([0., 1., 9.], dtype=float32)
    """
    if kind_of(x) == "c":
        return lax.complex(nan_to_num(lax.real(x), copy, nan, posinf, neginf),
                           nan_to_num(lax.imag(x), copy, nan, posinf, neginf))
    if kind_of(x) != "f":
        return array_of(x)
    dtype, shape = typeof(x).dtype, typeof(x).shape
    info = ml_dtypes.finfo(dtype)
    replacements = [
        (lax.ne(x, x), nan), (lax.eq(x, _c(x, np.inf)), info.max if posinf is None else posinf),
        (lax.eq(x, _c(x, -np.inf)), info.min if neginf is None else neginf)]
    for where, value in replacements:
        value = cast(value, dtype)
        x = choose(where, broadcast_to(value, shape), x)
    return x


# ---- representation of floats ----------------------------------------------------------


def _nextafter(x: Any, y: Any) -> Any:
    _refuse_complex("nextafter", x)
    return lax.nextafter(x, y)


nextafter = binary("nextafter", _nextafter, "inexact", """
    Elementwise next float after `x` in the direction of `y`.

    >>> jnp.nextafter(jnp.array([1.0]), 2.0)
    Array([1.0000001], dtype=float32)
    """)


@fused
def _spacing(x: Any) -> Any:
    _refuse_complex("spacing", x, ValueError)
    dtype = typeof(x).dtype
    mantissa_bits, bits = _layout(dtype)
    raw = bitcast_convert_type_p.bind(x, new_dtype=np.dtype(f"i{bits // 8}"))
    zero, one, shift = _c(raw, 0), _c(raw, 1), _c(raw, mantissa_bits)
    sign = lax.bitwise_and(raw, _c(raw, np.iinfo(typeof(raw).dtype).min))
    magnitude = lax.bitwise_xor(raw, sign)
    if dtype == np.float16:  # as in NumPy, the next float above, for negative numbers too
        below = lax.max(lax.sub(magnitude, one), zero)
        magnitude, sign = choose(lax.lt(raw, zero), below, magnitude), zero
    # Computed on bits: many distances are subnormal numbers, which processors may flush.
    exponent = lax.shift_right_logical(magnitude, shift)
    normal = lax.shift_left(lax.sub(exponent, shift), shift)
    subnormal = lax.shift_left(one, lax.max(lax.sub(exponent, one), zero))
    size = choose(lax.gt(exponent, shift), normal, subnormal)
    last, infinite = [np.asarray(v, dtype).view(typeof(raw).dtype)[()]
                      for v in (ml_dtypes.finfo(dtype).max, np.inf)]
    size = lax.bitwise_or(choose(lax.eq(magnitude, last), infinite, size), sign)
    out = bitcast_convert_type_p.bind(size, new_dtype=dtype)
    return choose(lax.is_finite(x), out, np.asarray(np.nan, dtype)[()])


spacing = unary("spacing", _spacing, "inexact", """
    Elementwise distance to the next float away from zero, with the sign of `x`.

    For float16 the next float is the one above `x`.

    >>> jnp.spacing(jnp.array([1.0]))
    Array([1.1920929e-07], dtype=float32)
    """)


@fused(values=("x",))
def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """Elementwise fractional and integral parts, both with the sign of `x`.

    Args:
      x: real array or scalar.
      out: not supported.

    Returns:
      A pair of arrays of the shape of `x`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.modf`.

    Example:
      >>> jnp.modf(jnp.array([1.25, -2.5]))
      (Array([ 0.25, -0.5 ], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    refuse_out("modf", out)
    x, = promote_dtypes_inexact(x)
    _refuse_complex("modf", x)
    whole = _truncate(x)
    infinite = lax.eq(lax.abs(x), _c(x, np.inf))
    return choose(infinite, lax.mul(_c(x, 0), lax.sign(x)), lax.sub(x, whole)), whole


def _layout(dtype: Any) -> tuple[int, int]:
    info = ml_dtypes.finfo(dtype)
    return int(info.nmant), int(info.bits)


@fused(values=("x",))
def frexp(x: Any, /) -> tuple[Any, Any]:
    """Elementwise mantissa and exponent: `x == mantissa * 2**exponent`.

    Args:
      x: real array or scalar.

    Returns:
      A pair of arrays of the shape of `x`: mantissas in `[0.5, 1)` up to sign, and int32
      exponents.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.frexp`.

    Example:
      >>> jnp.frexp(jnp.array([8.0, 0.3]))
      (Array([0.5, 0.6], dtype=float32), Array([ 4, -1], dtype=int32))
    """
    _refuse_complex("frexp", x)
    x = cast(x, inexact_dtype(typeof(x).dtype))
    dtype = typeof(x).dtype
    mantissa_bits, bits = _layout(dtype)
    bias = (1 << (bits - mantissa_bits - 2)) - 1
    raw = bitcast_convert_type_p.bind(x, new_dtype=np.dtype(f"i{bits // 8}"))
    sign = lax.bitwise_and(raw, _c(raw, np.iinfo(typeof(raw).dtype).min))
    magnitude, zero, place = lax.bitwise_xor(raw, sign), _c(raw, 0), _c(raw, mantissa_bits)
    biased = lax.shift_right_logical(magnitude, place)
    regular = lax.bitwise_and(lax.ne(magnitude, zero), lax.is_finite(x))
    # Subnormal numbers are read from their bits: processors may flush them.
    tiny = lax.bitwise_and(lax.eq(biased, zero), regular)
    zeros = lax.max(lax.sub(lax.clz(magnitude), _c(raw, bits - 1 - mantissa_bits)), zero)
    exponent = cast(choose(tiny, lax.sub(_c(raw, 1), zeros), biased), np.dtype(np.int32))
    exponent = choose(regular, lax.sub(exponent, np.int32(bias - 1)), np.int32(0))
    fraction = lax.bitwise_and(lax.shift_left(magnitude, zeros), _c(raw, (1 << mantissa_bits) - 1))
    half = lax.bitwise_or(sign, _c(raw, (bias - 1) << mantissa_bits))
    small = bitcast_convert_type_p.bind(lax.bitwise_or(half, fraction), new_dtype=dtype)
    # A product, for its derivative, in two steps: 2**-exponent may not be a normal number.
    shift = int(ml_dtypes.finfo(dtype).maxexp) - bias + 1
    power = lax.shift_left(lax.sub(_c(raw, 2 * bias - 1 + shift), biased), place)
    power = bitcast_convert_type_p.bind(power, new_dtype=dtype)
    mantissa = lax.mul(lax.mul(x, choose(regular, power, _c(x, 1))), _c(x, 0.5**shift))
    return choose(tiny, small, choose(regular, mantissa, x)), exponent
