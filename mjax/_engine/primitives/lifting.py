"""Constants as tracers of the current trace: stage."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import array_of
from mjax._engine.tracing.interpreter import Tracer, staging
from mjax._engine.tracing.primitive import EnginePrimitive

stage_p = EnginePrimitive("stage", params={}, structural=True)
stage_p.def_abstract_eval(lambda x: x)
stage_p.def_lowering(lambda ctx, x: [x])
define_linear(stage_p, lambda ct, x: ct)
stage_p.def_batch(lambda args, dims: (stage_p.bind(args[0]), dims[0]))


@boundary
def stage(x: Any, /) -> Any:
    """Lifts a value into the program that is being traced: the identity, whose result is a tracer.

    Args:
      x: array, NumPy array or scalar, of any shape.

    Returns:
      A tracer of the same type, weak types included; an array if nothing is traced.

    Raises:
      TypeError: `x` is not a value that arrays hold.

    Example:
      >>> mjax.jit(lambda: lax.stage(2.0) + 1)()
      Array(3., dtype=float32, weak_type=True)
    """
    kept = (isinstance(x, Tracer) or not staging()) and not is_reference(typeof(x))
    return array_of(x) if kept else stage_p.bind(x)
