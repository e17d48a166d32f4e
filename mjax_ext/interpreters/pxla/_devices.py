"""Programs over several devices: options of their compilation, the mesh in force, shardings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.ir.mesh import Mesh, PartitionSpec
from mjax._engine.runtime.arrays.meshes import get_mesh
from mjaxlib_shim import executables, shardings

#: The part of an array that a device holds: an int or a slice per axis.
Index = int | slice | tuple[int | slice, ...]
#: The name of an axis of a mesh.
MeshAxisName = Hashable
#: Name of a mesh axis -> the dimension of an array that it cuts.
ArrayMapping = Mapping[MeshAxisName, int]


def create_compile_options(computation: Any, tuple_args: bool, allow_prop_to_inputs: Sequence[bool],
                           allow_prop_to_outputs: Sequence[bool], backend: Any,
                           np_dev: np.ndarray[Any, Any], compiler_options: dict[str, Any]) -> Any:
    """jaxlib's `CompileOptions` of a program that XLA partitions.

    Args:
      computation: the module; not read.
      tuple_args: whether its arguments are one tuple.
      allow_prop_to_inputs: for which inputs XLA may choose the sharding.
      allow_prop_to_outputs: for which results XLA may choose the sharding.
      backend: the client; not read.
      np_dev: the devices, one per partition, in an array of any shape.
      compiler_options: further options by name: XLA flags, and fields of jaxlib's classes.

    Returns:
      Options of jaxlib.

    Raises:
      ValueError: an option is unknown.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> options = pxla.create_compile_options(
      ...     None, False, [True], [True], None, np.array(mjax.devices()[:1]), {})
      >>> options.num_partitions
      1
    """
    devices = list(np.asarray(np_dev, object).flat)
    options = executables.compile_options(devices, num_partitions=len(devices), options={
        "allow_spmd_sharding_propagation_to_parameters": list(allow_prop_to_inputs),
        "allow_spmd_sharding_propagation_to_output": list(allow_prop_to_outputs),
        **compiler_options})
    options.parameter_is_tupled_arguments = tuple_args
    return options


class ResourceEnv(Record):
    """The resources in force: a mesh.

    Attributes:
      physical_mesh: the mesh; an empty one if none is set.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> pxla.thread_resources.env.shape
      OrderedDict()
    """

    physical_mesh: Mesh

    @property
    def physical_resource_axes(self) -> set[MeshAxisName]:
        """The names of the mesh's axes."""
        return set(self.physical_mesh.axis_names)

    @property
    def resource_axes(self) -> set[MeshAxisName]:
        """The same."""
        return self.physical_resource_axes

    @property
    def shape(self) -> Any:
        """The sizes of the mesh's axes by name."""
        return self.physical_mesh.shape

    @property
    def local_shape(self) -> Any:
        """The same for the part of the mesh in this process."""
        return self.physical_mesh.local_mesh.shape


class _ThreadResources:
    """The resources of this thread."""

    __slots__ = ()

    @property
    def env(self) -> ResourceEnv:
        """The resources in force, by `mjax.set_mesh(mesh)` or `with mesh:`."""
        return ResourceEnv(get_mesh())


thread_resources: _ThreadResources = _ThreadResources()


def array_mapping_to_axis_resources(array_mapping: ArrayMapping) -> PartitionSpec:
    """The spec of an array cut along mesh axes.

    Args:
      array_mapping: name of a mesh axis -> the dimension that it cuts, major axes first.

    Returns:
      A `PartitionSpec`.

    Raises:
      TypeError: a dimension is not an integer.
      IndexError: a dimension is negative and points before the first one of the spec.
      AttributeError: the argument is not a mapping.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> pxla.array_mapping_to_axis_resources({"x": 2, "y": 0, "z": 2})
      PartitionSpec('y', None, ('x', 'z'))
    """
    ndim = max(array_mapping.values(), default=-1) + 1
    axes: list[list[MeshAxisName]] = [[] for _ in range(ndim)]
    for name, dim in array_mapping.items():
        axes[dim].append(name)
    return PartitionSpec(*[tuple(names) if len(names) > 1 else names[0] if names else None
                           for names in axes])


def is_hlo_sharding_replicated(hc: Any) -> bool:
    """Whether each device has all of an array, by jaxlib's `HloSharding` of it.

    Args:
      hc: the sharding.

    Returns:
      A bool.

    Raises:
      AttributeError: it is not an `HloSharding`.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> from mjaxlib_shim.shardings import replicated, tiled
      >>> [pxla.is_hlo_sharding_replicated(sharding) for sharding in (replicated(), tiled((2,)))]
      [True, False]
    """
    return bool(hc.is_replicated()) or hc.num_devices() == 1


def are_hlo_shardings_equal(hc1: Any, hc2: Any) -> bool:
    """Whether two `HloSharding`s of jaxlib cut arrays alike.

    Args:
      hc1: an `HloSharding`.
      hc2: another one.

    Returns:
      A bool.

    Raises:
      AttributeError: `hc1` is not an `HloSharding`; or it is replicated, and `hc2` is not one.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> from mjaxlib_shim.shardings import replicated, tiled
      >>> pxla.are_hlo_shardings_equal(tiled((2,)), replicated())
      False
    """
    both = is_hlo_sharding_replicated(hc1) and is_hlo_sharding_replicated(hc2)
    return both or bool(hc1 == hc2)


def op_sharding_to_indices(op_sharding: Any, shape: Sequence[int], num_devices: int
                           ) -> tuple[tuple[slice, ...], ...]:
    """The part of an array on each device, by jaxlib's `HloSharding` of it.

    Args:
      op_sharding: the sharding.
      shape: the array's shape.
      num_devices: the number of devices.

    Returns:
      A tuple of slices for each device.

    Raises:
      ValueError: the sharding is not of such an array.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> from mjaxlib_shim.shardings import tiled
      >>> pxla.op_sharding_to_indices(tiled((2,)), (4,), 2)
      ((slice(0, 2, None),), (slice(2, 4, None),))
    """
    return tuple([tuple([slice(None) if part == slice(0, size) else part
                         for part, size in zip(parts, shape, strict=True)])
                  for parts in shardings.shard_slices(op_sharding, shape, num_devices)])
