"""Meshes of devices and partition specs, as plain data: devices are opaque here.

A mesh is an array of devices with a name per axis. A spec names, for each dimension of an array,
the mesh axes that cut it. It may leave out dimensions at the end. Axes without a mention hold
copies. Equal meshes are one object, so that caches keyed by them compare by identity.
"""

from __future__ import annotations

import enum
import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mjax._engine.base.config import set_here
from mjax._engine.base.displays import display
from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import pickled_as, pickled_by

Name = Hashable


@pickled_by("axis_type_v1")
class AxisType(enum.Enum):
    """Who decides how values are cut along a mesh axis.

    Attributes:
      Auto: XLA, from the shardings of arguments and from constraints.
      Explicit: the types of values. mjax has no such axes.
      Manual: the program itself, inside of shard_map.

    Example:
      >>> mjax.make_mesh((1,), ("i",)).axis_types
      (Auto,)
    """

    Auto = "Auto"
    Explicit = "Explicit"
    Manual = "Manual"

    def __repr__(self) -> str:
        return self.name


class _Unconstrained:
    """The entry of a spec that leaves a dimension to XLA."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return _unconstrained, ()


UNCONSTRAINED: Final = _Unconstrained()


@pickled_as("unconstrained_v1")
def _unconstrained() -> _Unconstrained:
    return UNCONSTRAINED


class PartitionSpec(tuple[Any, ...]):
    """The mesh axes that shard an array: per dimension None, an axis name, or a tuple of names.

    The first of several axes varies slowest. Dimensions at the end may be left out.

    Args:
      partitions: the entries.
      unreduced, reduced: axes with pending sums. They belong to sharding in types, which mjax
        does not have: the sets must be empty.

    Raises:
      TypeError: an entry is not hashable.
      NotImplementedError: there are unreduced or reduced axes.

    Example:
      >>> mjax.P('x', None, ('y', 'z'))
      PartitionSpec('x', None, ('y', 'z'))
    """

    __slots__ = ()
    UNCONSTRAINED = UNCONSTRAINED
    #: Axes with pending sums: none.
    unreduced: Final = frozenset[Any]()
    reduced: Final = frozenset[Any]()

    def __new__(cls, *partitions: Any, unreduced: Any = frozenset(),
                reduced: Any = frozenset()) -> PartitionSpec:
        if unreduced or reduced:
            msg = ("PartitionSpec: mjax has no unreduced and reduced axes (shardings are not part "
                   "of its types). In shard_map, types say along which axes values vary.")
            raise NotImplementedError(msg)
        self = super().__new__(cls, [_entry(p) for p in partitions])
        hash(self)  # raises for entries that cannot name an axis
        return self

    def __reduce__(self) -> Any:
        return _partition_spec, tuple(self)

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The entries as a plain tuple."""
        return tuple(self)

    def update(self, partitions: Iterable[Any] | None = None, unreduced: Any = None,
               reduced: Any = None) -> PartitionSpec:
        """A spec of these entries, if they are given; else the same spec."""
        if partitions is None and not unreduced and not reduced:
            return self
        return PartitionSpec(*(self if partitions is None else partitions),
                             unreduced=unreduced or (), reduced=reduced or ())

    def index(self, value: Any, *bounds: Any) -> int:
        """The first dimension with this entry, in any spelling of it."""
        return super().index(_entry(value), *bounds)

    def count(self, value: Any) -> int:
        """How many dimensions have this entry, in any spelling of it."""
        return super().count(_entry(value))

    def dims(self, ndim: int) -> tuple[tuple[Name, ...], ...]:
        """The mesh axes of each of `ndim` dimensions; none for those left to XLA.

        Raises:
          ValueError: the spec is longer.
        """
        if len(self) > ndim:
            raise LazyValueError(lambda: (
                f"{self} has {len(self)} entries, one per dimension, but the array has {ndim} "
                "dimensions. Leave out the last entries."))
        found = [() if p is None or p is UNCONSTRAINED else p if type(p) is tuple else (p,)
                 for p in self]
        return (*found, *[()] * (ndim - len(found)))

    @property
    def axes(self) -> tuple[Name, ...]:
        """All mesh axes it names, in order."""
        return tuple(a for dim in self.dims(len(self)) for a in dim)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))}{',' if len(self) == 1 else ''})"

    __treescope_repr__: Callable[..., Any] = display("mjax._engine.ir.treescope", "text_parts")

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self)


