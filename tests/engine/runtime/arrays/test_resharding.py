"""device_put to any sharding: values, what is moved and what stays, trees, transformations."""

import collections
import itertools

import numpy as np
import pytest

import mjax
from mjax import P, lax
from mjax._engine.runtime.dispatch.eager import exchange
from mjax._engine.spmd.axes import in_manual
from mjax.sharding import Mesh, NamedSharding, SingleDeviceSharding

DEVICES = mjax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y"))
TURNED = Mesh(np.array(DEVICES[::-1]).reshape(2, 4), ("a", "b"))
HALF = Mesh(np.array(DEVICES[2:6]), "h")
X = np.arange(64, dtype=np.float32).reshape(8, 8)
PLACES = {
    "whole": NamedSharding(MESH, P()), "rows": NamedSharding(MESH, P("x")),
    "columns": NamedSharding(MESH, P(None, "y")), "both": NamedSharding(MESH, P("y", "x")),
    "flat": NamedSharding(MESH, P(("y", "x"))), "turned": NamedSharding(TURNED, P("b", "a")),
    "half": NamedSharding(HALF, P("h")), "one": SingleDeviceSharding(DEVICES[3]),
    "mesh of one": NamedSharding(Mesh(DEVICES[4:5], "o"), P("o")),
}


def pointers(x):
    return {s.device: s.data.unsafe_buffer_pointer() for s in x.addressable_shards}


def test_moves_under_any_mesh():
    with mjax.set_mesh(TURNED):
        for source, target in itertools.permutations(("whole", "rows", "both", "flat", "half"), 2):
            y = mjax.device_put(mjax.device_put(X, PLACES[source]), PLACES[target])
            np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(PLACES, PLACES)))
def test_from_any_sharding_to_any(source, target):
    x = mjax.device_put(X, PLACES[source])
    y = mjax.device_put(x, PLACES[target])
    assert x.sharding is PLACES[source] and y.sharding is PLACES[target] and y.committed
    assert (y is x) == (source == target)
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(shard.data, X[shard.index])
    np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [
    np.asfortranarray(X), X[::-1, ::-1], X.astype(np.float64), X > 30, np.zeros((8, 0)),
    np.broadcast_to(np.float32(3), (8, 8)), X.astype(mjax.numpy.bfloat16)],
    ids=["fortran", "reversed", "float64", "bool", "empty", "broadcast", "bfloat16"])
def test_from_numpy(place, value):
    x = mjax.device_put(value, PLACES[place])
    assert x.dtype == mjax.dtypes.canonicalize_dtype(value.dtype)
    np.testing.assert_array_equal(x, value)


def test_what_is_put_may_be_changed_afterwards():
    for place in PLACES.values():
        value = np.ones((256, 64), np.float32)
        x = mjax.device_put(value, place)
        value[:] = 7
        np.testing.assert_array_equal(x, np.ones((256, 64)))


def test_64_bits():
    with mjax.enable_x64(True):
        for place in PLACES.values():
            big = np.full((8, 8), 2**40 + 1)
            assert mjax.device_put(big, place).dtype == np.int64
            np.testing.assert_array_equal(mjax.device_put(big, place), big)


def test_scalars_keys_and_float0():
    everywhere = PLACES["whole"]
    for value in (3, 2.5, True, np.float32(1.5), 1 + 2j):
        x = mjax.device_put(value, everywhere)
        assert x.sharding is everywhere and x.weak_type == mjax.device_put(value).weak_type
        np.testing.assert_array_equal(x, np.asarray(value, x.dtype))
    keys = mjax.random.split(mjax.random.key(0), 8)
    for place in ("rows", "flat"):
        moved = mjax.device_put(keys, PLACES[place])
        np.testing.assert_array_equal(mjax.random.key_data(moved), mjax.random.key_data(keys))
    zeros = mjax.device_put(np.zeros(8, mjax.dtypes.float0), PLACES["rows"])
    assert zeros.dtype == mjax.dtypes.float0 and zeros.shape == (8,)


