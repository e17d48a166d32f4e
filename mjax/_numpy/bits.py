"""Elementwise operations on bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.core import cast, choose
from mjax._numpy.ufunc import binary, unary

bitwise_and = binary("bitwise_and", lax.and_p.bind, "any", """
    Elementwise `x & y`, of integers or booleans.

    >>> jnp.bitwise_and(jnp.array([5, 6]), 3)
    Array([1, 2], dtype=int32)
    """)
bitwise_or = binary("bitwise_or", lax.or_p.bind, "any", """
    Elementwise `x | y`, of integers or booleans.

    >>> jnp.bitwise_or(jnp.array([5, 6]), 3)
    Array([7, 7], dtype=int32)
    """)
bitwise_xor = binary("bitwise_xor", lax.xor_p.bind, "any", """
    Elementwise `x ^ y`, of integers or booleans.

    >>> jnp.bitwise_xor(jnp.array([5, 6]), 3)
    Array([6, 5], dtype=int32)
    """)
invert = unary("invert", lax.not_p.bind, "any", """
    Elementwise `~x`, of integers or booleans.

    >>> jnp.invert(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """)
bitwise_not = bitwise_invert = invert


def _shift_right(x: Any, y: Any) -> Any:
    signed = dtypes.kind(typeof(x).dtype) == "i"
    return (lax.shift_right_arithmetic if signed else lax.shift_right_logical)(x, y)


left_shift = binary("left_shift", lax.shift_left_p.bind, "numeric", """
    Elementwise `x << y`, of integers.

    >>> jnp.left_shift(jnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """)
right_shift = binary("right_shift", _shift_right, "numeric", """
    Elementwise `x1 >> x2`, of integers; the sign bit of signed ones is repeated.

    >>> jnp.right_shift(jnp.array([12, -8]), 2)
    Array([ 3, -2], dtype=int32)
    """, ("x1", "x2"))
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


def _count(x: Any) -> Any:
    kind = dtypes.kind(typeof(x).dtype)
    if kind == "b":
        return cast(x, np.dtype(np.uint8))
    if kind == "i":
        # Of negative numbers NumPy counts the bits of the absolute value.
        x = choose(lax.lt(x, np.asarray(0, typeof(x).dtype)[()]), lax.neg(x), x)
    return cast(lax.population_count(x), np.dtype(np.uint8))


bitwise_count = unary("bitwise_count", _count, "any", """
    Elementwise number of bits set in the absolute value.

    >>> jnp.bitwise_count(jnp.array([7, -8]))
    Array([3, 1], dtype=uint8)
    """, gives=" and dtype uint8")
