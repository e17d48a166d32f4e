"""DLPack: memory shared with other libraries."""

from __future__ import annotations

from typing import Any

from ._hidden import without_jax
from .arrays import PlainAval, assemble, to_numpy
from .native import ext
from .shardings import single_device_sharding

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(buffer: Any, stream: int | None = None) -> Any:
    """A DLPack capsule (one-shot) that shares the memory of a single-device Buffer.

    The memory lives as long as the capsule or its consumer, even if the Buffer is deleted.

    Args:
      buffer: the Buffer.
      stream: a stream of the GPU to wait on; None: the consumer waits.

    Returns:
      A PyCapsule.

    Raises:
      AttributeError: `buffer` is not a Buffer.
      XlaRuntimeError: DLPack does not have the dtype; the Buffer was deleted, or the
        computation that makes it failed.

    Example:
      >>> from mjaxlib_shim import client, dlpack
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> buffer = dlpack.from_dlpack(np.arange(3.0).__dlpack__(), device)
      >>> type(dlpack.to_dlpack(buffer)).__name__
      'PyCapsule'
    """
    buffer.block_until_ready()
    # A capsule does not keep the memory of a deleted Buffer. The clone is never deleted.
    return ext.buffer_to_dlpack_managed_tensor(buffer.clone(), stream=stream)


def from_dlpack(capsule: Any, device: Any, aval: Any = None, sharding: Any = None) -> Any:
    """A Buffer over the memory of a DLPack capsule, which it consumes.

    Without an `aval` the result gets a `PlainAval` read from the data.

    Args:
      capsule: the capsule.
      device: the device that has the memory.
      aval: the type of the result.
      sharding: its sharding.

    Returns:
      A Buffer.

    Raises:
      TypeError: `capsule` is not a PyCapsule with a name, or `device` is neither a device nor None.
      XlaRuntimeError: the capsule was consumed before, or its elements are not adjacent in memory.
        Some releases of jaxlib raise ValueError.
      AttributeError: `aval` does not have a dtype.

    Example:
      >>> from mjaxlib_shim import client, dlpack
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> buffer = dlpack.from_dlpack(np.arange(3.0).__dlpack__(), device)
      >>> buffer.aval.shape
      (3,)
    """
    if repr(capsule).startswith("<capsule object NULL"):  # 0.4.36 would end the process
        raise TypeError(f"from_dlpack: {capsule!r} is not a capsule of DLPack: it has no name")
    with without_jax:
        buffer = ext.dlpack_managed_tensor_to_buffer(capsule, device, None)
    if sharding is None:
        sharding = single_device_sharding(device)
    if aval is None:
        value = to_numpy(buffer)
        aval = PlainAval(value.shape, value.dtype)
    # C++ leaves the aval None (its class is jax's), so the array is made again.
    return assemble(aval, sharding, [buffer])
