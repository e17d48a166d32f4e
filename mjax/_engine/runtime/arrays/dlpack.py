"""Arrays of other libraries, imported by DLPack.

jaxlib accepts tensors with permuted axes and keeps their layout, but compiled programs read all
memory as row-major. So the strides are checked before jaxlib gets the tensor.

Source: https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.dtypes import NARROW_FLOATS, NARROW_INTS
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.devices import devices
from mjax._engine.runtime.arrays.placement import placement_of
from mjax._engine.runtime.arrays.shardings import SingleDeviceSharding
from mjax._engine.runtime.arrays.transfer import move, sharding_of, to_array
from mjaxlib_shim import arrays as shim
from mjaxlib_shim.dlpack import from_dlpack as from_capsule


class _Tensor(ctypes.Structure):
    """`DLTensor`, the first field of the struct that a capsule points to."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint8 * 4),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]

    def address(self) -> int:
        """The address of the elements."""
        return (self.data or 0) + int(self.byte_offset)

    def is_row_major(self) -> bool:
        """Whether the elements lie one after the other."""
        expected, compact = 1, True
        for axis in reversed(range(self.ndim)):
            size = self.shape[axis]
            if size == 0:
                return True
            compact &= size == 1 or not self.strides or self.strides[axis] == expected
            expected *= size
        return compact


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_CPU = 1


@boundary
def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An array that shares the memory of an array of another library, if possible.

    Later changes of that memory change the array. Memory that cannot be shared is copied: not
    aligned to 64 bytes, not in row-major order, read-only, or of a 64-bit dtype.

    Args:
      external_array: an object with `__dlpack__` and `__dlpack_device__`, in the memory of the CPU.
      device: the device to put the array on; default: its own.
      copy: True: always copy; False: never.

    Returns:
      An array, committed to its device.

    Raises:
      TypeError: `external_array` does not speak DLPack.
      ValueError: it is not in the CPU's memory; or it must be copied, and `copy` is False.

    Example:
      >>> mjax.dlpack.from_dlpack(np.arange(3, dtype=np.float32))
      Array([0., 1., 2.], dtype=float32)
    """
    if not (hasattr(external_array, "__dlpack__") and hasattr(external_array, "__dlpack_device__")):
        msg = (f"from_dlpack takes an array with methods __dlpack__ and __dlpack_device__, not "
               f"{type(external_array).__name__}.")
        raise TypeError(msg)
    kind = int(external_array.__dlpack_device__()[0])
    if kind != _CPU:
        msg = (f"from_dlpack: the array is in memory of DLPack device type {kind}; only that of "
               f"the CPU ({_CPU}) is supported. Copy it to the host first.")
        raise ValueError(msg)
    out, why = _taken_over(external_array)
    if device is not None and sharding_of(device) is not out.sharding:
        out, why = move(out, sharding_of(device), True), "it is for another device"
    if why and copy is False:
        msg = f"from_dlpack: the array must be copied ({why}), but copy=False."
        raise ValueError(msg)
    return copy_p.bind(out) if copy and not why else out


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged.

    Args:
      dtype: a dtype, or what `numpy.dtype` makes one of.

    Returns:
      False for numbers of less than a byte and floats of 8 bits, which the protocol did not have
      when the oldest jaxlib was made; True for all other dtypes of arrays.

    Raises:
      TypeError: it is not a dtype.

    Source: https://dmlc.github.io/dlpack/latest/c_api.html

    Example:
      >>> mjax.dlpack.is_supported_dtype(jnp.bfloat16), mjax.dlpack.is_supported_dtype(jnp.int4)
      (True, False)
    """
    dtype = np.dtype(dtype)
    return dtype.name not in (*NARROW_FLOATS, *NARROW_INTS) and (
        dtype.kind in "biufc" or dtype.name == "bfloat16")


def _taken_over(x: Any) -> tuple[Array, str]:
    """The array, and the reason why it is a copy; "" if it is not."""
    sharding = SingleDeviceSharding(devices("cpu")[0])
    if isinstance(x, np.ndarray) and not x.flags.writeable:
        return _copied(x, sharding), "it is read-only"
    capsule = x.__dlpack__()
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    if not tensor.is_row_major():
        return _copied(np.from_dlpack(x), sharding), "its elements are not in row-major order"
    address = tensor.address()
    buffer = from_capsule(capsule, sharding.device)
    own = buffer.aval
    aval = typeof(np.empty((0,), own.dtype)).update(shape=own.shape)
    if aval.dtype != own.dtype:
        return _copied(shim.to_numpy(buffer), sharding), f"its dtype {own.dtype} is a 64-bit one"
    buffer = shim.assemble(aval, sharding.native, [buffer])
    out = Array(buffer, placement_of(ShapedArray(own.shape, own.dtype), sharding, True))
    aligned = not aval.size or shim.unsafe_pointer(buffer) == address
    return out, "" if aligned else "its memory is not aligned to 64 bytes"


def _copied(value: np.ndarray[Any, Any], sharding: SingleDeviceSharding) -> Array:
    return move(to_array(np.array(value)), sharding, True)