def _entry(part: Any) -> Any:
    """The canonical spelling of an entry: without tuples of fewer than two names."""
    if type(part) in (tuple, list):
        return None if not part else part[0] if len(part) == 1 else tuple(part)
    return part


_lock = threading.Lock()
_meshes: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def _interned(key: Any, made: Any) -> Any:
    with _lock:
        return _meshes.setdefault(key, made)


class _AxisTypes:
    """Facts from the types of a mesh's axes. Meshes are shared, so they are immutable."""

    __slots__ = ()

    @property
    def auto_axes(self) -> tuple[Name, ...]:
        """The axes along which XLA decides."""
        return self._axes_of(AxisType.Auto)

    @property
    def manual_axes(self) -> tuple[Name, ...]:
        """The axes along which the program itself decides, in shard_map."""
        return self._axes_of(AxisType.Manual)

    @property
    def explicit_axes(self) -> tuple[Name, ...]:
        """The axes along which types decide: none."""
        return ()

    def _axes_of(self: Any, kind: AxisType) -> tuple[Name, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    def _all_are(self: Any, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(t is kind for t in self.axis_types)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether XLA decides along all axes, of which there are some."""
        return self._all_are(AxisType.Auto)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether the program itself does."""
        return self._all_are(AxisType.Manual)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether types do: they never do."""
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        msg = (f"a {type(self).__name__} is immutable; .update({name}=...) gives a changed one.")
        raise AttributeError(msg)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    _repr_html_: Callable[..., Any] = display("mjax._engine.ir.html", "mesh_html")


class AbstractMesh(_AxisTypes):
    """Names and sizes of mesh axes, without devices.

    Args:
      axis_sizes: sizes.
      axis_names: names; also `(name, size)` pairs as the only argument.
      axis_types: an `AxisType` per axis; only Auto is supported.

    Raises:
      TypeError: an axis type is not an `AxisType`.
      ValueError: numbers of names and sizes differ, or a name is given twice.
      NotImplementedError: an axis type is Explicit.

    Example:
      >>> mjax.sharding.AbstractMesh((2, 4), ("i", "j")).size
      8
    """

    __slots__ = ("__weakref__", "axis_names", "axis_sizes", "axis_types")
    axis_names: tuple[Name, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @boundary
    def __new__(cls, axis_sizes: Any, axis_names: Any = None, axis_types: Any = None
                ) -> AbstractMesh:
        if axis_names is None:
            axis_names, axis_sizes = zip(*axis_sizes, strict=True) if axis_sizes else ((), ())
        names = _checked_names(axis_names, len(tuple(axis_sizes)))
        types = _checked_types(axis_types, names)
        key = (cls, tuple(map(int, axis_sizes)), names, types)
        known = _meshes.get(key)
        if known is None:
            self = object.__new__(cls)
            for name, value in zip(("axis_sizes", "axis_names", "axis_types"), key[1:]):
                object.__setattr__(self, name, value)
            known = _interned(key, self)
        return known

    @property
    def shape(self) -> OrderedDict[Name, int]:
        """Name -> size."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Name, int], ...]:
        """`(name, size)` pairs."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices; 0 without axes."""
        return math.prod(self.axis_sizes) if self.axis_sizes else 0

    @property
    def empty(self) -> bool:
        """Whether it has no devices."""
        return not self.size

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name in _OF_DEVICES:
            raise LazyValueError(lambda: f"{self} has no {name}: an AbstractMesh has no devices.")
        raise AttributeError(f"'AbstractMesh' object has no attribute {name!r}")

    def _axes_text(self) -> str:
        """Names and sizes of the axes, and their types where not all are Auto."""
        parts = [f"{n!r}: {s}" for n, s in self.shape_tuple]
        if self.auto_axes != self.axis_names:
            parts.append(f"axis_types={self.axis_types}")
        return ", ".join(parts)

    def update_axis_types(self, name_to_type: Mapping[Name, AxisType]) -> AbstractMesh:
        """A mesh some of whose axes have other types."""
        return self.update(axis_types=tuple([
            name_to_type.get(n, t) for n, t in zip(self.axis_names, self.axis_types, strict=True)]))

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None
               ) -> AbstractMesh:
        """A mesh with some of these replaced."""
        return AbstractMesh(*(old if new is None else new for new, old in (
            (axis_sizes, self.axis_sizes), (axis_names, self.axis_names),
            (axis_types, self.axis_types))))

    def __reduce__(self) -> Any:
        return _abstract_mesh, (self.axis_sizes, self.axis_names,
                                tuple([t.name for t in self.axis_types]))

    def __repr__(self) -> str:
        return f"AbstractMesh({self._axes_text()})"

    __treescope_repr__: Callable[..., Any] = display(
        "mjax._engine.ir.treescope", "abstract_mesh_parts")


@pickled_as("partition_spec_v1")
def _partition_spec(*partitions: Any) -> PartitionSpec:
    return PartitionSpec(*partitions)


@pickled_as("abstract_mesh_v1")
def _abstract_mesh(sizes: Any, names: Any, types: Sequence[str]) -> AbstractMesh:
    return AbstractMesh(sizes, names, tuple([AxisType[t] for t in types]))


#: Attributes that only meshes of devices have.
_OF_DEVICES = frozenset({
    "devices", "device_ids", "is_multi_process", "local_devices", "local_mesh"})


class Mesh(_AxisTypes):
    """An array of devices whose axes have names.

    Args:
      devices: n-dimensional array (or nested lists) of devices, each at most once.
      axis_names: a name per axis; a string alone is the name of the only one.
      axis_types: an `AxisType` per axis; only Auto is supported.

    Raises:
      TypeError: an axis type is not an `AxisType`.
      ValueError: numbers of axes and names differ, a name or a device is given twice.
      NotImplementedError: an axis type is Explicit.

    In `with mesh:`, as under `set_mesh`, partition specs alone refer to it. Unlike under
    `set_mesh`, arrays and programs may be on other devices.

    Example:
      >>> mesh = mjax.sharding.Mesh(np.array(mjax.devices()[:1]), ('x',))
      >>> dict(mesh.shape)
      {'x': 1}
    """

    __slots__ = ("__weakref__", "abstract_mesh", "devices", "flat_devices")
    #: The same without devices.
    abstract_mesh: AbstractMesh
    #: Read-only array of the devices.
    devices: np.ndarray[Any, Any]
    #: The devices in row-major order: the order of the partitions of a program.
    flat_devices: tuple[Any, ...]

    @boundary
    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        grid = np.array(devices, dtype=object)
        abstract = AbstractMesh(grid.shape, _as_names(axis_names), axis_types)
        key = (cls, abstract, tuple(grid.flat))
        known = _meshes.get(key)
        if known is None:
            if len(set(grid.flat)) != grid.size:
                raise LazyValueError(lambda: f"Mesh: a device is given twice in {devices}.")
            grid.flags.writeable = False
            self = object.__new__(cls)
            for name, value in (("abstract_mesh", abstract), ("devices", grid),
                                ("flat_devices", key[2])):
                object.__setattr__(self, name, value)
            known = _interned(key, self)
        return known

    @property
    def axis_names(self) -> tuple[Name, ...]:
        """Names of the axes."""
        return self.abstract_mesh.axis_names

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.abstract_mesh.axis_sizes

    @property
    def axis_types(self) -> tuple[AxisType, ...]:
        """Types of the axes."""
        return self.abstract_mesh.axis_types

    @property
    def shape(self) -> OrderedDict[Name, int]:
        """Name -> size."""
        return self.abstract_mesh.shape

    @property
    def shape_tuple(self) -> tuple[tuple[Name, int], ...]:
        """Pairs of them."""
        return self.abstract_mesh.shape_tuple

    @property
    def size(self) -> int:
        """The number of devices."""
        return 0 if self.empty else len(self.flat_devices)

    @property
    def empty(self) -> bool:
        """Whether it has no devices."""
        return not self.flat_devices or self.flat_devices == (None,)

    @property
    def is_scalar(self) -> bool:
        """Whether it is one device without axes."""
        return self.size == 1 and not self.axis_names

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A mesh with some of these replaced."""
        return Mesh(*(old if new is None else new for new, old in (
            (devices, self.devices), (axis_names, self.axis_names),
            (axis_types, self.axis_types))))

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:
        """Ids of the devices, shaped like the mesh."""
        ids = np.array([d.id for d in self.flat_devices], np.int64)
        return ids.reshape(self.devices.shape)

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process, in the mesh's order."""
        return [d for d in self.flat_devices if d.process_index == d.client.process_index()]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that holds the devices of this process.

        Raises:
          ValueError: they do not form a box of the mesh.
        """
        if not self.axis_names or not self.is_multi_process:
            return self
        mine = set(self.local_devices)
        is_mine = np.array([d in mine for d in self.flat_devices]).reshape(self.devices.shape)
        box = [slice(along.min(), along.max() + 1) if along.size else slice(0)
               for along in is_mine.nonzero()]
        if not is_mine[tuple(box)].all():
            raise LazyValueError(lambda: (
                f"{self} has no local_mesh: the devices of this process do not form a box of it."))
        return Mesh(self.devices[tuple(box)], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether some devices belong to other processes."""
        return len(self.local_devices) < self.size

    def __enter__(self) -> Mesh:
        _entered.undo.append(set_here(mesh=self, mesh_for_all=False))
        return self

    def __exit__(self, *error: object) -> None:
        _entered.undo.pop()()

    @boundary
    def __reduce__(self) -> Any:
        msg = ("a Mesh refers to this process's devices and cannot be pickled; its "
               "abstract_mesh, and PartitionSpecs, can.")
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"Mesh({self.abstract_mesh._axes_text()})"

    __treescope_repr__: Callable[..., Any] = display("mjax._engine.ir.treescope", "mesh_parts")


class _Entered(threading.local):
    """The exits of the meshes that this thread has entered by `with mesh:`."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []


_entered = _Entered()


def _as_names(names: Any) -> tuple[Name, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _checked_names(names: Any, count: int) -> tuple[Name, ...]:
    found = _as_names(names)
    if len(found) != count:
        raise LazyValueError(lambda: (
            f"a mesh with {count} axes needs as many names, got {found}."))
    if len(set(found)) != len(found) or None in found:
        raise LazyValueError(lambda: (
            f"the axes of a mesh need names that differ and are not None, got {found}."))
    return found


def _checked_types(types: Any, names: tuple[Name, ...]) -> tuple[AxisType, ...]:
    if types is None:
        return (AxisType.Auto,) * len(names)
    found = tuple(types) if isinstance(types, Iterable) else (types,) * len(names)
    if not all(isinstance(kind, AxisType) for kind in found):
        raise LazyTypeError(lambda: f"axis_types must be AxisTypes, got {types!r}.")
    if len(found) != len(names):
        raise LazyValueError(lambda: f"{len(names)} axes need as many axis_types, got {found}.")
    if AxisType.Explicit in found:
        msg = ("mjax has no Explicit mesh axes (shardings are not part of its types): leave "
               "axis_types out, and constrain values with lax.with_sharding_constraint.")
        raise NotImplementedError(msg)
    return found
