"""Rule tables: one rule of all primitives, as a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from mjax._engine.tracing.primitive import Primitive, registry
from mjax._engine.tracing.registration import CALLS, refuse_other
from mjax._engine.tracing.rule_errors import rule_name

Rule = Callable[..., Any]

#: Field -> what its rule gives, for `help` of its table.
_GIVES = {
    "jvp": "`primal_out, tangent_out`, lists of them with multiple results. A tangent is of its "
           "primal's tangent type or an `ad.Zero`.",
    "linearize": "`primal_out, nonzero_out, residuals, linear`, where `linear(residuals, "
                 "*tangents)` gives the tangent. `nonzeros` tells which tangents may not be zero.",
    "transpose": "one cotangent or None per operand. Operands to be differentiated are "
                 "`ad.UndefinedPrimal`.",
    "batch": "`result, dim`, lists of them with multiple results. `dims[i]` is the batch axis of "
             "`args[i]`, or None if the operand is the same for the whole batch.",
    "axis_batch": "what a rule of `primitive_batchers` gives, before which it takes precedence. "
                  "`axis` is a `batching.AxisData`.",
    "partial_eval": "the result. `interpreter.is_unknown(arg)` tells which operands are unknown; "
                    "`interpreter.default_process_primitive(primitive, operands, params)` records "
                    "an equation of the primitive itself, which `bind` would hand to the rule "
                    "again.",
    "staging": "the result, of equations that it records by `trace.default_process_primitive(p, "
               "tracers, params, source_info)`.",
    "dce": "`used_inputs, new_eqn`, where the new equation has the used inputs and outputs only, "
           "or is None to drop it.",
}


class RuleTable(MutableMapping[Primitive, Rule]):
    """A view of one field of every `Primitive` record, primitive -> rule.

    `table[p] = rule` and `p.def_...(rule)` set the same field. `table[p]` raises `KeyError`
    without a rule; iteration gives the primitives that have one, by name.

    Args:
      field: the field of the record.
    """

    __slots__ = ("__dict__", "_field")

    def __init__(self, field: str):
        self._field = field
        self.__doc__ = (f"Primitive -> its {rule_name(field)}, `rule({CALLS[field]})`.\n\n"
                        f"It gives {_GIVES[field]}\n\n{type(self).__doc__}")

    def __getitem__(self, primitive: Primitive) -> Rule:
        rule: Rule | None = getattr(primitive, self._field, None)
        if rule is None:
            raise KeyError(primitive)
        return rule

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        refuse_other(primitive)
        primitive.define(self._field, rule)

    def __delitem__(self, primitive: Primitive) -> None:
        self[primitive]
        primitive.undefine(self._field)

    def __iter__(self) -> Iterator[Primitive]:
        return iter(sorted((p for p in list(registry) if getattr(p, self._field) is not None),
                           key=lambda p: p.name))

    def __len__(self) -> int:
        return sum(getattr(p, self._field) is not None for p in list(registry))

    def __repr__(self) -> str:
        return f"RuleTable({self._field!r}: {len(self)} primitives)"
