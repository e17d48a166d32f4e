"""Shardings as XLA has them."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import P
from mjax_ext import sharding
from mjax_ext.sharding import GSPMDSharding, HloSharding, OpSharding

DEVICES = mjax.devices()
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def proto(dims, devices, last=()):
    made = OpSharding()
    made.type = OpSharding.Type.OTHER
    made.tile_assignment_dimensions = list(dims)
    made.tile_assignment_devices = list(devices)
    made.last_tile_dims = list(last)
    return made


def pieces(x):
    return {s.device: np.asarray(s.data) for s in x.addressable_shards}


def test_bytes_both_ways():
    for made in (HloSharding.replicate(), HloSharding.iota_tile((4, 2)), HloSharding.manual(),
                 HloSharding.from_proto(proto((2, 2, 2), range(8), [OpSharding.Type.REPLICATED]))):
        data = sharding.get_serialized_proto_from_hlo_sharding(made)
        assert isinstance(data, bytes)
        assert sharding.get_hlo_sharding_from_serialized_proto(data) == made
        again = sharding.get_op_sharding_from_serialized_proto(data)
        assert isinstance(again, OpSharding) and HloSharding.from_proto(again) == made
    with pytest.raises(ValueError, match="these 3 bytes are not a serialized OpSharding"):
        sharding.get_hlo_sharding_from_serialized_proto(b"\xff\xff\xff")
    with pytest.raises(TypeError, match="a HloSharding is needed, got 'x' of type str"):
        sharding.get_serialized_proto_from_hlo_sharding("x")


@pytest.mark.parametrize("order", [tuple(range(8)), (3, 1, 7, 5, 0, 2, 6, 4)])
@pytest.mark.parametrize("made", [lambda p: p, HloSharding.from_proto])
def test_pieces(order, made):
    """Piece by piece, against slices."""
    over = GSPMDSharding(DEVICES, made(proto((4, 2), order)))
    x = mjax.device_put(X, over)
    expected = {DEVICES[device]: X[2 * i:2 * i + 2, 2 * j:2 * j + 2]
                for device, (i, j) in zip(order, np.ndindex(4, 2))}
    found = pieces(x)
    for device, piece in expected.items():
        np.testing.assert_array_equal(found[device], piece)
    assert over.shard_shape((8, 4)) == (2, 2) and x.sharding is over
    assert over.devices_indices_map((8, 4))[DEVICES[order[0]]] == (slice(0, 2), slice(0, 2))
    np.testing.assert_array_equal(mjax.jit(lambda x: x * 2)(x), 2 * X)
    out = mjax.jit(jnp.sin, in_shardings=over, out_shardings=over)(X)
    assert out.sharding.is_equivalent_to(over, 2)


def test_copies():
    rows = GSPMDSharding(DEVICES, proto((2, 1, 4), range(8), [OpSharding.Type.REPLICATED]))
    x = mjax.device_put(X, rows)
    np.testing.assert_array_equal(pieces(x)[DEVICES[5]], X[4:])
    mesh = mjax.make_mesh((2, 4), ("i", "j"))
    assert rows.is_equivalent_to(mjax.NamedSharding(mesh, P("i")), 2)
    assert not rows.is_fully_replicated
    whole = GSPMDSharding.get_replicated(DEVICES)
    assert whole.is_fully_replicated and whole is GSPMDSharding(DEVICES, HloSharding.replicate())
    np.testing.assert_array_equal(pieces(mjax.device_put(X, whole))[DEVICES[3]], X)


def test_equal_shardings_are_one():
    one = GSPMDSharding(DEVICES, HloSharding.iota_tile((4, 2)))
    assert one is GSPMDSharding(list(DEVICES), proto((4, 2), range(8)))
    assert one is not GSPMDSharding(DEVICES[::-1], HloSharding.iota_tile((4, 2)))
    kind = DEVICES[0].default_memory().kind
    assert one.with_memory_kind(kind) is one and one.memory_kind == kind
    for other in DEVICES[0].addressable_memories():
        moved = one.with_memory_kind(other.kind)
        assert moved.memory_kind == other.kind and moved.in_default_memory is one


def test_what_is_refused():
    with pytest.raises(ValueError, match="tiled or replicated, got {manual}"):
        GSPMDSharding(DEVICES, HloSharding.manual())
    with pytest.raises(ValueError, match="numbers 8 devices, but there are 4"):
        GSPMDSharding(DEVICES[:4], HloSharding.iota_tile((4, 2)))
    with pytest.raises(TypeError, match="needs an OpSharding or a HloSharding, got P"):
        GSPMDSharding(DEVICES, P("i"))
    with pytest.raises(ValueError, match="has no memory of the kind 'attic'"):
        GSPMDSharding(DEVICES, HloSharding.replicate(), memory_kind="attic")
    over = GSPMDSharding(DEVICES, HloSharding.iota_tile((4, 2)))
    with pytest.raises(ValueError, match="2 entries, one per dimension, but the array has 1"):
        mjax.device_put(X[0], over)
    with pytest.raises(ValueError, match="for arrays of 2 or more dimensions, not 1"):
        over.is_equivalent_to(GSPMDSharding.get_replicated(DEVICES), 1)
