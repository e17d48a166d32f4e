"""Arrays of other libraries by DLPack: from_dlpack."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.runtime.arrays import dlpack


@boundary
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array over the memory of an array of another library; see `mjax.dlpack.from_dlpack`.

    Args:
      x: an object with `__dlpack__` and `__dlpack_device__`, in the memory of the CPU.
      device: the device to put the array on; that of `x` if not given.
      copy: True: always copy; False: never.

    Returns:
      An array of the same shape and dtype.

    Raises:
      TypeError: `x` does not implement DLPack.
      ValueError: `x` is not in the CPU's memory; or it must be copied, and `copy` is False.

    Source: `numpy.from_dlpack`.

    Example:
      >>> jnp.from_dlpack(np.arange(3, dtype=np.float32))
      Array([0., 1., 2.], dtype=float32)
    """
    return dlpack.from_dlpack(x, device, copy)
