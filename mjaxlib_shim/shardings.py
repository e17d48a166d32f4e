"""jaxlib's classes of shardings.

`HloSharding` says how an array is cut, `GSPMDSharding` adds the devices.
Every multi-device sharding of mjax derives from `GSPMDSharding`: jaxlib's
`NamedSharding` imports jax, and deriving from the bare `Sharding` leaves members of the
C++ object uninitialised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .native import ext, xc

__all__ = [
    "GSPMDSharding",
    "HloSharding",
    "OpSharding",
    "Sharding",
    "SingleDeviceSharding",
    "Tiles",
    "gspmd_sharding",
    "hlo_sharding_of",
    "manual",
    "replicated",
    "shard_slices",
    "single_device_sharding",
    "tiled",
    "tiles_of",
]

HloSharding: Any = xc.HloSharding
OpSharding: Any = xc.OpSharding
Sharding: Any = ext.Sharding
GSPMDSharding: Any = ext.GSPMDSharding

_REPLICATED: Any = HloSharding.replicate()


def replicated() -> Any:
    """The HloSharding that puts the whole array on every device.

    Example:
      >>> from mjaxlib_shim import shardings
      >>> shardings.replicated().is_replicated()
      True
    """
    return _REPLICATED


def manual() -> Any:
    """The HloSharding of a value inside a manual computation.

    Example:
      >>> from mjaxlib_shim import shardings
      >>> shardings.manual().is_manual()
      True
    """
    return HloSharding.manual()


def tiled(
    dims: Sequence[int],
    *,
    devices: Sequence[int] | None = None,
    replicate_last: bool = False,
) -> Any:
    """The HloSharding that cuts dimension i into `dims[i]` pieces.

    Args:
      dims: pieces per dimension; with `replicate_last` one more number, over which the
        pieces are repeated. Their product is the number of devices.
      devices: the device (an index into the sharding's devices) of each piece, in
        row-major order of the pieces; default 0, 1, 2, ...
      replicate_last: whether the last number of `dims` counts copies.

    Returns:
      An HloSharding.

    Raises:
      TypeError: `dims` or `devices` is not iterable, or a number of `dims` is not an int.
      ValueError: `devices` is not a permutation of the indices of the pieces.
      XlaRuntimeError: the product of `dims` is below 1.

    Example:
      >>> from mjaxlib_shim import shardings
      >>> shardings.tiles_of(shardings.tiled((2, 1))).pieces
      (2, 1)
    """
    count = math.prod(dims)
    order = list(range(count)) if devices is None else [int(d) for d in devices]
    if sorted(order) != list(range(count)):
        raise ValueError(f"devices must be a permutation of range({count}), not {order}")
    proto = OpSharding()
    proto.type = OpSharding.Type.OTHER
    proto.tile_assignment_dimensions = list(dims)
    proto.tile_assignment_devices = order
    if replicate_last:
        proto.last_tile_dims = [OpSharding.Type.REPLICATED]
    return HloSharding.from_proto(proto)


SingleDeviceSharding: Any = ext.SingleDeviceSharding
# jaxlib 0.5.3 to 0.11.1 call this method in every transfer, but leave its definition to jax.
# If jax is imported too, its own definition takes precedence; it is equivalent. (A Python
# subclass would be enough for transfers, but not for the buffer protocol up to 0.9.)
if not hasattr(SingleDeviceSharding, "_to_xla_hlo_sharding"):
    SingleDeviceSharding._to_xla_hlo_sharding = lambda self, ndim: _REPLICATED
    SingleDeviceSharding.memory_kind = property(lambda self: self._memory_kind)


_single: dict[Any, Any] = {}


def single_device_sharding(device: Any, memory_kind: str | None = None) -> Any:
    """The sharding of arrays on `device`; the same object each time.

    Args:
      memory_kind: None for the device's default memory. (Up to jaxlib 0.4.38 that is the only
        memory, and the C++ class does not take its name.)
      device: the device.

    Returns:
      A sharding of jaxlib.

    Raises:
      TypeError: the device is None, or an argument cannot be hashed.
      ValueError: the device does not have a memory of this kind.
      RuntimeError: `memory_kind` is not a string.

    Example:
      >>> from mjaxlib_shim import client, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> shardings.single_device_sharding(device) is shardings.single_device_sharding(device)
      True
    """
    key = (device, memory_kind)
    try:
        return _single[key]
    except KeyError:
        return _single.setdefault(key, SingleDeviceSharding(device, memory_kind=memory_kind))


def gspmd_sharding(
    devices: Sequence[Any], hlo_sharding: Any, memory_kind: str | None = None
) -> Any:
    """A plain multi-device sharding.

    Args:
      devices: the devices.
      hlo_sharding: the HloSharding.
      memory_kind: the memory; None: the device's default.

    Returns:
      A sharding of jaxlib.

    Raises:
      TypeError: `devices` is not iterable or has None, or `hlo_sharding` is neither an HloSharding
        nor an OpSharding.
      ValueError: there are no devices or not as many as pieces, or they do not have this memory.
      RuntimeError: `memory_kind` is neither a string nor None.

    Example:
      >>> from mjaxlib_shim import client, shardings
      >>> devices = client.cpu_client(2).local_devices()
      >>> sharding = shardings.gspmd_sharding(devices, shardings.tiled((2,)))
      >>> shardings.tiles_of(shardings.hlo_sharding_of(sharding, 1)).pieces
      (2,)
    """
    if not (devices := tuple(devices)):  # C++ would end the process
        raise ValueError("a sharding needs at least one device")
    if None in devices:  # so it would in the first transfer
        raise TypeError(f"a device of the sharding is None: {devices}")
    if isinstance(hlo_sharding, HloSharding) and hlo_sharding.is_tiled():
        count = hlo_sharding.num_devices()
        if count != len(devices):  # so it would, too
            raise ValueError(f"{hlo_sharding} is for {count} devices, not for {len(devices)}")
    return GSPMDSharding(devices, hlo_sharding, memory_kind)


def hlo_sharding_of(sharding: Any, ndim: int) -> Any:
    """The HloSharding of a sharding for arrays of this rank.

    Args:
      sharding: a sharding of jaxlib.
      ndim: the number of axes.

    Returns:
      An HloSharding.

    Raises:
      AttributeError: `sharding` is not a sharding of jaxlib.

    Example:
      >>> from mjaxlib_shim import client, shardings
      >>> devices = client.cpu_client(2).local_devices()
      >>> sharding = shardings.gspmd_sharding(devices, shardings.tiled((2,)))
      >>> shardings.tiles_of(shardings.hlo_sharding_of(sharding, 1)).pieces
      (2,)
    """
    convert = getattr(sharding, "_to_xla_hlo_sharding", None)
    return sharding._hlo_sharding if convert is None else convert(ndim)


class Tiles(NamedTuple):
    """The cut of arrays by a HloSharding.

    Attributes:
      pieces: the number of pieces of each dimension.
      order: the device (an index into the sharding's devices) of each piece, in row-major
        order of the pieces; copies of a piece are adjacent.

    Example:
      >>> from mjaxlib_shim import shardings
      >>> shardings.tiles_of(shardings.tiled((2, 2)))
      Tiles(pieces=(2, 2), order=(0, 1, 2, 3))
    """

    pieces: tuple[int, ...]
    order: tuple[int, ...]


def tiles_of(hlo_sharding: Any) -> Tiles | None:
    """The pieces of a HloSharding; None if it is replicated, manual, or on one device.

    Args:
      hlo_sharding: the HloSharding.

    Returns:
      `Tiles`, or None.

    Raises:
      AttributeError: `hlo_sharding` is not an HloSharding.

    Example:
      >>> from mjaxlib_shim import shardings
      >>> shardings.tiles_of(shardings.replicated()) is None
      True
    """
    if not hlo_sharding.is_tiled():
        return None
    dims = hlo_sharding.tile_assignment_dimensions()
    kinds = hlo_sharding.subgroup_types()
    if any(kind != OpSharding.Type.REPLICATED for kind in kinds):
        return None
    repeated = len(kinds) or int(hlo_sharding.replicate_on_last_tile_dim())
    order = hlo_sharding.tile_assignment_devices()
    return Tiles(tuple(dims[: len(dims) - repeated]), tuple(order))


def shard_slices(
    hlo_sharding: Any, shape: Sequence[int], num_devices: int
) -> list[tuple[slice, ...]]:
    """The part of an array of `shape` on each device, in the sharding's device order.

    The last part of a dimension is shorter (or empty) if the pieces do not divide it.

    Args:
      hlo_sharding: the HloSharding.
      shape: the shape.
      num_devices: the number of devices.

    Returns:
      A list of tuples of slices.

    Raises:
      ValueError: a sharding without such parts (manual, maximal, for another rank).

    Example:
      >>> from mjaxlib_shim import shardings
      >>> shardings.shard_slices(shardings.tiled((2,)), (4,), 2)
      [(slice(0, 2, None),), (slice(2, 4, None),)]
    """
    whole = tuple(slice(0, dim) for dim in shape)
    if hlo_sharding.is_replicated():
        return [whole] * num_devices
    tiles = tiles_of(hlo_sharding)
    if tiles is None or len(tiles.pieces) != len(shape) or len(tiles.order) != num_devices:
        raise ValueError(
            f"{hlo_sharding} does not cut an array of shape {tuple(shape)} into parts for "
            f"{num_devices} devices"
        )
    pieces, order = tiles
    cuts = [(dim, count, -(-dim // count)) for dim, count in zip(shape, pieces, strict=True)]
    copies = len(order) // math.prod(pieces)
    result: list[tuple[slice, ...]] = [whole] * num_devices
    for position, device in enumerate(order):
        rest = position // copies
        index = []
        for dim, count, size in reversed(cuts):
            rest, place = divmod(rest, count)
            index.append(slice(min(place * size, dim), min((place + 1) * size, dim)))
        result[device] = tuple(reversed(index))
    return result
