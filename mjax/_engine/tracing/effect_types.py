"""Sets of effect types: one field of their policies, under the names of JAX's sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mjax._engine.base.program_caches import forget_programs
from mjax._engine.ir.effects import Effect
from mjax._engine.tracing.rule_errors import describe_value


class EffectTypes:
    """The effect types whose policy says yes in one field.

    Args:
      field: the field of `core.EffectPolicy`.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> class Quantum(core.Effect):
      ...   policy = core.EffectPolicy(lowerable=False)
      >>> mlir.lowerable_effects.contains(Quantum())
      False
      >>> mlir.lowerable_effects.add_type(Quantum)
      >>> mlir.lowerable_effects.contains(Quantum())
      True
    """

    __slots__ = ("_field",)

    def __init__(self, field: str):
        self._field = field

    def add_type(self, effect_type: type[Effect]) -> None:
        """Lets an effect type into the set, by its policy.

        Raises:
          TypeError: it is not a subclass of `core.Effect`.
        """
        self._set(effect_type, True)

    def remove_type(self, effect_type: type[Effect]) -> None:
        """Takes an effect type out of the set, by its policy.

        Raises:
          TypeError: it is not a subclass of `core.Effect`.
        """
        self._set(effect_type, False)

    def _set(self, effect_type: Any, answer: bool) -> None:
        if not (isinstance(effect_type, type) and issubclass(effect_type, Effect)):
            msg = (f"the set of {self._field} effects holds subclasses of core.Effect, got "
                   f"{describe_value(effect_type)}.")
            raise TypeError(msg)
        changed: dict[str, Any] = {self._field: answer}
        effect_type.policy = effect_type.policy._replace(**changed)
        forget_programs()

    def contains(self, effect: Effect) -> bool:
        """Whether an effect is of a type in the set."""
        return bool(getattr(effect.policy, self._field))

    __contains__ = contains

    def filter_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """The effects that are of a type in the set."""
        return [e for e in effects if self.contains(e)]

    def filter_not_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """The effects that are not."""
        return [e for e in effects if not self.contains(e)]

    def __repr__(self) -> str:
        return f"EffectTypes({self._field!r})"


#: The effects that bodies of loops and branches may have.
control_flow_allowed_effects: EffectTypes = EffectTypes("control_flow")
