"""Arrays made of parts."""

import numpy as np
import pytest

import mjax
from mjax import P
from mjax._engine.runtime.arrays import assembling
from mjax.sharding import Mesh, NamedSharding, SingleDeviceSharding

DEVICES = mjax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
SHARDINGS = {
    **{str(spec): NamedSharding(MESH, spec)
       for spec in (P(), P("x"), P("y", "x"), P(None, ("y", "x")))},
    "one": SingleDeviceSharding(DEVICES[3]),
    "half": NamedSharding(Mesh(DEVICES[5:1:-1], "h"), P("h")),
}
every_sharding = pytest.mark.parametrize("s", SHARDINGS.values(), ids=SHARDINGS)


# ---- of arrays on single devices -------------------------------------------------------


@every_sharding
def test_of_arrays(s):
    whole = mjax.device_put(X, s)
    parts = [shard.data for shard in whole.addressable_shards][::-1]
    again = mjax.make_array_from_single_device_arrays(X.shape, s, parts)
    np.testing.assert_array_equal(again, X)
    assert again.sharding is s and again.committed
    for one, part in zip(again.addressable_shards, parts[::-1], strict=True):
        assert one.data.unsafe_buffer_pointer() == part.unsafe_buffer_pointer()


def test_of_arrays_of_keys():
    keys = mjax.random.split(mjax.random.key(0), 4)
    s = NamedSharding(Mesh(DEVICES[:4], "x"), P("x"))
    parts = [mjax.device_put(keys[i:i + 1], d) for i, d in enumerate(DEVICES[:4])]
    again = mjax.make_array_from_single_device_arrays((4,), s, parts)
    np.testing.assert_array_equal(mjax.random.key_data(again), mjax.random.key_data(keys))


TWO = NamedSharding(Mesh(DEVICES[:2], "x"), P("x"))
ON = [mjax.device_put(np.ones(2, np.float32), d) for d in DEVICES[:3]]


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda f: f((4,), TWO, ON[:1]), ValueError, "an array is needed on each of the 2 devices"),
    (lambda f: f((4,), TWO, ON), ValueError, "an array is needed .*; the 3 given are on"),
    (lambda f: f((4,), TWO, [ON[0], ON[0]]), ValueError, "an array is needed"),
    (lambda f: f((4,), TWO, [ON[0], ON[2]]), ValueError, "an array is needed"),
    (lambda f: f((6,), TWO, ON[:2]), ValueError,
     r"array 0 is float32\[2\], but each device's part of float32\[6\] in Named.* is float32\[3\]"),
    (lambda f: f((4,), TWO, [ON[0], mjax.device_put(np.ones(2, np.int32), DEVICES[1])]),
     ValueError, r"array 1 is int32\[2\], but each device's part .* is float32\[2\]"),
    (lambda f: f((3,), TWO, ON[:2]), ValueError, r"has 3 elements, which .* 3 = 1 \* 2 \+ 1"),
    (lambda f: f((4,), TWO, [np.ones(2), ON[1]]), TypeError,
     "array 0 is a ndarray; put it on its device first"),
    (lambda f: f((4,), TWO, [mjax.device_put(np.ones(2), NamedSharding(MESH, P())), ON[1]]),
     ValueError, "array 0 is on 8 devices; its parts are"),
    (lambda f: f((4,), DEVICES[0], ON[:1]), TypeError, "needs a sharding .*, got"),
    (lambda f: f((4,), TWO, ON[:2], dtype=int), ValueError, "dtype=.*int.*, but the arrays have "
     "the dtype float32; they are not converted"),
    (lambda f: f((4,), TWO, []), TypeError, "there are no arrays; then the dtype has to be given"),
])
def test_arrays_that_are_no_parts(make, error, text):
    with pytest.raises(error, match=f"make_array_from_single_device_arrays.*{text}|{text}"):
        make(mjax.make_array_from_single_device_arrays)


