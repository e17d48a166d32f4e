"""Primitives that only move elements work on extended dtypes, through their batching rules."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.dtypes import ExtendedDType, prng_key
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.placement import placement_of
from mjax._engine.runtime.arrays.transfer import to_array


class PairDType(ExtendedDType):
    """Each element is stored as two 32-bit integers."""

    name = "pair"
    type = prng_key
    element_shape = (2,)
    element_dtype = np.dtype(np.uint32)


PAIR = PairDType()
DATA = np.arange(24, dtype=np.uint32).reshape(3, 4, 2)
POINTS = lax.GatherDimensionNumbers((), (0,), (0,))


def wrap(data):
    """Pairs from an array with a last axis of two."""
    stored = to_array(np.asarray(data))
    return Array(stored._buffer, placement_of(ShapedArray(data.shape[:-1], PAIR), stored.sharding,
                                              False))


def unwrap(pairs):
    return np.asarray(Array(pairs._buffer, placement_of(physical_aval(pairs.aval), pairs.sharding,
                                                        False)))


X = wrap(DATA)
FILLED = np.full((4, 2), 2**32 - 1, np.uint32)


@pytest.mark.parametrize(("f", "expected"), [
    (lambda x: lax.slice(x, (0, 1), (2, 3)), DATA[:2, 1:3]),
    (lambda x: lax.pad(x, wrap(DATA[0, 0] + 77), [(1, -1, 0), (0, 0, 0)]),
     np.concatenate([np.broadcast_to(DATA[0, 0] + 77, (1, 4, 2)), DATA[:2]])),
    (lambda x: mjax.vmap(lambda x, v: lax.pad(x, v, [(1, 0, 0)]))(x, wrap(DATA[:, 0] + 77)),
     np.concatenate([DATA[:, :1] + 77, DATA], 1)),
    (lambda x: lax.concatenate([x, x], 1), np.concatenate([DATA, DATA], 1)),
    (lambda x: lax.split(x, (1, 2))[1], DATA[1:]),
    (lambda x: lax.stack([x, x], 2), np.stack([DATA, DATA], 2)),
    (lambda x: lax.unstack(x, axis=1)[3], DATA[:, 3]),
    (lambda x: lax.tile(x, (2, 1)), np.tile(DATA, (2, 1, 1))),
    (lambda x: lax.dynamic_slice(x, (1, 9), (1, 2)), DATA[1:2, 2:]),
    (lambda x: lax.dynamic_update_slice(x, wrap(DATA[1:, 1:] + 50), (0, 0)),
     np.concatenate([np.concatenate([DATA[1:, 1:] + 50, DATA[:2, 3:]], 1), DATA[2:]])),
    (lambda x: mjax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(x, np.array([0, 1, 2])),
     np.stack([DATA[i, i : i + 2] for i in range(3)])),
    (lambda x: lax.gather(x, np.array([[2], [7]]), lax.GatherDimensionNumbers((1,), (0,), (0,)),
                          (1, 4), mode="fill"), np.stack([DATA[2], FILLED])),
    (lambda x: mjax.vmap(lambda x, i: lax.gather(x, i, POINTS, (1,)))(
        x, np.array([[[2]], [[1]], [[3]]])), np.stack([DATA[i, [j]] for i, j in
                                                       enumerate((2, 1, 3))])),
    (lambda x: lax.scatter(x, np.array([[2], [7]]), wrap(DATA[:2] + 100),
                           lax.ScatterDimensionNumbers((1,), (0,), (0,))),
     np.concatenate([DATA[:2], DATA[:1] + 100])),
])
def test_extended_dtypes(f, expected):
    np.testing.assert_array_equal(unwrap(f(X)), expected)
    np.testing.assert_array_equal(unwrap(mjax.jit(f)(X)), expected)
