"""Shardings as XLA has them, beside those of jax.extend.sharding."""

from __future__ import annotations

import jax
import jax.extend.sharding
import numpy as np
import pytest

import mjax
from mjax_ext import sharding

MADE = {
    "replicated": sharding.HloSharding.replicate(),
    "tiled": sharding.HloSharding.iota_tile((4, 2)),
    "in another order": sharding.HloSharding.iota_tile(
        (2, 4), reshape_dims=(4, 2), transpose_perm=(1, 0)),
    "with copies": sharding.HloSharding.iota_tile(
        (2, 1, 4), subgroup_types=[sharding.OpSharding.Type.REPLICATED]),
}


@pytest.mark.parametrize("name", MADE)
def test_pieces_and_bytes(name):
    made, x = MADE[name], np.arange(32.0).reshape(8, 4)
    data = sharding.get_serialized_proto_from_hlo_sharding(made)
    theirs_ = jax.extend.sharding
    assert data == theirs_.get_serialized_proto_from_hlo_sharding(made)
    assert theirs_.get_hlo_sharding_from_serialized_proto(data) == (
        sharding.get_hlo_sharding_from_serialized_proto(data)) == made
    ours, theirs = sharding.GSPMDSharding(mjax.devices(), made), theirs_.GSPMDSharding(
        jax.devices(), made)
    numbered = [[map_[d] for d in lib.devices()] for lib, map_ in (
        (mjax, ours.devices_indices_map(x.shape)), (jax, theirs.devices_indices_map(x.shape)))]
    assert [[x[i].tolist() for i in parts] for parts in numbered[:1]] == [
        [x[i].tolist() for i in parts] for parts in numbered[1:]]
    assert ours.shard_shape(x.shape) == theirs.shard_shape(x.shape)
    assert ours.is_fully_replicated == theirs.is_fully_replicated
    for lib, given in (mjax, ours), (jax, theirs):
        out = lib.jit(lambda x: 2 * x, in_shardings=given, out_shardings=given)(x)
        assert out.sharding.is_equivalent_to(given, 2)
        np.testing.assert_array_equal(out, 2 * x)
