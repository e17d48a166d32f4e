"""Shardings in a module: its meshes, and how values are cut, in the Shardy dialect.

Devices are numbered by their place among the program's: partition i runs on the i-th.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.ir.mesh import UNCONSTRAINED, AbstractMesh, Mesh, PartitionSpec
from mjaxlib_shim.mlir import ir, sdy


def mesh_symbol(mctx: Any, mesh: Mesh | AbstractMesh) -> str:
    """The name of a mesh in a module, which declares it if need be.

    Args:
      mctx: the module under construction; its `devices` are the program's.
      mesh: a mesh of these devices, in any order; an abstract one is in theirs.
    """
    order: tuple[int, ...] = ()
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


def tensor_sharding(mctx: Any, mesh: Mesh | AbstractMesh, spec: PartitionSpec, ndim: int) -> Any:
    """The attribute that says how a value of this rank is cut."""
    symbol = mesh_symbol(mctx, mesh)
    left = [p is UNCONSTRAINED for p in spec] + [False] * (ndim - len(spec))
    return sdy.TensorShardingAttr.get(symbol, [
        sdy.DimensionShardingAttr.get([sdy.AxisRefAttr.get(str(a)) for a in dim],
                                      is_closed=not is_open)
        for dim, is_open in zip(spec.dims(ndim), left, strict=True)])


def per_value(shardings: Sequence[Any]) -> Any:
    """The attribute of several values' shardings."""
    return sdy.TensorShardingPerValueAttr.get(list(shardings))
