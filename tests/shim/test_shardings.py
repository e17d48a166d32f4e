"""HloShardings and which part of an array goes where."""

from __future__ import annotations

import numpy as np
import pytest

from mjaxlib_shim import shardings
from mjaxlib_shim.shardings import manual, replicated, shard_slices, tiled


def _parts(sharding, shape, count):
    whole = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return [whole[index].tolist() for index in shard_slices(sharding, shape, count)]


def test_replicated():
    assert replicated().is_replicated() and replicated() is replicated()
    assert _parts(replicated(), (2,), 3) == [[0, 1]] * 3
    assert shard_slices(replicated(), (), 2) == [(), ()]


def test_tiled():
    assert _parts(tiled([2, 1]), (4, 2), 2) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert _parts(tiled([1, 2]), (2, 2), 2) == [[[0], [2]], [[1], [3]]]
    assert _parts(tiled([2, 2]), (2, 2), 4) == [[[0]], [[1]], [[2]], [[3]]]


def test_order_of_devices():
    assert _parts(tiled([3], devices=[2, 0, 1]), (3,), 3) == [[1], [2], [0]]
    with pytest.raises(ValueError, match=r"permutation of range\(2\), not \[0, 0\]"):
        tiled([2], devices=[0, 0])


def test_no_devices():
    with pytest.raises(ValueError, match="at least one device"):
        shardings.gspmd_sharding([], replicated())


def test_partly_replicated():
    sharding = tiled([2, 2], replicate_last=True)
    assert _parts(sharding, (4,), 4) == [[0, 1], [0, 1], [2, 3], [2, 3]]
    transposed = shardings.HloSharding.iota_tile(
        (2, 2),
        reshape_dims=(2, 2),
        transpose_perm=(1, 0),
        subgroup_types=[shardings.OpSharding.Type.REPLICATED],
    )
    assert _parts(transposed, (4,), 4) == [[0, 1], [2, 3], [0, 1], [2, 3]]


def test_uneven():
    assert _parts(tiled([4]), (5,), 4) == [[0, 1], [2, 3], [4], []]


@pytest.mark.parametrize(
    ("sharding", "shape", "count"),
    [(manual(), (2,), 2), (tiled([2]), (2, 2), 2), (tiled([2]), (2,), 4)],
    ids=["manual", "rank", "count"],
)
def test_no_parts(sharding, shape, count):
    with pytest.raises(ValueError, match="does not cut an array of shape"):
        shard_slices(sharding, shape, count)


def test_manual_subgroup_has_no_parts():
    kinds = shardings.OpSharding.Type
    proto = tiled([2, 2]).to_proto()
    proto.last_tile_dims = [kinds.MANUAL]
    with pytest.raises(ValueError, match="does not cut"):
        shard_slices(shardings.HloSharding.from_proto(proto), (4,), 4)


def test_proto_round_trip():
    sharding = tiled([2, 2], devices=[3, 1, 0, 2], replicate_last=True)
    proto = shardings.OpSharding()
    proto.ParseFromString(sharding.to_proto().SerializeToString())
    assert shardings.HloSharding.from_proto(proto) == sharding
    assert hash(shardings.HloSharding.from_proto(proto)) == hash(sharding)


def test_gspmd_sharding(client):
    devices = client.local_devices()[:1]
    sharding = shardings.gspmd_sharding(devices, replicated())
    assert isinstance(sharding, shardings.Sharding)
    assert list(sharding._devices) == devices
    assert shardings.hlo_sharding_of(sharding, 2) == replicated()


def test_subclass_decides_by_rank(client):
    class Named(shardings.GSPMDSharding):
        def _to_xla_hlo_sharding(self, ndim):
            return tiled([1] * ndim)

    sharding = Named(tuple(client.local_devices()[:1]), replicated())
    assert shardings.hlo_sharding_of(sharding, 3) == tiled([1, 1, 1])
