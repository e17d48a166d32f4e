"""Shardings: the devices of the parts of an array.

Equal shardings are one object: caches compare them by identity. `native_for(ndim)` is jaxlib's
form of a sharding, which is for arrays of one rank.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.displays import display
from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.sockets import sockets
from mjax._engine.ir.mesh import AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.mesh_specs import check_spec, cuts, device_order, shard_shape
from mjaxlib_shim import shardings as shim
from mjaxlib_shim.client import Device

Index = tuple[slice, ...]


class Sharding:
    """The places of an array's elements. Base of `SingleDeviceSharding` and `NamedSharding`.

    Attributes:
      flat_devices: the devices, in the order of the parts (of a program: its partitions).

    Example:
      >>> jnp.arange(3).sharding.is_fully_replicated
      True
    """

    __slots__ = ()
    flat_devices: tuple[Any, ...]

    def native_for(self, ndim: int) -> Any:
        """jaxlib's sharding for arrays of this rank."""
        raise NotImplementedError

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part on each device.

        Raises:
          ValueError: a size is not divisible by the number of parts.
        """
        raise NotImplementedError

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """Device -> its part of an array of this shape."""
        raise NotImplementedError

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """The same for the devices of this process."""
        mine = self.addressable_devices
        return {d: i for d, i in self.devices_indices_map(global_shape).items() if d in mine}

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the array."""
        return set(self.flat_devices)

    @property
    def num_devices(self) -> int:
        """Their number."""
        return len(self.flat_devices)

    @property
    def addressable_devices(self) -> set[Device]:
        """Those of this process."""
        return set(self.local_devices)

    @property
    def local_devices(self) -> tuple[Any, ...]:
        """Those of this process, in order."""
        return tuple(d for d in self.flat_devices if d.process_index == d.client.process_index())

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all parts are in this process."""
        return len(self.local_devices) == len(self.flat_devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both put the same parts of arrays of this rank on the same devices."""
        if self is other:
            return True
        if self.flat_devices != other.flat_devices or self.memory_kind != other.memory_kind:
            return False
        return self.cuts_like(other, ndim)

    def cuts_like(self, other: Sharding, ndim: int) -> bool:
        """Whether both put the same part on their n-th device, for each n.

        Full replications are alike, on any number of devices.
        """
        one, two = (shim.hlo_sharding_of(s.native_for(ndim), ndim) for s in (self, other))
        return bool(one == two or (one.is_replicated() and two.is_replicated()))

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some parts are in this process."""
        return bool(self.local_devices)

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array; None if the devices are not known."""
        raise NotImplementedError

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same in another memory.

        Raises:
          ValueError: the devices have no such memory.
        """
        raise NotImplementedError

    @property
    def in_default_memory(self) -> Sharding:
        """The same in the memory in which programs compute."""
        return self

    def __copy__(self) -> Sharding:
        return self

    def __deepcopy__(self, memo: Any) -> Sharding:
        return self

    @boundary
    def __reduce__(self) -> Any:
        msg = "shardings refer to this process's devices and cannot be pickled."
        raise TypeError(msg)

    _repr_html_ = display("mjax._engine.runtime.arrays.html", "sharding_html")


class MeshSharding(Sharding):
    """An array cut by a spec along the axes of a mesh."""

    __slots__ = ()
    mesh: Any
    spec: PartitionSpec
    _memory_kind: str | None = None
    #: Rank -> jaxlib's sharding.
    _native: dict[int, Any]

    def native_for(self, ndim: int) -> Any:
        known = self._native.get(ndim)
        if known is None:
            known = self._native[ndim] = shim.gspmd_sharding(
                self.flat_devices, self._hlo(ndim), self._memory_kind)
        return known

    def _hlo(self, ndim: int) -> Any:
        """XLA's sharding for arrays of this rank."""
        raise NotImplementedError

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        return shard_shape(self.spec, self.mesh, global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        self.shard_shape(global_shape)  # refuses sizes that are not divisible
        ndim, devices = len(global_shape), self.flat_devices
        slices = shim.shard_slices(shim.hlo_sharding_of(self.native_for(ndim), ndim),
                                   global_shape, len(devices))
        is_cut = [count > 1 for count in cuts(self.spec, self.mesh, ndim)]
        return {device: tuple([part if cut else slice(None)
                               for part, cut in zip(parts, is_cut)])
                for device, parts in zip(devices, slices, strict=True)}


class SingleDeviceSharding(Sharding):
    """A whole array on one device.

    Args:
      device: the device.
      memory_kind: which of its memories; default: its own default.

    Instances for one memory of a device are one object.

    Raises:
      ValueError: the device has no such memory.

    Example:
      >>> sharding = mjax.sharding.SingleDeviceSharding(mjax.devices()[0])
      >>> mjax.device_put(1.0, sharding).sharding is sharding
      True
    """

    __slots__ = ("_memory_kind", "device", "flat_devices", "native")
    device: Any
    native: Any
    _memory_kind: str | None

    def __new__(cls, device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
        known = _single_device.get((device, memory_kind))
        if known is not None:
            return known
        kind = own_memory_kind((device,), memory_kind, "SingleDeviceSharding")
        if kind is None is not memory_kind:
            return SingleDeviceSharding(device)
        self = object.__new__(cls)
        self.device, self._memory_kind = device, kind
        self.flat_devices = (device,)
        self.native = shim.single_device_sharding(device, kind)
        return _single_device.setdefault((device, kind), self)

    def native_for(self, ndim: int) -> Any:
        return self.native

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        return {self.device: (slice(None),) * len(global_shape)}

    @property
    def memory_kind(self) -> str:
        return self._memory_kind or str(self.device.default_memory().kind)

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, memory_kind=kind)

    @property
    def in_default_memory(self) -> SingleDeviceSharding:
        return self if self._memory_kind is None else SingleDeviceSharding(self.device)

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def __repr__(self) -> str:
        memory = f", memory_kind={self._memory_kind!r}" if self._memory_kind else ""
        return f"SingleDeviceSharding(device={self.device!r}{memory})"


_single_device: dict[tuple[Any, str | None], SingleDeviceSharding] = {}


def make_single_device_sharding(device: Any, *, memory_kind: str | None = None) -> Sharding:
    """A sharding of whole arrays on one device.

    Args:
      device: the device.
      memory_kind: which of its memories; default: its own default.

    Returns:
      A sharding.

    Raises:
      ValueError: the device has no such memory.

    Example:
      >>> device = mjax.devices()[0]
      >>> mjax.sharding.make_single_device_sharding(device).device_set == {device}
      True
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def _known_device(devices: Sequence[Any]) -> Any:
    """A device whose memories are known: one of this process, if there is one."""
    return next((d for d in devices if d.process_index == d.client.process_index()), devices[0])


def default_memory_kind(sharding: Sharding) -> str:
    """The default memory of a sharding's devices."""
    return str(_known_device(sharding.flat_devices).default_memory().kind)


def own_memory_kind(devices: Sequence[Any], kind: str | None, who: str) -> str | None:
    """The name of a memory if it is not the default one of the devices; else None.

    Raises:
      ValueError: the devices have no such memory.
    """
    if kind is None:
        return None
    device = _known_device(devices)
    if kind == device.default_memory().kind:
        return None
    known = sorted({str(memory.kind) for memory in device.addressable_memories()})
    if kind not in known:
        raise LazyValueError(lambda: (
            f"{who}: {device} has no memory of the kind {kind!r}; it has "
            f"{', '.join(map(repr, known))}, of which "
            f"{device.default_memory().kind!r} is the default."))
    return kind


class NamedSharding(MeshSharding):
    """An array cut along the axes of a mesh.

    Args:
      mesh: a `Mesh`; or an `AbstractMesh` for the devices of the program that contains the
        sharding: in constraints, `jit`'s shardings and `device_put` inside of `jit`.
      spec: a `PartitionSpec`: per dimension the mesh axes that cut it. Devices that differ
        only along other axes hold copies.
      memory_kind: which of the devices' memories; default: their own default.

    Raises:
      TypeError: `mesh` is not a mesh, or `spec` not a spec.
      ValueError: the spec names an axis that the mesh does not have, or one twice; the devices
        do not have the memory; the devices of a sharding over an `AbstractMesh` are read.

    Example:
      >>> mesh = mjax.make_mesh((1,), ('x',))
      >>> mjax.device_put(jnp.arange(4), mjax.NamedSharding(mesh, mjax.P('x'))).sharding.spec
      PartitionSpec('x',)
    """

    __slots__ = ("__weakref__", "_local", "_memory_kind", "_native", "flat_devices", "mesh",
                 "spec")
    mesh: Mesh | AbstractMesh
    spec: PartitionSpec
    _local: tuple[Any, ...] | None

    def __new__(cls, mesh: Any, spec: Any, *, memory_kind: str | None = None) -> NamedSharding:
        key = (mesh, spec, memory_kind)
        try:
            known = _named.get(key)
        except TypeError:  # a list among the entries of a spec given as a tuple
            known = None
        # A plain tuple equals the spec it stands for, but is refused.
        if known is not None and type(spec) is PartitionSpec:
            return known
        try:
            if not isinstance(mesh, (Mesh, AbstractMesh)):
                raise LazyTypeError(lambda: (
                    f"NamedSharding needs a Mesh, got {mesh!r} of type {type(mesh).__name__}."))
            if not isinstance(spec, PartitionSpec):
                raise LazyTypeError(lambda: (
                    f"NamedSharding needs a PartitionSpec, got {spec!r} of type "
                    f"{type(spec).__name__}: write PartitionSpec(...), or P(...)."))
            check_spec(spec, mesh, "NamedSharding")
            if isinstance(mesh, Mesh):
                kind = own_memory_kind(mesh.flat_devices, memory_kind, "NamedSharding")
                if kind is None is not memory_kind:
                    return NamedSharding(mesh, spec)
        except Exception as error:
            fold(error)
            raise
        self = object.__new__(cls)
        self.mesh, self.spec, self._memory_kind = mesh, spec, memory_kind
        if isinstance(mesh, Mesh):
            self.flat_devices = mesh.flat_devices
        self._native, self._local = {}, None
        with _lock:
            return _named.setdefault(key, self)

    def __getattr__(self, name: str) -> Any:
        if name == "flat_devices":
            raise LazyValueError(lambda: (
                f"{self} has no devices: its mesh is an AbstractMesh, which says how values are "
                "cut inside of a program that runs over as many devices. Outside of one, "
                "give a Mesh."))
        raise AttributeError(f"'NamedSharding' object has no attribute {name!r}")

    @property
    def is_abstract(self) -> bool:
        """Whether its mesh has no devices."""
        return isinstance(self.mesh, AbstractMesh)

    def over(self, devices: Sequence[Any], who: str) -> NamedSharding:
        """The same over devices; itself if it has its own.

        Args:
          devices: those of the program, in order.
          who: its role, for messages.

        Raises:
          ValueError: their number is not that of the mesh.
        """
        if not isinstance(self.mesh, AbstractMesh):
            return self
        return NamedSharding(mesh_over(self.mesh, devices, who), self.spec,
                             memory_kind=self._memory_kind)

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        if self.is_abstract or getattr(other, "is_abstract", False):
            return isinstance(other, NamedSharding) and (
                self.mesh is other.mesh and self._memory_kind == other._memory_kind
                and bool(self._hlo(ndim) == other._hlo(ndim)))
        return super().is_equivalent_to(other, ndim)

    def _hlo(self, ndim: int) -> Any:
        pieces = cuts(self.spec, self.mesh, ndim)
        total = functools.reduce(int.__mul__, pieces, 1)
        if total == 1:
            return shim.replicated()
        copies = self.mesh.size // total
        return shim.tiled((*pieces, copies) if copies > 1 else pieces,
                          devices=list(device_order(self.spec, self.mesh, ndim)),
                          replicate_last=copies > 1)

    @property
    def local_devices(self) -> tuple[Any, ...]:
        if self._local is None:
            self._local = super().local_devices
        return self._local

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind or (None if self.is_abstract else default_memory_kind(self))

    def update(self, **kwargs: Any) -> NamedSharding:
        """A sharding with some of `mesh, spec, memory_kind` replaced; `spec` may be a tuple.

        Raises:
          TypeError: a field does not exist.
        """
        values: dict[str, Any] = {"mesh": self.mesh, "spec": self.spec,
                                  "memory_kind": self._memory_kind, **kwargs}
        if type(values["spec"]) is tuple:
            values["spec"] = PartitionSpec(*values["spec"])
        return NamedSharding(**values)

    def __reduce__(self) -> Any:
        if not self.is_abstract:
            return super().__reduce__()
        return _named_sharding, (self.mesh, self.spec, self._memory_kind)

    @property
    def in_default_memory(self) -> NamedSharding:
        return self if self._memory_kind is None else NamedSharding(self.mesh, self.spec)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    @property
    def is_fully_replicated(self) -> bool:
        return all(size == 1 for size in cuts(self.spec, self.mesh, len(self.spec)))

    def __repr__(self) -> str:
        memory = f", memory_kind={self._memory_kind!r}" if self._memory_kind else ""
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r}{memory})"

    __treescope_repr__: Callable[..., Any] = display(
        "mjax._engine.ir.treescope", "named_sharding_parts")


