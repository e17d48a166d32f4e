"""Arrays made of parts: arrays on single devices, values of a function, or a process's data.

Each of several processes gives the parts that its own devices hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.foreign_values import refuse_masked_array
from mjax._engine.ir.mesh_specs import cuts
from mjax._engine.ir.pytree import prefix_leaves, tree_flatten
from mjax._engine.ir.types import ShapedArray
from mjax._engine.runtime.arrays.array import Array, is_array
from mjax._engine.runtime.arrays.resharding import joined, layout_of
from mjax._engine.runtime.arrays.shardings import Index, Sharding, SingleDeviceSharding, bounds
from mjax._engine.runtime.arrays.transfer import sharding_of
from mjaxlib_shim import arrays as shim


@boundary
def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Sharding,
                                         arrays: Sequence[Array], *, dtype: Any = None) -> Array:
    """One array of arrays on single devices; copies nothing.

    Args:
      shape: of the whole.
      sharding: which device holds which part.
      arrays: an array for each device of this process, in any order.
      dtype: that of the arrays; needed if this process has no devices of the sharding.

    Returns:
      An array, committed to the sharding. It shares the memory of its parts.

    Raises:
      TypeError: one of `arrays` is not an array; or both arrays and dtype are missing.
      ValueError: an array is on another device or on several, or has another shape or dtype than
        the sharding wants; a device has none.

    Example:
      >>> sharding = mjax.NamedSharding(mjax.make_mesh((1,), ('x',)), mjax.P('x'))
      >>> mjax.make_array_from_single_device_arrays((2,), sharding, [jnp.ones(2)])
      Array([1., 1.], dtype=float32)
    """
    who = "make_array_from_single_device_arrays"
    _check_sharding(who, sharding)
    shape = tuple(shape)
    if dtype is None and not arrays:
        raise TypeError(f"{who}: there are no arrays; then the dtype has to be given.")
    kind = None if arrays else dtypes.canonical_dtype(dtype)
    array = assembled(who, shape, kind, sharding, arrays)
    if dtype is not None and dtypes.canonical_dtype(dtype) != array.dtype:
        raise LazyValueError(lambda: (
            f"{who}: dtype={dtype}, but the arrays have the dtype {array.dtype}; they are not "
            "converted. Leave it out."))
    return array


def assembled(who: str, shape: tuple[Any, ...], dtype: Any, sharding: Sharding,
              arrays: Sequence[Array], committed: bool = True) -> Array:
    """An array of arrays on single devices; copies nothing.

    Args:
      who: the function, for messages.
      shape: of the whole.
      dtype: of the whole; None: that of the arrays.
      sharding: which device holds which part.
      arrays: an array for each device of this process, in any order.
      committed: whether the array stays where it is.

    Raises:
      TypeError, ValueError: those of `make_array_from_single_device_arrays`.
    """
    by_device = {_device_of(who, i, array): array for i, array in enumerate(arrays)}
    aval = ShapedArray(shape, arrays[0].dtype if dtype is None else dtype)
    layout = layout_of(aval, sharding, committed)
    if set(by_device) != set(layout.devices) or len(by_device) != len(arrays):
        raise LazyValueError(lambda: (
            f"{who}: an array is needed on each of the {len(layout.devices)} devices "
            f"{list(layout.devices)}; the {len(arrays)} given are on "
            f"{[a.sharding.flat_devices[0] for a in arrays]}."))
    part = ShapedArray(sharding.shard_shape(shape), aval.dtype)
    odd = [i for i, a in enumerate(arrays) if (a.shape, a.dtype) != (part.shape, part.dtype)]
    if odd:
        raise LazyValueError(lambda: (
            f"{who}: array {odd[0]} is {arrays[odd[0]].aval}, but each device's part of {aval} in "
            f"{sharding} is {part}."))
    return joined([by_device[device]._existing() for device in layout.devices], layout)


def _device_of(who: str, i: int, array: Any) -> Any:
    """The one device of an array."""
    if not is_array(array):
        raise LazyTypeError(lambda: (
            f"{who}: array {i} is a {type(array).__name__}; put it on its device first: "
            "mjax.device_put(x, device)."))
    (device, *others) = array.sharding.flat_devices
    if others:
        raise LazyValueError(lambda: (
            f"{who}: array {i} is on {len(others) + 1} devices; its parts are "
            "[s.data for s in x.addressable_shards]."))
    return device


def _check_sharding(who: str, sharding: Any) -> None:
    if not isinstance(sharding, Sharding):
        raise LazyTypeError(lambda: (
            f"{who} needs a sharding (a NamedSharding, or another one), got {sharding!r} of type "
            f"{type(sharding).__name__}."))


@boundary
def make_array_from_callback(shape: Sequence[int], sharding: Sharding,
                             data_callback: Callable[[Index], Any], dtype: Any = None) -> Array:
    """An array of the parts that a function returns.

    Args:
      shape: of the whole.
      sharding: which device holds which part.
      data_callback: from the place of a part, a tuple of slices of the whole, to its value. It is
        called once for each part that devices of this process hold.
      dtype: of the array and its parts; needed if this process holds no parts.

    Returns:
      An array, committed to the sharding.

    Raises:
      ValueError: the shape cannot be cut so; parts have other shapes, or dtypes that differ, from
        each other or from `dtype`.

    Example:
      >>> sharding = mjax.NamedSharding(mjax.make_mesh((1,), ('x',)), mjax.P('x'))
      >>> mjax.make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
      Array([0, 1, 2, 3], dtype=int32)
    """
    who = "make_array_from_callback"
    _check_sharding(who, sharding)
    shape = tuple(shape)
    part_shape = sharding.shard_shape(shape)
    values: dict[Any, Any] = {}
    places = []
    for index in sharding.addressable_devices_indices_map(shape).values():
        place = bounds(index, shape)
        if place not in values:
            values[place] = _value(who, data_callback(index), index, part_shape, dtype)
        places.append(place)
    kinds = {v.dtype for v in values.values()} or {dtype}
    if dtype is not None:
        kind = dtypes.canonical_dtype(dtype)
        other = [k for k in kinds if dtypes.canonical_dtype(k) != kind]
        if other:
            raise LazyValueError(lambda: (
                f"{who}: dtype is {kind}, but the function returned a part of dtype {other[0]}. "
                "Have it give that (part.astype(dtype)), or leave out dtype."))
        kinds = {kind}
    if len(kinds) > 1 or None in kinds:
        raise LazyValueError(lambda: (
            f"{who}: the parts have the dtypes {sorted(map(str, kinds))}; they must have one. Give "
            "the dtype of the array, which this process cannot know if it holds no part of it."))
    return _of_parts([values[place] for place in places], shape, sharding, kinds.pop())


def _value(who: str, value: Any, index: Index, shape: tuple[int, ...], dtype: Any) -> Any:
    """The value of a part, checked for its shape: a NumPy array or an array of keys.

    Python numbers and lists take the dtype of the array.
    """
    refuse_masked_array(value)
    if not is_array(value) or not dtypes.is_extended(value.dtype):
        value = np.asarray(value, None if hasattr(value, "dtype") else dtype)
    if value.shape != shape:
        raise LazyValueError(lambda: (
            f"{who}: the function returned a value of shape {value.shape} for the part {index}, "
            f"which has shape {shape}."))
    return value


def _of_parts(values: Sequence[Any], shape: tuple[int, ...], sharding: Sharding, dtype: Any
              ) -> Array:
    """An array of the values of the parts on this process's devices."""
    layout = layout_of(ShapedArray(shape, dtypes.canonical_dtype(dtype)), sharding)
    stored = [v._stored() if is_array(v) else v.astype(layout.aval.dtype, copy=False)
              for v in values]
    return Array(shim.put_shards(stored, layout.aval, layout.native, layout.devices),
                 layout.placement)


