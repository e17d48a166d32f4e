"""Arrays of one value on devices: where they are, and that no device holds the whole."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import P, lax, random
from mjax._engine.primitives import composed
from mjax.sharding import Mesh, NamedSharding, SingleDeviceSharding

DEVICES = mjax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y"))
CUT = NamedSharding(MESH, P("x", "y"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
MAKERS = {
    "zeros": (lambda d: jnp.zeros((8, 8), int, device=d), 0),
    "ones": (lambda d: jnp.ones((8, 8), "bfloat16", device=d), 1),
    "empty": (lambda d: jnp.empty((8, 8), device=d), 0),
    "full": (lambda d: jnp.full((8, 8), 2.5, device=d), 2.5),
    "full of rows": (lambda d: jnp.full((8, 8), X[0], device=d), X[:1]),
    "full of a traced value": (lambda d: jnp.full((8, 8), jnp.float32(3), device=d), 3),
    "like": (lambda d: jnp.full_like(X, 7, device=d), 7),
    "lax.full": (lambda d: lax.full((8, 8), 7, np.int8, sharding=d), 7),
    "lax.full_like": (lambda d: lax.full_like(X, 7, sharding=d), 7),
}


@pytest.mark.parametrize("where", [CUT, NamedSharding(MESH, P()), SingleDeviceSharding(DEVICES[3]),
                                   NamedSharding(Mesh(DEVICES[2:3], "o"), P("o"))], ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_values_and_places(name, where):
    make, expected = MAKERS[name]
    out = make(where)
    assert out.sharding is where and out.committed
    np.testing.assert_array_equal(np.float32(out), np.broadcast_to(expected, (8, 8)))
    for shard in out.addressable_shards:
        assert shard.data.shape == where.shard_shape((8, 8))
    if isinstance(where, NamedSharding):  # of a program it says how values are cut, not where
        inside = mjax.jit(lambda: make(where))()
        assert inside.sharding.is_equivalent_to(where, 2)
        np.testing.assert_array_equal(out, inside)


def test_no_device_holds_the_whole(monkeypatch):
    monkeypatch.setattr(composed, "full", None)
    wide = jnp.zeros((1 << 20, 1 << 6), device=NamedSharding(MESH, P(("x", "y"))))  # 256 MB
    assert wide.addressable_data(3).shape == (1 << 17, 1 << 6)


@pytest.mark.parametrize("make", [
    jnp.zeros_like, jnp.ones_like, jnp.empty_like, lambda x: jnp.full_like(x, 2),
    lambda x: lax.full_like(x, 2), lambda x: jnp.zeros_like(x, dtype=int)],
    ids=["zeros", "ones", "empty", "full", "lax.full", "dtype"])
def test_arrays_like_others_are_where_these_are(make):
    for x in (mjax.device_put(X, CUT), mjax.device_put(X, DEVICES[3])):
        out = make(x)
        assert out.sharding is x.sharding and out.committed and out.shape == x.shape
    plain = make(jnp.asarray(X))
    assert plain.devices() == {DEVICES[0]} and not plain.committed


def test_arrays_like_a_type_with_a_sharding():
    struct = mjax.ShapeDtypeStruct((8, 8), np.float32, sharding=CUT)
    assert jnp.zeros_like(struct).sharding is CUT


def test_what_is_not_where_another_is():
    x = mjax.device_put(X, CUT)
    for out in (jnp.zeros_like(x, shape=(3,)), lax.full_like(x, 1, shape=(4, 4))):
        assert out.devices() == {DEVICES[0]}
    there = mjax.device_put(X, NamedSharding(MESH, P()))
    assert jnp.zeros_like(there, shape=(3,)).sharding is there.sharding
    assert jnp.zeros_like(x, device=DEVICES[5]).devices() == {DEVICES[5]}
    abstract = mjax.ShapeDtypeStruct((8, 8), np.float32, sharding=NamedSharding(
        MESH.abstract_mesh, P("x")))
    assert jnp.zeros_like(abstract).devices() == {DEVICES[0]}
    # Inside of programs XLA chooses.
    assert "sharding" not in str(mjax.make_jaxpr(lambda: jnp.zeros_like(x))())


def test_keys():
    keys = mjax.device_put(random.split(random.key(0), 8), NamedSharding(MESH, P("x")))
    assert jnp.zeros_like(keys).sharding is keys.sharding
    np.testing.assert_array_equal(random.key_data(jnp.zeros_like(keys)), np.zeros((8, 2)))


def test_sizes_that_are_not_divisible():
    with pytest.raises(ValueError, match=r"dimension 0 of an array of shape \(7,\) has 7 elements"):
        jnp.zeros(7, device=NamedSharding(MESH, P("x")))
