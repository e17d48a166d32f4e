"""Tables of rules, as older generations know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import Call, refuse_misfit, taken_by


class AdaptedTable(MutableMapping[Primitive, Any]):
    """A table whose rules are called in the old way, in front of the one that the engine reads.

    Args:
      table: the table of the newer side.
      name: its dotted name, for messages.
      field: the field of the record that holds the rules in the end.
      leading: the names of the first arguments of an old rule.
      to_new: a rule of the new form from one of the old form.
      to_old: a rule of the old form from one of the new form.
      before: the generation that has the new form first, for messages.
    """

    def __init__(self, table: MutableMapping[Primitive, Any], name: str, field: str,
                 leading: tuple[str, ...], to_new: Callable[[Any], Any],
                 to_old: Callable[[Any], Any], before: str):
        self._table, self._name, self._before = table, name, before
        self._to_new, self._to_old = to_new, to_old
        self.field, self.call = field, Call(leading)

    def __getitem__(self, primitive: Primitive) -> Any:
        rule = self._table[primitive]
        return getattr(rule, "written_for", {}).get(self._before) or self._to_old(rule)

    def __setitem__(self, primitive: Primitive, rule: Any) -> None:
        if isinstance(primitive, Primitive) and callable(rule):
            self._refuse(primitive, rule)
        adapted = self._to_new(rule)
        adapted.written_for = {**getattr(rule, "written_for", {}), self._before: rule}
        self._table[primitive] = adapted

    def _refuse(self, primitive: Primitive, rule: Any) -> None:
        """Refuses a rule that cannot be called in the old way, or has its arguments elsewhere.

        Raises:
          TypeError: names the primitive and the generations.
        """
        who = f"the rule of primitive {primitive.name!r} in {self._name}"
        leading = self.call.leading
        taken = taken_by(rule)
        try:
            refuse_misfit(primitive, who, rule, self.call)
            if taken and set(leading).intersection(taken.positional[len(leading):taken.required]):
                msg = (f"{who} is called as rule({self.call}), but takes "
                       f"{', '.join(taken.positional[:taken.required])}.")
                raise TypeError(msg)
        except TypeError as error:
            error.add_note(f"This is the table of generations before {self._before}. A rule that "
                           f"is written for {self._before} belongs to its table.")
            raise

    def __delitem__(self, primitive: Primitive) -> None:
        del self._table[primitive]

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"{self._name} of generations before {self._before}: {len(self)} primitives"
