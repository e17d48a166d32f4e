"""Trigonometric and hyperbolic functions and their inverses: rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.accuracy import AccuracyMode, accuracy_attributes
from mjax._engine.primitives.arithmetic import add, div, logistic, mul, neg, rsqrt, square, sub
from mjax._engine.primitives.comparing import compare_ir, parts_ir
from mjax._engine.primitives.elementwise import constant_like, keeping_nan
from mjax._engine.primitives.emit import full as full_ir
from mjax._engine.primitives.emit import hlo, op
from mjax._engine.primitives.rows import binary, to_an_accuracy, unary

_c = constant_like


def _of_complex(function: Callable[..., Any], real: str) -> Callable[..., Any]:
    """A lowering to the operation `real`; for complex numbers to `function` of their parts.

    XLA's own operations lose small parts and return NaN for infinite parts.
    """

    def lowering(ctx: Any, x: Any, *, accuracy: Any = None) -> Any:
        aval, = ctx.avals_in
        if aval.dtype.kind != "c":
            return op(real, ctx.out_types, [x], accuracy_attributes(accuracy))
        (re, im), part = parts_ir(x, aval)

        def call(name: str, value: Any) -> Any:
            return op(f"stablehlo.{name}", [value.type], [value], accuracy_attributes(accuracy))[0]

        up = call("exponential_minus_one", im)
        down = call("exponential_minus_one", hlo.negate(im))
        half, one = full_ir(0.5, part), full_ir(1, part)
        sinh_im = hlo.multiply(hlo.subtract(up, down), half)
        cosh_im = hlo.add(hlo.multiply(hlo.add(up, down), half), one)
        on_axis = compare_ir(re, full_ir(0, part), "EQ", part.dtype)
        sine, cosine = call("sine", re), call("cosine", re)
        return [hlo.complex(*function(re, im, on_axis, sine, cosine, sinh_im, cosh_im, part))]

    return lowering


def _complex_sine(re: Any, im: Any, on_axis: Any, sine: Any, cosine: Any, sinh_im: Any,
                  cosh_im: Any, part: ShapedArray) -> tuple[Any, Any]:
    # On the imaginary axis a factor is 0, and the other one may be infinite.
    return hlo.select(on_axis, re, hlo.multiply(sine, cosh_im)), hlo.multiply(cosine, sinh_im)


def _complex_cosine(re: Any, im: Any, on_axis: Any, sine: Any, cosine: Any, sinh_im: Any,
                    cosh_im: Any, part: ShapedArray) -> tuple[Any, Any]:
    above = compare_ir(im, full_ir(0, part), "GE", part.dtype)
    on = hlo.select(above, hlo.negate(re), re)
    off = hlo.negate(hlo.multiply(sine, sinh_im))
    return hlo.multiply(cosine, cosh_im), hlo.select(on_axis, on, off)


sin_p, sin = to_an_accuracy(
    "sin", "fc", _of_complex(_complex_sine, "stablehlo.sine"),
    lambda t, out, x, **accuracy: mul(t, cos(x, **accuracy)), "Elementwise sine.",
    example="0.5 -> 0.47943")
cos_p, cos = to_an_accuracy(
    "cos", "fc", _of_complex(_complex_cosine, "stablehlo.cosine"),
    lambda t, out, x, **accuracy: neg(mul(t, sin(x, **accuracy))), "Elementwise cosine.",
    example="0.5 -> 0.87758")


def _tan_lowering(ctx: Any, x: Any, *, accuracy: Any = None) -> Any:
    attributes = accuracy_attributes(accuracy)
    # Only StableHLO's operation has attributes; every jaxlib compiles CHLO's.
    return op("stablehlo.tan" if attributes else "chlo.tan", ctx.out_types, [x], attributes)


tan_p, tan = to_an_accuracy(
    "tan", "fc", _tan_lowering, lambda t, out, x, **_: mul(t, add(_c(x, 1), square(out))),
    "Elementwise tangent.", example="0.5 -> 0.5463")
asin_p, asin = unary("asin", "fc", "chlo.asin",
                     lambda t, out, x: mul(t, rsqrt(sub(_c(x, 1), square(x)))),
                     "Elementwise inverse sine.", example="0.5 -> 0.5236")
acos_p, acos = unary("acos", "fc", "chlo.acos",
                     lambda t, out, x: mul(t, neg(rsqrt(sub(_c(x, 1), square(x))))),
                     "Elementwise inverse cosine.", example="0.5 -> 1.0472")
atan_p, atan = unary("atan", "fc", "chlo.atan",
                     lambda t, out, x: div(t, add(_c(x, 1), square(x))),
                     "Elementwise inverse tangent.", example="1.0 -> 0.7854")
sinh_p, sinh = unary("sinh", "fc", keeping_nan("chlo.sinh"), lambda t, out, x: mul(t, cosh(x)),
                     "Elementwise hyperbolic sine.", example="0.5 -> 0.5211")
cosh_p, cosh = unary("cosh", "fc", keeping_nan("chlo.cosh"), lambda t, out, x: mul(t, sinh(x)),
                     "Elementwise hyperbolic cosine.", example="0.5 -> 1.1276")


def _tanh_derivative(t: Any, out: Any, x: Any, *, accuracy: Any = None) -> Any:
    if accuracy is not AccuracyMode.HIGHEST:
        # 1 - out**2 loses all digits where out is near 1; this form keeps them.
        return mul(add(t, mul(t, out)), sub(_c(x, 1), out))
    # 1 - tanh(x)**2 = 4 s(2x) s(-2x), s the logistic function, without any difference.
    twice = mul(_c(x, 2), x)
    product = mul(logistic(twice, accuracy=accuracy), logistic(neg(twice), accuracy=accuracy))
    return mul(t, mul(_c(x, 4), product))


tanh_p, tanh = to_an_accuracy("tanh", "fc", "stablehlo.tanh", _tanh_derivative,
                              "Elementwise hyperbolic tangent.", example="0.5 -> 0.46212")
asinh_p, asinh = unary("asinh", "fc", "chlo.asinh",
                       lambda t, out, x: mul(t, rsqrt(add(square(x), _c(x, 1)))),
                       "Elementwise inverse hyperbolic sine.", example="0.5 -> 0.48121")
acosh_p, acosh = unary("acosh", "fc", "chlo.acosh", lambda t, out, x: mul(
    t, mul(rsqrt(sub(x, _c(x, 1))), rsqrt(add(x, _c(x, 1))))),
    "Elementwise inverse hyperbolic cosine.", example="2.0 -> 1.317")
atanh_p, atanh = unary("atanh", "fc", "chlo.atanh", lambda t, out, x: div(
    t, mul(sub(_c(x, 1), x), add(_c(x, 1), x))), "Elementwise inverse hyperbolic tangent.",
    example="0.5 -> 0.54931")
atan2_p, atan2 = binary(
    "atan2", "fc", "stablehlo.atan2",
    lambda t, out, x, y: mul(t, div(y, add(square(x), square(y)))),
    lambda t, out, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
    "Elementwise angle of the point with coordinates `y` and `x`, that is `atan(x / y)` in the "
    "right quadrant.", example="1.0, -1.0 -> 2.3562")
