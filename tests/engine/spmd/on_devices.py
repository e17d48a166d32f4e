"""A program per device, given and giving each device's values: a shard_map without its types.

Operands and results have leading axes for the mesh axes that are manual. Whether the body's
types vary is up to the test.
"""

from __future__ import annotations

import functools

import numpy as np

import mjax
from mjax._engine.base.util import split_list
from mjax._engine.ir.mesh import Mesh, PartitionSpec
from mjax._engine.ir.pytree import tree_leaves
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.lowering.context import nested_constants
from mjax._engine.lowering.shardings import per_value, tensor_sharding
from mjax._engine.primitives.emit import hlo, ir, ir_type
from mjax._engine.spmd.axes import in_manual
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjaxlib_shim.mlir import sdy

BOTH = ("i", "j")

on_devices_p = Primitive("on_devices", multiple_results=True, types_cacheable=False,
                         own_varying=True)
on_devices_p.def_scope(lambda *, jaxpr, mesh, manual, mode: in_manual(mesh, manual, mode))


@functools.cache
def mesh(order=tuple(range(8)), sizes=(("i", 2), ("j", 4))):
    devices = np.array(mjax.devices("cpu")[:8], object)[list(order)]
    return Mesh(devices.reshape([s for _, s in sizes]), tuple(n for n, _ in sizes))


def leading(mesh, manual):
    return tuple(size for name, size in mesh.shape_tuple if name in manual)


@on_devices_p.def_abstract_eval
def _type(*avals, jaxpr, mesh, manual, mode):
    return [a.update(shape=leading(mesh, manual) + a.shape, varying=frozenset())
            for a in jaxpr.out_avals]


@on_devices_p.def_lowering
def _lowering(ctx, *operands, jaxpr, mesh, manual, mode):
    spec = PartitionSpec(*[n for n in mesh.axis_names if n in manual])
    constants = {id(c): ctx.constants[id(c)] for c in nested_constants(jaxpr)}

    def shards(types, spec=spec):
        return [tensor_sharding(ctx.module_context, mesh, spec, len(t.shape)) for t in types]

    op = ir.Operation.create(
        "sdy.manual_computation", results=ctx.out_types,
        operands=[*operands, *constants.values()], regions=1, attributes={
            "in_shardings": per_value([
                *shards(map(ir_type, ctx.avals_in)),
                *shards([c.type for c in constants.values()], PartitionSpec())]),
            "out_shardings": per_value(shards(ctx.out_types)),
            "manual_axes": sdy.ManualAxesAttr.get(ir.ArrayAttr.get(
                [ir.StringAttr.get(n) for n in mesh.axis_names if n in manual]))})
    ones = (1,) * len(spec)
    block = op.regions[0].blocks.append(
        *[ir_type(a.update(shape=ones + a.shape)) for a in jaxpr.in_avals],
        *[c.type for c in constants.values()])
    args, inner = split_list(list(block.arguments), [len(operands)])
    ctx.constants = dict(zip(constants, inner, strict=True))
    with ir.InsertionPoint(block), in_manual(mesh, manual, mode):
        outs = ctx.inline(jaxpr, *[hlo.reshape(ir_type(a), x) for a, x in zip(
            jaxpr.in_avals, args, strict=True)])
        sdy.ReturnOp([hlo.reshape(ir_type(a.update(shape=ones + a.shape)), x)
                      for a, x in zip(jaxpr.out_avals, outs, strict=True)])
    return op.results


def shard(shape, dtype=np.float32, varying=BOTH):
    """The type of an operand."""
    return ShapedArray(shape, np.dtype(dtype), varying=frozenset(varying))


def body(f, avals, mode="checked", manual=BOTH, on=None):
    """The jaxpr of a program for one device."""
    with in_manual(on or mesh(), manual, mode):
        return trace_to_jaxpr(lambda *args: tree_leaves(f(*args)), avals)


def program(jaxpr, mode="checked", manual=BOTH, on=None):
    """A function of arrays with leading axes for the devices, which runs a body on each."""
    return mjax.jit(lambda *args: on_devices_p.bind(
        *args, jaxpr=jaxpr, mesh=on or mesh(), manual=frozenset(manual), mode=mode))


def each(f, *args, mode="checked", manual=BOTH, on=None):
    """The results of a function on each device for its part of the arguments."""
    on = on or mesh()
    n = len(leading(on, manual))
    avals = [shard(np.shape(x)[n:], typeof(x).dtype, () if mode == "unchecked" else manual)
             for x in args]
    return program(body(f, avals, mode, manual, on), mode, manual, on)(*args)
