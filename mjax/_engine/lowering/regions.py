"""Regions of a partitioned program that each device runs on its own pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.ir.mesh import AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.lowering.shardings import per_value, tensor_sharding
from mjax._engine.primitives.emit import constant, dense_i64, full, hlo, ir, ir_type, op
from mjaxlib_shim.mlir import sdy

#: The spec of a value that is not cut.
WHOLE = PartitionSpec()


class Port(Record):
    """An input or a result of a region.

    Attributes:
      value: the value of an input.
      type: an input's type inside, or a result's type outside.
      spec: how it is cut.
      ndim: its rank.
    """

    value: Any
    type: Any
    spec: PartitionSpec
    ndim: int


def manual_computation(mctx: Any, mesh: Mesh | AbstractMesh, axes: Collection[Any],
                       given: Sequence[Port], wanted: Sequence[Port],
                       body: Callable[..., Sequence[Any]]) -> list[Any]:
    """Emits a region, and returns its results.

    Args:
      mctx: the module under construction.
      mesh: the mesh.
      axes: the axes along which it is cut; the others are left to XLA.
      given: the inputs. The region sees no other values from outside.
      wanted: the results.
      body: from values inside to values inside.
    """
    # Axes left to XLA may cut any dimension further.
    is_open = len(axes) < len(mesh.axis_names)

    def shardings(ports: Sequence[Port]) -> Any:
        return per_value([tensor_sharding(
            mctx, mesh, p.spec, p.ndim, is_open,
            ir.RankedTensorType(p.type).shape if p.ndim else ()) for p in ports])

    computation = ir.Operation.create(
        "sdy.manual_computation", results=[p.type for p in wanted],
        operands=[p.value for p in given], regions=1, attributes={
            "in_shardings": shardings(given), "out_shardings": shardings(wanted),
            "manual_axes": sdy.ManualAxesAttr.get(ir.ArrayAttr.get([
                ir.StringAttr.get(str(a)) for a in mesh.axis_names if a in axes]))})
    block = computation.regions[0].blocks.append(*(p.type for p in given))
    with ir.InsertionPoint(block):
        sdy.ReturnOp(body(*block.arguments))
    return list(computation.results)


def computation_with_effects(mctx: Any, mesh: Mesh | AbstractMesh, axes: Collection[Any],
                             given: Sequence[Port], wanted: Sequence[Port],
                             body: Callable[..., Sequence[Any]]) -> list[Any]:
    """`manual_computation` with results that may be unused.

    XLA drops a region without results, or with unused ones. So it also returns a number, which an
    operation that cannot be dropped reads.
    """
    number = constant(np.int32(0))
    port = Port(number, number.type, WHOLE, 0)

    def with_number(*args: Any) -> list[Any]:
        return [*body(*args[:len(given)]), constant(np.int32(0))]

    *results, last = manual_computation(mctx, mesh, axes, [*given, port], [*wanted, port],
                                        with_number)
    op("stablehlo.custom_call", [number.type], [last], {
        "call_target_name": ir.StringAttr.get("Sharding"),
        "has_side_effect": ir.BoolAttr.get(True),
        "sdy.sharding": per_value([tensor_sharding(mctx, mesh, WHOLE, 0)])})
    return results


def by_one_device(mctx: Any, mesh: Mesh | AbstractMesh, axes: Sequence[Any],
                  values: Sequence[Any], out_avals: Sequence[ShapedArray],
                  body: Callable[..., Sequence[Any]], place: int) -> list[Any]:
    """Lets only one device along some axes compute, with whole values; all get the results.

    Args:
      mctx: the module under construction.
      mesh: the mesh.
      axes: the mesh axes left to XLA here.
      values: values that are whole along them.
      out_avals: types of the results.
      body: from values to values.
      place: the number of the device. It is 0, the first one, unless these are all axes.
    """
    types = [mctx.type_of(a) for a in out_avals]
    physical = [physical_aval(a) for a in out_avals]
    count = math.prod(mesh.shape[name] for name in axes)
    one, all_ = ([ir_type(a.update(shape=(n, *a.shape))) for a in physical] for n in (1, count))
    given = [Port(v, v.type, WHOLE, ir.RankedTensorType(v.type).rank) for v in values]
    # Each device returns a piece. Only the piece of that one is read.
    wanted = [Port(None, t, PartitionSpec(tuple(axes)), a.ndim + 1)
              for t, a in zip(all_, physical, strict=True)]

    def inside(*args: Any) -> list[Any]:
        chosen = _is_chosen(mctx, mesh, axes, place)
        # XLA cannot place a branch without results (0.4.36), so it also returns a number.
        number = constant(np.int32(0))
        choice = hlo.IfOp([*types, number.type], chosen)
        with ir.InsertionPoint(choice.true_branch.blocks.append()):
            hlo.return_([*body(*args), number])
        with ir.InsertionPoint(choice.false_branch.blocks.append()):
            hlo.return_([*(full(0, a) for a in physical), number])
        return list(map(hlo.reshape, one, choice.results[:-1]))

    results = computation_with_effects(mctx, mesh, axes, given, wanted, inside)
    return [hlo.reshape(t, op("stablehlo.slice", [piece], [v], {
        "start_indices": dense_i64([place, *[0] * a.ndim]),
        "limit_indices": dense_i64([place + 1, *a.shape]),
        "strides": dense_i64([1] * (a.ndim + 1))})[0])
        for v, t, piece, a in zip(results, types, one, physical, strict=True)]


def _is_chosen(mctx: Any, mesh: Mesh | AbstractMesh, axes: Sequence[Any], place: int) -> Any:
    """Whether a device is the one with a number, or the first along these axes of the mesh."""
    number = hlo.partition_id()
    if len(axes) == len(mesh.axis_names):
        return _equal(number, np.uint32(place))
    order = np.arange(mesh.size)
    if isinstance(mesh, Mesh) and mctx.devices is not None:
        numbers = {device: i for i, device in enumerate(mctx.devices)}
        order = np.array([numbers[device] for device in mesh.flat_devices])
    first = np.zeros(mesh.size, np.uint32)
    first[order.reshape(mesh.axis_sizes)[tuple(
        0 if name in axes else slice(None) for name in mesh.axis_names)]] = 1
    found = op("stablehlo.dynamic_slice", [ir_type(ShapedArray((1,), np.uint32))],
               [constant(first), number], {"slice_sizes": dense_i64((1,))})[0]
    return _equal(hlo.reshape(number.type, found), np.uint32(1))


def _equal(value: Any, number: np.uint32) -> Any:
    return hlo.compare(value, constant(number), hlo.ComparisonDirectionAttr.get("EQ"))
