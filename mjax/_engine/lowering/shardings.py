"""Shardings in a module, in the Shardy dialect: its meshes, and the cuts of values.

Devices are numbered by their place among the program's: partition i runs on the i-th.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.ir.mesh import UNCONSTRAINED, AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.types import physical_aval
from mjaxlib_shim.mlir import ir, sdy


class Partition(Record):
    """The devices of a program, and the shardings of its inputs and outputs.

    Attributes:
      devices: the partitions' devices, in order.
      mesh: a mesh of them.
      inputs, outputs: per value a sharding with `mesh` and `spec`; None: XLA chooses.
      constant: gives the sharding of a closed-over array.
    """

    devices: tuple[Any, ...]
    mesh: Mesh
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    constant: Callable[[Any], Any]

    def attributes(self, mctx: Any, shardings: Sequence[Any], avals: Sequence[Any]
                   ) -> list[dict[str, Any]]:
        """Attributes of arguments or results of `main`."""
        found = [self._attribute(mctx, s, a) for s, a in zip(shardings, avals, strict=True)]
        return [{} if attribute is None else {"sdy.sharding": attribute} for attribute in found]

    def _attribute(self, mctx: Any, sharding: Any, aval: Any) -> Any:
        shape = physical_aval(aval).shape
        ndim = len(shape)
        if sharding is not None:
            return tensor_sharding(mctx, sharding.mesh, sharding.spec, ndim, sizes=shape)
        if not aval.extended:
            return None
        # The physical parts of one element are not cut.
        return tensor_sharding(mctx, self.mesh, PartitionSpec(*[UNCONSTRAINED] * aval.ndim), ndim)


def check_size(mctx: Any, mesh: Mesh | AbstractMesh) -> None:
    """Refuses an abstract mesh with another number of devices than the program has.

    Args:
      mctx: the module under construction; its `devices` are the program's, None: one.
      mesh: the mesh.

    Raises:
      ValueError: the mesh is abstract, and the numbers differ.
    """
    count = 1 if mctx.devices is None else len(mctx.devices)
    if mesh.size != count:
        raise LazyValueError(lambda: (
            f"{mesh} is of {mesh.size} devices, but the program runs on {count}. Both need the "
            "same number: give the AbstractMesh of the mesh that the arguments are on, and where "
            "they are on none, put them there (mjax.device_put(x, NamedSharding(mesh, spec)), of "
            "a Mesh), or say where the program runs by mjax.set_mesh(mesh)."))


def mesh_symbol(mctx: Any, mesh: Mesh | AbstractMesh) -> str:
    """The name of a mesh in a module; declares it first if necessary.

    Args:
      mctx: the module under construction; its `devices` are the program's.
      mesh: a mesh of these devices, in any order; an abstract mesh has their order.

    Raises:
      ValueError: an abstract mesh has another number of devices.
    """
    order: tuple[int, ...] = ()
    check_size(mctx, mesh)
    if isinstance(mesh, Mesh) and mctx.devices is not None and mesh.flat_devices != mctx.devices:
        place = {device: i for i, device in enumerate(mctx.devices)}
        order = tuple(place[device] for device in mesh.flat_devices)
    key = (mesh.shape_tuple, order)
    known = mctx.meshes.get(key)
    if known is None:
        known = mctx.meshes[key] = f"mesh_{len(mctx.meshes)}" if mctx.meshes else "mesh"
        axes = [sdy.MeshAxisAttr.get(str(name), size) for name, size in mesh.shape_tuple]
        with ir.InsertionPoint.at_block_begin(mctx.module.body), ir.Location.unknown():
            sdy.MeshOp(known, sdy.MeshAttr.get(axes, list(order)))
    return known


def tensor_sharding(mctx: Any, mesh: Mesh | AbstractMesh, spec: PartitionSpec, ndim: int,
                    is_open: bool = False, sizes: Sequence[int] = ()) -> Any:
    """The sharding attribute of a value of this rank.

    Args:
      mctx: the module under construction.
      mesh: the mesh.
      spec: how it is cut along the mesh's axes.
      ndim: its rank.
      is_open: whether XLA may cut each dimension further, along axes the spec does not name.
      sizes: of its dimensions, if one may be empty: Shardy before jaxlib 0.5 refuses to cut it.
    """
    symbol = mesh_symbol(mctx, mesh)
    left = [is_open or p is UNCONSTRAINED for p in spec] + [is_open] * (ndim - len(spec))
    cuts = [() if 0 in sizes[i:i + 1] else dim for i, dim in enumerate(spec.dims(ndim))]
    return sdy.TensorShardingAttr.get(symbol, [
        sdy.DimensionShardingAttr.get([sdy.AxisRefAttr.get(str(a)) for a in dim],
                                      is_closed=not open_dim)
        for dim, open_dim in zip(cuts, left, strict=True)])


def on_device(count: int, place: int) -> Any:
    """The attribute of an operation that only one partition runs.

    Args:
      count: the number of its results; 1 if it has none.
      place: the partition's number.
    """
    one = sdy.TensorShardingAttr.get(sdy.MeshAttr.get([], [place]), [])
    return per_value([one] * count)


def per_value(shardings: Sequence[Any]) -> Any:
    """The attribute of several values' shardings."""
    return sdy.TensorShardingPerValueAttr.get(list(shardings))
