"""Arithmetic, comparison, bits, rounding, exponentials, complex parts.

Each is one row: `unary(...)` and `binary(...)` return a primitive and a public function.
Derivatives are `(tangent, result, *operands) -> tangent of the result`. Operations are named
as in the StableHLO and CHLO specifications.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.thread import thread
from mjax._engine.base.util import pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import dividing
from mjax._engine.primitives.accuracy import AccuracyMode, accuracy_attributes
from mjax._engine.primitives.comparing import compare_ir, compare_stored_ir, extremum_ir, parts_ir
from mjax._engine.primitives.convert import convert, convert_ir
from mjax._engine.primitives.elementwise import (
    broadcast_types,
    check_kinds,
    constant_like,
    define_elementwise,
    define_elementwise_batching,
    define_elementwise_lowering,
    keeping_nan,
    public_function,
    stretch,
    unbroadcast,
)
from mjax._engine.primitives.emit import full as full_ir
from mjax._engine.primitives.emit import hlo, ir_type, op
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.rows import binary, to_an_accuracy, unary
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import ZERO, define_jvp_from_result, zero_tangent
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero

_c = constant_like
_bool = np.dtype(bool)


# ---- the four operations ---------------------------------------------------------------


def _sum_jvp(primitive: Primitive, sign: Callable[[Any], Any]) -> Callable[..., Any]:
    def jvp(primals: Any, tangents: Any) -> Any:
        out = primitive.bind(*primals)
        a, b = tangents
        if type(a) is Zero and type(b) is Zero:
            return out, zero_tangent(out)
        if type(a) is Zero:
            return out, stretch(sign(b), typeof(out).shape)
        if type(b) is Zero:
            return out, stretch(a, typeof(out).shape)
        return out, primitive.bind(a, b)
    return jvp


def _define_transpose(primitive: Primitive, left: Callable[..., Any],
                      right: Callable[..., Any] | None) -> None:
    """Gives a primitive of two operands its transpose rule.

    Args:
      primitive: the primitive.
      left: `(cotangent, x, y) -> ` that of `x`, before it is summed to the operand's shape.
      right: the same for `y`; None if it is not linear in `y`.
    """
    primitive.def_transpose(lambda ct, x, y: [  # each product in a gradient runs this
        unbroadcast(x.aval, left(ct, x, y)) if type(x) is UndefinedPrimal else None,
        unbroadcast(y.aval, right(ct, x, y)) if right and type(y) is UndefinedPrimal else None])


neg_p, neg = unary("neg", "iufc", "stablehlo.negate", None, "Elementwise negation: `-x`.",
                   example="1.5 -> -1.5")
define_linear(neg_p, lambda ct, x: neg(ct))

add_p, add = binary("add", "iufc", "stablehlo.add", None, None, "Elementwise sum: `x + y`.",
                    example="1.5, 2.0 -> 3.5")
add_p.def_jvp(_sum_jvp(add_p, lambda t: t))
_define_transpose(add_p, lambda ct, x, y: ct, lambda ct, x, y: ct)

sub_p, sub = binary("sub", "iufc", "stablehlo.subtract", None, None,
                    "Elementwise difference: `x - y`.", example="1.5, 2.0 -> -0.5")
sub_p.def_jvp(_sum_jvp(sub_p, neg))
_define_transpose(sub_p, lambda ct, x, y: ct, lambda ct, x, y: neg(ct))

mul_p, _ = binary("mul", "iufc", "stablehlo.multiply",
                  lambda t, out, x, y: stretch(mul_p.bind(t, y), typeof(out).shape),
                  lambda t, out, x, y: stretch(mul_p.bind(x, t), typeof(out).shape), "")
_define_transpose(mul_p, lambda ct, x, y: mul_p.bind(ct, y), lambda ct, x, y: mul_p.bind(x, ct))


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """Elementwise product: `x * y`.

    Args:
      x: array or scalar.
      y: array or scalar of the same dtype.
      out_dtype: a dtype to which both are converted first; they may then be of different ones.

    Returns:
      An array of the shape that the operands stretch to, in their dtype or `out_dtype`.

    Raises:
      TypeError: the dtypes differ, or the shapes are neither equal nor scalar.

    Example:
      >>> lax.mul(jnp.array([2.0, 3.0]), 4.0)
      Array([ 8., 12.], dtype=float32)

    Source: StableHLO `multiply`.
    """
    try:
        if out_dtype is not None:
            dtype = dtypes.asked_dtype(out_dtype, "mul")
            weak = typeof(x).weak_type and typeof(y).weak_type
            x, y = convert(x, dtype, weak), convert(y, dtype, weak)
            if dtype == np.bool_:
                return bitwise_and(x, y)
        return thread.interpreter.process(mul_p, (x, y), {})
    except Exception as error:
        fold(error)
        raise


mul.__module__ = "mjax.lax"

div_p, div = binary("div", "iufc", dividing.quotient,
                    lambda t, out, x, y: stretch(div_p.bind(t, y), typeof(out).shape),
                    lambda t, out, x, y: mul(mul(neg(t), x), integer_pow(y, -2)),
                    "Elementwise quotient: `x / y`, rounded towards zero for integers.",
                    example="7, -2 -> -3")
_define_transpose(div_p, lambda ct, x, y: div_p.bind(ct, y), None)

rem_p, rem = binary("rem", "iuf", dividing.remainder,
                    lambda t, out, x, y: stretch(t, typeof(out).shape),
                    lambda t, out, x, y: mul(neg(t), _truncate(div(x, y))),
                    "Elementwise remainder of `x / y`, with the sign of `x`.",
                    example="-7, 3 -> -1")


def _truncate(x: Any) -> Any:
    return mul(sign(x), floor(abs(x)))


# ---- comparison, extrema ---------------------------------------------------------------


def comparison(name: str, direction: str, kinds: str, doc: str = "", example: str = "",
               floats: str = "FLOAT") -> tuple[Primitive, Any]:
    """A row of the tables: a comparison of two operands of one dtype.

    Args:
      name: the primitive's name.
      direction: as StableHLO calls it.
      kinds: accepted dtype kinds.
      doc: docstring of the public function.
      example: arguments of a call, `->`, and the printed result.
      floats: how floats are compared; as StableHLO calls it.
    """

    def lowering(ctx: Any, x: Any, y: Any) -> Any:
        dtype = ctx.avals_in[0].dtype
        if dtypes.is_extended(dtype):
            return compare_stored_ir(ctx, x, y, direction, dtype)
        return [compare_ir(x, y, direction, dtype, floats)]

    return binary(name, kinds, lowering, ZERO, ZERO, doc, lambda dtype: _bool, example=example)


eq_p, eq = comparison("eq", "EQ", "biufcX", "Elementwise `x == y`.", example="1, 1 -> True")
ne_p, ne = comparison("ne", "NE", "biufcX", "Elementwise `x != y`.", example="1, 2 -> True")
ge_p, ge = comparison("ge", "GE", "biuf", "Elementwise `x >= y`.", example="1, 2 -> False")
gt_p, gt = comparison("gt", "GT", "biuf", "Elementwise `x > y`.", example="2, 1 -> True")
le_p, le = comparison("le", "LE", "biuf", "Elementwise `x <= y`.", example="1, 2 -> True")
lt_p, lt = comparison("lt", "LT", "biuf", "Elementwise `x < y`.", example="1, 2 -> True")


# In IEEE 754's total order: -NaN, negative numbers, -0.0, 0.0, positive numbers, NaN.
eq_to_p, _ = comparison("eq_to", "EQ", "biuf", floats="TOTALORDER")
le_to_p, _ = comparison("le_to", "LE", "biuf", floats="TOTALORDER")
lt_to_p, _ = comparison("lt_to", "LT", "biuf", floats="TOTALORDER")


def _share_of_winner(x: Any, out: Any, y: Any) -> Any:
    """1 where `x` alone is the result, 1/2 where both are, else 0."""
    one, half, zero = _c(out, 1), _c(out, 0.5), zeros_of(typeof(out))
    shape = typeof(out).shape
    tie = select_n(eq(y, out), stretch(one, shape), stretch(half, shape))
    return select_n(eq(x, out), zero, tie)


def _extremum(name: str, operation: str, doc: str, example: str) -> tuple[Primitive, Any]:
    return binary(name, "biufc",
                  lambda ctx, x, y: [extremum_ir(operation, x, y, ctx.avals_out[0])],
                  lambda t, out, x, y: mul(t, _share_of_winner(x, out, y)),
                  lambda t, out, x, y: mul(t, _share_of_winner(y, out, x)), doc, example=example)


max_p, max = _extremum(
    "max", "maximum", "Elementwise greater one of `x` and `y`; NaN if either is.",
    "1.0, 2.0 -> 2")
min_p, min = _extremum(
    "min", "minimum", "Elementwise smaller one of `x` and `y`; NaN if either is.",
    "1.0, 2.0 -> 1")

# ---- bits ------------------------------------------------------------------------------

not_p, bitwise_not = unary("not", "biu", "stablehlo.not", ZERO, "Elementwise `~x`.",
                           public="bitwise_not", example="5 -> -6")
and_p, bitwise_and = binary("and", "biu", "stablehlo.and", ZERO, ZERO, "Elementwise `x & y`.",
                            public="bitwise_and", example="6, 3 -> 2")
or_p, bitwise_or = binary("or", "biu", "stablehlo.or", ZERO, ZERO, "Elementwise `x | y`.",
                          public="bitwise_or", example="6, 3 -> 7")
xor_p, bitwise_xor = binary("xor", "biu", "stablehlo.xor", ZERO, ZERO, "Elementwise `x ^ y`.",
                            public="bitwise_xor", example="6, 3 -> 5")
shift_left_p, shift_left = binary(
    "shift_left", "iu", "stablehlo.shift_left", ZERO, ZERO, "Elementwise `x << y`.",
    example="1, 3 -> 8")
shift_right_arithmetic_p, shift_right_arithmetic = binary(
    "shift_right_arithmetic", "iu", "stablehlo.shift_right_arithmetic", ZERO, ZERO,
    "Elementwise `x >> y` that repeats the sign bit.", example="-8, 1 -> -4")
shift_right_logical_p, shift_right_logical = binary(
    "shift_right_logical", "iu", "stablehlo.shift_right_logical", ZERO, ZERO,
    "Elementwise `x >> y` that fills with zeros.", example="-8, 28 -> 15")
population_count_p, population_count = unary(
    "population_count", "iu", "stablehlo.popcnt", ZERO, "Elementwise number of bits set.",
    example="7 -> 3")
def _clz_ir(ctx: Any, x: Any) -> list[Any]:
    """Counts in unsigned numbers: XLA, up to jaxlib 0.10, folds signed constants wrongly."""
    aval, = ctx.avals_in
    if dtypes.kind(aval.dtype) == "u":
        return [hlo.count_leading_zeros(x)]
    unsigned = ir_type(aval.update(dtype=dtypes.as_dtype(f"u{aval.dtype.name}")))
    zeros = hlo.count_leading_zeros(hlo.bitcast_convert(unsigned, x))
    return [hlo.bitcast_convert(ctx.out_types[0], zeros)]


clz_p, clz = unary("clz", "iu", _clz_ir, ZERO,
                   "Elementwise number of leading zero bits.", example="1 -> 31")

# ---- sign, absolute value, rounding ----------------------------------------------------


def _sign_lowering(ctx: Any, x: Any) -> Any:
    aval = ctx.avals_in[0]
    if dtypes.kind(aval.dtype) != "u":
        return op("stablehlo.sign", ctx.out_types, [x])
    zero, one = full_ir(0, aval), full_ir(1, aval)
    return [hlo.select(compare_ir(x, zero, "EQ", aval.dtype), zero, one)]


def _abs_lowering(ctx: Any, x: Any) -> Any:
    if dtypes.kind(ctx.avals_in[0].dtype) == "u":
        return [x]
    return op("stablehlo.abs", ctx.out_types, [x])


def _abs_derivative(t: Any, out: Any, x: Any) -> Any:
    if not dtypes.is_complex(typeof(x).dtype):
        # At 0 the right-hand slope: it gives the square the correct second derivative.
        return select_n(ge(x, _c(x, 0)), neg(t), t)
    # d|x| = Re(conj(x) dx) / |x|, and 0 at 0 by symmetry.
    at_zero = eq(out, _c(out, 0))
    scale = select_n(at_zero, out, stretch(_c(out, 1), typeof(out).shape))
    return div(real(mul(conj(x), t)), convert(scale, typeof(out).dtype))


sign_p, sign = unary("sign", "iufc", _sign_lowering, ZERO,
                     "Elementwise sign: -1, 0 or 1; `x / abs(x)` for complex numbers.",
                     example="-1.5 -> -1")
abs_p, abs = unary("abs", "ifc", _abs_lowering, _abs_derivative,
                   "Elementwise absolute value; real for complex numbers.", dtypes.real_dtype,
                   example="-1.5 -> 1.5")
floor_p, floor = unary("floor", "f", "stablehlo.floor", ZERO, "Elementwise floor.",
                       example="-1.2 -> -2")
ceil_p, ceil = unary("ceil", "f", "stablehlo.ceil", ZERO, "Elementwise ceiling.",
                     example="1.2 -> 2")
is_finite_p, is_finite = unary("is_finite", "f", "stablehlo.is_finite", ZERO,
                               "Elementwise: neither infinite nor NaN.", lambda dtype: _bool,
                               example="np.inf -> False")


@pickled_by("rounding_method_v1")
class RoundingMethod(enum.IntEnum):
    """The rounding of halves by `round`.

    Example:
      >>> lax.round(jnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
      Array([0., 2.], dtype=float32)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round_lowering(ctx: Any, x: Any, *, rounding_method: RoundingMethod) -> Any:
    even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return op(f"stablehlo.round_nearest_{'even' if even else 'afz'}", ctx.out_types, [x])


round_p, _ = unary("round", "f", _round_lowering, ZERO, "",
                   params={"rounding_method": RoundingMethod})


@boundary
def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Elementwise rounding to the nearest integer.

    Args:
      x: floating-point array.
      rounding_method: the rounding of halves.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: another dtype.
      ValueError: `rounding_method` is not one.

    Example:
      >>> lax.round(jnp.array([0.5, 1.4]))
      Array([1., 1.], dtype=float32)
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


nextafter_p = define_elementwise("nextafter", ("f", "f"), "chlo.next_after")
nextafter_p.without("jvp", "Steps between floats are not a smooth function of them.")


@boundary
def nextafter(x1: Any, x2: Any) -> Any:
    """Elementwise next float after `x1` in the direction of `x2`.

    Args:
      x1: array or scalar of a floating dtype.
      x2: the same, of the dtype and the shape of `x1`; scalars and axes of size 1 stretch.

    Returns:
      An array of the shape that the operands stretch to, in their dtype.

    Raises:
      TypeError: another dtype, or shapes that do not fit.

    Example:
      >>> lax.nextafter(1.0, 2.0) == 1 + jnp.finfo("float32").eps
      Array(True, dtype=bool)
    """
    return nextafter_p.bind(x1, x2)


# ---- powers ----------------------------------------------------------------------------


def _square_lowering(ctx: Any, x: Any) -> Any:
    aval, = ctx.avals_in
    if aval.dtype.kind != "c":
        return [hlo.multiply(x, x)]
    # As a product of factors: the difference of squares may overflow where the result is finite.
    (re, im), part = parts_ir(x, aval)
    same = compare_ir(hlo.abs(re), hlo.abs(im), "EQ", part.dtype)
    real_part = hlo.select(same, full_ir(0, part),
                           hlo.multiply(hlo.add(re, im), hlo.subtract(re, im)))
    return [hlo.complex(real_part, hlo.multiply(re, hlo.add(im, im)))]


square_p, square = unary("square", "iufc", _square_lowering,
                         lambda t, out, x: mul(t, mul(_c(x, 2), x)), "Elementwise `x * x`.",
                         example="3.0 -> 9")
sqrt_p, sqrt = to_an_accuracy(
    "sqrt", "fc", "stablehlo.sqrt", lambda t, out, x, **_: mul(t, div(_c(x, 0.5), out)),
    "Elementwise square root.", example="2.0 -> 1.4142")
rsqrt_p, rsqrt = to_an_accuracy(
    "rsqrt", "fc", "stablehlo.rsqrt",
    lambda t, out, x, **_: mul(t, mul(_c(x, -0.5), div(out, x))), "Elementwise `1 / sqrt(x)`.",
    example="4.0 -> 0.5")
cbrt_p, cbrt = to_an_accuracy(
    "cbrt", "f", "stablehlo.cbrt",
    lambda t, out, x, **_: mul(t, mul(_c(x, 1 / 3), integer_pow(out, -2))),
    "Elementwise cube root.", example="8.0 -> 2")


def _integer_pow_lowering(ctx: Any, x: Any, *, y: int) -> Any:
    aval = ctx.avals_in[0]
    one = full_ir(1, aval)
    if y == 0:
        return [one]
    # Squares of squares: as many multiplications as y has bits, twice.
    exponent, power, out = (y if y > 0 else -y), x, None
    while exponent:
        if exponent & 1:
            out = power if out is None else hlo.multiply(out, power)
        exponent >>= 1
        if exponent:
            power = hlo.multiply(power, power)
    return [out if y > 0 else hlo.divide(one, out)]


def _integer_pow_derivative(t: Any, out: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return zeros_of(typeof(out))
    return mul(t, mul(_c(x, y), x if y == 2 else integer_pow(x, y - 1)))


integer_pow_p, _ = unary("integer_pow", "iufc", _integer_pow_lowering, _integer_pow_derivative, "",
                         params={"y": int})


@boundary
def integer_pow(x: Any, y: int) -> Any:
    """Elementwise power with a static integer exponent.

    Args:
      x: numeric array.
      y: a Python int; negative only for inexact `x`.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: a negative power of integers, or an exponent that is not an int.

    Example:
      >>> lax.integer_pow(jnp.array([2.0, 3.0]), -2)
      Array([0.25      , 0.11111111], dtype=float32)
    """
    if y != int(y):
        msg = f"integer_pow: the exponent y must be an integer, not {y!r}; use lax.pow."
        raise TypeError(msg)
    if y < 0 and not dtypes.is_inexact(typeof(x).dtype):
        msg = f"integers cannot be raised to the negative power {y}; convert to floats first."
        raise TypeError(msg)
    return integer_pow_p.bind(x, y=int(y))


pow_p = EnginePrimitive("pow", params={})


@pow_p.def_abstract_eval
def _pow_type(x: Any, y: Any) -> ShapedArray:
    check_kinds("pow", x, "fc")
    if dtypes.kind(y.dtype) not in "iu" and y.dtype != x.dtype:
        msg = (f"pow needs an exponent of dtype {x.dtype} or of integer dtype for a base of dtype "
               f"{x.dtype}, got {y.dtype}.")
        raise TypeError(msg)
    return ShapedArray(broadcast_types("pow", (x, y)), x.dtype, x.weak_type and y.weak_type)


def _pow_lowering(ctx: Any, x: Any, y: Any) -> Any:
    x_aval, y_aval = ctx.avals_in
    if y_aval.dtype != x_aval.dtype:
        y = convert_ir(y, y_aval.update(shape=ctx.avals_out[0].shape), x_aval.dtype)
    return op("stablehlo.power", ctx.out_types, [x, y])


def _pow_left(t: Any, out: Any, x: Any, y: Any) -> Any:
    from_y = convert(y, typeof(x).dtype)
    # x ** -1 may be infinite where y is 0, but the derivative there is 0.
    is_zero = eq(from_y, _c(from_y, 0))
    one = stretch(_c(from_y, 1), typeof(from_y).shape)
    lowered = pow(x, select_n(is_zero, sub(from_y, _c(from_y, 1)), one))
    return mul(t, mul(from_y, lowered))


def _pow_right(t: Any, out: Any, x: Any, y: Any) -> Any:
    # log(0) is infinite, but 0 ** y is 0 around every y > 0: take log(1) there.
    is_zero = eq(x, _c(x, 0))
    safe = select_n(is_zero, x, stretch(_c(x, 1), typeof(x).shape))
    return mul(t, mul(log(safe), out))


define_elementwise_lowering(pow_p, _pow_lowering)
define_elementwise_batching(pow_p)
define_jvp_from_result(pow_p, _pow_left, _pow_right)
pow = public_function(pow_p, "pow", """
    Elementwise `x ** y`.

    Args:
      x: array or scalar of a floating or complex dtype.
      y: the same, or integers; scalars and axes of size 1 stretch.
    """, "x, y", example="2.0, 3.0 -> 8")

# ---- exponentials and logarithms -------------------------------------------------------

exp_p, exp = to_an_accuracy("exp", "fc", keeping_nan("stablehlo.exponential"),
                            lambda t, out, x, **_: mul(t, out), "Elementwise exponential.",
                            example="1.0 -> 2.7183")


def _exp2_lowering(ctx: Any, x: Any, *, accuracy: Any = None) -> Any:
    scaled = hlo.multiply(x, full_ir(np.log(2.0), ctx.avals_in[0]))
    return op("stablehlo.exponential", ctx.out_types, [scaled], accuracy_attributes(accuracy))


exp2_p, exp2 = to_an_accuracy(
    "exp2", "fc", keeping_nan(_exp2_lowering),
    lambda t, out, x, **_: mul(t, mul(_c(x, np.log(2.0)), out)), "Elementwise `2 ** x`.",
    example="3.0 -> 8")


def _expm1_derivative(t: Any, out: Any, x: Any, *, accuracy: Any = None) -> Any:
    if accuracy is AccuracyMode.HIGHEST:
        return mul(t, exp(x, accuracy=accuracy))
    return mul(t, add(out, _c(x, 1)))


expm1_p, expm1 = to_an_accuracy(
    "expm1", "fc", keeping_nan("stablehlo.exponential_minus_one"), _expm1_derivative,
    "Elementwise `exp(x) - 1`, exact for small `x`.", example="0.01 -> 0.01005")
log_p, log = to_an_accuracy("log", "fc", "stablehlo.log", lambda t, out, x, **_: div(t, x),
                            "Elementwise natural logarithm.", example="2.0 -> 0.69315")
log1p_p, log1p = to_an_accuracy(
    "log1p", "fc", "stablehlo.log_plus_one", lambda t, out, x, **_: div(t, add(x, _c(x, 1))),
    "Elementwise `log(1 + x)`, exact for small `x`.", example="1e-4 -> 9.9995e-05")


def _logistic_derivative(t: Any, out: Any, x: Any, *, accuracy: Any = None) -> Any:
    highest = accuracy is AccuracyMode.HIGHEST
    rest = logistic(neg(x), accuracy=accuracy) if highest else sub(_c(x, 1), out)
    return mul(t, mul(out, rest))


logistic_p, logistic = to_an_accuracy(
    "logistic", "fc", keeping_nan("stablehlo.logistic"), _logistic_derivative,
    "Elementwise `1 / (1 + exp(-x))`.", example="0.0 -> 0.5")

# ---- complex parts ---------------------------------------------------------------------

real_p, real = unary("real", "c", "stablehlo.real", None, "Elementwise real part.",
                     dtypes.real_dtype, example="1 + 2j -> 1.0")
imag_p, imag = unary("imag", "c", "stablehlo.imag", None, "Elementwise imaginary part.",
                     dtypes.real_dtype, example="1 + 2j -> 2.0")


def _complex_of(dtype: Any, name: str = "complex") -> Any:
    if dtype.itemsize < 4:
        msg = (f"{name} does not accept dtype {dtype}; the parts of complex numbers are float32 "
               "or float64.")
        raise TypeError(msg)
    return dtypes.complex_dtype(dtype)


complex_p, complex = binary("complex", "f", "stablehlo.complex", None, None,
                            "Elementwise complex number with real part `x` and imaginary part "
                            "`y`.", _complex_of, example="1.0, 2.0 -> (1+2j)")
define_linear(real_p, lambda ct, x: complex(ct, zeros_of(typeof(ct))))
define_linear(imag_p, lambda ct, x: complex(zeros_of(typeof(ct)), neg(ct)))
define_jvp_from_result(
    complex_p, lambda t, out, x, y: stretch(complex(t, _c(t, 0)), typeof(out).shape),
    lambda t, out, x, y: stretch(complex(_c(t, 0), t), typeof(out).shape))
_define_transpose(complex_p, lambda ct, x, y: real(ct), lambda ct, x, y: imag(neg(ct)))


def _conj_lowering(ctx: Any, x: Any, *, input_dtype: Any) -> Any:
    if not dtypes.is_complex(input_dtype):
        return [hlo.complex(x, full_ir(0, ctx.avals_in[0]))]
    (re, im), _ = parts_ir(x, ctx.avals_in[0])
    return [hlo.complex(re, hlo.negate(im))]


def _conj_transpose(ct: Any, x: Any, *, input_dtype: Any) -> Any:
    return conj(ct) if dtypes.is_complex(input_dtype) else real(ct)


conj_p = define_elementwise(
    "conj", "fc", _conj_lowering, lambda dtype: _complex_of(dtypes.real_dtype(dtype), "conj"),
    {"input_dtype": AnyDType})
define_linear(conj_p, _conj_transpose)


@boundary
def conj(x: Any) -> Any:
    """Elementwise complex conjugate; of floats, the complex numbers with these real parts.

    Args:
      x: array or scalar of a floating or complex dtype; of floats, of 32 or 64 bits.

    Returns:
      An array of the shape of `x`, of a complex dtype.

    Raises:
      TypeError: another dtype.

    Example:
      >>> print(lax.conj(1 + 2j))
      (1-2j)
    """
    return conj_p.bind(x, input_dtype=typeof(x).dtype)
