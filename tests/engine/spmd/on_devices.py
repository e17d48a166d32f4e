"""A program per device, given and giving each device's values: a shard_map without its types.

Operands and results have leading axes for the mesh axes that are manual. Whether the body's
types vary is up to the test.
"""

from __future__ import annotations

import functools

import numpy as np

import mjax
from mjax._engine.ir.mesh import Mesh, PartitionSpec
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.lowering.module import lower_to_module
from mjax._engine.lowering.shardings import per_value, tensor_sharding
from mjax._engine.primitives.emit import hlo, ir, ir_type
from mjax._engine.spmd.axes import in_manual
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage, stage_under_evaluation
from mjaxlib_shim import arrays, executables, shardings
from mjaxlib_shim.mlir import sdy

SIZES = {"i": 2, "j": 4}

on_devices_p = Primitive("on_devices", multiple_results=True, types_cacheable=False,
                         own_varying=True)


@functools.cache
def mesh(order=tuple(range(8)), sizes=(("i", 2), ("j", 4))):
    devices = np.array(mjax.devices("cpu")[:8], object)[list(order)]
    return Mesh(devices.reshape([s for _, s in sizes]), tuple(n for n, _ in sizes))


def leading(mesh, manual):
    return tuple(size for name, size in mesh.shape_tuple if name in manual)


@on_devices_p.def_abstract_eval
def _type(*avals, jaxpr, mesh, manual, mode, devices):
    return [a.update(shape=leading(mesh, manual) + a.shape, varying=frozenset())
            for a in jaxpr.out_avals]


on_devices_p.scope = lambda *, jaxpr, mesh, manual, mode, devices: in_manual(mesh, manual, mode)


@on_devices_p.def_lowering
def _lowering(ctx, *operands, jaxpr, mesh, manual, mode, devices):
    ctx.module_context.devices = devices
    spec = PartitionSpec(*[n for n in mesh.axis_names if n in manual])

    def shards(avals):
        return per_value([tensor_sharding(ctx.module_context, mesh, spec, len(ir_type(a).shape))
                          for a in avals])

    op = ir.Operation.create(
        "sdy.manual_computation", results=ctx.out_types, operands=list(operands), regions=1,
        attributes={
            "in_shardings": shards(ctx.avals_in), "out_shardings": shards(ctx.avals_out),
            "manual_axes": sdy.ManualAxesAttr.get(ir.ArrayAttr.get(
                [ir.StringAttr.get(n) for n in mesh.axis_names if n in manual]))})
    ones = (1,) * len(spec)
    block = op.regions[0].blocks.append(
        *[ir_type(a.update(shape=ones + a.shape)) for a in jaxpr.in_avals])
    with ir.InsertionPoint(block), in_manual(mesh, manual, mode):
        outs = ctx.inline(jaxpr, *[hlo.reshape(ir_type(a), x) for a, x in zip(
            jaxpr.in_avals, block.arguments, strict=True)])
        sdy.ReturnOp([hlo.reshape(ir_type(a.update(shape=ones + a.shape)), x)
                      for a, x in zip(jaxpr.out_avals, outs, strict=True)])
    return op.results


def body(f, avals, mode="checked", manual=("i", "j"), on=None):
    """The jaxpr of a program for one device."""
    with in_manual(on or mesh(), manual, mode):
        return stage_under_evaluation(lambda *args: tree_flatten(f(*args))[0], avals)


def shard(shape, dtype=np.float32, varying=("i", "j")):
    """The type of an operand."""
    return ShapedArray(shape, np.dtype(dtype), varying=frozenset(varying))


def compiled(jaxpr, mode="checked", manual=("i", "j"), on=None, first=None):
    """The executable of a body on the devices of a mesh, and the types of its operands.

    Args:
      first: the mesh whose devices number the partitions, if it is another.
    """
    on = on or mesh()
    devices = (first or on).flat_devices
    avals = [a.update(shape=leading(on, manual) + a.shape, varying=frozenset())
             for a in jaxpr.in_avals]
    outer = stage(lambda *args: on_devices_p.bind(
        *args, jaxpr=jaxpr, mesh=on, manual=frozenset(manual), mode=mode, devices=devices), avals)
    lowered = lower_to_module(outer, "test", "cpu")
    assert not lowered.constants
    with lowered.context, ir.Location.unknown():
        number = ir.IntegerType.get_signless(32)
        attributes = lowered.module.operation.attributes
        attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(number, len(devices))
        attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(number, 1)
        main = next(op for op in lowered.module.body if op.operation.name == "func.func"
                    and str(op.operation.attributes["sym_name"]) == '"main"')
        main.arg_attrs, main.res_attrs = whole(outer.in_avals), whole(outer.out_avals)
        loaded = executables.compile_module(
            devices[0].client, lowered.module, devices, num_partitions=len(devices))
    return loaded, outer


def whole(avals):
    return ir.ArrayAttr.get([ir.DictAttr.get({"sdy.sharding": sdy.TensorShardingAttr.get(
        "mesh", [sdy.DimensionShardingAttr.get([], is_closed=True)] * len(ir_type(a).shape))})
        for a in avals])


def run(jaxpr, *args, mode="checked", manual=("i", "j"), on=None, first=None):
    """Evaluates a body on all devices: arrays with leading axes for them."""
    loaded, outer = compiled(jaxpr, mode, manual, on, first)
    devices = (first or on or mesh()).flat_devices
    sharding = shardings.gspmd_sharding(devices, shardings.replicated())
    buffers = [arrays.put_shards([np.asarray(x)] * len(devices), aval, sharding, devices)
               for x, aval in zip(args, outer.in_avals, strict=True)]
    handlers = [arrays.result_handler(a, sharding, True) for a in outer.out_avals]
    outs = loaded.execute_sharded(buffers).consume_with_handlers(handlers)
    return [arrays.to_numpy(arrays.shards(out)[0]) for out in outs]


def each(f, *args, mode="checked", **options):
    """Evaluates a function on all devices, each with its part of the arguments."""
    n = len(leading(options.get("on") or mesh(), options.get("manual", ("i", "j"))))
    varying = options.get("manual", ("i", "j")) if mode != "unchecked" else ()
    avals = [shard(np.shape(x)[n:], typeof(x).dtype, varying) for x in args]
    jaxpr = body(f, avals, mode, **{k: v for k, v in options.items() if k != "first"})
    return run(jaxpr, *args, mode=mode, **options)
