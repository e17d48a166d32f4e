"""Arrays: facts, conversions, state, pickling, NumPy and DLPack both ways."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.util import BoundedCache
from mjax._engine.runtime import array
from mjax._engine.runtime.array import Array

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def x():
    return mjax.device_put(X)


def test_facts(x):
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize) == ((2, 3), 2, 6, 24, 4)
    assert x.dtype == np.float32 and not x.weak_type and len(x) == 2
    assert x.devices() == {mjax.devices()[0]} and x.device is mjax.devices()[0]
    assert x.sharding.device_set == {mjax.devices()[0]} and not x.committed


def test_tracers_are_arrays_to_isinstance(x):
    seen = []
    mjax.jit(lambda t: seen.append(isinstance(t, mjax.Array)) or t)(x)
    mjax.vmap(lambda t: seen.append(isinstance(t, mjax.Array)) or t)(x)
    assert seen == [True, True] and isinstance(x, mjax.Array)
    assert not isinstance(X, mjax.Array)


def test_arrays_and_tracers_are_unhashable(x):
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(TypeError, match="unhashable"):
        mjax.jit(hash)(x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16",
                                   "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 1)])
def test_round_trip_through_the_device(dtype, shape):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    back = np.asarray(mjax.device_put(value))
    assert back.dtype == dtype and back.shape == shape
    np.testing.assert_array_equal(back, value)


def test_64_bit_values_become_32_bit_ones_unless_x64_is_on():
    assert mjax.device_put(np.arange(3.0)).dtype == np.float32
    with mjax.enable_x64(True):
        value = mjax.device_put(np.arange(3) + 2**40)
        assert value.dtype == np.int64
        np.testing.assert_array_equal(np.asarray(value), np.arange(3) + 2**40)


def test_sources_may_change_after_the_call():
    source = np.ones((64, 1024), np.float32)
    array = mjax.device_put(source)
    out = mjax.jit(lambda a: lax.add(a, 1.0))(source)
    source[:] = 7
    np.testing.assert_array_equal(np.asarray(array), 1)
    np.testing.assert_array_equal(np.asarray(out), 2)


def test_values_read_are_read_only(x):
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0, 0] = 1
    assert np.array(x).flags.writeable


def test_python_conversions():
    assert float(mjax.device_put(2.5)) == 2.5 and int(mjax.device_put(3)) == 3
    assert bool(mjax.device_put(True)) and complex(mjax.device_put(1j)) == 1j
    assert list(range(mjax.device_put(np.int32(3)))) == [0, 1, 2]
    assert mjax.device_put(X).tolist() == X.tolist()
    assert mjax.device_put(X).item(1) == 1.0


@pytest.mark.parametrize(("convert", "value", "text"), [
    (bool, X, "ambiguous"), (bool, np.ones(0), "empty"), (float, X, "one element"),
    (range, np.float32(1), "only integer arrays"), (len, np.float32(1), "unsized"),
    (iter, np.float32(1), "0-d"),
])
def test_conversions_that_make_no_sense(convert, value, text):
    with pytest.raises((TypeError, ValueError), match=text):
        convert(mjax.device_put(value))


def test_repr_and_format(x):
    assert repr(mjax.device_put(np.float32(1.5))) == "Array(1.5, dtype=float32)"
    assert repr(mjax.device_put(2)) == "Array(2, dtype=int32, weak_type=True)"
    assert repr(x).startswith("Array([[0., 1., 2.],\n       [3.")
    assert f"{mjax.device_put(np.float32(1.25)):.1f}" == "1.2"
    assert "shape=(0, 3)" in repr(mjax.device_put(np.ones((0, 3))))


def test_pickle_and_copy(x):
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert type(other) is Array and other is not x
        np.testing.assert_array_equal(np.asarray(other), X)
    assert pickle.loads(pickle.dumps(mjax.device_put(1.0))).weak_type


def test_dlpack_both_ways(x):
    np.testing.assert_array_equal(np.from_dlpack(x), X)


def test_deleted_arrays_are_refused(x):
    x.delete()
    assert x.is_deleted() and "deleted" in repr(x)
    with pytest.raises(RuntimeError, match="donate"):
        np.asarray(x)
    with pytest.raises(RuntimeError, match="deleted"):
        lax.add(x, 1.0)


def test_block_until_ready_takes_trees(x):
    tree = {"a": lax.sin(x), "b": [1, None]}
    assert mjax.block_until_ready(tree) is tree
    assert tree["a"].block_until_ready() is tree["a"] and tree["a"].is_ready()


def test_placements_are_interned_and_forgotten(monkeypatch):
    small = BoundedCache(4)
    monkeypatch.setattr(array, "_placements", small)
    sharding = mjax.device_put(X).sharding
    first = array.placement_of(mjax.typeof(X), sharding, False)
    assert array.placement_of(mjax.typeof(X), sharding, False) is first
    for n in range(20):
        array.placement_of(mjax.typeof(np.zeros(n, np.float32)), sharding, False)
    assert len(small) <= 4
