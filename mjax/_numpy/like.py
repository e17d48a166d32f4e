"""Arrays of one value, of the type of another array."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import canonical_shape
from mjax._engine.runtime.arrays.full import sharding_like
from mjax._engine.runtime.arrays.out_sharding import chosen_place
from mjax._numpy.core import check_array, check_fill, dtype_argument
from mjax._numpy.creation import filled_on, full_of


def _like(name: str, a: Any, dtype: Any, shape: Any, device: Any
          ) -> tuple[tuple[int, ...], Any, bool, Any]:
    """Shape, dtype, weak type and place of an array like `a`, which may describe one."""
    if hasattr(a, "shape") and hasattr(a, "dtype") and not isinstance(a, np.ndarray):
        own = a.dtype if hasattr(a, "aval") else dtypes.canonical_dtype(a.dtype)
        own_shape, weak = a.shape, getattr(a, "weak_type", False)
    else:
        aval = typeof(check_array(name, a))
        own_shape, own, weak = aval.shape, aval.dtype, aval.weak_type
    shape = own_shape if shape is None else canonical_shape(shape)
    device = sharding_like(a, shape) if device is None else device
    if dtype is None:
        return shape, own, weak, device
    return shape, dtype_argument(dtype, name), False, device


@boundary
def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None,
               out_sharding: Any = None) -> Any:
    """An array of zeros of the type of another.

    Args:
      a: array, scalar, or object with `shape` and `dtype`.
      dtype: its dtype; that of `a` if not given.
      shape: its shape; that of `a` if not given.
      device: the device to put it on; default: that, or the sharding, of the other, if it is
        committed and of this shape.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array of the shape and dtype of the other one, where `shape` and `dtype` are not given.

    Raises:
      TypeError: `a` is not an array or scalar, or `dtype` not a dtype; a size of `shape` is
        negative or not an integer; `out_sharding` has a wrong type.
      ValueError: `device` is not a device or sharding, or is given beside `out_sharding`. A
        sharding does not fit the shape, or no mesh is set for a spec.

    Source: `numpy.zeros_like`.

    Example:
      >>> jnp.zeros_like(jnp.array([1, 2]))
      Array([0, 0], dtype=int32)
    """
    shape, dtype, weak, device = _like(
        "zeros_like", a, dtype, shape, chosen_place("zeros_like", device, out_sharding))
    return filled_on(shape, 0, dtype, device, weak)


@boundary
def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None,
               out_sharding: Any = None) -> Any:
    """An array of ones of the type of another.

    Args:
      a: array, scalar, or object with `shape` and `dtype`.
      dtype: its dtype; that of `a` if not given.
      shape: its shape; that of `a` if not given.
      device: the device to put it on; default: that, or the sharding, of the other, if it is
        committed and of this shape.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array of the shape and dtype of the other one, where `shape` and `dtype` are not given.

    Raises:
      TypeError: `a` is not an array or scalar, or `dtype` not a dtype; a size of `shape` is
        negative or not an integer; `out_sharding` has a wrong type.
      ValueError: `device` is not a device or sharding, or is given beside `out_sharding`. A
        sharding does not fit the shape, or no mesh is set for a spec.

    Source: `numpy.ones_like`.

    Example:
      >>> jnp.ones_like(jnp.array([1, 2]))
      Array([1, 1], dtype=int32)
    """
    shape, dtype, weak, device = _like(
        "ones_like", a, dtype, shape, chosen_place("ones_like", device, out_sharding))
    return filled_on(shape, 1, dtype, device, weak)


@boundary
def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """An array of unspecified values of the type of another; they are zeros.

    Args:
      prototype: array, scalar, or object with `shape` and `dtype`.
      dtype: its dtype; that of `prototype` if not given.
      shape: its shape; that of `prototype` if not given.
      device: the device to put it on; default: that, or the sharding, of the other, if it is
        committed and of this shape.

    Returns:
      An array of the shape and dtype of the other one, where `shape` and `dtype` are not given.

    Raises:
      TypeError: `prototype` is not an array or scalar, or `dtype` not a dtype; a size of `shape` is
        negative or not an integer.
      ValueError: `device` is not a device or sharding, or a sharding does not fit the shape.

    Source: `numpy.empty_like`.

    Example:
      >>> jnp.empty_like(jnp.array([1, 2]))
      Array([0, 0], dtype=int32)
    """
    shape, dtype, weak, device = _like("empty_like", prototype, dtype, shape, device)
    return filled_on(shape, 0, dtype, device, weak)


@boundary
def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *,
              device: Any = None, out_sharding: Any = None) -> Any:
    """An array of one value, of the type of another array.

    Args:
      a: array, scalar, or object with `shape` and `dtype`.
      fill_value: the value; an array is broadcast to the shape.
      dtype: its dtype; that of `a` if not given.
      shape: its shape; that of `a` if not given.
      device: the device to put it on; default: that, or the sharding, of the other, if it is
        committed and of this shape.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array of the shape and dtype of the other one, where `shape` and `dtype` are not given.

    Raises:
      TypeError: `a` or `fill_value` is not an array or scalar, or `dtype` not a dtype; a size of
        `shape` is negative or not an integer; `out_sharding` has a wrong type.
      ValueError: `fill_value` does not broadcast to the shape. `device` is not a device or
        sharding, or is given beside `out_sharding`. A sharding does not fit the shape, or no mesh
        is set for a spec.

    Source: `numpy.full_like`.

    Example:
      >>> jnp.full_like(jnp.array([1, 2]), 7)
      Array([7, 7], dtype=int32)
    """
    shape, dtype, weak, device = _like(
        "full_like", a, dtype, shape, chosen_place("full_like", device, out_sharding))
    return full_of(shape, check_fill("full_like", fill_value, 1), dtype, weak, device)
