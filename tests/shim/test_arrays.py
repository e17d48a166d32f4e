"""Transfers both ways, every dtype, ownership of memory, and no hidden import of jax."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

from mjaxlib_shim import arrays, executables, gates, shardings
from mjaxlib_shim.arrays import PlainAval, is_deleted, single_device_sharding, to_numpy
from mjaxlib_shim.shardings import replicated, tiled
from tests.shim.samples import aligned, every_dtype, values

# ---------------------------------------------------------------- round trips


@every_dtype
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("copy", ["always", "during_call", "alias"])
def test_round_trip(put, dtype, shape, copy):
    value = values(dtype, shape)
    result = to_numpy(put(value, copy=copy))
    assert result.dtype == dtype and result.shape == shape
    np.testing.assert_array_equal(result, value)


@every_dtype
def test_result_is_read_only(put, dtype):
    assert not to_numpy(put(values(dtype, (3,)))).flags.writeable


@pytest.mark.parametrize(
    "value",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.arange(5)[::-1],
        np.broadcast_to(np.float32(3), (2, 2)),
    ],
    ids=["fortran", "strided", "negative", "broadcast"],
)
@pytest.mark.parametrize("copy", ["always", "during_call", "alias"])
def test_strides(put, value, copy):
    np.testing.assert_array_equal(to_numpy(put(value, copy=copy)), value)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_64_bits_stay(put, dtype):
    big = np.array([2**53 - 1, 3], dtype)
    result = to_numpy(put(big))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, big)


@pytest.mark.parametrize("dtype, values", [
    ("bool", [True, False]), ("int32", [7, -(2**31), 2**31 - 1]), ("int64", [2**31, -(2**63)]),
    ("float32", [0.1, -0.0, np.inf, np.nan, 1e-45]), ("float64", [0.1, 1e300, 5e-324])])
def test_python_scalars(device, dtype, values):
    aval = PlainAval((), np.dtype(dtype))
    put = arrays.scalar_putter(aval, single_device_sharding(device), device)
    for value in values:
        result = to_numpy(put(value))
        assert result.dtype == dtype and result.shape == ()
        assert result.tobytes() == np.asarray(value, dtype).tobytes()


@pytest.mark.skipif(gates.ENABLE_X64.open, reason="x64 is passed per call")
def test_64_bits_stay_whatever_the_thread_says(put):
    from mjaxlib_shim.native import ext

    state = ext.jax_jit.thread_local_state()
    before = state.enable_x64
    state.enable_x64 = False
    try:
        assert to_numpy(put(np.arange(3.0))).dtype == np.float64
        assert state.enable_x64 is False
    finally:
        state.enable_x64 = before


def test_aval_and_sharding_are_kept(device):
    aval = PlainAval((2,), np.dtype(np.int32))
    sharding = single_device_sharding(device)
    assert single_device_sharding(device) is sharding
    buffer = arrays.put(np.array([1, 2], np.int32), aval, sharding, device, copy="alias")
    assert buffer.aval is aval and buffer._sharding is sharding
    assert isinstance(buffer, arrays.Buffer)
    assert sharding.memory_kind == sharding._memory_kind


# ---------------------------------------------------------------- whose memory


@pytest.mark.parametrize(("copy", "shared"), [("always", 0), ("during_call", 0), ("alias", 1)])
def test_copy_modes(put, copy, shared):
    source = aligned(64)
    buffer = put(source, copy=copy)
    arrays.block_until_ready([buffer])
    assert (arrays.unsafe_pointer(buffer) == source.ctypes.data) == bool(shared)
    source[0] = 7
    assert to_numpy(buffer)[0] == (7 if shared else 0)


def test_alias_keeps_the_source_alive(put):
    buffer = put(aligned(1024), copy="alias")
    gc.collect()
    noise = [aligned(1024) + 1 for _ in range(50)]
    assert to_numpy(buffer).sum() == 0
    del noise


def test_unknown_copy_mode(put):
    with pytest.raises(KeyError):
        put(np.zeros(2), copy="never")


def test_to_numpy_shares_memory(put):
    buffer = put(np.arange(64, dtype=np.float32))
    assert to_numpy(buffer).ctypes.data == arrays.unsafe_pointer(buffer)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_numpy_view_outlives_the_buffer(put, dtype):
    buffer = put(np.ones(1 << 14, dtype))
    view = to_numpy(buffer)
    buffer.delete()
    del buffer
    gc.collect()
    noise = [put(np.zeros(1 << 14, dtype)) for _ in range(20)]
    assert (view == 1).all()
    del noise


def test_numpy_view_survives_donation(client, device, parse, put, call):
    module = parse(
        "func.func public @main(%a: tensor<256xf32> {tf.aliasing_output = 0 : i32})"
        " -> tensor<256xf32> {"
        "  %0 = stablehlo.add %a, %a : tensor<256xf32>"
        "  return %0 : tensor<256xf32> }"
    )
    program = executables.compile_module(client, module, [device])
    buffer = put(np.ones(256, np.float32))
    view = to_numpy(buffer)
    (result,) = call(program, [buffer], [buffer.aval])
    assert (to_numpy(result) == 2).all()
    assert (view == 1).all()


# ---------------------------------------------------------------- state


def test_deleted(put):
    buffer = put(np.zeros(3))
    assert not is_deleted(buffer)
    buffer.delete()
    assert is_deleted(buffer)
    with pytest.raises(RuntimeError, match="deleted"):
        to_numpy(buffer)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_reading_a_deleted_buffer_is_a_runtime_error(put, dtype):
    buffer = put(np.zeros(3, dtype))
    buffer.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        to_numpy(buffer)
    assert issubclass(arrays.XlaRuntimeError, RuntimeError)


def test_block_and_async_copy(put):
    buffers = [put(np.zeros(3)), put(np.ones(2))]
    for buffer in buffers:
        arrays.copy_to_host_async(buffer)
    arrays.block_until_ready(buffers)
    assert all(buffer.is_ready() for buffer in buffers)


def test_shards_of_one_device(put):
    (piece,) = arrays.shards(put(np.arange(3.0)))
    np.testing.assert_array_equal(to_numpy(piece), np.arange(3.0))


# ---------------------------------------------------------------- several devices


def test_two_devices(run_python):
    def body():
        import ml_dtypes
        import numpy as np

        from mjaxlib_shim import arrays, client, shardings

        devices = client.cpu_client().local_devices()
        one, two = (arrays.single_device_sharding(device) for device in devices)
        assert one is not two
        for dtype in (np.float32, np.float64, np.bool_, ml_dtypes.bfloat16):
            whole = (np.arange(12) % 3).reshape(4, 3).astype(dtype)
            aval = arrays.PlainAval((4, 3), np.dtype(dtype))
            half = arrays.PlainAval((2, 3), np.dtype(dtype))

            cut = shardings.gspmd_sharding(devices, shardings.tiled([2, 1]))
            buffer = arrays.put_shards([whole[:2], whole[2:]], aval, cut, devices)
            assert (arrays.to_numpy(buffer) == whole).all()
            assert arrays.to_numpy(buffer).dtype == dtype
            assert not arrays.to_numpy(buffer).flags.writeable
            pieces = arrays.shards(buffer)
            assert [arrays.to_numpy(p).tolist() for p in pieces] == [
                whole[:2].tolist(),
                whole[2:].tolist(),
            ]

            swapped = shardings.gspmd_sharding(devices, shardings.tiled([2, 1], devices=[1, 0]))
            buffer = arrays.put_shards([whole[2:], whole[:2]], aval, swapped, devices)
            assert (arrays.to_numpy(buffer) == whole).all()

            same = shardings.gspmd_sharding(devices, shardings.replicated())
            buffer = arrays.put_shards([whole, whole], aval, same, devices, copy="always")
            assert (arrays.to_numpy(buffer) == whole).all()
            assert not arrays.to_numpy(buffer).flags.writeable
            assert (arrays.to_numpy(arrays.replicated_shard(buffer)) == whole).all()

            x = arrays.put(whole[:2], half, one, devices[0])
            y = arrays.copy_to_device(x, devices[1], two)
            assert y.aval is half and y._sharding is two
            assert (arrays.to_numpy(y) == whole[:2]).all()
            z = arrays.put(whole[2:], half, two, devices[1])
            both = arrays.assemble(aval, cut, [x, z])
            assert both._committed and (arrays.to_numpy(both) == whole).all()
            arrays.block_until_ready([both, y])

    run_python(body, devices=2)


def test_what_would_end_the_process_is_refused(run_python):
    def body():
        import numpy as np

        from mjaxlib_shim import arrays, client, shardings

        devices = client.cpu_client().local_devices()
        one, two = (arrays.single_device_sharding(device) for device in devices)
        cut = shardings.gspmd_sharding(devices, shardings.tiled([2]))
        value = np.ones(3, np.float32)
        aval, whole = (arrays.PlainAval((n,), value.dtype) for n in (3, 6))
        good, gone = (arrays.put(value, aval, one, devices[0]) for _ in range(2))
        gone.delete()
        other = arrays.put(value, aval, two, devices[1])
        for kind, text, call in (
            (RuntimeError, "copy_to_device: the buffer has been deleted",
             lambda: arrays.copy_to_device(gone, devices[1], two)),
            (RuntimeError, "copy_to_device: the buffer has been deleted",
             lambda: arrays.copy_to_device(gone, devices[0], one)),
            (TypeError, "None", lambda: arrays.copy_to_device(good, None, one)),
            (TypeError, "", lambda: arrays.copy_to_device(3, devices[0], one)),
            (RuntimeError, "assemble: a buffer has been deleted",
             lambda: arrays.assemble(aval, one, [gone])),
            (RuntimeError, "assemble: a buffer has been deleted",
             lambda: arrays.assemble(whole, cut, [gone, other])),
            (ValueError, "assemble: there are no buffers", lambda: arrays.assemble(aval, one, [])),
            (Exception, "None", lambda: arrays.put(value, aval, one, None)),
            (Exception, "None",
             lambda: arrays.put_shards([value, value], whole, cut, [devices[0], None])),
            (ValueError, "is for 2 devices, not for 1",
             lambda: shardings.gspmd_sharding(devices[:1], shardings.tiled([2]))),
            (TypeError, "a device of the sharding is None",
             lambda: shardings.gspmd_sharding([*devices, None], shardings.replicated())),
        ):
            try:
                call()
            except kind as error:
                assert text in str(error), error
            else:
                raise AssertionError(text)
        assert arrays.to_numpy(arrays.assemble(whole, cut, [good, other])).shape == (6,)

    run_python(body, devices=2)


SAME_MEMORY = {
    "rows": (tiled([2, 1, 2], replicate_last=True), lambda v: [v[:2], v[:2], v[2:], v[2:]]),
    "one object": (replicated(), lambda v: [v] * 4),
    "nothing": (tiled([2, 1, 2], replicate_last=True), lambda v: [v[:0]] * 4),
    "strides": (tiled([4, 1]), lambda v: [v[:1, :4], v[:, 0][None], v[2:3, :4], v[3:, :4]]),
}


@pytest.mark.parametrize("copy", ["always", "during_call", "alias"])
@pytest.mark.parametrize("case", SAME_MEMORY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_shards_of_the_same_memory(client, case, copy, dtype):
    """`bad_function_call` on newer jaxlibs, if they get the values as they are."""
    hlo, cut = SAME_MEMORY[case]
    devices = client.local_devices()[:4]
    values = cut(np.arange(32).reshape(4, 8).astype(dtype))
    expected = [value.copy() for value in values]
    shape = (0, 8) if case == "nothing" else (4, 4 if case == "strides" else 8)
    sharding = shardings.gspmd_sharding(devices, hlo)
    buffer = arrays.put_shards(values, PlainAval(shape, np.dtype(dtype)), sharding, devices,
                               copy=copy)  # fmt: skip
    if copy != "alias":
        for value in values:
            value[...] = 7
    pieces = [to_numpy(piece) for piece in arrays.shards(buffer)]
    for piece, value in zip(pieces, expected, strict=True):
        np.testing.assert_array_equal(piece, value)


# ---------------------------------------------------------------- hidden imports


@pytest.fixture
def trap(tmp_path):
    """A package named jax that tells on whoever imports it."""
    package = tmp_path / "jax"
    (package / "_src").mkdir(parents=True)
    for file in ("__init__.py", "_src/__init__.py", "_src/sharding_impls.py", "core.py"):
        (package / file).write_text("LOADED = True\n")
    return tmp_path


def test_no_hidden_import_of_jax(run_python, trap):
    def body():
        import sys

        import ml_dtypes
        import numpy as np

        from mjaxlib_shim import arrays, client, dlpack, shardings

        devices = client.cpu_client().local_devices()
        single = arrays.single_device_sharding(devices[0])
        cut = shardings.gspmd_sharding(devices, shardings.tiled([2]))
        for dtype in (np.float32, ml_dtypes.bfloat16):
            value = np.arange(4).astype(dtype)
            aval = arrays.PlainAval((4,), value.dtype)
            x = arrays.put(value, aval, single, devices[0])
            arrays.to_numpy(x)
            arrays.unsafe_pointer(x)
            arrays.shards(x)
            dlpack.from_dlpack(dlpack.to_dlpack(x), devices[0])
            arrays.copy_to_device(x, devices[1], arrays.single_device_sharding(devices[1]))
            y = arrays.put_shards([value[:2], value[2:]], aval, cut, devices)
            arrays.to_numpy(y)
            for piece in arrays.shards(y):
                arrays.to_numpy(piece)
                arrays.unsafe_pointer(piece)
            same = shardings.gspmd_sharding(devices, shardings.replicated())
            z = arrays.put_shards([value, value], aval, same, devices)
            arrays.to_numpy(arrays.replicated_shard(z))
            arrays.to_numpy(z)
        assert not [name for name in sys.modules if name.partition(".")[0] == "jax"]

        import jax  # the user's own import is none of our business

        assert jax.LOADED

    run_python(body, devices=2, path=[trap])
