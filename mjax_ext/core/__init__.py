"""The `Primitive` record, types, interpreters, and jaxprs: walking, checking and building them.

`mjax_ext.core.primitives` holds the engine's own primitives; it loads when it is first used.
"""

from __future__ import annotations

from mjax._engine.base.faces import face
from mjax._engine.control.calls.inline import inline_calls
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.effects import Effect, EffectPolicy, Effects, OperandEffect, no_effects
from mjax._engine.ir.jaxpr import (
    Atom,
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    jaxprs_in_params,
    subjaxprs,
)
from mjax._engine.ir.types import AbstractToken, AbstractValue, ShapedArray
from mjax._engine.ir.types import is_array_value as valid_jaxtype
from mjax._engine.ir.types import typeof as get_aval
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax_ext.core._building import (
    JaxprBuilder,
    jaxpr_as_fun,
    mapped_aval,
    new_jaxpr_eqn,
    primal_dtype_to_tangent_dtype,
    unmapped_aval,
)
from mjax_ext.core._interpreter import Interpreter

__all__ = [
    # primitives and interpreters
    "Frame", "Held", "Interpreter", "Primitive", "Tracer", "primitives",
    # types
    "AbstractToken", "AbstractValue", "ShapedArray", "get_aval", "mapped_aval",
    "primal_dtype_to_tangent_dtype", "unmapped_aval", "valid_jaxtype",
    # jaxprs
    "Atom", "ClosedJaxpr", "DebugInfo", "DropVar", "Jaxpr", "JaxprBuilder", "JaxprEqn",
    "Literal", "Var", "check_jaxpr", "eval_jaxpr", "inline_calls", "jaxpr_as_fun",
    "jaxprs_in_params", "new_jaxpr_eqn", "subjaxprs",
    # effects
    "Effect", "EffectPolicy", "Effects", "OperandEffect", "no_effects",
]

__getattr__, __dir__ = face("mjax_ext.core", modules=("primitives",))
