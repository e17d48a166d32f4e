"""Vectorization: batching rules, the axis, and values of classes of one's own.

- `primitive_batchers[p] = rule`: `rule(args, dims, **params) -> result, dim`, lists of them with
  multiple results. `dims[i]` is the batch axis of `args[i]`, or `not_mapped` (None, of the class
  `NotMapped`) if the operand is the same for the whole batch; the result's dim likewise.
- `fancy_primitive_batchers[p] = rule`: `rule(axis_data, args, dims, **params)`, for primitives that
  need the axis (collectives) or hold jaxprs. It takes precedence. `axis_primitive_batchers` is its
  older spelling, `rule(axis_size, axis_name, None, args, dims, **params)`.
- `spec_types`: the classes of specs of `register_vmappable`; `zero_if_mapped`: an axis for
  `batch_jaxpr_axes`. `BatchingRule`, `Vmappable`, `Elt`, `MapSpec`, `AxisSize`, `GetIdx`,
  `ToEltHandler`, `FromEltHandler`, `MakeIotaHandler`: types of arguments.

Example:
  >>> from mjax_ext import core
  >>> from mjax_ext.interpreters import batching
  >>> p = core.Primitive("twice")
  >>> _ = p.def_impl(lambda x: x + x)
  >>> batching.primitive_batchers[p] = lambda args, dims: (p.bind(args[0]), dims[0])
  >>> mjax.vmap(p.bind)(jnp.arange(3))
  Array([0, 2, 4], dtype=int32)
"""

from __future__ import annotations

from mjax._engine.tracing.symbolic import not_mapped
from mjax._engine.transforms.batching import AxisData
from mjax._engine.transforms.elements import is_vmappable, spec_types
from mjax_ext._tables import RuleTable
from mjax_ext.interpreters._traces import BatchTrace, BatchTracer
from mjax_ext.interpreters.batching._elements import (
    AxisSize,
    Elt,
    FromEltHandler,
    GetIdx,
    MakeIotaHandler,
    MapSpec,
    ToEltHandler,
    Vmappable,
    from_elt,
    make_iota,
    matchaxis,
    register_vmappable,
    to_elt,
    unregister_vmappable,
)
from mjax_ext.interpreters.batching._functions import (
    batch,
    batch_subtrace,
    flatten_fun_for_vmap,
    vtile,
)
from mjax_ext.interpreters.batching._jaxprs import (
    ZeroIfMapped,
    batch_jaxpr,
    batch_jaxpr2,
    batch_jaxpr_axes,
    zero_if_mapped,
)
from mjax_ext.interpreters.batching._rules import (
    AxisPrimitiveBatchers,
    BatchingRule,
    bdim_at_front,
    broadcast,
    broadcast_batcher,
    defbroadcasting,
    defreducer,
    defvectorized,
    moveaxis,
    reducer_batcher,
    vectorized_batcher,
)

__all__ = [
    # tables
    "axis_primitive_batchers", "fancy_primitive_batchers", "primitive_batchers",
    # arguments of rules, and helpers to write them
    "AxisData", "BatchingRule", "NotMapped", "bdim_at_front", "broadcast", "matchaxis", "moveaxis",
    "not_mapped",
    # its trace
    "BatchTrace", "BatchTracer",
    # makers of rules, and the rules
    "broadcast_batcher", "defbroadcasting", "defreducer", "defvectorized", "reducer_batcher",
    "vectorized_batcher",
    # functions and programs
    "ZeroIfMapped", "batch", "batch_jaxpr", "batch_jaxpr2", "batch_jaxpr_axes", "batch_subtrace",
    "flatten_fun_for_vmap", "vtile", "zero_if_mapped",
    # classes of one's own
    "AxisSize", "Elt", "FromEltHandler", "GetIdx", "MakeIotaHandler", "MapSpec", "ToEltHandler",
    "Vmappable", "from_elt", "is_vmappable", "make_iota", "register_vmappable", "spec_types",
    "to_elt", "unregister_vmappable",
]

primitive_batchers: RuleTable = RuleTable("batch")
fancy_primitive_batchers: RuleTable = RuleTable("axis_batch")
axis_primitive_batchers: AxisPrimitiveBatchers = AxisPrimitiveBatchers()
NotMapped: type[None] = type(not_mapped)


def __dir__() -> list[str]:
    return sorted(__all__)
