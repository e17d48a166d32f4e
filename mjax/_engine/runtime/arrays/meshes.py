"""Making meshes of available devices, and the mesh that partition specs alone refer to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mjax._engine.base.config import UNSET, override, set_here
from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.ir.mesh import AbstractMesh, AxisType, Mesh, Name
from mjax._engine.runtime.arrays.devices import devices as all_devices
from mjax._engine.tracing.evaluate import evaluation


@boundary
def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
                       contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> np.ndarray[Any, Any]:
    """Devices arranged for a mesh, in their order.

    Args:
      mesh_shape: sizes of the mesh's axes.
      devices: as many devices as the mesh has places; default: all.
      contiguous_submeshes, allow_split_physical_axes: accepted, without effect. They are for
        devices in a physical grid; CPUs and GPUs are not in one.

    Returns:
      An array of devices of this shape.

    Raises:
      ValueError: the number of devices differs.

    Example:
      >>> from mjax.experimental import mesh_utils
      >>> mesh_utils.create_device_mesh((1, 1), mjax.devices()[:1]).shape
      (1, 1)
    """
    del contiguous_submeshes, allow_split_physical_axes
    shape, given = _shape(mesh_shape), list(all_devices() if devices is None else devices)
    if math.prod(shape) != len(given):
        msg = (f"create_device_mesh: a mesh of shape {shape} has {math.prod(shape)} places, but "
               f"there are {len(given)} devices.")
        raise ValueError(msg)
    return _grid(shape, given)


@boundary
def create_hybrid_device_mesh(
        mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int],
        devices: Sequence[Any] | None = None, *, process_is_granule: bool = False,
        should_sort_granules_by_key: bool = True,
        allow_split_physical_axes: bool = False) -> np.ndarray[Any, Any]:
    """Devices arranged for a mesh over groups of them, between which the network is slower.

    Along each axis the devices of a group are neighbours.

    Args:
      mesh_shape: sizes of the mesh's axes within a group.
      dcn_mesh_shape: numbers of groups along the same axes.
      devices: the devices; default: all.
      process_is_granule: the devices of a process are a group; otherwise those of a slice, with
        the same `slice_index`.
      should_sort_granules_by_key: groups are sorted by number; otherwise in the order of `devices`.
      allow_split_physical_axes: as in `create_device_mesh`.

    Returns:
      An array of devices, of shape `mesh_shape * dcn_mesh_shape`.

    Raises:
      ValueError: the shapes differ in length; the devices do not have a `slice_index`; the number
        of groups, or of devices in one, differs.

    Example:
      >>> from mjax.experimental import mesh_utils
      >>> mesh_utils.create_hybrid_device_mesh(
      ...     (1, 1), (1, 1), mjax.devices()[:1], process_is_granule=True).shape
      (1, 1)
    """
    inner, outer = _shape(mesh_shape), _shape(dcn_mesh_shape)
    name = "create_hybrid_device_mesh"
    if len(inner) != len(outer):
        msg = f"{name}: mesh_shape {inner} and dcn_mesh_shape {outer} must have the same length."
        raise ValueError(msg)
    key = "process_index" if process_is_granule else "slice_index"
    groups: dict[int, list[Any]] = {}
    for device in all_devices() if devices is None else devices:
        if (number := getattr(device, key, None)) is None:
            msg = (f"{name}: {device} does not have {key}. Without slices, let "
                   f"processes be the groups: process_is_granule=True.")
            raise ValueError(msg)
        groups.setdefault(number, []).append(device)
    if math.prod(outer) != len(groups):
        msg = (f"{name}: dcn_mesh_shape {outer} has {math.prod(outer)} places, but there are "
               f"{len(groups)} groups of devices of the same {key}.")
        raise ValueError(msg)
    numbers = sorted(groups) if should_sort_granules_by_key else list(groups)
    for number in numbers:
        if len(groups[number]) != math.prod(inner):
            msg = (f"{name}: mesh_shape {inner} has {math.prod(inner)} places, but "
                   f"{len(groups[number])} devices have the {key} {number}.")
            raise ValueError(msg)
    meshes = [create_device_mesh(inner, groups[number],
                                 allow_split_physical_axes=allow_split_physical_axes)
              for number in numbers]
    rank = len(inner)
    grid = np.stack(meshes).reshape(outer + inner)
    neighbours = [axis for pair in zip(range(rank), range(rank, 2 * rank), strict=True)
                  for axis in pair]
    return grid.transpose(neighbours).reshape([a * b for a, b in zip(outer, inner, strict=True)])


@boundary
def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Name],
              axis_types: AxisType | Sequence[AxisType] | None = None, *,
              devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of available devices.

    Args:
      axis_shapes: sizes of its axes.
      axis_names: names of its axes.
      axis_types: an `AxisType` per axis; only Auto, the default, is supported.
      devices: which devices; default: as many of `mjax.devices()` as needed, from the first.

    Returns:
      A `Mesh`.

    Raises:
      ValueError: there are not enough devices; numbers of sizes and names differ; a size is below
        1.
      NotImplementedError: an axis type is Explicit.

    Example:
      >>> mjax.make_mesh((1,), ('x',))
      Mesh('x': 1)
    """
    shape = _shape(axis_shapes)
    given = list(all_devices() if devices is None else devices)
    count = math.prod(shape)
    if not all(size > 0 for size in shape):
        msg = f"make_mesh: the axes of a mesh need sizes of 1 or more, got {shape}."
        raise ValueError(msg)
    if count > len(given):
        msg = (f"make_mesh: a mesh of shape {shape} takes {count} devices, but there are "
               f"{len(given)}. For more devices of a CPU set the environment variable "
               f"MJAX_NUM_CPU_DEVICES={count}, or config.num_cpu_devices before they are used.")
        raise ValueError(msg)
    return Mesh(_grid(shape, given[:count]), axis_names, axis_types)


