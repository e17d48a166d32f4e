"""References on several devices: what is written stays where the reference is."""

from __future__ import annotations

import pytest

import mjax
import mjax.numpy as jnp
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P


def sharding(*spec):
    return NamedSharding(mjax.make_mesh((4,), ("i",)), P(*spec))


def write(ref, x):
    ref[...] = x


WAYS = {"eager": write, "jit": mjax.jit(write), "read": mjax.jit(
    lambda ref, x: ref.__setitem__(..., ref[...] * 0 + x)), "ahead": lambda ref, x: mjax.jit(
        write).lower(ref, x).compile()(ref, x), "closed over": lambda ref, x: mjax.jit(
            lambda x: write(ref, x))(x)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [lambda x: x, lambda x: mjax.device_put(x, sharding())])
def test_sharded_references_stay_sharded(way, value):
    ref = mjax.new_ref(mjax.device_put(jnp.zeros(8), sharding("i")))
    for i in range(2):
        WAYS[way](ref, value(jnp.arange(8.0) + i))
        assert ref.sharding == sharding("i") and ref[...].tolist() == [*range(i, 8 + i)]
    assert ref.format.sharding == ref.sharding


@pytest.mark.parametrize("way", WAYS)
def test_references_stay_on_their_device(way):
    device, other = mjax.devices()[1:3]
    ref = mjax.new_ref(mjax.device_put(jnp.zeros(2), device))
    WAYS[way](ref, jnp.ones(2))
    assert ref[...].devices() == {device} and ref[...].tolist() == [1, 1]
    with pytest.raises(ValueError, match="committed to|is on"):
        WAYS[way](ref, mjax.device_put(jnp.ones(2), other))


def test_uncommitted_references_follow_the_arguments():
    device, ref = mjax.devices()[1], mjax.new_ref(jnp.zeros(2))
    mjax.jit(write)(ref, mjax.device_put(jnp.ones(2), device))
    assert ref[...].devices() == {device} and ref[...].tolist() == [1, 1]
    moved = mjax.new_ref(jnp.zeros(8))
    mjax.jit(write, in_shardings=(sharding("i"), None))(moved, jnp.ones(8))
    assert moved.sharding == sharding("i")
