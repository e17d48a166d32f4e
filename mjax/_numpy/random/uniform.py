"""Bits, and uniformly distributed values: floats, integers, coins."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import (
    add,
    bitwise_and,
    bitwise_or,
    gt,
    le,
    lt,
    max,
    min,
    mul,
    rem,
    shift_right_logical,
    sub,
)
from mjax._engine.primitives.composed import common_shape
from mjax._engine.primitives.convert import bitcast_convert_type, convert
from mjax._engine.primitives.joining import unstack
from mjax._engine.primitives.keys import random_bits_p, random_split_p
from mjax._engine.primitives.select import select_n
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.random.common import (
    dtype_argument,
    float_dtype,
    numeric_dtype,
    one_key,
    one_of,
    optional_shape,
    parameter,
    result_shape,
    sampler,
    scalar,
    shape_argument,
    spread,
    to_rank,
    uint_dtype,
    uint_of,
)

# ---- bits ------------------------------------------------------------------------------


@sampler(shape=shape_argument, dtype=uint_dtype)
def _bits(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return draw_bits(one_key("bits", key), shape, 8 * dtype.itemsize)


def draw_bits(key: Any, shape: tuple[int, ...], width: int) -> Any:
    """Random unsigned integers of a width in bits; for samplers."""
    return random_bits_p.bind(key, bit_width=width, shape=shape)


def split_key(key: Any, num: int = 2) -> Sequence[Any]:
    """Several keys made of one; for samplers."""
    return unstack(random_split_p.bind(key, shape=(num,)))


@lays_out
def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Uniformly distributed unsigned integers over the whole range of the dtype.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: an unsigned integer dtype of 8 to 64 bits; by default uint32, or uint64 in x64 mode.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> random.bits(random.key(0), (2,), "uint8")
      Array([167, 146], dtype=uint8)
    """
    return _bits(key, shape=shape, dtype=dtype)


# ---- floats ----------------------------------------------------------------------------