def test_deleted_parts():
    x = mjax.device_put(np.ones(2), DEVICES[1])
    x.delete()
    with pytest.raises(RuntimeError, match="has been deleted"):
        mjax.make_array_from_single_device_arrays((4,), TWO, [ON[0], x])


# ---- of what a function gives ----------------------------------------------------------


@every_sharding
def test_of_a_function(s):
    asked = []

    def part(index):
        asked.append(str(index))
        return X[index]

    x = mjax.make_array_from_callback(X.shape, s, part)
    np.testing.assert_array_equal(x, X)
    assert x.sharding is s and x.committed
    assert len(asked) == len(set(asked)) == X.size // np.prod(s.shard_shape(X.shape))


def test_what_a_function_may_give():
    f = mjax.make_array_from_callback
    assert f((2,), TWO, lambda index: [2.5]).dtype == np.float32
    assert f((2,), TWO, lambda index: np.ones(1, np.int8), dtype=np.int8).dtype == np.int8
    assert f((2,), TWO, lambda index: [2.5], dtype=np.float16).dtype == np.float16
    assert f((2,), TWO, lambda index: np.ones(1), dtype=np.float64).dtype == np.float32
    for part in (np.ones(1, np.float32), mjax.numpy.ones(1)):
        with pytest.raises(ValueError, match="make_array_from_callback: dtype is float16, but the "
                                             "function returned a part of dtype float32"):
            f((2,), TWO, lambda index, part=part: part, dtype=np.float16)
    assert f((2,), TWO, lambda index: mjax.numpy.ones(1)).tolist() == [1, 1]
    assert f((), NamedSharding(MESH, P()), lambda index: 3).item() == 3
    with mjax.enable_x64(True):
        assert f((2,), TWO, lambda index: np.ones(1)).dtype == np.float64
    keys = mjax.random.split(mjax.random.key(0), 2)
    got = f((2,), TWO, lambda index: keys[index])
    np.testing.assert_array_equal(mjax.random.key_data(got), mjax.random.key_data(keys))


def test_what_a_function_may_not_give():
    f = mjax.make_array_from_callback
    with pytest.raises(ValueError, match=r"a value of shape \(2,\) for the part \(slice\(0, "
                                         r"1, None\),\), which has shape \(1,\)"):
        f((2,), TWO, lambda index: np.ones(2))
    with pytest.raises(ValueError, match="parts have the dtypes .'float32', 'int32'.; they must"):
        f((2,), TWO, lambda index: np.ones(1, np.float32 if index[0].start else np.int32))
    with pytest.raises(ValueError, match=r"3 = 1 \* 2 \+ 1"):
        f((3,), TWO, lambda index: np.ones(1))


# ---- of the data of this process -------------------------------------------------------


@every_sharding
@pytest.mark.parametrize("shape", [None, (8, 8), (None, 8)], ids=str)
def test_of_the_data_of_one_process(s, shape):
    x = mjax.make_array_from_process_local_data(s, X, shape)
    np.testing.assert_array_equal(x, X)
    assert x.sharding is s


@pytest.mark.parametrize(("spec", "mine", "local", "shape"), [
    (P("x"), [0, 1, 2, 3], np.s_[:4], None), (P("x"), [4, 5, 6, 7], np.s_[4:], (8, 8)),
    (P("x"), [0, 1, 4, 5], np.s_[[0, 1, 4, 5]], None), (P("x"), [6, 7], np.s_[6:], None),
    (P("x"), [4, 5, 6, 7], np.s_[:], (8, 8)), (P("x", "y"), [1, 3], np.s_[:4, 4:], None),
    (P("x", "y"), [1, 3], np.s_[:, 4:], (8, 8)), (P("y", "x"), [2, 3], np.s_[:, 2:4], (8, None)),
    (P(), [3], np.s_[:], None), (P(("y", "x")), [1, 2], np.s_[[1, 4]], (8, 8)),
])
def test_of_the_data_of_some_devices(monkeypatch, spec, mine, local, shape):
    """As if this process had these devices: the parts that would be put on them."""
    s = object.__new__(NamedSharding)
    whole = NamedSharding(MESH, spec)
    for name in ("mesh", "spec", "flat_devices", "_native", "_memory_kind"):
        setattr(s, name, getattr(whole, name))
    s._local = tuple(DEVICES[i] for i in mine)
    monkeypatch.setattr(assembling, "_of_parts", lambda *args: args)
    values, got, _, dtype = mjax.make_array_from_process_local_data(s, X[local], shape)
    assert got == (8, 8) and dtype == X.dtype
    parts = whole.devices_indices_map(X.shape)
    for i, value in zip(mine, values, strict=True):
        np.testing.assert_array_equal(value, X[parts[DEVICES[i]]])


