"""Greatest common divisors and least common multiples."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.control.loops.looping import while_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._numpy.core import broadcast_values, cast, choose, promote_args
from mjax._numpy.fused import fused
from mjax._numpy.reductions import any as any_


def _sizes(name: str, x1: Any, x2: Any) -> tuple[Any, Any, bool]:
    """The absolute values of two arrays of integers, and whether their type is weak."""
    x1, x2 = broadcast_values(name, *promote_args(name, x1, x2))
    aval = typeof(x1)
    if not dtypes.is_integer(aval.dtype):
        msg = f"Arguments to {name} must be integers, got dtype {aval.dtype}."
        raise ValueError(msg)
    # JAX's loop keeps weak types of scalars only.
    weak = not aval.shape and aval.weak_type and typeof(x2).weak_type
    return _size(cast(x1, aval.dtype)), _size(cast(x2, aval.dtype)), weak


def _size(x: Any) -> Any:
    return lax.abs(x) if dtypes.kind(typeof(x).dtype) == "i" else x


def _divisor(x1: Any, x2: Any) -> Any:
    """Euclid's algorithm, until it has ended for all elements."""

    def step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = pair
        going = lax.ne(b, _c(b, 0))
        rest = lax.rem(a, choose(going, b, _c(b, 1)))
        return choose(going, b, a), choose(going, rest, b)

    divisor, _ = while_loop(lambda pair: any_(lax.ne(pair[1], _c(pair[1], 0))), step, (x1, x2))
    # The least integer does not have an absolute value; its proper divisors do.
    return _size(divisor)


@fused
def gcd(x1: Any, x2: Any) -> Any:
    """Elementwise greatest common divisor of absolute values; of 0 and 0 it is 0.

    Args:
      x1: array or scalar of integers.
      x2: array or scalar of integers.

    Returns:
      An array of the shape that `x1` and `x2` broadcast to.

    Raises:
      ValueError: the dtypes are not integer ones.

    Source: `numpy.gcd`.

    Example:
      >>> jnp.gcd(jnp.array([12, -4]), 18)
      Array([6, 2], dtype=int32)
    """
    x1, x2, weak = _sizes("gcd", x1, x2)
    return cast(_divisor(x1, x2), typeof(x1).dtype, weak)


@fused
def lcm(x1: Any, x2: Any) -> Any:
    """Elementwise least common multiple of absolute values; 0 where one is 0.

    Args:
      x1: array or scalar of integers.
      x2: array or scalar of integers.

    Returns:
      An array of the shape that `x1` and `x2` broadcast to.

    Raises:
      ValueError: the dtypes are not integer ones.

    Source: `numpy.lcm`.

    Example:
      >>> jnp.lcm(jnp.array([4, 0]), 6)
      Array([12,  0], dtype=int32)
    """
    x1, x2, weak = _sizes("lcm", x1, x2)
    divisor = _divisor(x1, x2)
    safe = choose(lax.ne(divisor, _c(divisor, 0)), divisor, np.ones((), typeof(x1).dtype)[()])
    return cast(lax.mul(lax.div(x1, safe), x2), typeof(x1).dtype, weak)


__all__ = ["gcd", "lcm"]
