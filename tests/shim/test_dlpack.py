"""DLPack both ways: values, memory that is shared, capsules that are used once."""

from __future__ import annotations

import numpy as np
import pytest

from mjaxlib_shim import arrays, custom_calls, dlpack
from mjaxlib_shim.arrays import PlainAval, single_device_sharding, to_numpy
from tests.shim.samples import EXTENDED, NATIVE, aligned, every_dtype, values


class _Exporter:
    def __init__(self, buffer):
        self.buffer = buffer

    def __dlpack__(self, **_):
        return dlpack.to_dlpack(self.buffer)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("dtype", NATIVE[1:], ids=str)
def test_dlpack_to_numpy(put, dtype):
    buffer = put(values(dtype, (2, 3)))
    result = np.from_dlpack(_Exporter(buffer))
    np.testing.assert_array_equal(result, to_numpy(buffer))
    assert result.ctypes.data == arrays.unsafe_pointer(buffer)


@every_dtype
def test_dlpack_round_trip(put, device, dtype):
    """Exported arrays come back unchanged, in the same memory, or are refused."""
    buffer = put(values(dtype, (2, 3)))
    try:
        capsule = dlpack.to_dlpack(buffer)
        result = dlpack.from_dlpack(capsule, device)
    except (arrays.XlaRuntimeError, ValueError):
        assert dtype in EXTENDED
        return
    assert result.aval.shape == (2, 3) and result.aval.dtype == dtype
    assert result._sharding is single_device_sharding(device)
    np.testing.assert_array_equal(to_numpy(result), to_numpy(buffer))
    assert arrays.unsafe_pointer(result) == arrays.unsafe_pointer(buffer)


def test_dlpack_from_numpy(device):
    source = aligned(16)
    source[:] = np.arange(16)
    aval = PlainAval((16,), source.dtype)
    result = dlpack.from_dlpack(source.__dlpack__(), device, aval)
    assert result.aval is aval
    np.testing.assert_array_equal(to_numpy(result), source)


def test_dlpack_capsule_is_one_shot(put, device):
    capsule = dlpack.to_dlpack(put(np.zeros(3)))
    dlpack.from_dlpack(capsule, device)
    with pytest.raises((arrays.XlaRuntimeError, ValueError)):
        dlpack.from_dlpack(capsule, device)


def test_capsules_without_a_name_are_refused(device):
    """On 0.4.36 they ended the process."""
    with pytest.raises(TypeError, match="is not a capsule of DLPack"):
        dlpack.from_dlpack(custom_calls.pycapsule(1), device)
