"""New arrays on a device or in a sharding. Constant arrays are made shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir.dtypes import asked_dtype, is_extended
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import composed
from mjax._engine.primitives.shapes import canonical_shape
from mjax._engine.runtime.arrays.constraints import mesh_for_all
from mjax._engine.runtime.arrays.device_put import device_put
from mjax._engine.runtime.arrays.shardings import NamedSharding, Sharding
from mjax._engine.runtime.arrays.transfer import sharding_of
from mjax._engine.tracing.evaluate import evaluation


def on_device(x: Any, device: Any) -> Any:
    """A new array on a device or in a sharding.

    Args:
      x: the array.
      device: its place; None: the default, which is all devices of the mesh that `set_mesh` has
        set, if there is one.
    """
    if device is not None:
        return device_put(x, device)
    mesh = mesh_for_all()
    if mesh is None or thread.interpreter is not evaluation or getattr(x, "committed", True):
        return x
    return device_put(x, NamedSharding(mesh, PartitionSpec()))


def placed(make: Callable[[], Any], shape: Sequence[int], value: Any, dtype: Any, device: Any
           ) -> Any:
    """An array of one number on a device or in a sharding.

    Args:
      make: makes it in the default place.
      shape: its shape.
      value: the number; a Python or NumPy one, or an array.
      dtype: its dtype.
      device: its place; None: the default.
    """
    if device is None:
        return on_device(make(), None)
    cut = fitted(sharding_of(device), len(shape))
    if (thread.interpreter is evaluation and not hasattr(value, "aval") and not is_extended(dtype)
            and isinstance(cut, NamedSharding) and cut.num_devices > 1):
        # A device never holds the whole: this is one number, and each part is a copy of it.
        return device_put(np.broadcast_to(np.asarray(value, dtype), tuple(shape)), cut)
    return device_put(make(), cut)


def fitted(sharding: Any, ndim: int) -> Any:
    """A sharding without the empty last entries of its spec beyond the rank."""
    if not isinstance(sharding, NamedSharding) or len(sharding.spec) <= ndim or any(
            entry is not None for entry in sharding.spec[ndim:]):
        return sharding
    return sharding.update(spec=PartitionSpec(*sharding.spec[:ndim]))


def sharding_like(x: Any, shape: Sequence[int]) -> Sharding | None:
    """The place of an array like another, outside of programs: the same if the user chose it.

    Args:
      x: an array, or an object with its attributes, such as a `ShapeDtypeStruct`.
      shape: the shape of the new array. If it differs, the sharding does not apply.
    """
    if thread.interpreter is not evaluation:
        return None
    sharding = getattr(x, "sharding", None)
    if not isinstance(sharding, Sharding) or not getattr(x, "committed", True) or (
            getattr(x, "weak_type", False) or getattr(sharding, "is_abstract", False)):
        return None
    return sharding if tuple(shape) == x.shape or sharding.is_fully_replicated else None


@boundary
def full(shape: Sequence[int], fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array of one value.

    Args:
      shape: its shape.
      fill_value: a scalar; for keys, a key or the number in all of their words.
      dtype: its dtype, to which the value is converted; by default that of the value.
      sharding: its place, as for `device_put`.

    Returns:
      An array of shape `shape`.

    Raises:
      TypeError: `fill_value` is not a scalar, or complex where the dtype is not.

    Example:
      >>> lax.full((2,), 7, float)
      Array([7., 7.], dtype=float32)
    """
    def make() -> Any:
        return composed.full(shape, fill_value, dtype)

    if sharding is None:
        return on_device(make(), None)
    kind = typeof(fill_value).dtype if dtype is None else asked_dtype(dtype, None)
    return placed(make, canonical_shape(shape), fill_value, kind, sharding)


@boundary
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None,
              sharding: Any = None) -> Any:
    """An array of one value, of the shape and dtype of another.

    Args:
      x: the other array.
      fill_value: a scalar.
      dtype: another dtype.
      shape: another shape.
      sharding: its place, as for `device_put`; default: that of `x`, if `x` is committed and has
        this shape.

    Returns:
      An array of the shape and dtype of `x`, where `shape` and `dtype` are not given.

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> lax.full_like(jnp.zeros(2), 7.0)
      Array([7., 7.], dtype=float32)
    """
    def make() -> Any:
        return composed.full_like(x, fill_value, dtype, shape)

    aval = typeof(x)
    size = aval.shape if shape is None else canonical_shape(shape)
    kind = aval.dtype if dtype is None else asked_dtype(dtype, None)
    return placed(make, size, fill_value, kind, sharding or sharding_like(x, size))
