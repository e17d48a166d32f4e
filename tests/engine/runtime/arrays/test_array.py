"""Arrays: facts, conversions, state, pickling, NumPy and DLPack both ways."""

import copy
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.runtime.arrays.array import Array

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
    (bool, X, "ambiguous"), (bool, np.ones(0), "empty"), (float, X, "only scalar arrays"),
    (int, np.ones(1), "only scalar arrays"), (complex, np.ones((1, 1)), "only scalar arrays"),
    (int, 1j, "complex number does not become a Python int"),
    (float, np.complex64(1), "complex number does not become a Python float"),
    (range, np.ones(1, int), "only scalar arrays"), (lambda x: f"{x:.2f}", X, "format its elem"),
    (lambda x: x.flat, X, "ravel"),
    (range, np.float32(1), "only integer arrays"), (len, np.float32(1), "unsized"),
    (iter, np.float32(1), "0-d"),
])
def test_conversions_that_make_no_sense(convert, value, text):
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=text):
        convert(mjax.device_put(value))


@pytest.mark.parametrize("kind", [int, float, complex])
def test_traced_values_that_are_no_scalars_become_no_python_numbers(kind):
    with pytest.raises(TypeError, match="only scalar arrays"):
        mjax.jit(kind)(np.ones(1, np.float32))
    with pytest.raises(TypeError, match="only scalar arrays"):
        mjax.jvp(lambda t: t * kind(t), (np.ones(1, np.float32),), (np.ones(1, np.float32),))


def test_complex_primals_become_no_real_numbers():
    with pytest.raises(TypeError, match="complex number does not become a Python float"):
        mjax.jvp(lambda t: t * float(t), (1j,), (1j,))


def test_a_truth_needs_one_element_in_any_shape():
    assert bool(mjax.device_put(np.ones((1, 1)))) and not mjax.device_put(np.zeros(1))


@pytest.mark.parametrize("value", [X, np.arange(3), np.int8(3), np.ones((2, 0)), X[:, :1] > 1,
                                   np.arange(3).astype(ml_dtypes.bfloat16)])
def test_bytes(value):
    array = mjax.device_put(value)
    expected = np.asarray(value).astype(array.dtype)
    assert bytes(array) == array.tobytes() == expected.tobytes()
    assert array.tobytes("F") == array.tobytes(order="F") == expected.tobytes("F")
    assert array.on_device_size_in_bytes() == expected.nbytes


def test_keys_have_no_bytes():
    with pytest.raises(TypeError, match="key_data"):
        bytes(mjax.random.key(0))
    assert mjax.random.key(0).on_device_size_in_bytes() == 8  # the threefry key's two numbers


ONLY_OF_ARRAYS = {
    "devices": lambda x: x.devices(), "addressable_shards": lambda x: x.addressable_shards,
    "global_shards": lambda x: x.global_shards, "is_deleted": lambda x: x.is_deleted(),
    "addressable_data": lambda x: x.addressable_data(0), "delete": lambda x: x.delete(),
    "is_fully_addressable": lambda x: x.is_fully_addressable,
    "is_fully_replicated": lambda x: x.is_fully_replicated, "tobytes": lambda x: x.tobytes(),
    "unsafe_buffer_pointer": lambda x: x.unsafe_buffer_pointer(),
    "on_device_size_in_bytes": lambda x: x.on_device_size_in_bytes(),
    "pickle": pickle.dumps,
}


@pytest.mark.parametrize("name", ONLY_OF_ARRAYS)
def test_what_only_arrays_have_is_refused_with_the_argument(name):
    ask = ONLY_OF_ARRAYS[name]

    def program(first, second):
        return first + len(str(ask(second)))

    ask(mjax.device_put(X))
    with pytest.raises(mjax.errors.ConcretizationTypeError,
                       match=rf"(?s){name}.*program at .*test_array.py.*argument second"):
        mjax.jit(program)(1.0, X)
    with pytest.raises(mjax.errors.ConcretizationTypeError, match=name):
        mjax.vmap(program)(X, X)


def test_tracers_have_no_flat_either():
    with pytest.raises(NotImplementedError, match="ravel"):
        mjax.jit(lambda t: t.flat)(X)


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


def test_dlpack_does_what_its_consumer_asks_for(x):
    assert x.__dlpack__(dl_device=(1, 0), max_version=(1, 0), copy=False) is not None

    class Copied:
        def __dlpack__(self, **options):
            return x.__dlpack__(copy=True)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    ours, copied = np.from_dlpack(x), np.from_dlpack(Copied())
    np.testing.assert_array_equal(copied, X)
    assert np.shares_memory(ours, np.asarray(x)) and not np.shares_memory(ours, copied)


@pytest.mark.parametrize("options", [{"dl_device": (2, 0)}, {"dl_device": (2, 0), "copy": True}])
def test_dlpack_to_another_device_is_refused(x, options):
    with pytest.raises(BufferError, match=r"dl_device=\(2, 0\).*device_put"):
        x.__dlpack__(**options)


def test_numpy_gets_no_copy_where_it_wants_none(x):
    assert np.shares_memory(x.__array__(np.dtype("f4"), copy=False), np.asarray(x))
    with pytest.raises(ValueError, match=r"float32\[2,3\].*float64 without a copy"):
        x.__array__("f8", copy=False)
    assert x.__array__("f8").dtype == np.float64


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


def test_values_read_by_numpy_again_and_again():
    for value in (np.arange(3.0, dtype=np.float32), np.zeros((64, 64), np.float32)):
        x = mjax.device_put(value)
        for _ in range(4):
            read = np.asarray(x)
            np.testing.assert_array_equal(read, value)
            assert not read.flags.writeable
            assert np.asarray(x, np.float64).flags.writeable
        del read
        mjax.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert x.is_deleted()  # no view of its memory is kept
        with pytest.raises(RuntimeError, match="has been deleted"):
            np.asarray(x)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 brings __buffer__")
def test_buffers_read_again_and_again():
    x = mjax.device_put(np.arange(3.0, dtype=np.float32))
    for _ in range(3):
        view = memoryview(x)
        assert view.readonly and view.tolist() == [0, 1, 2]
    mjax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()  # no view of its memory is kept
    assert view.tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="deleted"):
        memoryview(x)


def test_iterating_many_rows():
    for n in (0, 3, 102):
        value = np.arange(n * 2).reshape(n, 2)
        rows = list(mjax.device_put(value))
        assert len(rows) == n
        np.testing.assert_array_equal(np.array(rows).reshape(n, 2), value)