@boundary
def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None
                                       ) -> Any:
    """Arrays over several processes, made of the data of each.

    Args:
      sharding: which device holds which part: a sharding, a device for the whole, or a partition
        spec of the mesh that is set; or a prefix tree of these.
      local_data: the data of this process, a tree of arrays: per dimension either the parts that
        its devices hold, in order, or all of it.
      global_shape: of the whole; or a prefix tree of shapes. If it is not given, or None,
        `local_data` holds only the parts of this process's devices, and the size follows from it.

    Returns:
      The tree of arrays, committed to their shardings.

    Raises:
      ValueError: a sharding is invalid; the data have neither the size of the parts nor of the
        whole; a size is not divisible; this process has no devices of the sharding; a tree is not
        a prefix.

    Example:
      >>> sharding = mjax.NamedSharding(mjax.make_mesh((1,), ('x',)), mjax.P('x'))
      >>> mjax.make_array_from_process_local_data(sharding, np.arange(4)).shape
      (4,)
    """
    leaves, tree = tree_flatten(local_data)
    who = "make_array_from_process_local_data"
    shardings = prefix_leaves(f"{who}: sharding", sharding, local_data, "the local data")
    shapes = prefix_leaves(f"{who}: global_shape", global_shape, local_data, "the local data",
                           _is_shape)
    return tree.unflatten([_of_local_data(who, *each)
                           for each in zip(shardings, leaves, shapes, strict=True)])


