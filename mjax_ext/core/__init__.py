"""The `Primitive` record, types, interpreters, and jaxprs: walking, checking and building them.

`mjax_ext.core.primitives` holds the engine's own primitives; it loads when it is first used. What
each name means, and from which release of JAX, is in `docs/extension_names.md`.

- `trace_ctx`: the state of tracing of the thread, as one object. `no_effects`: the empty set of
  effects; `abstract_token`: the type of a `Token`.
- `array_types`: the classes of values that count as arrays; `pytype_aval_mappings[cls] = f`: `f(x)`
  gives the type of values of a class.
- `Atom`, `DimSize`, `Effects`, `InputType`, `OutputType`, `ParamDict`, `Shape`, `Value`: types of
  arguments.

Example:
  >>> from mjax_ext import core
  >>> core.pytype_aval_mappings[float](1.0), core.abstract_token
  (ShapedArray(float32[], weak_type=True), AbstractToken())
"""

from __future__ import annotations

from mjax._engine.base.errors import (
    ConcretizationTypeError,
    InconclusiveDimensionOperation,
    JaxprTypeError,
)
from mjax._engine.base.faces import face
from mjax._engine.control.calls.call_primitive import CallPrimitive, call_impl
from mjax._engine.control.calls.inline import inline_calls
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.dimensions import max_dim, min_dim
from mjax._engine.ir.effects import Effect, EffectPolicy, Effects, OperandEffect, no_effects
from mjax._engine.ir.jaxpr import (
    Atom,
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Jaxpr,
    JaxprEqn,
    JaxprEqnContext,
    Literal,
    Var,
    jaxprs_in_params,
    subjaxprs,
)
from mjax._engine.ir.jaxpr import DebugInfo as JaxprDebugInfo
from mjax._engine.ir.schema import Schema
from mjax._engine.ir.token_types import AbstractToken, abstract_token
from mjax._engine.ir.types import AbstractValue, ShapedArray
from mjax._engine.ir.types import is_array_value as valid_jaxtype
from mjax._engine.ir.types import typeof as get_aval
from mjax._engine.ir.types import typeof_handlers as pytype_aval_mappings
from mjax._engine.runtime.arrays.memory_spaces import Space as MemorySpace
from mjax._engine.runtime.arrays.token_values import Token
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._numpy.references import new_ref
from mjax._tools.api_util import safe_map, safe_zip, shaped_abstractify
from mjax._tools.api_util import shaped_abstractify as abstractify
from mjax_ext.core._building import (
    JaxprBuilder,
    gensym,
    jaxpr_as_fun,
    jaxpr_const_args,
    mapped_aval,
    new_jaxpr_eqn,
    primal_dtype_to_tangent_dtype,
    unmapped_aval,
)
from mjax_ext.core._current import (
    EvalTrace,
    eval_context,
    extend_axis_env_nd,
    find_top_trace,
    get_axis_env,
    get_opaque_trace_state,
    set_current_trace,
    take_current_trace,
    trace_ctx,
    trace_state_clean,
)
from mjax_ext.core._current import nonempty_axis_env as nonempty_axis_env_DO_NOT_USE
from mjax_ext.core._current import unsafe_am_i_under_a_jit as unsafe_am_i_under_a_jit_DO_NOT_USE
from mjax_ext.core._current import unsafe_am_i_under_a_vmap as unsafe_am_i_under_a_vmap_DO_NOT_USE
from mjax_ext.core._current import unsafe_get_axis_names as unsafe_get_axis_names_DO_NOT_USE
from mjax_ext.core._from_function import primitive_from_function
from mjax_ext.core._interpreter import Interpreter
from mjax_ext.core._shapes import (
    DimSize,
    InputType,
    OutputType,
    ParamDict,
    Shape,
    Value,
    array_types,
    auto_insert_reshard,
    canonicalize_shape,
    concrete_or_error,
    definitely_equal,
    definitely_equal_shape,
    dim_constant,
    dimension_as_value,
    full_lower,
    get_referent,
    is_concrete,
    is_constant_dim,
    is_constant_shape,
    physical_aval,
    raise_to_shaped,
    standard_insert_pvary,
    standard_vma_rule,
    to_concrete_value,
)
from mjax_ext.core._trace import Trace, TraceTag

__all__ = [
    # primitives
    "CallPrimitive", "Frame", "Held", "Primitive", "Schema", "call_impl",
    "primitive_from_function", "primitives",
    # interpreters, traces and the current one
    "EvalTrace", "Interpreter", "Trace", "TraceTag", "Tracer", "eval_context",
    "extend_axis_env_nd", "find_top_trace", "full_lower", "get_axis_env",
    "get_opaque_trace_state", "get_referent", "nonempty_axis_env_DO_NOT_USE", "set_current_trace",
    "take_current_trace", "trace_ctx", "trace_state_clean", "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE",
    # values and types
    "AbstractToken", "AbstractValue", "ShapedArray", "Token", "Value", "abstract_token",
    "abstractify", "array_types", "auto_insert_reshard", "concrete_or_error", "get_aval",
    "ConcretizationTypeError", "MemorySpace", "is_concrete", "mapped_aval", "new_ref",
    "physical_aval",
    "primal_dtype_to_tangent_dtype", "pytype_aval_mappings", "raise_to_shaped",
    "shaped_abstractify", "standard_insert_pvary", "standard_vma_rule", "to_concrete_value",
    "unmapped_aval", "valid_jaxtype",
    # sizes
    "DimSize", "InconclusiveDimensionOperation", "Shape", "canonicalize_shape",
    "definitely_equal", "definitely_equal_shape", "dim_constant", "dimension_as_value",
    "is_constant_dim", "is_constant_shape", "max_dim", "min_dim",
    # jaxprs
    "Atom", "ClosedJaxpr", "DebugInfo", "DropVar", "InputType", "Jaxpr", "JaxprBuilder",
    "JaxprDebugInfo", "JaxprEqn", "JaxprEqnContext", "JaxprTypeError", "Literal", "OutputType",
    "ParamDict", "Var", "check_jaxpr", "eval_jaxpr", "gensym", "inline_calls", "jaxpr_as_fun",
    "jaxpr_const_args", "jaxprs_in_params", "new_jaxpr_eqn", "subjaxprs",
    # lists
    "safe_map", "safe_zip",
    # effects
    "Effect", "EffectPolicy", "Effects", "OperandEffect", "no_effects",
]

face("mjax_ext.core")
