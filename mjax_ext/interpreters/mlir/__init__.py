"""Lowering to StableHLO: rules, helpers to write them, and modules.

`register_lowering(p, rule, platform=None)`: `rule(ctx, *operands, **params)` gives the list of
the results' `ir.Value`s; `op.results` is one. `ctx` is a `LoweringRuleContext`.

- `hlo`, `chlo`, `sdy`, `func`, `ir`, `passmanager` and `dialects` (with each dialect as an
  attribute) are jaxlib's MLIR modules, loaded on first use; `func_dialect` is `func`. A release of
  jaxlib may change them. The oldest spelling works on the whole window of releases.
- `ir_type_handlers[aval_class] = f`: `f(aval)` gives the MLIR types of values of a class of types.
- `ir_tree_registry`: its `flatten(xs)` gives a flat list of IR values, and a tree that unflattens
  it.
- `lowerable_effects` is the set of effect types that programs may have when they are compiled:
  `add_type(cls)` sets `cls.policy.lowerable`.
- `Value`, `Token`: the class of IR values. `upstream_dialects`: jaxlib's registry of dialects.
- `LoweringRule`, `ConstantHandler`, `AxisContext`, `MeshAxisName`: types of arguments.
- `DEVICE_TO_DEVICE_TYPE`, `SEND_TO_HOST_TYPE`, `RECV_FROM_HOST_TYPE`: XLA's kinds of channels.

Example:
  >>> from mjax_ext.interpreters import mlir
  >>> mlir.DEVICE_TO_DEVICE_TYPE, mlir.dialects.arith.__name__
  (1, 'jaxlib.mlir.dialects.arith')
"""

from __future__ import annotations

from collections.abc import Hashable as MeshAxisName
from typing import TYPE_CHECKING

from mjax._engine.base.faces import face
from mjax._engine.control.callback_primitives import emit_python_callback
from mjax._engine.lowering.context import LoweringContext as LoweringRuleContext
from mjax._engine.lowering.facts import (
    LoweringParameters,
    ReplicaAxisContext,
    ShapePolyLoweringState,
    ShardingContext,
    SPMDAxisContext,
)
from mjax._engine.lowering.tokens import TokenSet
from mjax._engine.primitives.custom_call_ir import custom_call, ir_attribute
from mjax._engine.primitives.emit import dense_bool as dense_bool_array
from mjax._engine.primitives.emit import dense_i64 as dense_int_array
from mjax._engine.primitives.emit import i64_attr, reducer_region
from mjax._engine.tracing.effect_types import EffectTypes
from mjax_ext.interpreters.mlir._artifacts import (
    deserialize_portable_artifact,
    hlo_to_stablehlo,
    merge_mlir_modules,
    module_to_bytecode,
    module_to_string,
    refine_polymorphic_shapes,
    serialize_portable_artifact,
    xla_computation_to_mlir_module,
)
from mjax_ext.interpreters.mlir._constants import (
    DEVICE_TO_DEVICE_TYPE,
    RECV_FROM_HOST_TYPE,
    SEND_TO_HOST_TYPE,
    ConstantHandler,
    dense_bool_elements,
    dense_int_elements,
    get_constant_handler,
    i32_attr,
    ir_constant,
    ir_constants,
    register_constant_handler,
)
from mjax_ext.interpreters.mlir._contexts import AxisContext, ModuleContext, make_ir_context
from mjax_ext.interpreters.mlir._modules import (
    LoweringResult,
    jaxpr_subcomp,
    lower_jaxpr_to_fun,
    lower_jaxpr_to_module,
)
from mjax_ext.interpreters.mlir._operations import (
    broadcast_in_dim,
    full_like_aval,
    lower_with_sharding_in_types,
    shape_tensor,
)
from mjax_ext.interpreters.mlir._rules import (
    LoweringRule,
    cache_lowering,
    core_call_lowering,
    delegate_lowering,
    lower_fun,
    register_lowering,
)
from mjax_ext.interpreters.mlir._types import (
    aval_to_ir_type,
    aval_to_ir_types,
    dtype_to_ir_type,
    flatten_ir_types,
    flatten_ir_values,
    flatten_lowering_ir_args,
    ir_tree_registry,
    ir_type_handlers,
    token_type,
    unflatten_ir_values_like_types,
)
from mjaxlib_shim.mlir import chlo, dialects, func, hlo, ir, passmanager, sdy
from mjaxlib_shim.mlir import func as func_dialect

if TYPE_CHECKING:
    from mjax_ext.interpreters.mlir._classes import Token, Value, upstream_dialects

__all__ = [
    # rules
    "LoweringRule", "LoweringRuleContext", "TokenSet", "cache_lowering", "core_call_lowering",
    "delegate_lowering", "lower_fun", "lowerable_effects", "register_lowering",
    # jaxlib's modules
    "chlo", "dialects", "func", "func_dialect", "hlo", "ir", "passmanager", "sdy",
    # types, constants, attributes
    "ConstantHandler", "DEVICE_TO_DEVICE_TYPE", "RECV_FROM_HOST_TYPE", "SEND_TO_HOST_TYPE",
    "aval_to_ir_type", "aval_to_ir_types", "dense_bool_array", "dense_bool_elements",
    "dense_int_array", "dense_int_elements", "dtype_to_ir_type", "flatten_ir_types",
    "flatten_ir_values", "flatten_lowering_ir_args", "get_constant_handler", "i32_attr",
    "i64_attr", "ir_attribute", "ir_constant", "ir_constants", "ir_tree_registry",
    "ir_type_handlers", "register_constant_handler", "token_type", "unflatten_ir_values_like_types",
    # operations
    "broadcast_in_dim", "custom_call", "emit_python_callback", "full_like_aval",
    "lower_with_sharding_in_types", "reducer_region", "shape_tensor",
    # modules
    "AxisContext", "LoweringParameters", "LoweringResult", "MeshAxisName", "ModuleContext",
    "ReplicaAxisContext", "SPMDAxisContext", "ShapePolyLoweringState", "ShardingContext",
    "deserialize_portable_artifact", "hlo_to_stablehlo", "jaxpr_subcomp", "lower_jaxpr_to_fun",
    "lower_jaxpr_to_module", "make_ir_context", "merge_mlir_modules", "module_to_bytecode",
    "module_to_string", "refine_polymorphic_shapes", "serialize_portable_artifact",
    "xla_computation_to_mlir_module",
    # classes
    "Token", "Value", "upstream_dialects",
]

lowerable_effects: EffectTypes = EffectTypes("lowerable")

# These names load MLIR.
face("mjax_ext.interpreters.mlir", later=dict.fromkeys(
    ("Token", "Value", "upstream_dialects"), "mjax_ext.interpreters.mlir._classes"))
