"""The threefry2x32 generator, bit for bit as in JAX.

It hashes pairs of uint32 under a key of two words: random bits are the hashes of counters. In
*partitionable* mode (the setting `threefry_partitionable`, on by default) each element is the
hash of its own position, a pair of 32-bit halves. The old mode hashes the positions of one flat
array two at a time, so that an element's value depends on the total size.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.sizes import beyond
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import (
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    lt,
    shift_left,
    shift_right_logical,
)
from mjax._engine.primitives.barrier import barrier
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import (
    broadcast_types,
    constant_like,
    define_elementwise_batching,
)
from mjax._engine.primitives.emit import broadcast_ir, full, hlo, iota_ir, ir_type, op
from mjax._engine.primitives.iota import broadcasted_iota, iota
from mjax._engine.primitives.joining import concatenate, split, stack, unstack
from mjax._engine.primitives.keys import PRNGImpl, register_prng
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import broadcast_in_dim_p, reshape, zeros_of
from mjax._engine.primitives.tangents import define_zero_jvp
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive

_uint32 = np.dtype("uint32")

# ---- the hash --------------------------------------------------------------------------


def define_hash(name: str, results: int, lowering: Any) -> Primitive:
    """The primitive of a hash of key words and counter words; it has a result per counter word."""
    primitive = EnginePrimitive(name, params={}, multiple_results=True)

    @primitive.def_abstract_eval
    def type_rule(*operands: Any) -> list[ShapedArray]:
        if any(a.dtype != _uint32 for a in operands):
            msg = f"{name} takes arrays of uint32, got {', '.join(map(str, operands))}."
            raise TypeError(msg)
        return [ShapedArray(broadcast_types(name, operands), _uint32)] * results

    primitive.def_lowering(lowering)
    define_elementwise_batching(primitive)
    define_zero_jvp(primitive)
    return primitive


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _threefry2x32_lowering(ctx: Any, k1: Any, k2: Any, x: Any, y: Any) -> Any:
    out = ctx.avals_out[0]

    def spread(value: Any, aval: ShapedArray) -> Any:
        """A value of the result's shape."""
        if aval.shape == out.shape:
            return value
        dims = range(out.ndim) if aval.shape else ()
        return broadcast_ir(ctx.out_types[0], out.shape, value, dims)

    # The third key word is computed before keys are broadcast over all counters, if possible.
    key_avals, key = list(ctx.avals_in[:2]), [k1, k2]
    if key_avals[0] is not key_avals[1]:
        key, key_avals = [spread(*pair) for pair in zip(key, key_avals, strict=True)], [out, out]
    key.append(hlo.xor(hlo.xor(*key), full(_PARITY, key_avals[0])))
    key = [spread(k, key_avals[0]) for k in key]
    x, y = [spread(*pair) for pair in zip((x, y), ctx.avals_in[2:], strict=True)]

    x, y = hlo.add(x, key[0]), hlo.add(y, key[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = hlo.add(x, y)
            y = hlo.xor(x, _rotate_left(y, distance, out))
        x = hlo.add(x, key[(group + 1) % 3])
        y = hlo.add(hlo.add(y, key[(group + 2) % 3]), full(group + 1, out))
    return [x, y]


def _rotate_left(x: Any, distance: int, aval: ShapedArray) -> Any:
    return hlo.or_(hlo.shift_left(x, full(distance, aval)),
                   hlo.shift_right_logical(x, full(32 - distance, aval)))


threefry2x32_p: Primitive = define_hash("threefry2x32", 2, _threefry2x32_lowering)

# ---- counters --------------------------------------------------------------------------

iota_2x32_shape_p = EnginePrimitive("iota_2x32_shape", params={
    "shape": Ints}, multiple_results=True)
iota_2x32_shape_p.def_abstract_eval(lambda *, shape: [ShapedArray(shape, _uint32)] * 2)


@iota_2x32_shape_p.def_lowering
def _iota_2x32_shape_lowering(ctx: Any, *, shape: tuple[int, ...]) -> Any:
    """The position of each element in row-major order: its high and its low 32 bits.

    A sum over axes, not a reshaped flat iota, so that it can be sharded along any axis.
    """
    aval = ctx.avals_out[0]
    wide = aval.update(dtype=np.dtype("uint64")) if beyond(aval.size, 2**32 - 1) else aval
    position = None
    for axis in range(len(shape)):
        term = iota_ir(wide, axis)
        stride = math.prod(shape[axis + 1 :])
        if stride != 1:
            term = hlo.multiply(term, full(stride, wide))
        position = term if position is None else hlo.add(position, term)
    if position is None or wide is aval:
        zero = full(0, aval)
        return [zero, zero if position is None else position]
    high = hlo.shift_right_logical(position, full(32, wide))
    return [op("stablehlo.convert", [ir_type(aval)], [v])[0] for v in (high, position)]


def key_and_positions(keys: Any, shape: tuple[int, ...]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The words of keys, and the two words of each position in an array of the shape.

    All have as many axes as `(*batch, *shape)`.
    """
    words = unstack(keys, axis=-1)
    batch = typeof(words[0]).shape
    counters = iota_2x32_shape_p.bind(shape=shape)
    if batch:
        words = tuple([reshape(k, (*batch, *(1,) * len(shape))) for k in words])
        counters = [reshape(c, (*(1,) * len(batch), *shape)) for c in counters]
    return words, counters


def _hash_positions(keys: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Two hashes, of shape `(*batch, *shape)`, of each position in an array of a shape."""
    words, counters = key_and_positions(keys, shape)
    return threefry2x32_p.bind(*words, *counters)


def _hash_counters(keys: Any, size: int) -> Any:
    """Hashes of 0, ..., size - 1, of shape `(*batch, size)`; the old mode's only source."""
    if size >= 2**32:
        msg = (f"random arrays of {size} words of 32 bits need the partitionable mode: switch it "
               "on with mjax.threefry_partitionable(True).")
        raise ValueError(msg)
    k1, k2 = unstack(keys, axis=-1)
    batch = typeof(k1).shape
    if size == 0:
        return zeros_of(ShapedArray((*batch, 0), _uint32))
    half = (size + 1) // 2
    x = iota(_uint32, half)
    y = add(x, np.uint32(half))
    if size % 2:
        # The counter without a partner is paired with 0, whose own hash is dropped.
        y = select_n(lt(y, np.uint32(size)), zeros_of(typeof(y)), y)
    if batch:
        k1, k2 = [reshape(k, (*batch, 1)) for k in (k1, k2)]
        x, y = [reshape(c, (*(1,) * len(batch), half)) for c in (x, y)]
    left, right = threefry2x32_p.bind(k1, k2, x, y)
    return concatenate([left, _first(right, size - half)], len(batch))


def _first(x: Any, n: int) -> Any:
    """The first `n` elements along the last axis."""
    size = typeof(x).shape[-1]
    return x if n == size else split(x, (n, size - n), axis=-1)[0]


@boundary
def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Hashes numbers under a key; elements are paired with those half an array further on.

    Args:
      keypair: two uint32 scalars.
      count: uint32 array.

    Returns:
      An array of the shape of `count`.

    Raises:
      TypeError: dtypes other than uint32.

    Example:
      >>> from mjax_ext.random import threefry_2x32
      >>> zero = np.uint32(0)
      >>> [hex(x) for x in threefry_2x32((zero, zero), np.zeros(2, "uint32")).tolist()]
      ['0x6b200159', '0x99ba4efe']

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011, with 20 rounds.
    """
    aval = typeof(count)
    flat = reshape(count, (aval.size,))
    if aval.size % 2:
        flat = concatenate([flat, np.zeros(1, aval.dtype)], 0)
    half = (aval.size + 1) // 2
    hashes = threefry2x32_p.bind(*keypair, *split(flat, (half, half)))
    return reshape(_first(concatenate(hashes, 0), aval.size), aval.shape)


# ---- the generator ---------------------------------------------------------------------

# Results are behind a barrier. Otherwise XLA would fuse a hash into each of its consumers and
# compute it again there: code and compile time would double with every nested split.


def threefry_seed(seeds: Any) -> Any:
    """Keys `[high, low]` of the two's complement of seeds; `high` is 0 for narrow seeds."""
    low = convert(seeds, _uint32)
    if typeof(seeds).dtype.itemsize < 8:
        return stack([zeros_of(typeof(low)), low], axis=-1)
    high = convert(shift_right_logical(seeds, constant_like(seeds, 32)), _uint32)
    return stack([high, low], axis=-1)


def threefry_split(keys: Any, shape: tuple[int, ...]) -> Any:
    """Keys that are the hashes of positions."""
    if thread.settings.threefry_partitionable:
        return barrier(stack(_hash_positions(keys, shape), axis=-1))
    words = _hash_counters(keys, 2 * math.prod(shape))
    return reshape(barrier(words), (*typeof(keys).shape[:-1], *shape, 2))


def threefry_fold_in(keys: Any, data: Any) -> Any:
    """Keys that are the hashes of `(0, data)`."""
    k1, k2 = unstack(keys, axis=-1)
    return barrier(stack(threefry2x32_p.bind(k1, k2, np.uint32(0), data), axis=-1))


def threefry_random_bits(keys: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Random unsigned integers, hashes of positions or of counters."""
    dtype = np.dtype(f"uint{bit_width}")
    if not thread.settings.threefry_partitionable:
        return _old_random_bits(keys, dtype, bit_width, shape)
    high, low = _hash_positions(keys, shape)
    if bit_width == 64:
        return barrier(join_words(high, low))
    return barrier(convert(bitwise_xor(high, low), dtype))


def _old_random_bits(keys: Any, dtype: Any, bit_width: int, shape: Sequence[int]) -> Any:
    size, batch = math.prod(shape), typeof(keys).shape[:-1]
    words = barrier(_hash_counters(keys, -(-bit_width * size // 32)))
    if bit_width == 64:
        words = join_words(*split(words, (size, size), axis=-1))
    elif bit_width < 32:
        # Words are split from their low bits up.
        pieces = 32 // bit_width
        count = typeof(words).shape[-1]
        cut = (*batch, count, pieces)
        distances = broadcasted_iota(_uint32, (1,) * (len(cut) - 1) + (pieces,), len(cut) - 1)
        distances = shift_left(distances, np.uint32(bit_width.bit_length() - 1))
        words = shift_right_logical(reshape(words, (*batch, count, 1)), distances)
        words = convert(bitwise_and(words, np.uint32(2**bit_width - 1)), dtype)
        words = _first(reshape(words, (*batch, count * pieces)), size)
    return reshape(words, (*batch, *shape))


def join_words(high: Any, low: Any) -> Any:
    """The 64-bit integers with these halves."""
    wide = np.dtype("uint64")
    high = convert(high, wide)
    # Made as an array: outside of x64 mode a scalar would become a 32-bit one.
    distance = broadcast_in_dim_p.bind(convert(np.uint32(32), wide), shape=typeof(high).shape,
                                       broadcast_dimensions=())
    return bitwise_or(shift_left(high, distance), convert(low, wide))


threefry_prng: PRNGImpl = register_prng(PRNGImpl(
    (2,), threefry_seed, threefry_split, threefry_random_bits, threefry_fold_in, "threefry2x32",
    "fry", takes_batches=True))