def unit(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniformly distributed floats in [0, 1); for samplers.

    Random bits become the mantissa of a number in [1, 2), from which 1 is taken.
    """
    info = ml_dtypes.finfo(dtype)
    width = info.bits
    if width < 8:
        msg = f"random floats of dtype {dtype} are not supported; convert them from a wider one."
        raise TypeError(msg)
    # A mantissa with fewer than 8 bits needs at most 8 random bits.
    drawn = 8 if info.nmant < 8 else width
    mantissa = convert(draw_bits(key, shape, drawn), uint_of(width))
    mantissa = shift_right_logical(mantissa, scalar(uint_of(width), drawn - info.nmant))
    one = np.ones((), dtype).view(uint_of(width))[()]
    return sub(bitcast_convert_type(bitwise_or(mantissa, one), dtype), scalar(dtype, 1))


def between(key: Any, shape: tuple[int, ...], dtype: Any, low: Any, high: Any) -> Any:
    """Uniformly distributed floats in [low, high); for samplers.

    The bounds are values or constants of this dtype, scalars or of the result's rank.
    """
    floats = add(mul(unit(key, shape, dtype), sub(high, low)), low)
    return max(low, floats)  # rounding may go below


@sampler(shape=shape_argument, dtype=float_dtype)
def _uniform(key: Any, *bounds: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    key = one_key("uniform", key)
    if not bounds:
        return unit(key, shape, dtype)
    result_shape("uniform", shape, *bounds)
    return between(key, shape, dtype, *[parameter(bound, dtype, shape) for bound in bounds])


@lays_out
def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
            ) -> Any:
    """Uniformly distributed floats in `[minval, maxval)`.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float dtype; by default float32, or float64 in x64 mode.
      minval: lower bound, broadcast to `shape`.
      maxval: upper bound, broadcast to `shape`.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, bounds that do not fit the shape, or several keys.

    Example:
      >>> random.uniform(random.key(0), (3,)).shape
      (3,)
    """
    if type(minval) is float and type(maxval) is float and minval == 0 and maxval == 1:
        return _uniform(key, shape=shape, dtype=dtype)
    return _uniform(key, minval, maxval, shape=shape, dtype=dtype)


# ---- integers --------------------------------------------------------------------------


def _clip_to(x: Any, low: int, high: int) -> Any:
    """Clips numbers to bounds; bounds outside of the dtype's range are ignored."""
    dtype = typeof(x).dtype
    if dtypes.is_integer(dtype):
        own = np.iinfo(dtype)
        low, high = builtins.max(low, own.min), builtins.min(high, own.max)
    return min(max(x, scalar(dtype, low)), scalar(dtype, high))


@sampler(shape=shape_argument, dtype=dtype_argument("iu", np.int64, "an int", TypeError))
def _randint(key: Any, minval: Any, maxval: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    result_shape("randint", shape, minval, maxval)
    key = one_key("randint", key)
    # Narrow integers are drawn as wide ones, which can also hold the excluded upper bound.
    info, wide = ml_dtypes.iinfo(dtype), dtype if dtype.itemsize >= 4 else np.dtype("int32")
    low, high = [_integer_bound(bound, wide) for bound in (minval, maxval)]
    if wide == dtype:
        return integers(key, shape, dtype, low, high)
    low, high = _clip_to(low, info.min, info.max), _clip_to(high, info.min, info.max + 1)
    return convert(integers(key, shape, wide, low, high), dtype)


def _integer_bound(bound: Any, dtype: Any) -> Any:
    """A bound as integers; floats are clipped to the range of the dtype."""
    kind = dtypes.kind(typeof(bound).dtype)
    if kind in "iu":
        return bound
    if kind != "f":
        msg = f"randint takes integers as bounds, got {typeof(bound)}."
        raise TypeError(msg)
    info = np.iinfo(dtype)
    return convert(_clip_to(bound, info.min, info.max), dtype)


def integers(key: Any, shape: tuple[int, ...], dtype: Any, minval: Any, maxval: Any) -> Any:
    """Uniformly distributed integers of 32 or 64 bits in [minval, maxval); for samplers.

    Two words are drawn: `(high * 2**width + low) % span` is computed in unsigned arithmetic,
    so the distribution deviates from uniform by at most `span / 2**(2 * width)`.
    """
    info = np.iinfo(dtype)
    width, unsigned = info.bits, uint_of(info.bits)
    given = typeof(maxval).dtype
    all_values = gt(maxval, scalar(given, builtins.min(info.max, np.iinfo(given).max)))
    low, high = [to_rank(convert(_clip_to(b, info.min, info.max), dtype), len(shape))
                 for b in (minval, maxval)]
    first, second = [draw_bits(k, shape, width) for k in split_key(key)]

    one = scalar(unsigned, 1)
    span = convert(sub(high, low), unsigned)
    empty, full = le(high, low), bitwise_and(to_rank(all_values, len(shape)), gt(high, low))
    shape_of_span = common_shape([typeof(span).shape, typeof(full).shape])
    span, empty, full = [spread(x, shape_of_span) for x in (span, empty, full)]
    span = select_n(empty, span, spread(one, shape_of_span))
    # The excluded upper bound may be one above the greatest value of the dtype.
    span = select_n(full, span, add(span, one))

    multiplier = rem(scalar(unsigned, 2 ** (width // 2)), span)
    multiplier = rem(mul(multiplier, multiplier), span)
    offset = rem(add(mul(rem(first, span), multiplier), rem(second, span)), span)
    return add(low, convert(offset, dtype))


@lays_out
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Uniformly distributed integers in `[minval, maxval)`.

    Args:
      key: a key.
      shape: shape of the result.
      minval: lower bound, included, broadcast to `shape`.
      maxval: upper bound, excluded, broadcast to `shape`; where it is not above the lower one,
        the result is the lower one.
      dtype: an integer dtype; by default int32, or int64 in x64 mode. Bounds beyond its range
        are clipped to it.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key, or bounds or dtype are not of integers.
      ValueError: bounds that do not fit the shape, or several keys.

    Example:
      >>> random.randint(random.key(0), (3,), 0, 10).dtype
      dtype('int32')
    """
    return _randint(key, minval, maxval, shape=shape, dtype=dtype)


# ---- coins -----------------------------------------------------------------------------


@sampler(shape=optional_shape, mode=one_of("mode", "low", "high"))
def _bernoulli(key: Any, p: Any, *, shape: tuple[int, ...] | None, mode: str) -> Any:
    dtype = typeof(p).dtype
    if not dtypes.is_float(dtype):
        msg = f"bernoulli probability `p` must have a floating dtype, got {dtype}."
        raise TypeError(msg)
    shape = result_shape("bernoulli", shape, p)
    return coins(one_key("bernoulli", key), to_rank(p, len(shape)), shape, dtype, mode)


def coins(key: Any, p: Any, shape: tuple[int, ...], dtype: Any, mode: str = "low") -> Any:
    """Booleans that are true with probability `p`; for samplers."""
    if mode == "low":
        return lt(unit(key, shape, dtype), p)
    coarse, fine = unstack(unit(key, (2, *shape), dtype))
    fine = mul(fine, scalar(dtype, ml_dtypes.finfo(dtype).eps))
    return lt(fine, sub(p, coarse))


@lays_out
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """Booleans that are true with probability `p`.

    Args:
      key: a key.
      p: probability, a float scalar or array broadcast to `shape`.
      shape: shape of the result; by default that of `p`.
      mode: `"high"` draws twice the bits, for probabilities near 0.

    Returns:
      Booleans of shape `shape`; by default of the shape of `p`.

    Raises:
      TypeError: `key` is not a key, or `p` is not a float.
      ValueError: `p` does not fit the shape, an unknown mode, or several keys.

    Example:
      >>> random.bernoulli(random.key(0), 0.5, (3,)).dtype
      dtype('bool')
    """
    return _bernoulli(key, p, shape=shape, mode=mode)


@sampler(shape=shape_argument, dtype=numeric_dtype)
def _rademacher(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return signs(one_key("rademacher", key), shape, dtype)


def signs(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """-1 and 1 with equal probability; for samplers."""
    probability = dtypes.dtype_of_python(float)
    heads = coins(key, scalar(probability, 0.5), shape, probability)
    if dtype == np.bool_:
        return spread(scalar(dtype, True), shape)  # both 1 and -1 are true
    return sub(mul(scalar(dtype, 2), convert(heads, dtype)), scalar(dtype, 1))


@lays_out
def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """-1 and 1 with equal probability.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a numeric dtype; by default int32, or int64 in x64 mode.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> jnp.abs(random.rademacher(random.key(0), (3,)))
      Array([1, 1, 1], dtype=int32)
    """
    return _rademacher(key, shape=shape, dtype=dtype)


__all__ = ["bernoulli", "between", "bits", "coins", "draw_bits", "integers", "rademacher",
           "randint", "signs", "split_key", "uniform", "unit"]