@pytest.mark.parametrize(("source", "target"), list(
    itertools.permutations(["whole", "rows", "columns", "both", "flat", "turned"], 2)))
def test_exchange_between_devices(source, target):
    """Devices that cannot read each other's memory: on other platforms, in processes."""
    x = mjax.device_put(X, PLACES[source])
    y = exchange(x, PLACES[target])
    assert y.sharding is PLACES[target] and y.committed
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(shard.data, X[shard.index])
    keys = mjax.device_put(mjax.random.split(mjax.random.key(0), (8, 8)), PLACES[source])
    np.testing.assert_array_equal(mjax.random.key_data(exchange(keys, PLACES[target])),
                                  mjax.random.key_data(keys))


def test_parts_that_stay_are_not_copied():
    x = mjax.device_put(X, PLACES["whole"])
    one = mjax.device_put(x, SingleDeviceSharding(DEVICES[2]))
    assert one.unsafe_buffer_pointer() == pointers(x)[DEVICES[2]]
    renamed = NamedSharding(Mesh(MESH.devices, ("a", "b")), P("a"))
    rows = mjax.device_put(X, PLACES["rows"])
    assert pointers(mjax.device_put(rows, renamed)) == pointers(rows)
    everywhere = mjax.device_put(one, PLACES["whole"])
    assert pointers(everywhere)[DEVICES[2]] == one.unsafe_buffer_pointer()


def test_uncommitted_arrays_are_committed():
    x = mjax.device_put(X)
    y = mjax.device_put(x, x.sharding)
    assert y.committed and not x.committed


# ---- trees and options -----------------------------------------------------------------


def test_trees_of_shardings():
    tree = {"a": X, "b": (X[0], 1.0)}
    out = mjax.device_put(tree, {"a": PLACES["both"], "b": PLACES["whole"]})
    assert out["a"].sharding is PLACES["both"] and out["b"][1].sharding is PLACES["whole"]
    out = mjax.device_put(tree, {"a": PLACES["both"], "b": (DEVICES[1], None)})
    assert out["b"][0].devices() == {DEVICES[1]} and not out["b"][1].committed
    assert mjax.device_put(tree, PLACES["whole"])["b"][1].sharding is PLACES["whole"]
    Pair = collections.namedtuple("Pair", "a b")
    out = mjax.device_put(Pair(X, X), Pair(PLACES["both"], PLACES["rows"]))
    assert out.a.sharding is PLACES["both"] and out.b.sharding is PLACES["rows"]
    with MESH:
        out = mjax.device_put(tree, {"a": P("x"), "b": P()})
    assert out["a"].sharding is PLACES["rows"] and out["b"][0].sharding is PLACES["whole"]


def test_donation():
    for source, target in itertools.permutations(PLACES.values(), 2):
        x = mjax.device_put(X, source)
        y = mjax.device_put(x, target, donate=True)
        np.testing.assert_array_equal(y, X)
    x = mjax.device_put(X, DEVICES[0])
    y = mjax.device_put(x, DEVICES[1], donate=True)
    assert x.is_deleted() and not y.is_deleted()
    assert mjax.device_put(y, DEVICES[1], donate=True) is y and not y.is_deleted()
    np.testing.assert_array_equal(mjax.device_put({"x": y}, DEVICES[0], donate={"x": True})["x"], X)
    assert y.is_deleted()


@pytest.mark.parametrize("place", PLACES)
def test_results_that_may_not_share_memory(place):
    x = mjax.device_put(X, PLACES[place])
    shared = mjax.device_put(x, PLACES[place], may_alias=True)
    own = mjax.device_put(x, PLACES[place], may_alias=False)
    assert shared is x and own.sharding is x.sharding
    assert not set(pointers(own).values()) & set(pointers(x).values())
    x.delete()
    np.testing.assert_array_equal(own, X)


