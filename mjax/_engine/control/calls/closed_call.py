"""Calls of jaxprs: the primitive `closed_call`, which is not compiled on its own.

Every transformation of a call is the same transformation of its jaxpr, cached there. Traced values
that the function closed over are operands; arrays stay constants of the jaxpr.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.control.calls.call_primitive import EngineCall
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr


def evaluates_as_call(primitive: Primitive, param: str) -> None:
    """Lets a primitive be evaluated by its jaxpr in a param, equation by equation, and lowered to
    the operations of these."""

    def impl(*args: Any, **params: Any) -> list[Any]:
        jaxpr = params[param]
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)

    primitive.def_impl(impl)
    primitive.def_lowering(lambda ctx, *operands, **params: ctx.inline(params[param], *operands))


closed_call_p = EngineCall("closed_call")
