"""The memory of Buffers on the CPU, for those that nobody but their owner sees."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from .arrays import unsafe_pointer

__all__ = ["writable_view"]


def writable_view(buffer: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """The memory of a Buffer on one CPU device as an array that can be written.

    XLA takes Buffers for constant, so only the Buffer's owner may write it, and only while no
    program reads it. The Buffer has to outlive the array.

    Args:
      buffer: a single-device Buffer, in row-major order.
      shape: its shape.
      dtype: its dtype, one of NumPy's own.

    Returns:
      An array that shares the memory.

    Raises:
      XlaRuntimeError: the Buffer was deleted, or the computation that makes it failed.

    Example:
      >>> from mjaxlib_shim import arrays, client, memory, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> value = np.arange(3, dtype="float32")
      >>> aval = arrays.PlainAval(value.shape, value.dtype)
      >>> buffer = arrays.put(value, aval, shardings.single_device_sharding(device), device)
      >>> memory.writable_view(buffer, (3,), value.dtype)[1] = 5
      >>> arrays.to_numpy(buffer)
      array([0., 5., 2.], dtype=float32)
    """
    size = math.prod(shape) * dtype.itemsize
    held = (ctypes.c_char * size).from_address(unsafe_pointer(buffer))
    return np.frombuffer(held, dtype).reshape(shape)
