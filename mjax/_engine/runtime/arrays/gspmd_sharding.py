"""Turns shardings that XLA chose into ours.

The partitioner gives the device of each piece of a result. If axes of the program's mesh describe
the same, the sharding is a `NamedSharding`; else a `GSPMDSharding`.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import fold
from mjax._engine.ir.mesh import Mesh, PartitionSpec
from mjax._engine.runtime.arrays.shardings import (
    MeshSharding,
    NamedSharding,
    Sharding,
    default_memory_kind,
    own_memory_kind,
)
from mjaxlib_shim import shardings as shim

logger = logging.getLogger("mjax")


class GSPMDSharding(MeshSharding):
    """An array cut into pieces that axes of a mesh need not describe.

    Args:
      devices: the devices, as XLA numbers them.
      op_sharding: how they cut arrays, as XLA writes it: an `OpSharding` or a `HloSharding`, tiled
        or replicated.
      memory_kind: which of the devices' memories; default: their own default.

    Attributes:
      mesh: a mesh made for it, with an axis per dimension; its devices are in the order of the
        pieces.
      spec: how the array is cut along that mesh.

    Raises:
      TypeError: `op_sharding` is of another type.
      ValueError: it is neither tiled nor replicated, or for another number of devices; the devices
        do not have the memory.

    Example:
      >>> from mjax_ext.sharding import GSPMDSharding, HloSharding
      >>> sharding = GSPMDSharding(mjax.devices()[:1], HloSharding.replicate())
      >>> mjax.device_put(jnp.arange(4), sharding).sharding.is_fully_replicated
      True

    Source: JAX, `jax.extend.sharding.GSPMDSharding`.
    """

    __slots__ = ("__weakref__", "_memory_kind", "_native", "flat_devices", "mesh", "spec", "tiles")
    mesh: Mesh
    spec: PartitionSpec
    tiles: Any

    def __new__(cls, devices: Sequence[Any], op_sharding: Any, *, memory_kind: str | None = None
                ) -> GSPMDSharding:
        try:
            devices = tuple(devices)
            return cls.of_tiles(devices, _tiles_for(devices, op_sharding), own_memory_kind(
                devices, memory_kind, "GSPMDSharding"))
        except Exception as error:
            fold(error)
            raise

    @classmethod
    def of_tiles(cls, devices: Sequence[Any], tiles: Any, memory_kind: str | None = None
                 ) -> GSPMDSharding:
        """A sharding by the pieces per dimension, and who holds them.

        Args:
          devices: the devices, in the order of the program whose result it is.
          tiles: the pieces, as of a spec: those left out are whole.
          memory_kind: a memory that is not the default one.
        """
        rank = max((i for i, n in enumerate(tiles.pieces, 1) if n > 1), default=0)
        key = (tuple(devices), tiles._replace(pieces=tuple(tiles.pieces[:rank])), memory_kind)
        known = _interned.get(key)
        if known is not None:
            return known
        self = object.__new__(cls)
        self.flat_devices, self.tiles, self._memory_kind = key
        self._native = {}
        names = [f"_{i}" for i in range(rank + 1)]
        grid = np.array([devices[i] for i in tiles.order], object).reshape(
            *self.tiles.pieces, -1)
        self.mesh, self.spec = Mesh(grid, names), PartitionSpec(*names[:-1])
        with _lock:
            return _interned.setdefault(key, self)

    @classmethod
    def get_replicated(cls, device_assignment: Sequence[Any], *, memory_kind: str | None = None
                       ) -> GSPMDSharding:
        """A whole copy on each device."""
        return cls(device_assignment, shim.replicated(), memory_kind=memory_kind)

    def _hlo(self, ndim: int) -> Any:
        pieces, order = self.tiles
        if len(pieces) > ndim:
            raise LazyValueError(lambda: (
                f"{self} is for arrays of {len(pieces)} or more dimensions, not {ndim}."))
        if math.prod(pieces) == 1:
            return shim.replicated()
        whole = (1,) * (ndim - len(pieces))
        copies = len(order) // math.prod(pieces)
        return shim.tiled((*pieces, *whole, copies), devices=order, replicate_last=True)

    @property
    def memory_kind(self) -> str:
        return self._memory_kind or default_memory_kind(self)

    def with_memory_kind(self, kind: str) -> GSPMDSharding:
        return self.of_tiles(self.flat_devices, self.tiles, own_memory_kind(
            self.flat_devices, kind, "GSPMDSharding"))

    @property
    def in_default_memory(self) -> GSPMDSharding:
        return self if self._memory_kind is None else self.of_tiles(self.flat_devices, self.tiles)

    @property
    def is_fully_replicated(self) -> bool:
        return math.prod(self.tiles.pieces) == 1

    def __repr__(self) -> str:
        memory = f", memory_kind={self._memory_kind!r}" if self._memory_kind else ""
        return f"GSPMDSharding(pieces={self.tiles.pieces}, devices={self.tiles.order}{memory})"


def _tiles_for(devices: Sequence[Any], op_sharding: Any) -> Any:
    """The tiles of a sharding as XLA writes it, over devices."""
    if isinstance(op_sharding, shim.OpSharding):
        op_sharding = shim.HloSharding.from_proto(op_sharding)
    if not isinstance(op_sharding, shim.HloSharding):
        raise LazyTypeError(lambda: (
            f"GSPMDSharding needs an OpSharding or a HloSharding, got {op_sharding!r} of type "
            f"{type(op_sharding).__name__}."))
    if op_sharding.is_replicated():
        return shim.Tiles((), tuple(range(len(devices))))
    tiles = shim.tiles_of(op_sharding)
    if tiles is None:
        raise LazyValueError(lambda: (
            f"GSPMDSharding takes shardings that are tiled or replicated, got {op_sharding}: of "
            "others the pieces of an array are not known."))
    if sorted(tiles.order) != list(range(len(devices))):
        raise LazyValueError(lambda: (
            f"GSPMDSharding: {op_sharding} numbers {len(tiles.order)} devices, but there are "
            f"{len(devices)}."))
    return tiles


_lock = threading.Lock()
_interned: weakref.WeakValueDictionary[Any, GSPMDSharding] = weakref.WeakValueDictionary()


def in_order(sharding: Any, devices: tuple[Any, ...], ndim: int) -> Any:
    """A sharding of the same devices in another order: each keeps its piece.

    Args:
      sharding: a sharding over several devices.
      devices: the order of the program.
      ndim: the rank of the array.
    """
    if sharding.flat_devices == devices:
        return sharding
    place = {device: i for i, device in enumerate(devices)}
    tiles = shim.tiles_of(shim.hlo_sharding_of(sharding.native_for(ndim), ndim))
    if tiles is None:
        tiles = shim.Tiles((1,) * ndim, tuple(range(len(devices))))
    return GSPMDSharding.of_tiles(devices, shim.Tiles(
        tiles.pieces, tuple(place[sharding.flat_devices[i]] for i in tiles.order)))


def chosen_sharding(hlo: Any, devices: tuple[Any, ...], meshes: Sequence[Mesh], ndim: int,
                    known: Iterable[Any]) -> Sharding:
    """The sharding that XLA chose, as one of ours.

    Args:
      hlo: XLA's form.
      devices: the program's devices.
      meshes: the program's meshes; there is one.
      ndim: the rank of the array.
      known: shardings of arguments. An equivalent one is preferred, so that results of a program
        have the shardings of its arguments.
    """
    tiles = shim.tiles_of(hlo)
    whole = tiles is None or math.prod(tiles.pieces) == 1
    for sharding in known:
        if len(sharding.spec) <= ndim and (sharding.is_fully_replicated if whole else tiles ==
                shim.tiles_of(shim.hlo_sharding_of(sharding.native_for(ndim), ndim))):
            return sharding
    if whole:
        return NamedSharding(meshes[0], PartitionSpec())
    for mesh in meshes:
        spec = spec_over(mesh, tiles) if mesh.flat_devices == devices else None
        if spec is not None:
            return NamedSharding(mesh, spec)
    return GSPMDSharding.of_tiles(devices, tiles)


def spec_of_pieces(hlo: Any, axes: Mapping[Any, int]) -> PartitionSpec:
    """A spec over axes of these sizes that cuts an array into as many pieces per dimension.

    In the body of a shard_map over other axes, XLA does not report the pieces of devices. The
    logger "mjax" warns unless exactly one spec fits, and no parts of axes do.
    """
    tiles = shim.tiles_of(hlo)
    pieces = () if tiles is None else tiles.pieces
    ways = [way for way in itertools.product(*(_shares(n, len(pieces)) for n in axes.values()))
            if all(math.prod(share[i] for share in way) == n for i, n in enumerate(pieces))]
    whole = [way for way in ways if all(
        set(share) <= {1, n} for share, n in zip(way, axes.values(), strict=True))]
    entries = [tuple(a for a, share in zip(axes, way, strict=True) if share[i] > 1)
               for way in whole[:1] for i in range(len(pieces))]
    while entries and not entries[-1]:
        entries.pop()
    spec = PartitionSpec(*entries)
    if len(ways) > 1 or not whole or any(len(entry) > 1 for entry in entries):
        logger.warning(
            "XLA cuts an array in a shard_map into %s pieces, and does not tell along which of the "
            "axes %s: %s is taken, and may be wrong.", pieces, tuple(axes), spec)
    return spec


def _shares(size: int, count: int) -> list[tuple[int, ...]]:
    """The ways in which an axis can cut dimensions: the number of pieces of each."""
    factors = [n for n in range(1, size + 1) if size % n == 0]
    return [share for share in itertools.product(factors, repeat=count)
            if size % math.prod(share) == 0]


def spec_over(mesh: Mesh, tiles: Any) -> PartitionSpec | None:
    """The spec over a mesh that describes the same tiles of its devices; None if none does."""
    copies = mesh.size // math.prod(tiles.pieces)
    piece_of = np.empty(mesh.size, np.int64)
    piece_of[list(tiles.order)] = np.arange(mesh.size) // copies
    positions = np.unravel_index(piece_of.reshape(mesh.axis_sizes), tiles.pieces)
    dims = [_axes_of(position, mesh) for position in positions]
    if None in dims:
        return None
    while dims and not dims[-1]:
        dims.pop()
    return PartitionSpec(*(axes or None for axes in dims))


def _axes_of(position: Any, mesh: Mesh) -> tuple[Any, ...] | None:
    """The axes that cut a dimension, given the place of each device's piece along it."""
    steps: list[tuple[int, int]] = []
    for axis, size in enumerate(mesh.axis_sizes):
        if size > 1:
            second = tuple(int(i == axis) for i in range(len(mesh.axis_sizes)))
            step = int(position[second])
            if step:
                steps.append((step, axis))
    steps.sort(reverse=True)
    expected: Any = np.zeros(position.shape, np.int64)
    for _, axis in steps:
        coordinates = np.arange(mesh.axis_sizes[axis])
        shape = [-1 if i == axis else 1 for i in range(position.ndim)]
        expected = expected * mesh.axis_sizes[axis] + coordinates.reshape(shape)
    if not np.array_equal(expected, position):
        return None
    return tuple(mesh.axis_names[axis] for _, axis in steps)