def test_shardings_that_leave_open_where_parts_are():
    mesh = mjax.make_mesh((4, 2), ("x", "y"))
    for sharding, why in (
            (NamedSharding(mesh, P(P.UNCONSTRAINED, "y")), "can be UNCONSTRAINED only where XLA"),
            (NamedSharding(mesh.abstract_mesh, P("x")), "an AbstractMesh has no devices")):
        for x in (X, mjax.device_put(X)):
            with pytest.raises(ValueError, match=f"device_put: .* does not say where .*: .*{why}"):
                mjax.device_put(x, sharding)


def test_options_that_exclude_each_other():
    with pytest.raises(ValueError, match="donate and may_alias cannot both be given"):
        mjax.device_put(X, DEVICES[0], donate=True, may_alias=True)


# ---- transformations -------------------------------------------------------------------


@pytest.mark.parametrize("source", ["rows", "one", "half"])
def test_cotangents_go_back_to_the_source(source):
    x = mjax.device_put(X, PLACES[source])
    f = lambda x: (mjax.numpy.sin(mjax.device_put(x, PLACES["columns"])) ** 2).sum()
    g = mjax.grad(f)(x)
    np.testing.assert_allclose(g, np.sin(2 * X), rtol=1e-5, atol=1e-6)
    assert g.sharding is x.sharding
    primal, tangent = mjax.jvp(f, (x,), (x,))
    np.testing.assert_allclose(tangent, (np.sin(2 * X) * X).sum(), rtol=1e-4)
    assert primal.devices() == set(DEVICES)
    assert mjax.grad(f)(X).devices() == set(DEVICES)  # X is committed to no place to go back to


def test_a_source_that_is_given():
    f = lambda x: mjax.device_put(x, PLACES["columns"], src=PLACES["rows"]).sum()
    assert mjax.grad(f)(mjax.numpy.asarray(X)).sharding is PLACES["rows"]


def test_batches():
    target = NamedSharding(MESH, P("x"))
    batched = mjax.vmap(lambda row: mjax.device_put(row, target))(X)
    assert batched.sharding.is_equivalent_to(NamedSharding(MESH, P(None, "x")), 2)
    np.testing.assert_array_equal(batched, X)
    columns = mjax.vmap(lambda c: mjax.device_put(c, target), in_axes=1, out_axes=1)(X)
    assert columns.sharding.is_equivalent_to(NamedSharding(MESH, P("x", None)), 2)
    named = mjax.vmap(lambda row: mjax.device_put(row, target), spmd_axis_name="y")(X)
    assert named.sharding.is_equivalent_to(NamedSharding(MESH, P("y", "x")), 2)
    one = mjax.vmap(lambda row: mjax.device_put(row, DEVICES[2]))(X)
    assert one.devices() == {DEVICES[2]}


def test_inside_of_a_program():
    f = mjax.jit(lambda x: mjax.device_put(lax.mul(x, 2.0), PLACES["both"]))
    out = f(X)
    np.testing.assert_array_equal(out, 2 * X)
    assert out.sharding.is_equivalent_to(PLACES["both"], 2)
    with MESH:
        again = mjax.jit(lambda x: mjax.device_put(lax.mul(x, 2.0), P("y", "x")))(X)
    assert again.sharding.is_equivalent_to(PLACES["both"], 2)
    with pytest.raises(ValueError, match=r"10 = 2 \* 4 \+ 2. Pad it"):
        mjax.jit(lambda x: mjax.device_put(x, PLACES["rows"]))(np.zeros((10, 1)))


def test_inside_of_a_shard_map():
    text = "device_put: .* names the mesh axis 'x', along which this is the body of a shard_map"
    with in_manual(MESH, ("x",), "checked"), pytest.raises(ValueError, match=text):
        mjax.jit(lambda x: mjax.device_put(x, PLACES["rows"]))(X)