def test_trees_of_local_data():
    f = mjax.make_array_from_process_local_data
    keys = mjax.random.split(mjax.random.key(0), 4)
    tree = {"a": X, "b": (X[0], keys), "c": None}
    for shapes in (None, {"a": (8, None), "b": None, "c": None}, {"a": [8, 8], "b": ((8,), (4,)),
                                                                 "c": None}):
        out = f({"a": SHARDINGS["half"], "b": TWO, "c": None}, tree, shapes)
        np.testing.assert_array_equal(out["a"], X)
        np.testing.assert_array_equal(out["b"][0], X[0])
        np.testing.assert_array_equal(*map(mjax.random.key_data, (out["b"][1], keys)))
        assert out["a"].sharding is SHARDINGS["half"] and out["b"][1].sharding is TWO
        assert out["c"] is None
    assert [x.tolist() for x in f(TWO, [X[0, :2], X[1, :2]], (2,))] == [[0, 1], [8, 9]]
    with pytest.raises(ValueError, match="expected a device .* or a sharding, got 3"):
        f((TWO, 3), (X, X))
    with pytest.raises(ValueError, match="sharding is not a tree prefix of the local data. .*b"):
        f({"b": TWO}, {"a": X})
    with pytest.raises(ValueError, match="global_shape is not a tree prefix of the local data"):
        f(TWO, {"a": X}, {"b": (8, 8)})


@pytest.mark.parametrize(("data", "shape", "text"), [
    (np.zeros(6), (8,), "dimension 0 of the local data has 6 elements, and the whole 8. This "
     "process holds 2 of its 2 pieces: give these 8 elements, or all 8"),
    (np.zeros(3), None, r"3 = 1 \* 2 \+ 1"),
    (np.zeros((4, 2)), (4,), r"global_shape \(4,\) and local data of shape \(4, 2\) differ"),
])
def test_data_that_do_not_fit(data, shape, text):
    with pytest.raises(ValueError, match=text):
        mjax.make_array_from_process_local_data(TWO, data, shape)


def test_local_data_on_a_device_and_by_a_spec():
    there = mjax.devices()[-1]
    out = mjax.make_array_from_process_local_data(there, {"a": np.arange(3)})
    assert out["a"].devices() == {there} and out["a"].committed
    with mjax.set_mesh(mjax.make_mesh((1,), ("x",))):
        out = mjax.make_array_from_process_local_data(mjax.P("x"), np.arange(3))
    assert out.sharding.spec == mjax.P("x")
    with pytest.raises(ValueError, match="device"):
        mjax.make_array_from_process_local_data("cpu", np.arange(3))


def test_trailing_nones_of_new_arrays_say_nothing():
    mesh = mjax.make_mesh((1,), ("x",))
    for make in (lambda s: mjax.lax.full((4,), 1.0, sharding=s),
                 lambda s: mjax.numpy.zeros(4, device=s)):
        assert make(mjax.NamedSharding(mesh, mjax.P("x", None))).sharding.spec == mjax.P("x")
        with pytest.raises(ValueError, match="dimensions"):
            make(mjax.NamedSharding(mesh, mjax.P(None, "x")))