def _is_shape(x: Any) -> bool:
    return x is None or (isinstance(x, (tuple, list))
                         and all(isinstance(n, (int, np.integer, NoneType)) for n in x))


def _of_local_data(who: str, sharding: Sharding, local_data: Any, global_shape: Any) -> Array:
    if not isinstance(sharding, Sharding):
        sharding = sharding_of(sharding)
    data: Any = local_data
    if not is_array(data) or not dtypes.is_extended(data.dtype):
        data = np.asarray(local_data)
    pieces = _pieces(sharding, data.ndim)
    # In an array with one element per piece, each device's part is the number of its piece.
    numbers = [[part.indices(count)[0] for part, count in zip(index, pieces, strict=True)]
               for index in sharding.addressable_devices_indices_map(pieces).values()]
    if not numbers:
        raise ValueError(f"{who}: this process has no devices of {sharding}.")
    held = [sorted(set(along)) for along in zip(*numbers, strict=True)]
    given = [None] * data.ndim if global_shape is None else list(global_shape)
    if len(given) != data.ndim:
        raise ValueError(f"{who}: global_shape {tuple(given)} and local data of shape {data.shape} "
                         "differ in their number of dimensions.")
    shape = tuple([_whole_size(who, dim, data.shape[dim], given[dim], pieces[dim], len(held[dim]))
                   for dim in range(data.ndim)])
    sizes = sharding.shard_shape(shape)
    # A whole dimension holds all pieces; otherwise it holds those of this process.
    have = [range(count) if n == total else mine for n, total, count, mine in zip(
        data.shape, shape, pieces, held, strict=True)]
    values = []
    for mine in numbers:
        starts = [h.index(number) * size for h, number, size in zip(have, mine, sizes, strict=True)]
        values.append(data[tuple([slice(start, start + size)
                                  for start, size in zip(starts, sizes, strict=True)])])
    return _of_parts(values, shape, sharding, data.dtype)


def _pieces(sharding: Any, ndim: int) -> tuple[int, ...]:
    if type(sharding) is SingleDeviceSharding:
        return (1,) * ndim
    return cuts(sharding.spec, sharding.mesh, ndim)


def _whole_size(who: str, dim: int, size: int, given: int | None, pieces: int, held: int) -> int:
    """The size of a dimension of the whole, of which this process holds some pieces."""
    whole, rest = divmod(size * pieces, held)
    if given is None:
        if rest:
            raise ValueError(f"{who}: dimension {dim} of the local data has {size} elements, which "
                             f"cannot be the {held} pieces of one size that this process holds.")
        return whole
    if given not in (size, whole):
        raise ValueError(
            f"{who}: dimension {dim} of the local data has {size} elements, and the whole {given}. "
            f"This process holds {held} of its {pieces} pieces: give these "
            f"{given * held // pieces} elements, or all {given}.")
    return given