def _shape(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple([int(size) for size in sizes])


def _grid(shape: tuple[int, ...], devices: Sequence[Any]) -> np.ndarray[Any, Any]:
    grid = np.empty(shape, object)
    for place, device in enumerate(devices):
        grid.flat[place] = device
    return grid


# ---- the mesh in force -------------------------------------------------------------------


class set_mesh:  # a function that may also be a context manager
    """Sets the mesh of this thread: programs run on it, and partition specs alone refer to it.

    New arrays are on all its devices. Programs with arguments that are committed to other devices
    are refused, and so are maps over another mesh (`shard_map`).

    In a `with` statement the mesh is set only for the body.

    Args:
      mesh: a `Mesh`, or None for no mesh.

    Raises:
      TypeError: it is neither.
      ValueError: this is inside of a function that is traced, as by `jit`; an axis is Manual.

    Example:
      >>> with mjax.set_mesh(mjax.make_mesh((1,), ('x',))):
      ...     mjax.device_put(np.arange(4), mjax.P("x")).sharding.spec
      PartitionSpec('x',)
    """

    @boundary
    def __init__(self, mesh: Mesh | None):
        _check_settable(mesh, "set_mesh")
        self._mesh = mesh
        # A flag that a thread has not set follows the process.
        follows = mesh is ThreadState.settings.mesh
        self._undo = set_here(mesh=UNSET if follows else mesh,
                              mesh_for_all=UNSET if follows else mesh is not None)

    def __enter__(self) -> Mesh | None:
        return self._mesh

    def __exit__(self, *error: object) -> None:
        self._undo()


@contextmanager
def use_mesh(mesh: Mesh | None) -> Iterator[Mesh | None]:
    """`set_mesh` for the body of a `with` statement.

    Args:
      mesh: a `Mesh`; None: no mesh.

    Yields:
      The mesh.

    Raises:
      TypeError: on entry: `mesh` is neither a `Mesh` nor None.
      ValueError: on entry: a function is being traced, as by `jit`; an axis is Manual.

    Example:
      >>> with mjax.sharding.use_mesh(mjax.make_mesh((1,), ("x",))):
      ...   print(mjax.sharding.get_mesh().size)
      1
    """
    _check_settable(mesh, "use_mesh")
    with override(mesh=mesh, mesh_for_all=mesh is not None):
        yield mesh


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh | None) -> Iterator[AbstractMesh | None]:
    """The same for a mesh without devices, which specs refer to in abstract evaluation.

    Args:
      mesh: an `AbstractMesh`; None: no mesh.

    Yields:
      The mesh.

    Raises:
      TypeError: on entry: `mesh` is neither an `AbstractMesh` nor None.

    Example:
      >>> mesh = mjax.make_mesh((1,), ("x",)).abstract_mesh
      >>> with mjax.sharding.use_abstract_mesh(mesh):
      ...   print(mjax.sharding.get_abstract_mesh().axis_names)
      ('x',)
    """
    _check(mesh, AbstractMesh, "use_abstract_mesh", "an AbstractMesh")
    with override(mesh=mesh, mesh_for_all=False):
        yield mesh


def _check_settable(mesh: Mesh | None, who: str) -> None:
    _check(mesh, Mesh, who, "a Mesh")
    if thread.interpreter is not evaluation:
        msg = (f"{who} is called inside of a function that is traced (jit, grad, vmap, ...): a "
               "program runs on one set of devices. Set the mesh around the call of the outermost "
               "one; inside, give NamedShardings.")
        raise ValueError(msg)
    manual = [] if mesh is None else [
        name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind is AxisType.Manual]
    if manual:
        raise LazyValueError(lambda: (
            f"{who}: the axes {manual} of {mesh} are Manual, which axes are only inside of a "
            "shard_map. Make the mesh without axis_types, and map over them: "
            "mjax.shard_map(f, mesh=mesh, ...)."))


def _check(mesh: Any, kind: type, who: str, what: str) -> None:
    if mesh is not None and not isinstance(mesh, kind):
        raise LazyTypeError(lambda: (
            f"{who} needs {what}, or None, got {mesh!r} of type {type(mesh).__name__}."))


def get_mesh() -> Mesh:
    """The mesh that `set_mesh` set in this thread; an empty one if none.

    Example:
      >>> with mjax.sharding.use_mesh(mjax.make_mesh((1,), ("x",))):
      ...   print(mjax.sharding.get_mesh().axis_names)
      ('x',)
    """
    mesh = thread.settings.mesh
    return mesh if isinstance(mesh, Mesh) else Mesh(np.empty((), object), ())


def get_abstract_mesh() -> AbstractMesh:
    """The mesh in force, without its devices; an empty one if none is.

    In `shard_map` it is that mesh; mapped axes have the type `AxisType.Manual`.

    Example:
      >>> with mjax.sharding.use_mesh(mjax.make_mesh((1,), ("x",))):
      ...   print(mjax.sharding.get_abstract_mesh().axis_names)
      ('x',)
    """
    for axis in reversed(thread.axis_env):
        if axis.manual is not None:
            mesh, manual = axis.manual.mesh, axis.manual.axes
            return AbstractMesh(mesh.axis_sizes, mesh.axis_names, [
                AxisType.Manual if name in manual else kind
                for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)])
    mesh = thread.settings.mesh
    return AbstractMesh((), ()) if mesh is None else mesh.abstract_mesh
