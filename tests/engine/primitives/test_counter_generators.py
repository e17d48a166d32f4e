"""The generators that hash counters, against NumPy and the answers that Random123 publishes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mjax import random
from mjax._engine.primitives.counter_generators import philox2x32_p, philox4x32_p, threefry4x32_p
from tests.engine.primitives.harness import Case, table

ROTATIONS = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]


def threefry_reference(*operands):
    key, x = [np.asarray(o).astype(object) for o in operands[:4]], list(operands[4:])
    x = [np.asarray(o).astype(object) for o in x]
    key.append(key[0] ^ key[1] ^ key[2] ^ key[3] ^ 0x1BD11BDA)
    x = [(a + b) % 2**32 for a, b in zip(x, key)]
    for i in range(20):
        pairs = [(0, 1), (2, 3)] if i % 2 == 0 else [(0, 3), (2, 1)]
        for (a, b), n in zip(pairs, ROTATIONS[i % 8]):
            x[a] = (x[a] + x[b]) % 2**32
            x[b] = x[a] ^ ((x[b] << n) % 2**32 | x[b] >> (32 - n))
        if i % 4 == 3:
            n = i // 4 + 1
            x = [(word + key[(n + j) % 5]) % 2**32 for j, word in enumerate(x)]
            x[3] = (x[3] + n) % 2**32
    return [np.asarray(word).astype(np.uint32) for word in x]


def philox_reference(*operands, factors, keys):
    key, x = [[np.asarray(o).astype(object) for o in part]
              for part in (operands[:keys], operands[keys:])]
    for i in range(10):
        if i:
            key = [(k + w) % 2**32 for k, w in zip(key, (0x9E3779B9, 0xBB67AE85))]
        products = [f * word for f, word in zip(factors, x[::2])]
        high, low = [p >> 32 for p in products][::-1], [p % 2**32 for p in products][::-1]
        x = [word for h, lo, odd, k in zip(high, low, x[1::2], key) for word in (h ^ odd ^ k, lo)]
    return [np.asarray(word + 0 * sum(operands[keys:])).astype(np.uint32) for word in x]


HASHES = {
    threefry4x32_p: threefry_reference,
    philox2x32_p: partial(philox_reference, factors=(0xD256D193,), keys=1),
    philox4x32_p: partial(philox_reference, factors=(0xD2511F53, 0xCD9E8D57), keys=2),
}
ONES = 2**32 - 1


def words(rng, shape, dtype):
    return rng.integers(0, 2**32, shape, dtype=np.uint32)


def row(primitive, count):
    """Two operands at a time, as in the table of keys."""
    rest = [np.uint32(3)] * (count - 2)
    return Case(primitive.name, lambda x, y: primitive.bind(x, *rest, y),
                lambda x, y: HASHES[primitive](x, *rest, y), "u32[] u32[]; u32[] u32[3]",
                draw=words, order=0)


CASES = [row(threefry4x32_p, 8), row(philox2x32_p, 3), row(philox4x32_p, 6)]


@table(CASES)
def test_rules(check, sample):
    check(sample)

PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98,
      0xEC4E6C89]
#: (key, counter) -> result. Source: Random123, `kat_vectors`.
KNOWN = [
    (threefry4x32_p, [0] * 8, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
    (threefry4x32_p, [ONES] * 8, "2a881696 57012287 f6c7446e a16a6732"),
    (threefry4x32_p, PI[4:] + PI[:4], "59cd1dbb b8879579 86b5d00c ac8b6d84"),
    (philox2x32_p, [0] * 3, "ff1dae59 6cd10df2"),
    (philox2x32_p, [ONES] * 3, "2c3f628b ab4fd7ad"),
    (philox2x32_p, [PI[2], *PI[:2]], "dd7ce038 f62a4c12"),
    (philox4x32_p, [0] * 6, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (philox4x32_p, [ONES] * 6, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (philox4x32_p, PI[4:6] + PI[:4], "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize("primitive", HASHES, ids=str)
def test_known_answers(primitive):
    for p, operands, answer in KNOWN:
        if p is primitive:
            found = [int(word) for word in p.bind(*map(np.uint32, operands))]
            assert " ".join(f"{word:08x}" for word in found) == answer
            assert [int(word) for word in HASHES[p](*operands)] == found


def test_only_words_are_hashed():
    for primitive in HASHES:
        with pytest.raises(TypeError, match=f"{primitive} takes arrays of uint32"):
            primitive.bind(*[np.int32(0)] * 8)


@pytest.mark.parametrize("impl", ["threefry4x32", "philox2x32", "philox4x32"])
def test_bits_are_even(impl):
    bits = np.asarray(random.bits(random.key(3, impl=impl), (4096,)))
    ones = np.unpackbits(bits.view(np.uint8)).reshape(-1, 8).mean(0)
    assert abs(ones - 0.5).max() < 0.02 and len(np.unique(bits)) > 4090
