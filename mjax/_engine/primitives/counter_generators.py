"""Generators that hash counters, as in JAX: Threefry with four words, Philox with two and four.

Random bits are the hashes of positions under a key. The generators differ in their hashes
alone; `_register` defines the rest.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.primitives.arithmetic import (
    add,
    bitwise_or,
    bitwise_xor,
    mul,
    shift_left,
    shift_right_logical,
)
from mjax._engine.primitives.barrier import barrier
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.joining import stack, unstack
from mjax._engine.primitives.keys import PRNGImpl, register_prng
from mjax._engine.primitives.mulhi import mulhi
from mjax._engine.primitives.threefry import (
    define_hash,
    join_words,
    key_and_positions,
    threefry_seed,
)
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive

_uint32 = np.dtype("uint32")
_ZERO = np.uint32(0)

# ---- the hashes ------------------------------------------------------------------------


def _rotate_left(x: Any, distance: int) -> Any:
    return bitwise_or(shift_left(x, np.uint32(distance)),
                      shift_right_logical(x, np.uint32(32 - distance)))


#: Rotation distances of the left and the right pair of words, by round.
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))


def _threefry4x32(*operands: Any) -> list[Any]:
    key, x = list(operands[:4]), list(operands[4:])
    key.append(bitwise_xor(functools.reduce(bitwise_xor, key), np.uint32(0x1BD11BDA)))
    x = list(map(add, x, key))
    for number in range(20):
        # The right words of the two pairs swap places each round.
        for left, distance in zip((0, 2), _ROTATIONS[number % 8], strict=True):
            right = left + 1 if number % 2 == 0 else 3 - left
            x[left] = add(x[left], x[right])
            x[right] = bitwise_xor(x[left], _rotate_left(x[right], distance))
        if number % 4 == 3:
            group = number // 4 + 1
            x = [add(word, key[(group + i) % 5]) for i, word in enumerate(x)]
            x[3] = add(x[3], np.uint32(group))
    return x


#: The increment of each key word between rounds.
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))


def _philox2x32(key: Any, x: Any, y: Any) -> list[Any]:
    factor = np.uint32(0xD256D193)
    for number in range(10):
        key = add(key, _WEYL[0]) if number else key
        x, y = bitwise_xor(bitwise_xor(mulhi(x, factor), y), key), mul(x, factor)
    return [x, y]


def _philox4x32(key0: Any, key1: Any, *x: Any) -> list[Any]:
    keys, factors = [key0, key1], (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))
    for number in range(10):
        keys = list(map(add, keys, _WEYL)) if number else keys
        high, low = [[f(word, factor) for word, factor in zip(x[::2], factors, strict=True)]
                     for f in (mulhi, mul)]
        x = (bitwise_xor(bitwise_xor(high[1], x[1]), keys[0]), low[1],
             bitwise_xor(bitwise_xor(high[0], x[3]), keys[1]), low[0])
    return list(x)


threefry4x32_p = define_hash("threefry4x32", 4, traced(_threefry4x32, multiple_results=True))
philox2x32_p = define_hash("philox2x32", 2, traced(_philox2x32, multiple_results=True))
philox4x32_p = define_hash("philox4x32", 4, traced(_philox4x32, multiple_results=True))

# ---- the generators --------------------------------------------------------------------


def _register(primitive: Primitive, tag: str, words: int, key_words: int, seed_is_key: bool
              ) -> PRNGImpl:
    """The generator of a hash.

    Args:
      primitive: the hash.
      tag: its name in short.
      words: the number of counter words, which is that of results.
      key_words: the number of key words.
      seed_is_key: whether seeds are hashed as keys, or as counters under the key 0.
    """
    zeros = (_ZERO,) * (words - 2)

    def hash_positions(keys: Any, shape: tuple[int, ...], last: bool) -> list[Any]:
        """Hashes of positions, which are the first or the last words of counters."""
        key, counters = key_and_positions(keys, shape)
        return primitive.bind(*key, *((*zeros, *counters) if last else (*counters, *zeros)))

    def key_of(hashes: Sequence[Any]) -> Any:
        return barrier(stack(hashes[:key_words], axis=-1))

    def seed(seeds: Any) -> Any:
        halves = unstack(threefry_seed(seeds), axis=-1)
        rest = (_ZERO,) * (words + key_words - 2)
        key = (_ZERO,) * key_words
        return key_of(primitive.bind(*halves, *rest) if seed_is_key else
                      primitive.bind(*key, *halves, *zeros))

    def split(keys: Any, shape: tuple[int, ...]) -> Any:
        return key_of(hash_positions(keys, shape, True))

    def fold_in(keys: Any, data: Any) -> Any:
        return key_of(primitive.bind(*unstack(keys, axis=-1), *zeros, _ZERO, data))

    def random_bits(keys: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
        hashes = hash_positions(keys, shape, False)
        if bit_width == 64:
            high, low = hashes[:2]
            if seed_is_key:
                high, low = map(bitwise_xor, hashes[:2], hashes[2:])
            return barrier(join_words(high, low))
        bits = functools.reduce(bitwise_xor, hashes)
        return barrier(convert(bits, np.dtype(f"uint{bit_width}")))

    return register_prng(PRNGImpl((key_words,), seed, split, random_bits, fold_in, primitive.name,
                                  tag, takes_batches=True))


threefry4x32_prng = _register(threefry4x32_p, "fry4", 4, 4, True)
philox2x32_prng = _register(philox2x32_p, "phx2", 2, 1, False)
philox4x32_prng = _register(philox4x32_p, "phx4", 4, 2, False)
