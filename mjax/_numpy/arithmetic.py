"""Elementwise arithmetic: sums, products, quotients, remainders, powers, extrema."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.util import alias
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import clamp
from mjax._engine.primitives.convert import bitcast_convert_type_p
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.elementwise import settling_constant
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.core import (
    broadcast_values,
    cast,
    check_array,
    check_arrays,
    choose,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_inexact,
    promote_dtypes_numeric,
    promote_shapes,
    weak_type_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.ufunc import binary, unary

_X1_X2 = ("x1", "x2")


def _is_bool(x: Any) -> bool:
    return typeof(x).dtype == np.bool_


def _is_float(x: Any) -> bool:
    return dtypes.is_float(typeof(x).dtype)


# ---- the four operations ---------------------------------------------------------------


def _add(x: Any, y: Any) -> Any:
    return lax.or_p.bind(x, y) if _is_bool(x) else lax.add_p.bind(x, y)


def _multiply(x: Any, y: Any) -> Any:
    return lax.and_p.bind(x, y) if _is_bool(x) else lax.mul_p.bind(x, y)


add = binary("add", _add, "any", """
    Elementwise sum, `x + y`; of booleans, the logical or.

    >>> jnp.add(jnp.array([1, 2]), 10)
    Array([11, 12], dtype=int32)
    """)
subtract = binary("subtract", lax.sub_p.bind, "any", """
    Elementwise difference, `x - y`; booleans are refused.

    >>> jnp.subtract(jnp.array([1, 2]), 10)
    Array([-9, -8], dtype=int32)
    """)
multiply = binary("multiply", _multiply, "any", """
    Elementwise product, `x * y`; of booleans, the logical and.

    >>> jnp.multiply(jnp.array([1, 2]), 10)
    Array([10, 20], dtype=int32)
    """)
divide = binary("divide", lax.div_p.bind, "inexact", """
    Elementwise quotient, `x1 / x2`.

    >>> jnp.divide(jnp.array([1, 2]), 4)
    Array([0.25, 0.5 ], dtype=float32)
    """, _X1_X2)
true_divide = alias(divide, "true_divide")
negative = unary("negative", lax.neg_p.bind, "any", """
    Elementwise negation, `-x`; booleans are refused.

    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """)
positive = unary("positive", array_of, "any", """
    Elementwise `+x`: the values, unchanged.

    >>> jnp.positive(jnp.array([1, -2]))
    Array([ 1, -2], dtype=int32)
    """)
reciprocal = unary("reciprocal", lambda x: lax.div_p.bind(_c(x, 1), x), "inexact", """
    Elementwise `1 / x`.

    >>> jnp.reciprocal(jnp.array([2, 4]))
    Array([0.5 , 0.25], dtype=float32)
    """)

# ---- floor division, remainders --------------------------------------------------------


def _differ_in_sign(x: Any, y: Any) -> Any:
    return lax.ne(lax.sign(x), lax.sign(y))


def _float_divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient rounded down, and the remainder with the sign of `y`."""
    rest = lax.rem(x, y)
    # x - rest is a multiple of y up to rounding; at y = 0 keep the infinities of x / y.
    quotient = lax.div(choose(lax.eq(y, _c(y, 0)), x, lax.sub(x, rest)), y)
    wrong = lax.bitwise_and(lax.ne(rest, _c(rest, 0)), _differ_in_sign(y, rest))
    return (lax.round(choose(wrong, lax.sub(quotient, _c(y, 1)), quotient)),
            choose(wrong, lax.add(rest, y), rest))


@fused
def _floor_divide(x: Any, y: Any) -> Any:
    kind = dtypes.kind(typeof(x).dtype)
    if kind == "f":
        return _float_divmod(x, y)[0]
    if kind == "c":
        msg = "floor_divide does not support complex-valued inputs."
        raise TypeError(msg)
    quotient = lax.div(x, y)
    if kind == "u":
        return quotient
    inexact = lax.ne(lax.rem(x, y), _c(x, 0))
    down = lax.bitwise_and(_differ_in_sign(x, y), inexact)
    return choose(down, lax.sub(quotient, _c(x, 1)), quotient)


def _truncated_remainder(x: Any, y: Any) -> Any:
    rest = lax.rem(x, y)
    if not dtypes.is_integer(typeof(x).dtype):
        return rest
    # For y = 0 XLA returns x, NumPy 0.
    return choose(lax.eq(y, _c(y, 0)), _c(x, 0), rest)


@fused
def _remainder(x: Any, y: Any) -> Any:
    rest, zero = _truncated_remainder(x, y), _c(x, 0)
    if dtypes.kind(typeof(x).dtype) == "u":
        return rest
    wrong = lax.bitwise_and(lax.ne(lax.lt(rest, zero), lax.lt(y, zero)), lax.ne(rest, zero))
    return choose(wrong, lax.add(rest, y), rest)