def _named_sharding(mesh: Any, spec: PartitionSpec, memory_kind: str | None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


@functools.cache
def _of_types(ndim: int) -> NamedSharding:
    return NamedSharding(AbstractMesh((), ()), PartitionSpec(*[None] * ndim))


sockets.sharding_shown = _of_types


def mesh_over(mesh: AbstractMesh, devices: Sequence[Any], who: str) -> Mesh:
    """A mesh of the axes of an abstract one.

    Args:
      mesh: the abstract mesh.
      devices: of the mesh, in order.
      who: the role of the abstract mesh, for messages.

    Raises:
      ValueError: their number differs.
    """
    if len(devices) != mesh.size:
        raise LazyValueError(lambda: (
            f"{who}: {mesh} is of {mesh.size} devices, but the program runs on {len(devices)}: "
            f"{list(devices)}. Both need the same number: a mesh that the arguments or "
            "with mjax.set_mesh(mesh): name says where a program runs."))
    grid = np.empty(mesh.axis_sizes, object)
    grid.reshape(-1)[:] = devices
    return Mesh(grid, mesh.axis_names)


def bounds(index: Index, shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The start and end of a part of an array per dimension, as hashable bounds, unlike slices."""
    return tuple([part.indices(size)[:2] for part, size in zip(index, shape, strict=True)])


_lock = threading.Lock()
_named: weakref.WeakValueDictionary[Any, NamedSharding] = weakref.WeakValueDictionary()
