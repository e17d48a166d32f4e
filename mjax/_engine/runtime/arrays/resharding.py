"""Arrays cut into shards, assembled from shards, and moved from one sharding to another.

A whole part that another device holds is copied from device to device. Otherwise a program over
the array's devices exchanges the missing parts. On the CPUs of one process, and between different
sets of devices, the array is cut on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.config import override
from mjax._engine.base.records import Record
from mjax._engine.base.sockets import sockets
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.memory_errors import explain_memory
from mjax._engine.runtime.arrays.placement import Placement, placement_of
from mjax._engine.runtime.arrays.shardings import Index, Sharding, SingleDeviceSharding, bounds
from mjaxlib_shim import arrays as shim


class Layout(Record):
    """Facts for putting arrays of one placement on devices, and for reading them.

    Attributes:
      placement: the placement of the array.
      aval: the type of its buffer.
      native: jaxlib's sharding of the buffer.
      devices: the devices of this process.
      parts: the part of the array that each of them holds.
      keys: the same as hashable bounds per dimension.
    """

    placement: Placement
    aval: ShapedArray
    native: Any
    devices: tuple[Any, ...]
    parts: tuple[Index, ...]
    keys: tuple[tuple[tuple[int, int], ...], ...]


@functools.lru_cache(4096)
def layout_of(aval: ShapedArray, sharding: Sharding, committed: bool = True) -> Layout:
    """How arrays of this type are laid out by a sharding.

    Raises:
      ValueError: the sharding does not divide a size, or has more dimensions.
    """
    where = sharding.devices_indices_map(aval.shape)
    stored, devices = buffer_aval(aval), sharding.local_devices
    parts = tuple([where[device] for device in devices])
    keys = tuple([bounds(part, aval.shape) for part in parts])
    return Layout(placement_of(aval, sharding, committed), stored,
                  sharding.native_for(stored.ndim), devices, parts, keys)


def buffer_aval(aval: ShapedArray) -> ShapedArray:
    """The type of the buffers of arrays of a type."""
    if aval.dtype == dtypes.float0:
        return ShapedArray(aval.shape, np.bool_)
    return physical_aval(aval)


def cut(value: np.ndarray[Any, Any], layout: Layout) -> Array:
    """A NumPy array of the dtype of the buffers, in parts on the devices of this process."""
    try:
        return Array(shim.put_shards([value[part] for part in layout.parts], layout.aval,
                                     layout.native, layout.devices), layout.placement)
    except Exception as error:
        explain_memory(error, moved=layout.placement.aval)
        raise


def joined(buffers: Sequence[Any], layout: Layout) -> Array:
    """One array of the buffers on the devices of this process; copies nothing."""
    return Array(shim.assemble(layout.aval, layout.native, buffers, layout.placement.committed),
                 layout.placement)


def resharded(array: Array, sharding: Sharding, committed: bool) -> Array:
    """An array in another sharding.

    The result shares memory if all parts stay in place, and with an array on one device. Parts
    that stay while others move are copied: deleting one array must not delete half of the other.

    Raises:
      ValueError: the sharding does not divide a size, or has more dimensions.
      RuntimeError: the array was deleted; or it moves to other devices, and parts that this
        process needs are in other processes.
    """
    if _exchanges(array.aval, array.sharding, sharding):
        return sockets.exchange(array, sharding)
    source = layout_of(array.aval, array.sharding, array.committed)
    target = layout_of(array.aval, sharding, committed)
    buffers = shim.shards(array._existing())
    here = dict(zip(zip(source.devices, source.keys, strict=True), buffers, strict=True))
    anywhere = dict(zip(source.keys, buffers, strict=True))
    if any(key not in anywhere for key in target.keys):
        return cut(array._stored(), target)
    kind = sharding.memory_kind
    stays = kind == array.sharding.memory_kind
    shares = SingleDeviceSharding in (type(array.sharding), type(sharding)) or (
        (source.devices, source.keys) == (target.devices, target.keys))
    pieces = []
    for device, key in zip(target.devices, target.keys, strict=True):
        piece = here.get((device, key))
        alone = SingleDeviceSharding(device, memory_kind=kind)
        if piece is None or not stays:
            piece = shim.copy_to_device(anywhere[key] if piece is None else piece, device,
                                        alone.native)
        elif not shares:
            shape = sharding.shard_shape(array.shape)
            piece = _copied(piece, array.aval.update(shape=shape), alone)
        pieces.append(piece)
    return joined(pieces, target)


def _copied(piece: Any, aval: ShapedArray, alone: SingleDeviceSharding) -> Any:
    """A copy of a buffer on its device, even if the user has set a mesh for programs."""
    buffer = shim.assemble(buffer_aval(aval), alone.native, [piece])
    array = Array(buffer, placement_of(aval, alone, True))
    with override(mesh=None, mesh_for_all=False):
        copy: Array = sockets.execute(copy_p, (array,), {})
    return copy._buffer


@functools.lru_cache(4096)
def _exchanges(aval: ShapedArray, source: Sharding, target: Sharding) -> bool:
    """Whether devices that cannot read each other's memory have to exchange parts of an array.

    All processes must reach the same answer, whatever parts each of them has.
    """
    if source.flat_devices[0].platform == "cpu" and source.is_fully_addressable:
        return False
    one, other = ({device: bounds(part, aval.shape) for device, part in
                   sharding.devices_indices_map(aval.shape).items()}
                  for sharding in (source, target))
    return one.keys() == other.keys() and one != other


def shares_memory(one: Array, other: Array) -> bool:
    """Whether two arrays have parts in the same memory; waits until both are computed."""
    return not _addresses(one).isdisjoint(_addresses(other))


def _addresses(array: Array) -> set[int]:
    return set(map(shim.unsafe_pointer, shim.shards(array._existing())))
