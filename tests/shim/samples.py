"""Values of every dtype."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

NATIVE = [
    np.dtype(code)
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
]
EXTENDED = [
    np.dtype(scalar)
    for scalar in (
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.int4,
        ml_dtypes.uint4,
    )
]
DTYPES = NATIVE + EXTENDED
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def aligned(count, dtype=np.float32):
    """An array that the CPU client can use in place (64-byte aligned)."""
    dtype = np.dtype(dtype)
    memory = np.zeros(count * dtype.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * dtype.itemsize].view(dtype)


def values(dtype, shape):
    return (np.arange(np.prod(shape, dtype=int)) % 5).reshape(shape).astype(dtype)
