"""Rule tables: one rule of all primitives, as a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from mjax._engine.tracing.primitive import Primitive, registry

Rule = Callable[..., Any]


class RuleTable(MutableMapping[Primitive, Rule]):
    """A view of one field of every `Primitive` record, primitive -> rule.

    `table[p] = rule` and `p.def_...(rule)` set the same field. `table[p]` raises `KeyError`
    without a rule; iteration gives the primitives that have one, by name.

    Args:
      field: the field of the record.
    """

    __slots__ = ("_field",)

    def __init__(self, field: str):
        self._field = field

    def __getitem__(self, primitive: Primitive) -> Rule:
        rule: Rule | None = getattr(primitive, self._field, None)
        if rule is None:
            raise KeyError(primitive)
        return rule

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        if not isinstance(primitive, Primitive):
            kind = type(primitive)
            of = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            msg = (f"rules belong to primitives: {primitive!r} of type {of}{kind.__name__} is not "
                   "an mjax_ext.core.Primitive.")
            raise TypeError(msg)
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
