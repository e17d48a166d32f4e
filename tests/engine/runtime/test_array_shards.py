"""Arrays on several devices: their shards, values, state, and what only one device has."""

import copy
import pickle

import numpy as np
import pytest

import mjax
from mjax import P, random
from mjax.sharding import Mesh, NamedSharding, SingleDeviceSharding

DEVICES = mjax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y"))
X = np.arange(48, dtype=np.float32).reshape(8, 6)
every_spec = pytest.mark.parametrize("spec", [
    P(), P("x"), P("y", None), P(("y", "x")), P(None, "y"), P("x", "y")], ids=str)


def put(spec, value=X):
    return mjax.device_put(value, NamedSharding(MESH, spec))


def held(spec, shape):
    """Device -> slices, by the definition: an array of coordinates per mesh axis."""
    at = dict(zip(MESH.axis_names, np.indices(MESH.axis_sizes), strict=True))
    out = {}
    for place in np.ndindex(MESH.axis_sizes):
        index = []
        for size, axes in zip(shape, spec.dims(len(shape)), strict=True):
            block, count = 0, 1
            for a in axes:
                block, count = block * MESH.shape[a] + int(at[a][place]), count * MESH.shape[a]
            index.append(slice(block * size // count, (block + 1) * size // count))
        out[MESH.devices[place]] = tuple(index)
    return out


# ---- parts -----------------------------------------------------------------------------


@every_spec
def test_shards(spec):
    x, expected, seen = put(spec), held(spec, X.shape), {}
    assert [s.device for s in x.addressable_shards] == DEVICES
    for shard in x.addressable_shards:
        want = expected[shard.device]
        np.testing.assert_array_equal(shard.data, X[want])
        np.testing.assert_array_equal(X[shard.index], X[want])
        assert shard.data.sharding is SingleDeviceSharding(shard.device)
        assert shard.data.committed and shard.data.dtype == X.dtype
        key = str(want)
        assert shard.replica_id == seen.get(key, 0)
        seen[key] = shard.replica_id + 1
    assert [str(s) for s in x.global_shards] == [str(s) for s in x.addressable_shards]
    assert x.sharding.shard_shape(X.shape) == x.addressable_data(3).shape
    np.testing.assert_array_equal(x.addressable_data(3), X[expected[DEVICES[3]]])


@every_spec
def test_facts(spec):
    x = put(spec)
    assert x.sharding is x.device is NamedSharding(MESH, spec) and x.committed
    assert x.devices() == set(DEVICES) and x.is_fully_addressable
    assert x.is_fully_replicated == (spec == P())
    assert (x.shape, x.nbytes) == ((8, 6), 8 * 6 * 4)
    assert x.block_until_ready() is x and x.is_ready()
    mjax.block_until_ready({"x": x})


def test_parts_of_dimensions_that_are_whole_have_no_bounds():
    assert put(P("x")).addressable_shards[2].index == (slice(2, 4), slice(None))
    assert "Shard(device=" in repr(put(P("x")).addressable_shards[0])
    assert "replica_id=1, data=[[" in repr(put(P("x")).addressable_shards[1])


def test_parts_of_an_array_on_one_device():
    x = mjax.device_put(X)
    (shard,) = x.addressable_shards
    assert shard.index == (slice(None), slice(None)) and shard.replica_id == 0
    assert x.addressable_data(0) is x and x.is_fully_replicated and x.is_fully_addressable
    assert not shard.data.committed


def test_parts_of_keys():
    keys = mjax.random.split(mjax.random.key(1), 4)
    x = put(P("x"), keys)
    for i, shard in enumerate(x.addressable_shards):
        assert shard.data.dtype == keys.dtype and shard.data.shape == (1,)
        np.testing.assert_array_equal(mjax.random.key_data(shard.data),
                                      mjax.random.key_data(keys)[i // 2:i // 2 + 1])
    assert repr(x) == repr(keys)


# ---- values ----------------------------------------------------------------------------


@every_spec
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int8", "complex64"])
def test_values(spec, dtype):
    value = (X % 3).astype(mjax.numpy.dtype(dtype))
    x = put(spec, value)
    back = np.asarray(x)
    assert back.dtype == value.dtype and not back.flags.writeable
    np.testing.assert_array_equal(back, value)
    assert repr(x) == repr(mjax.device_put(value)) and str(x) == str(mjax.device_put(value))
    assert x.tolist() == value.tolist() and x[3, 2].item() == value[3, 2]


@every_spec
def test_iteration(spec):
    rows = list(put(spec))
    assert len(rows) == 8
    for row, expected in zip(rows, X, strict=True):
        np.testing.assert_array_equal(row, expected)


def test_scalars_on_several_devices():
    x = put(P(), np.float32(2.5))
    assert float(x) == 2.5 and int(x) == 2 and bool(x) and f"{x:.2f}" == "2.50"
    assert mjax.device_get({"x": x}) == {"x": np.float32(2.5)}


def test_empty_arrays_on_several_devices():
    x = put(P("y", "x"), np.zeros((0, 4), np.float32))
    assert x.addressable_data(0).shape == (0, 1) and np.asarray(x).shape == (0, 4)
    assert repr(x) == "Array([], shape=(0, 4), dtype=float32)"


def test_what_was_pickled_is_on_the_default_device():
    back = pickle.loads(pickle.dumps(put(P("x", "y"))))
    np.testing.assert_array_equal(back, X)
    assert back.devices() == {DEVICES[0]} and not back.committed


@pytest.mark.parametrize("x", [
    put(P("x", "y")), put(P()), mjax.device_put(X, DEVICES[3]), mjax.device_put(X),
    mjax.device_put(random.split(random.key(0), 8), NamedSharding(MESH, P("x"))),
    mjax.device_put(random.key(0), DEVICES[2])], ids=lambda x: f"{x.dtype} {x.sharding}")
def test_deep_copies_are_in_the_same_place(x):
    back = copy.deepcopy({"x": x})["x"]
    assert (back.sharding, back.committed, back.aval) == (x.sharding, x.committed, x.aval)
    x.delete()
    np.testing.assert_array_equal(*(random.key_data(v) if "key" in str(v.dtype) else v for v in (
        back, copy.deepcopy(back))))


def test_copies_of_an_array_have_memory_of_their_own():
    x = put(P("x"))
    for same in (copy.copy(x), copy.deepcopy(x)):
        assert same is not x and same.sharding is x.sharding
        same.delete()
    assert not x.is_deleted()


# ---- state -----------------------------------------------------------------------------


def test_delete():
    x = put(P("x"))
    kept = x.addressable_shards[1].data
    x.delete()
    assert x.is_deleted() and kept.is_deleted()
    assert repr(x) == "Array(shape=(8, 6), dtype=float32, deleted)"
    for read in (np.asarray, lambda x: x.addressable_shards, lambda x: x.addressable_data(0),
                 lambda x: mjax.device_put(x, DEVICES[0]),
                 lambda x: mjax.device_put(x, NamedSharding(MESH, P("y")))):
        with pytest.raises(RuntimeError, match=r"Array of type float32\[8,6\] has been deleted"):
            read(x)


def test_copy_to_host_async():
    x = put(P("x", "y"))
    x.copy_to_host_async()
    np.testing.assert_array_equal(mjax.device_get([x])[0], X)


@pytest.mark.parametrize(("read", "error"), [
    (lambda x: x.unsafe_buffer_pointer(), ValueError), (lambda x: x.__dlpack__(), BufferError),
    (lambda x: x.__dlpack_device__(), BufferError), (np.from_dlpack, BufferError)])
@pytest.mark.parametrize("spec", [P(), P("x")], ids=str)
def test_what_only_arrays_on_one_device_have(read, error, spec):
    with pytest.raises(error, match=(
            r"the array is spread over 8 devices, and has no memory of its own. Take its parts "
            r"one by one \(\[s.data for s in x.addressable_shards\]\), or move it to one device")):
        read(put(spec))
    np.from_dlpack(put(spec).addressable_data(0))
