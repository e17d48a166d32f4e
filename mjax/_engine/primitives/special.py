"""Special functions: error functions, gamma and its relatives, incomplete ones, Bessel.

Each is one row. Functions of CHLO are lowered to it. The others are formulas: the Bessel
functions here, the incomplete functions in `incomplete`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import ml_dtypes

from mjax._engine.base.errors import LazyNoDerivativeError
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import incomplete
from mjax._engine.primitives.arithmetic import (
    abs,
    add,
    div,
    exp,
    gt,
    log,
    log1p,
    mul,
    neg,
    sign,
    square,
    sub,
)
from mjax._engine.primitives.elementwise import (
    constant_like,
    define_elementwise,
    public_function,
    stretch,
)
from mjax._engine.primitives.formula import Number, by_formula
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.tangents import define_jvp_from_result
from mjax._engine.tracing.primitive import Primitive

_c = constant_like


def _function(name: str, args: str, lowering: Any, derivatives: list[Callable[..., Any]],
              doc: str, public: str = "", example: str = "") -> tuple[Primitive, Any]:
    """A row of the table: a function of floats, with a derivative per operand.

    Args:
      name: the primitive's name.
      args: names of the arguments.
      lowering: the name of a CHLO operation or a lowering rule.
      derivatives: `(tangent, result, *operands) -> tangent of the result`.
      doc: docstring of the function users call.
      public: its name, if it is not the primitive's.
      example: arguments of a call, `->`, and the printed result.
    """
    primitive = define_elementwise(name, ["f"] * len(derivatives), lowering)
    define_jvp_from_result(primitive, *derivatives)
    return primitive, public_function(primitive, public or name, doc, args,
                                      "f" if args == "x" else "", example)


def _no_derivative(name: str, operands: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any) -> NoReturn:
        raise LazyNoDerivativeError(lambda: (
            f"{name} has no derivative with respect to {operands}: none is known in closed form. "
            "Hold it constant (lax.stop_gradient), or give the function that calls it a "
            "custom derivative (custom_jvp)."))
    return refuse


# ---- error functions -------------------------------------------------------------------


def _gaussian(scale: float, sign: Callable[[Any], Any]) -> Callable[..., Any]:
    """The derivative `t * scale * exp(sign(x**2))`."""
    return lambda t, out, x: mul(_c(t, scale), mul(t, exp(sign(square(x)))))


erf_p, erf = _function("erf", "x", "chlo.erf", [_gaussian(2 / math.sqrt(math.pi), neg)],
                       "Elementwise error function.", example="0.5 -> 0.5205")
erfc_p, erfc = _function("erfc", "x", "chlo.erfc", [_gaussian(-2 / math.sqrt(math.pi), neg)],
                         "Elementwise complementary error function: `1 - erf(x)`, accurate "
                         "where that is small.", example="3.0 -> 2.209e-05")
erf_inv_p, erf_inv = _function(
    "erf_inv", "x", "chlo.erf_inv",
    [lambda t, out, x: mul(_c(t, math.sqrt(math.pi) / 2), mul(t, exp(square(out))))],
    "Elementwise inverse of the error function; infinite at -1 and 1.", example="0.5 -> 0.47694")

# ---- gamma and its relatives -----------------------------------------------------------

lgamma_p, lgamma = _function("lgamma", "x", "chlo.lgamma",
                             [lambda t, out, x: mul(t, digamma(x))],
                             "Elementwise logarithm of the absolute value of the gamma function.",
                             example="5.0 -> 3.1781")
digamma_p, digamma = _function("digamma", "x", "chlo.digamma",
                               [lambda t, out, x: mul(t, polygamma(_c(x, 1), x))],
                               "Elementwise derivative of the logarithm of the gamma function.",
                               example="2.0 -> 0.42278")
polygamma_p, polygamma = _function(
    "polygamma", "m, x", "chlo.polygamma",
    [_no_derivative("polygamma", "its order m"),
     lambda t, out, m, x: mul(t, polygamma(add(m, _c(m, 1)), x))],
    """
    Elementwise derivative of order `m` of `digamma`.

    Args:
      m: order, a float array with whole values; NaN for others.
      x: array of the same dtype.

    Source: CHLO `polygamma`.
    """, example="1.0, 2.0 -> 0.64493")
zeta_p, zeta = _function(
    "zeta", "x, q", "chlo.zeta",
    [_no_derivative("zeta", "its exponent x"),
     lambda t, out, x, q: mul(t, mul(neg(x), zeta(add(x, _c(x, 1)), q)))],
    """
    Elementwise Hurwitz zeta function: the sum of `(q + k) ** -x` over k = 0, 1, ...

    Args:
      x: array or scalar of a floating dtype, the exponent.
      q: the same, of the dtype of `x`; scalars and axes of size 1 stretch.

    Raises:
      TypeError: another dtype, or shapes that do not fit.

    Source: CHLO `zeta`.
    """, example="2.0, 1.0 -> 1.6449")

# ---- incomplete gamma and beta functions -----------------------------------------------


def _gamma_slope(t: Any, out: Any, a: Any, x: Any) -> Any:
    """`t x**(a-1) exp(-x) / Gamma(a)`, the derivative of igamma in x."""
    exponent = sub(sub(mul(sub(a, _c(a, 1)), log(x)), x), lgamma(a))
    return mul(t, exp(exponent))


def _grad_a_slope(t: Any, out: Any, a: Any, x: Any) -> Any:
    return mul(_gamma_slope(t, out, a, x), sub(log(x), digamma(a)))


def _beta_slope(t: Any, out: Any, a: Any, b: Any, x: Any) -> Any:
    """`t x**(a-1) (1-x)**(b-1) / B(a, b)`."""
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(mul(sub(b, _c(b, 1)), log1p(neg(x))), mul(sub(a, _c(a, 1)), log(x)))
    return mul(t, exp(sub(powers, log_beta)))


igamma_p, igamma = _function(
    "igamma", "a, x", by_formula(incomplete.igamma),
    [lambda t, out, a, x: mul(t, igamma_grad_a(a, x)), _gamma_slope],
    """
    Elementwise regularized lower incomplete gamma function, P(a, x).

    Args:
      a: shape parameter, not negative.
      x: upper limit of the integral, not negative; NaN is the result where one of them is.
    """, example="2.0, 1.0 -> 0.26424")
igammac_p, igammac = _function(
    "igammac", "a, x", by_formula(incomplete.igammac),
    [lambda t, out, a, x: neg(mul(t, igamma_grad_a(a, x))),
     lambda t, out, a, x: neg(_gamma_slope(t, out, a, x))],
    """
    Elementwise regularized upper incomplete gamma function, Q(a, x) = 1 - P(a, x).

    Args:
      a: shape parameter, not negative.
      x: lower limit of the integral, not negative; NaN is the result where one of them is.
    """, example="2.0, 1.0 -> 0.73576")
igamma_grad_a_p, igamma_grad_a = _function(
    "igamma_grad_a", "a, x", by_formula(incomplete.igamma_grad_a),
    [_no_derivative("igamma_grad_a", "its shape parameter a"), _grad_a_slope],
    """
    Elementwise derivative of `igamma(a, x)` with respect to `a`.

    Args:
      a: array or scalar of a floating dtype, positive.
      x: the same, of the dtype of `a`; scalars and axes of size 1 stretch.

    Raises:
      TypeError: another dtype, or shapes that do not fit.
    """,
    example="2.0, 1.0 -> -0.2762")
random_gamma_grad_p, random_gamma_grad = _function(
    "random_gamma_grad", "a, x", by_formula(incomplete.random_gamma_grad),
    [_no_derivative("random_gamma_grad", "its arguments")] * 2,
    """
    Elementwise derivative of a sample of the gamma distribution with respect to its shape.

    Args:
      a: shape parameter, positive.
      x: the sample, as the quantile of a fixed probability.

    Returns:
      `-(dP/da) / (dP/dx)`, where P is `igamma(a, x)`.

    Source: Figurnov, Mohamed, Mnih 2018, "Implicit reparameterization gradients".
    """, example="2.0, 1.0 -> 0.75078")
_in_shape = _no_derivative("betainc", "its parameters a and b")
regularized_incomplete_beta_p, betainc = _function(
    "regularized_incomplete_beta", "a, b, x", by_formula(incomplete.betainc),
    [_in_shape, _in_shape, _beta_slope],
    """
    Elementwise regularized incomplete beta function, I_x(a, b).

    Args:
      a: parameter, not negative.
      b: parameter, not negative.
      x: upper limit of the integral, in [0, 1]; NaN is the result where one of them is not in
        its range.
    """, "betainc", example="2.0, 3.0, 0.5 -> 0.6875")
regularized_incomplete_beta = betainc

# ---- Bessel functions ------------------------------------------------------------------

#: Chebyshev coefficients of `exp(-x) I0(x)` on [0, 8], in `x / 4 - 1`.
_I0_LOW = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165,
    -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
    -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17)
#: Those of `exp(-x) I0(x) sqrt(x)` on [8, inf], in `16 / x - 1`.
_I0_HIGH = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09,
    4.94060238822497e-10, 1.1889147107846439e-11, -3.1499165279632416e-11,
    -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15,
    -3.425485619677219e-16, -2.8276239805165836e-16, 3.461222867697461e-17,
    4.46562142029676e-17)


def _i0e(x: Number) -> Number:
    x = x.__abs__()
    low = (x * 0.25 - 1.0).chebyshev(_I0_LOW)
    high = (16.0 / x - 1.0).chebyshev(_I0_HIGH) / x.sqrt()
    return (x <= 8.0).where(low, high)


def _i0e_derivative(t: Any, out: Any, x: Any) -> Any:
    return mul(t, sub(bessel_i1e(x), mul(sign(x), out)))


def _i1e_derivative(t: Any, out: Any, x: Any) -> Any:
    # The limit of i1e(x) / x at 0 is 1/2; the quotient there is NaN.
    eps = ml_dtypes.finfo(typeof(x).dtype).eps
    shape = typeof(x).shape
    regular = gt(abs(x), _c(x, eps))
    safe = select_n(regular, stretch(_c(x, eps), shape), x)
    slope = sub(bessel_i0e(safe), mul(out, add(sign(safe), div(_c(x, 1), safe))))
    return mul(t, select_n(regular, stretch(_c(x, 0.5), shape), slope))


bessel_i0e_p, bessel_i0e = _function(
    "bessel_i0e", "x", by_formula(_i0e), [_i0e_derivative],
    "Elementwise modified Bessel function of order 0, times `exp(-abs(x))`.",
    example="1.0 -> 0.46576")
bessel_i1e_p, bessel_i1e = _function(
    "bessel_i1e", "x", "chlo.bessel_i1e", [_i1e_derivative],
    "Elementwise modified Bessel function of order 1, times `exp(-abs(x))`.",
    example="1.0 -> 0.20791")
