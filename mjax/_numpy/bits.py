"""Elementwise operations on bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.util import alias, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.shapes import (
    array_of,
    expand_dims,
    moveaxis,
    reduce_sum,
    reshape,
    scalar_of,
)
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._numpy.core import cast, choose, concrete_int, shape_of
from mjax._numpy.fused import fused
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
bitwise_not, bitwise_invert = alias(invert, "bitwise_not"), alias(invert, "bitwise_invert")


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
bitwise_left_shift = alias(left_shift, "bitwise_left_shift")
bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


def _count(x: Any) -> Any:
    kind = dtypes.kind(typeof(x).dtype)
    if kind == "b":
        return array_of(cast(x, np.dtype(np.uint8)))
    if kind == "i":
        # NumPy counts the bits of the absolute value of negative numbers.
        x = choose(lax.lt(x, scalar_of(typeof(x), 0)), lax.neg(x), x)
    return cast(lax.population_count(x), np.dtype(np.uint8))


bitwise_count = unary("bitwise_count", _count, "any", """
    Elementwise number of bits set in the absolute value.

    >>> jnp.bitwise_count(jnp.array([7, -8]))
    Array([3, 1], dtype=uint8)
    """, gives=" and dtype uint8")

# ---- packing ---------------------------------------------------------------------------

_uint8 = np.dtype(np.uint8)


def _weights(name: str, bitorder: str) -> Any:
    """The shift of each of eight bits."""
    if bitorder not in ("big", "little"):
        msg = f"{name}: bitorder must be 'big' or 'little', got {bitorder!r}."
        raise ValueError(msg)
    shifts = np.arange(8, dtype=np.uint8)
    return shifts[::-1] if bitorder == "big" else shifts


def _last(a: Any, axis: int | None) -> tuple[Any, int]:
    """The array with an axis moved to the end, and the axis; flattened for None."""
    if axis is None:
        return reshape(a, (typeof(a).size,)), 0
    axis = canonicalize_axis(axis, len(shape_of(a)))
    return moveaxis(a, axis, -1), axis


@fused(values=("a",), static_argnames=("axis", "bitorder"))
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Bytes of eight bits each: elements that are not 0 are bits that are set.

    Args:
      a: array of integers or booleans.
      axis: the axis along which bits are packed; None: all elements.
      bitorder: whether the first bit of a byte is the highest ("big") or the lowest ("little").

    Returns:
      An array of uint8 whose axis is an eighth as long, rounded up: zeros are appended.

    Raises:
      TypeError: another dtype.
      ValueError: the axis is out of range, or the order unknown.

    Source: `numpy.packbits`.

    Example:
      >>> jnp.packbits(jnp.array([1, 0, 1]))
      Array([160], dtype=uint8)
    """
    shifts = _weights("packbits", bitorder)
    if dtypes.kind(typeof(a).dtype) not in "biu":
        msg = f"packbits is for integers and booleans, not for dtype {typeof(a).dtype}."
        raise TypeError(msg)
    a, axis = _last(a, axis)
    ones = cast(lax.ne(a, np.zeros((), typeof(a).dtype)[()]), _uint8)
    *rest, size = shape_of(ones)
    count = -(-size // 8)
    ones = pad(ones, np.uint8(0), [(0, 0, 0)] * len(rest) + [(0, 8 * count - size, 0)])
    eights = reshape(ones, (*rest, count, 8))
    shifts = shifts.reshape((1,) * (len(rest) + 1) + (8,))
    return moveaxis(reduce_sum(lax.shift_left(eights, shifts), (len(rest) + 1,)), -1, axis)


@fused(values=("a",), static_argnames=("axis", "count", "bitorder"))
def unpackbits(a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
               ) -> Any:
    """The bits of bytes, as zeros and ones.

    Args:
      a: array of uint8.
      axis: the axis along which bits are stored; None: all elements.
      count: the number of bits; missing ones are zeros. A negative number drops bits at the end.
      bitorder: whether the first bit of a byte is the highest ("big") or the lowest ("little").

    Returns:
      An array of uint8 whose axis is eight times as long, or `count` long.

    Raises:
      TypeError: another dtype.
      ValueError: the axis is out of range, or the order unknown.

    Source: `numpy.unpackbits`.

    Example:
      >>> jnp.unpackbits(jnp.array([160], dtype=jnp.uint8), count=4)
      Array([1, 0, 1, 0], dtype=uint8)
    """
    shifts = _weights("unpackbits", bitorder)
    if typeof(a).dtype != _uint8:
        msg = f"unpackbits is for dtype uint8, not for {typeof(a).dtype}."
        raise TypeError(msg)
    a, axis = _last(a, axis)
    *rest, size = shape_of(a)
    bytes_ = expand_dims(a, (len(rest) + 1,))
    shifts = shifts.reshape((1,) * (len(rest) + 1) + (8,))
    bits = lax.bitwise_and(lax.shift_right_logical(bytes_, shifts), np.uint8(1))
    bits = reshape(bits, (*rest, 8 * size))
    if count is not None:
        count = concrete_int(count, "unpackbits: count")
        count = max(8 * size + count, 0) if count < 0 else count
        bits = slice_in_dim(bits, 0, min(count, 8 * size), axis=len(rest))
        bits = pad(bits, np.uint8(0), [(0, 0, 0)] * len(rest) + [(0, max(count - 8 * size, 0), 0)])
    return moveaxis(bits, -1, axis)


__all__ = [
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "invert", "left_shift", "packbits",
    "right_shift", "unpackbits",
]
