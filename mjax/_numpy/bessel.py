"""Modified Bessel functions, from those that are scaled by `exp(-abs(x))`."""

from __future__ import annotations

from typing import Any

from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.special import bessel_i0e, bessel_i1e


def _unscaled(x: Any, scaled: Any) -> Any:
    """The product with `exp(abs(x))`, which may overflow although the product does not."""
    half = lax.exp(lax.mul(lax.abs(x), constant_like(x, 0.5)))
    return lax.mul(lax.mul(half, scaled), half)


@custom_jvp
def bessel_i0(x: Any) -> Any:
    """The function of order 0, of an array of floats."""
    return _unscaled(x, bessel_i0e(x))


# Slopes of the scaled functions would cancel near 0.
bessel_i0.defjvps(lambda t, out, x: lax.mul(t, bessel_i1(x)))


@custom_jvp
def bessel_i1(x: Any) -> Any:
    """The function of order 1, of an array of floats."""
    return _unscaled(x, bessel_i1e(x))


def _i1_derivative(t: Any, out: Any, x: Any) -> Any:
    # The limit of the quotient at 0 is 1/2.
    zero = lax.eq(x, constant_like(x, 0))
    one, half = [stretch(constant_like(x, c), typeof(x).shape) for c in (1, 0.5)]
    quotient = select_n(zero, lax.div(out, select_n(zero, x, one)), half)
    return lax.mul(t, lax.sub(bessel_i0(x), quotient))


bessel_i1.defjvps(_i1_derivative)
