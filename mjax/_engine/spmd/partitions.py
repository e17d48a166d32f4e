"""Which partitions of a program talk to each other: what lowering rules of collectives share.

Devices are numbered by their place among the program's, as in `lowering.shardings`. Groups stand
in the order of the named axes, the last of which varies fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.thread import thread
from mjax._engine.ir.mesh import Mesh, PartitionSpec
from mjax._engine.lowering.shardings import per_value, tensor_sharding
from mjax._engine.primitives.emit import constant, dense_i64, hlo, ir, op, reducer_region
from mjax._engine.spmd.axes import Groups, Names, manual_of, refuse_unbound
from mjaxlib_shim.mlir import sdy


def partition_numbers(mctx: Any, name: Any, who: str) -> tuple[Any, np.ndarray[Any, Any]]:
    """The mesh of a named axis, and an array shaped like it of its devices' numbers."""
    manual = manual_of(name)
    if manual is None:
        refuse_unbound(name, who)
    mesh = manual.mesh
    numbers = np.arange(mesh.size, dtype=np.int64)
    if isinstance(mesh, Mesh) and mctx.devices is not None and mesh.flat_devices != mctx.devices:
        place = {device: i for i, device in enumerate(mctx.devices)}
        numbers = np.array([place[device] for device in mesh.flat_devices], np.int64)
    return mesh, numbers.reshape(mesh.axis_sizes)


def partition_groups(ctx: Any, names: Names, groups: Groups | None = None
                     ) -> np.ndarray[Any, Any]:
    """The sets of partitions within which a collective communicates, one per row; those that are
    smaller than others end in -1."""
    mesh, numbers = partition_numbers(ctx.module_context, names[0], ctx.primitive.name)
    order = []
    for name in names:
        if name not in mesh.axis_names:
            refuse_unbound(name, ctx.primitive.name)
        order.append(mesh.axis_names.index(name))
    rest = [i for i in range(numbers.ndim) if i not in order]
    size = int(np.prod([numbers.shape[i] for i in order], dtype=np.int64))
    rows = numbers.transpose(*rest, *order).reshape(-1, size)
    if groups is None:
        return rows
    sets = np.full((len(rows), len(groups), max(map(len, groups))), -1, np.int64)
    for n, group in enumerate(groups):
        sets[:, n, :len(group)] = rows[:, group]
    return sets.reshape(-1, sets.shape[-1])


def axis_index_ir(ctx: Any, name: Any) -> Any:
    """Emits the index of the partition along a mesh axis, as an i32 scalar."""
    mctx = ctx.module_context
    mesh, numbers = partition_numbers(mctx, name, "axis_index")
    manual = {axis.name for axis in thread.axis_env if axis.manual is not None}
    rest = [str(n) for n in mesh.axis_names if n not in manual]
    if not rest:
        return _index_of_partition(ctx.out_types[0], numbers, mesh.axis_names.index(name))
    # XLA knows no partition_id where it has some of the axes: they are made manual too.
    whole = per_value([tensor_sharding(mctx, mesh, PartitionSpec(), 0)])
    region = ir.Operation.create(
        "sdy.manual_computation", results=ctx.out_types, operands=[], regions=1, attributes={
            "in_shardings": per_value([]), "out_shardings": whole,
            "manual_axes": sdy.ManualAxesAttr.get(ir.ArrayAttr.get(
                [ir.StringAttr.get(n) for n in rest]))})
    with ir.InsertionPoint(region.regions[0].blocks.append()):
        sdy.ReturnOp([_index_of_partition(ctx.out_types[0], numbers, mesh.axis_names.index(name))])
    return region.result


def _index_of_partition(out_type: Any, numbers: np.ndarray[Any, Any], axis: int) -> Any:
    index = np.empty(numbers.size, np.int32)
    index[numbers.reshape(-1)] = np.indices(numbers.shape, np.int32)[axis].reshape(-1)
    partition = hlo.convert(out_type, hlo.partition_id())
    size = numbers.shape[axis]
    stride = int(np.prod(numbers.shape[axis + 1:], dtype=np.int64))
    if np.array_equal(index, np.arange(numbers.size) // stride % size):
        return hlo.remainder(hlo.divide(partition, constant(np.int32(stride))),
                             constant(np.int32(size)))
    one = ir.RankedTensorType.get((1,), ir.RankedTensorType(out_type).element_type)
    return hlo.reshape(out_type, op("stablehlo.dynamic_slice", [one], [constant(index), partition],
                                    {"slice_sizes": dense_i64((1,))})[0])


def emit(ctx: Any, name: str, out_type: Any, x: Any, pairs: Any, attributes: dict[str, Any],
         combine: Callable[[Any, Any], Any] | None = None) -> Any:
    """Emits a collective operation.

    Args:
      ctx: the lowering context.
      name: of the operation, without its dialect.
      out_type: the type of its result.
      x: the operand.
      pairs: rows of partition numbers.
      attributes: those of the operation besides groups and channel.
      combine: emits the operation on two scalars with which it reduces, if it does.
    """
    if 0 in ir.RankedTensorType(out_type).shape:
        return hlo.reshape(out_type, x)  # StableHLO refuses some of these, and all move nothing
    numbers = ir.DenseIntElementsAttr.get(np.ascontiguousarray(pairs, np.int64))
    permutes = name == "collective_permute"
    attributes["source_target_pairs" if permutes else "replica_groups"] = numbers
    attributes["channel_handle"] = hlo.ChannelHandle.get(ctx.module_context.new_channel(), 1)
    if name in {"all_reduce", "all_gather", "reduce_scatter"}:
        attributes["use_global_device_ids"] = ir.UnitAttr.get()
    made = ir.Operation.create(f"stablehlo.{name}", results=[out_type], operands=[x],
                               attributes=attributes, regions=0 if combine is None else 1)
    if combine is not None:
        reducer_region(made.regions[0], [ctx.avals_in[0].dtype], lambda a, b: [combine(a, b)])
    return made.results[0]
