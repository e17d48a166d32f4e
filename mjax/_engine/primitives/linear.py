"""Derivative rules of operations that are linear in their one array operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.symbolic import Zero


def define_linear(primitive: Primitive, transpose: Callable[..., Any]) -> None:
    """Gives a primitive that is linear in its first operand its jvp and transpose rules.

    Args:
      primitive: linear in its first operand; operands in which it is not linear (indices) may
        follow.
      transpose: `(cotangent, operand, *others, **params) -> cotangent of the operand`; the
        operand is an `UndefinedPrimal`, the others are values. With `multiple_results` it takes
        a list of cotangents.
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            zero = Zero.from_primal_value
            return out, [*map(zero, out)] if primitive.multiple_results else zero(out)
        return out, primitive.bind(tangents[0], *primals[1:], **params)

    def transpose_rule(ct: Any, operand: Any, *others: Any, **params: Any) -> Any:
        return [transpose(ct, operand, *others, **params)] + [None] * len(others)

    transpose_rule.__wrapped__ = transpose  # type: ignore[attr-defined]
    primitive.define("jvp", jvp, derived=True)
    primitive.def_transpose(transpose_rule)
