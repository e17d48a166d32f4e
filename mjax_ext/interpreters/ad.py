"""Differentiation: jvp, linearize and transpose rules, symbolic zeros.

- `primitive_jvps[p] = rule`: `rule(primals, tangents, **params) -> primal_out, tangent_out`,
  lists of them with multiple results. A tangent is of its primal's tangent type or a `Zero`.
- `primitive_linearizations[p] = rule`, seldom needed: `rule(nonzeros, *primals, **params)
  -> primal_out, nonzero_out, residuals, linear`, where `linear(residuals, *tangents)` gives the
  tangent. It is for primitives whose derivative a jvp rule cannot express.
- `primitive_transposes[p] = rule`: `rule(cotangent, *args, **params)` gives one cotangent or None
  per operand. Operands to be differentiated are `UndefinedPrimal`. It is called only where a
  cotangent is not zero; with multiple results the others are `Zero`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.primitives.shapes import zeros_of as zeros_like_aval
from mjax._engine.primitives.tangents import (
    add_any_p,
    add_tangents,
    zero_tangent,
)
from mjax._engine.primitives.tangents import define_bilinear as defbilinear
from mjax._engine.primitives.tangents import define_jvp as defjvp
from mjax._engine.primitives.tangents import define_jvp_from_result as defjvp2
from mjax._engine.primitives.tangents import instantiate as instantiate_zeros
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, is_undefined_primal
from mjax._engine.transforms.jvp import JVPTracer, jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.transpose import backward_pass, transpose_jaxpr
from mjax_ext._tables import Rule, RuleTable
from mjax_ext.interpreters._traces import JVPTrace

__all__ = [
    # tables
    "primitive_jvps", "primitive_linearizations", "primitive_transposes",
    "get_primitive_transpose",
    # symbolic values
    "UndefinedPrimal", "Zero", "add_jaxvals", "add_tangents", "instantiate_zeros",
    "is_undefined_primal", "zeros_like_aval",
    # makers of rules
    "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2",
    # for primitives that hold jaxprs
    "JVPTrace", "JVPTracer", "backward_pass", "jvp_jaxpr", "linearize_jaxpr", "transpose_jaxpr",
]

primitive_jvps = RuleTable("jvp")
primitive_linearizations = RuleTable("linearize")
primitive_transposes = RuleTable("transpose")


def get_primitive_transpose(primitive: Primitive) -> Rule:
    """The transpose rule of a primitive.

    Raises:
      MissingRuleError: it does not have one.
    """
    if primitive.transpose is None:
        primitive.missing("transpose")
    return primitive.transpose


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two arrays that are tangents of one type.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> float(ad.add_jaxvals(1.0, 2.0))
      3.0
    """
    return add_any_p.bind(x, y)


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Defines the jvp and the transpose of a primitive that is jointly linear in its operands.

    Args:
      primitive: the primitive.
      transpose_rule: `(cotangent, *args, **params) ->` a cotangent or None per operand.
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, (list(map(zero_tangent, out)) if primitive.multiple_results
                         else zero_tangent(out))
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_transposes[primitive] = transpose_rule
    primitive.define("jvp", jvp, derived=True)


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """`deflinear2` for rules `(cotangent, **params)`, which do not read the operands."""

    def transpose(cotangent: Any, *args: Any, **params: Any) -> Any:
        return transpose_rule(cotangent, **params)

    transpose.__wrapped__ = transpose_rule  # type: ignore[attr-defined]
    deflinear2(primitive, transpose)


def __dir__() -> list[str]:
    return sorted(__all__)