floor_divide = binary("floor_divide", _floor_divide, "numeric", """
    Elementwise quotient rounded down, `x1 // x2`.

    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """, _X1_X2)
remainder = binary("remainder", _remainder, "numeric", """
    Elementwise remainder of the division rounded down, `x1 % x2`: it has the sign of `x2`.

    >>> jnp.remainder(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """, _X1_X2)
mod = alias(remainder, "mod")
fmod = binary("fmod", _truncated_remainder, "numeric", """
    Elementwise remainder of the division rounded towards zero: it has the sign of `x1`.

    >>> jnp.fmod(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """, _X1_X2)


@fused
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """Elementwise quotient rounded down and remainder, `(x1 // x2, x1 % x2)`.

    Args:
      x1: dividend, array or scalar of real numbers.
      x2: divisor, array or scalar of real numbers.

    Returns:
      A pair of arrays of the shape that `x1` and `x2` broadcast to.

    Raises:
      TypeError: complex numbers, or an argument is not an array or scalar.

    Source: `numpy.divmod`.

    Example:
      >>> jnp.divmod(jnp.array([7, -7]), 3)
      (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x1, x2 = promote_args_numeric("divmod", x1, x2)
    if _is_float(x1):
        return _float_divmod(x1, x2)
    return _floor_divide(x1, x2), _remainder(x1, x2)


# ---- sign and absolute value -----------------------------------------------------------


def _abs(x: Any) -> Any:
    return array_of(x) if dtypes.kind(typeof(x).dtype) in "bu" else lax.abs(x)


abs = unary("abs", _abs, "any", """
    Elementwise absolute value; real for complex numbers.

    >>> jnp.abs(jnp.array([-1, 2]))
    Array([1, 2], dtype=int32)
    """)
absolute = alias(abs, "absolute")


def _fabs(x: Any) -> Any:
    if not _is_float(x):
        msg = "fabs is for real numbers; use abs for complex ones."
        raise TypeError(msg)
    return lax.abs(x)


fabs = unary("fabs", _fabs, "inexact", """
    Elementwise absolute value of real numbers, as floats.

    >>> jnp.fabs(jnp.array([-1, 2]))
    Array([1., 2.], dtype=float32)
    """)
sign = unary("sign", lax.sign_p.bind, "any", """
    Elementwise sign: -1, 0 or 1; `x / abs(x)` for complex numbers.

    >>> jnp.sign(jnp.array([-5, 0, 5]))
    Array([-1,  0,  1], dtype=int32)
    """)


def sign_bit(x: Any) -> Any:
    """Whether the sign bit of floats is set; a comparison with 0 would miss -0.0 and NaN."""
    dtype = typeof(x).dtype
    bits = bitcast_convert_type_p.bind(x, new_dtype=np.dtype(f"i{dtype.itemsize}"))
    return lax.lt(bits, _c(bits, 0))


@fused
def _copysign(x: Any, y: Any) -> Any:
    if not _is_float(x):
        msg = "copysign does not support complex-valued inputs."
        raise TypeError(msg)
    magnitude = lax.abs(x if typeof(y).weak_type else cast(x, typeof(x).dtype))
    return choose(sign_bit(y), lax.neg(magnitude), magnitude)


copysign = binary("copysign", _copysign, "inexact", """
    Elementwise magnitude of `x1` with the sign of `x2`.

    >>> jnp.copysign(jnp.array([1.0, -2.0]), -0.0)
    Array([-1., -2.], dtype=float32)
    """, _X1_X2)


def _signbit(x: Any) -> Any:
    kind = dtypes.kind(typeof(x).dtype)
    if kind == "c":
        msg = "signbit is not defined for complex numbers."
        raise ValueError(msg)
    return sign_bit(x) if kind == "f" else lax.lt(x, cast(_c(x, 0), typeof(x).dtype))


signbit = unary("signbit", _signbit, "any", """
    Elementwise: whether the sign bit is set. True for -0.0 too.

    >>> jnp.signbit(jnp.array([-0.0, 0.0, -1.0]))
    Array([ True, False,  True], dtype=bool)
    """, gives=" and dtype bool")


@fused
def _heaviside(x: Any, y: Any) -> Any:
    if not _is_float(x):
        msg = "heaviside does not support complex-valued inputs."
        raise TypeError(msg)
    zero, one = settling_constant(x, 0), settling_constant(x, 1)
    step = choose(lax.lt(x, zero), zero, choose(lax.gt(x, zero), one, y))
    return choose(lax.ne(x, x), x, step)


heaviside = binary("heaviside", _heaviside, "inexact", """
    Elementwise step function: 0 where `x1 < 0`, `x2` where `x1 == 0`, 1 where `x1 > 0`.

    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 1.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """, _X1_X2, weak_rule=lambda types, shapes, dtype: not shapes[0])

# ---- extrema ---------------------------------------------------------------------------

maximum = binary("maximum", lax.max_p.bind, "any", """
    Elementwise greater one; NaN if either is.

    >>> jnp.maximum(jnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """)
minimum = binary("minimum", lax.min_p.bind, "any", """
    Elementwise smaller one; NaN if either is.

    >>> jnp.minimum(jnp.array([1, 5]), 3)
    Array([1, 3], dtype=int32)
    """)


@fused
def fmax(x1: Any, x2: Any) -> Any:
    """Elementwise greater one; where one is NaN, the other one.

    Args:
      x1: array or scalar.
      x2: array or scalar.

    Returns:
      An array of the shape that `x1` and `x2` broadcast to.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.fmax`.

    Example:
      >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 0.5)
      Array([1. , 0.5], dtype=float32)
    """
    x1, x2 = promote_args("fmax", x1, x2)
    if dtypes.is_complex(typeof(x1).dtype):
        first = lax.bitwise_and(lax.eq(lax.max(x1, x2), x1), lax.ne(x1, x2))
    else:
        first = lax.gt(x1, x2)
    return choose(lax.bitwise_or(first, lax.ne(x2, x2)), x1, x2)


@fused
def fmin(x1: Any, x2: Any) -> Any:
    """Elementwise smaller one; where one is NaN, the other one.

    Args:
      x1: array or scalar.
      x2: array or scalar.

    Returns:
      An array of the shape that `x1` and `x2` broadcast to.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.fmin`.

    Example:
      >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 2.0)
      Array([1., 2.], dtype=float32)
    """
    x1, x2 = promote_args("fmin", x1, x2)
    if dtypes.is_complex(typeof(x1).dtype):
        first = lax.bitwise_and(lax.eq(lax.min(x1, x2), x1), lax.ne(x1, x2))
    else:
        first = lax.lt(x1, x2)
    return choose(lax.bitwise_or(first, lax.ne(x2, x2)), x1, x2)


# ---- powers ----------------------------------------------------------------------------

square = unary("square", lax.square_p.bind, "numeric", """
    Elementwise `x * x`.

    >>> jnp.square(jnp.array([3, -4]))
    Array([ 9, 16], dtype=int32)
    """)
sqrt = unary("sqrt", lax.sqrt_p.bind, "inexact", """
    Elementwise square root; NaN for negative reals.

    >>> jnp.sqrt(jnp.array([4, 9]))
    Array([2., 3.], dtype=float32)
    """)
cbrt = unary("cbrt", lax.cbrt_p.bind, "inexact", """
    Elementwise cube root of real numbers.

    >>> jnp.cbrt(jnp.array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """)


def _power_of_ints(x: Any, y: Any) -> Any:
    """Powers by squaring, one step per significant bit of the exponent: 2**64 is 0."""
    zero, one = _c(y, 0), _c(y, 1)
    odd = lax.ne(lax.bitwise_and(y, one), zero)
    out = choose(odd, x, _c(x, 1))
    for _ in range(5):
        x, y = lax.mul(x, x), lax.shift_right_logical(y, one)
        odd = lax.ne(lax.bitwise_and(y, one), zero)
        out = choose(odd, lax.mul(out, x), out)
    return out


def _power(x1: Any, x2: Any) -> Any:
    kind1, kind2 = (dtypes.kind(typeof(x).dtype) for x in (x1, x2))
    if kind1 in "biu" and kind2 in "biu":
        x1, x2 = promote_args_numeric("power", x1, x2)
        if dtypes.is_inexact(typeof(x1).dtype):  # of uint64 and a signed one
            return lax.pow_p.bind(x1, x2)
        x1 = cast(x1, typeof(x1).dtype)
        nothing = lax.bitwise_and(lax.eq(x1, _c(x1, 0)), lax.ne(x2, _c(x2, 0)))
        return choose(nothing, _c(x1, 0), _power_of_ints(x1, x2))
    if kind1 in "fc" and kind2 in "iu":
        # Not promoted: an integer exponent is not differentiated, which could be NaN at x1 = 0.
        if typeof(x2).shape:
            common_type(weak_type_of(x1), weak_type_of(x2))  # raises in mode "strict"
        return lax.pow_p.bind(*promote_shapes("power", x1, x2))
    x1, x2 = promote_args_inexact("power", x1, x2)
    return lax.pow_p.bind(x1, x2)


@fused
def _power_dynamic(x1: Any, x2: Any) -> Any:
    return _power(*check_arrays("power", x1, x2))


@fused(static_argnames=("exponent",))
def _power_static(x: Any, exponent: int) -> Any:
    x, = promote_dtypes_numeric(check_array("power", x))
    return lax.integer_pow(x, exponent)


def power(x1: Any, x2: Any, /) -> Any:
    """Elementwise power, `x1 ** x2`.

    A Python int as exponent is part of the program: `x ** 2` is one multiplication, with exact
    derivatives. Integer powers of integers wrap around; only the lowest 6 bits of their
    exponents count.

    Args:
      x1: base, array or scalar.
      x2: exponent, array or scalar.

    Returns:
      An array of the shape that `x1` and `x2` broadcast to, of their promoted dtype.

    Raises:
      TypeError: a negative Python int as exponent of integers; an argument is not an array or
        scalar.

    Source: `numpy.power`.

    Example:
      >>> jnp.power(jnp.array([2.0, 3.0]), 2)
      Array([4., 9.], dtype=float32)
    """
    if type(x2) is int or type(x2) is bool:
        return _power_static(x1, int(x2))
    if isinstance(x2, np.integer) or (isinstance(x2, np.ndarray) and not x2.shape
                                      and x2.dtype.kind in "iu"):
        return _power_static(x1, operator.index(x2))
    return _power_dynamic(x1, x2)


pow = alias(power, "pow")
float_power = binary("float_power", lax.pow_p.bind, "inexact", """
    Elementwise power, `x ** y`, as floats.

    >>> jnp.float_power(jnp.array([2, 4]), -1)
    Array([0.5 , 0.25], dtype=float32)
    """)


@fused(values=("x1", "x2"))
def ldexp(x1: Any, x2: Any, /) -> Any:
    """Elementwise `x1 * 2 ** x2`.

    Args:
      x1: real array or scalar.
      x2: exponents, integer array or scalar.

    Returns:
      An array of the shape that `x1` and `x2` broadcast to, of the float dtype of `x1`.

    Raises:
      ValueError: `x2` is not of integer dtype, or complex `x1`.

    Source: `numpy.ldexp`.

    Example:
      >>> jnp.ldexp(jnp.array([1.0, 1.5]), jnp.array([3, -1]))
      Array([8.  , 0.75], dtype=float32)
    """
    if dtypes.kind(typeof(x2).dtype) not in "biu" or dtypes.is_complex(typeof(x1).dtype):
        msg = (f"ldexp needs real x1 and integer x2, got dtypes {typeof(x1).dtype} and "
               f"{typeof(x2).dtype}.")
        raise ValueError(msg)
    x1, = promote_dtypes_inexact(x1)
    info = ml_dtypes.finfo(typeof(x1).dtype)
    # Exponents beyond the range of the dtype are clipped to it.
    span = int(info.maxexp - info.minexp + info.nmant + 1)
    x1, x2 = broadcast_values("ldexp", x1, cast(_clipped(x2, -span, span), np.dtype(np.int32)))
    # In three steps, since 2 ** x2 may overflow or underflow where the product does not. The
    # greatest one is last, so that a result is rounded once.
    steps = []
    for _ in range(3):
        steps.append(_clipped(x2, int(info.minexp), int(info.maxexp) - 1))
        x2 = lax.sub(x2, steps[-1])
    for step in reversed(steps):
        x1 = lax.mul(x1, _power_of_two(x1, step))
    return x1


def _power_of_two(x: Any, exponents: Any) -> Any:
    """`2 ** exponents` in the dtype of `x`, for the exponents of normal numbers.

    It is exact, from the bits of the result. On some CPUs, programs of jaxlib 0.8 compute NaN for
    powers of 2 in float16.
    """
    aval = typeof(x)
    info = ml_dtypes.finfo(aval.dtype)
    if info.bits < 16:  # these have other biases
        return lax.pow(_c(x, 2), exponents)
    integer = np.dtype(f"i{info.bits // 8}")
    biased = cast(lax.add(exponents, _c(exponents, int(info.maxexp) - 1)), integer)
    bits = lax.shift_left(biased, _c(biased, int(info.nmant)))
    return cast(bitcast_convert_type_p.bind(bits, new_dtype=aval.dtype), aval.dtype,
                aval.weak_type)


def _clipped(x: Any, low: int, high: int) -> Any:
    """Integers or booleans clipped to bounds that may exceed the range of their dtype."""
    dtype = typeof(x).dtype
    low, high = _within(dtype, low, high)
    return clamp.clamp(np.asarray(low, dtype)[()], x, np.asarray(high, dtype)[()])


def _within(dtype: Any, low: int, high: int) -> tuple[int, int]:
    """The part of an interval in the range of a bool or integer dtype."""
    if dtype == np.bool_:
        return 0, 1
    info = ml_dtypes.iinfo(dtype)
    return max(low, int(info.min)), min(high, int(info.max))
