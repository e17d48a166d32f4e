"""Arrays of other libraries: shared memory where that is right, else copies."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import dlpack


def aligned(shape, dtype=np.float32):
    """Numbers in memory that can be taken over."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    x = memory[start : start + size].view(dtype).reshape(shape)
    x[...] = np.arange(x.size).reshape(shape)
    return x


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (1, 3, 1)], ids=str)
def test_values(shape, dtype):
    x = aligned(shape, dtype)
    out = jnp.from_dlpack(x)
    assert isinstance(out, mjax.Array)
    assert (out.shape, out.dtype, out.weak_type) == (x.shape, x.dtype, False)
    np.testing.assert_array_equal(np.asarray(out), x)
    np.testing.assert_array_equal(np.asarray(out == out), x == x)


def test_memory_is_shared():
    x = aligned(4)
    for copy in (None, False):
        out = jnp.from_dlpack(x, copy=copy)
        assert out.unsafe_buffer_pointer() == x.ctypes.data
    assert jnp.from_dlpack(x, copy=True).unsafe_buffer_pointer() != x.ctypes.data
    assert out.committed and out.devices() == {mjax.devices("cpu")[0]}


def test_memory_outlives_its_owner():
    out = jnp.from_dlpack(aligned(1000))
    np.testing.assert_array_equal(np.asarray(out + 1), np.arange(1000) + 1)


@pytest.mark.parametrize(("x", "why"), [
    (aligned((2, 3)).T, "not in row-major order"),
    (aligned(6)[::2], "not in row-major order"),
    (aligned(6)[::-1], "not in row-major order"),
    (np.broadcast_to(aligned(3), (2, 3)), "read-only"),
    (aligned(5)[1:], "not aligned to 64 bytes"),
    (aligned(3, np.float64), "float64 is a 64-bit one"),
    (aligned(3, np.int64), "int64 is a 64-bit one"),
])
def test_what_cannot_be_shared_is_copied(x, why):
    out = jnp.from_dlpack(x)
    np.testing.assert_array_equal(np.asarray(out), x)
    np.testing.assert_array_equal(np.asarray(out + out), x + x)
    assert out.dtype.itemsize <= 4
    with pytest.raises(ValueError, match=why):
        jnp.from_dlpack(x, copy=False)


def test_64_bits_are_shared_with_x64():
    x = aligned(3, np.float64)
    with mjax.enable_x64(True):
        out = jnp.from_dlpack(x, copy=False)
        assert out.dtype == np.float64
        np.testing.assert_array_equal(np.asarray(out * 2), 2 * x)


def test_between_arrays():
    for value in (jnp.arange(6.0).reshape(2, 3), jnp.ones(3, ml_dtypes.bfloat16)):
        out = jnp.from_dlpack(value)
        assert out.dtype == value.dtype
        assert out.unsafe_buffer_pointer() == value.unsafe_buffer_pointer()
        np.testing.assert_array_equal(np.asarray(out), np.asarray(value))
        assert not jnp.from_dlpack(value).weak_type


def test_devices():
    device = mjax.devices()[0]
    assert jnp.from_dlpack(aligned(3), device=device, copy=False).device == device
    with pytest.raises(ValueError, match="expected a device"):
        jnp.from_dlpack(aligned(3), device="nowhere")


def test_errors():
    with pytest.raises(TypeError, match="__dlpack__ and __dlpack_device__, not list"):
        jnp.from_dlpack([1, 2])

    class Elsewhere:
        def __dlpack__(self):
            raise AssertionError("not asked for")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(ValueError, match="DLPack device type 2; only that of the CPU"):
        jnp.from_dlpack(Elsewhere())


DTYPES = ["bool", "int4", "int8", "uint32", "float8_e5m2", "float16", "bfloat16", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_supported_dtypes_go_there_and_back(dtype):
    supported = dlpack.is_supported_dtype(dtype)
    assert supported == (dtype not in ("int4", "float8_e5m2"))
    x = jnp.arange(3).astype(dtype)
    if supported:
        out = dlpack.from_dlpack(x)
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(out, x)


def test_what_is_no_dtype_is_not_supported():
    assert not dlpack.is_supported_dtype(object)
    with pytest.raises(TypeError, match="not understood"):
        dlpack.is_supported_dtype("numbers")


@pytest.mark.parametrize("end", ["x.delete()", "mjax.jit(lambda z: z + 1, donate_argnums=0)(x)"])
def test_memory_that_others_have_outlives_the_array(end):
    x = jnp.arange(3.0) + 1
    views = [np.from_dlpack(x), np.from_dlpack(x), np.asarray(x)]
    capsule = x.__dlpack__()
    eval(end, {"mjax": mjax, "x": x})  # the process aborted when the views went
    for view in views:
        np.testing.assert_array_equal(view, [1, 2, 3])
    del views, view, capsule, x
    gc.collect()


def test_an_array_of_another_library_outlives_its_twin():
    x = jnp.arange(3.0) + 1
    y, v = jnp.from_dlpack(x), np.from_dlpack(x)
    y.delete()
    np.testing.assert_array_equal(v, [1, 2, 3])
