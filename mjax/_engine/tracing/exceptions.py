"""Rules that are left out, or deviate from what the checker expects, on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mjax._engine.tracing.registration import BEFORE
from mjax._engine.tracing.rule_errors import rule_name

#: The rules that an author may leave out on purpose, and those that may deviate.
_OPTIONAL = ("impl", "lowering", "jvp", "transpose", "batch")
_FREE = (*_OPTIONAL, "determinism")


def check_exception(primitive: Any, rule: str, reason: str, *, kept: bool) -> None:
    """Refuses a rule that cannot be left out or deviate, and a reason that says nothing.

    Args:
      primitive: the primitive.
      rule: the rule.
      reason: why it is an exception.
      kept: whether it stays and deviates, rather than being left out.

    Raises:
      ValueError: names the primitive.
    """
    if rule not in (_FREE if kept else _OPTIONAL):
        msg = (f"primitive {primitive.name!r} cannot deviate in {rule!r}: only the rules "
               f"{', '.join(_FREE)} do so on purpose." if kept else
               f"primitive {primitive.name!r} cannot be without {rule!r}: only the rules "
               f"{', '.join(_OPTIONAL)} are left out on purpose.")
        raise ValueError(msg)
    if kept and not has_rule(primitive, rule):
        msg = (f"primitive {primitive.name!r} does not have a rule {rule!r} that could deviate: "
               f"define it first, or say {primitive.name}_p.without({rule!r}, reason).")
        raise ValueError(msg)
    if not isinstance(reason, str) or not reason.strip():
        what = f"deviates in the {rule_name(rule)}" if kept else (
            f"is without the {rule_name(rule)}")
        msg = (f"primitive {primitive.name!r} {what}: say why in a sentence for its users, not "
               f"{reason!r}.")
        raise ValueError(msg)


def has_rule(primitive: Any, rule: str) -> bool:
    """Whether a primitive has a rule, or another one that is asked for in its place."""
    if rule in ("lowering", "determinism"):  # results are those of the lowerings, or the impl
        return rule == "determinism" or bool(primitive.lowerings)
    return any(getattr(primitive, field) is not None
               for field in (rule, BEFORE.get(rule)) if field is not None)


class Exceptions:
    """What a primitive's author declares about its rules."""

    __slots__ = ()

    #: Rule -> why it was left out (`without`), or why it deviates (`deviates`).
    exceptions: Mapping[str, str] = MappingProxyType({})

    def without(self: Any, rule: str, reason: str) -> None:
        """States that a rule is left out on purpose; removes it, if there is one.

        The error for the missing rule then gives the reason in place of a template, and so does
        `mjax_ext.explain`. The checker does not report it. Defining the rule takes this back.

        Args:
          rule: `jvp`, `transpose` or `batch`; or `impl` or `lowering`, for what is only
            transformed.
          reason: one sentence for users, which says what to do instead.

        Raises:
          ValueError: the rule is not one of these, or the reason is empty.

        Example:
          >>> from mjax_ext import core
          >>> p = core.Primitive("roll_dice")
          >>> p.without("jvp", "Dice have no derivative: take their expectation.")
          >>> p.rules()["jvp"]
          'left out: Dice have no derivative: take their expectation.'
        """
        check_exception(self, rule, reason, kept=False)
        if rule == "lowering":
            self.lowerings.clear()
            self._forget()
        else:
            for field in filter(None, (rule, BEFORE.get(rule))):
                self.undefine(field)
        self.exceptions = {**self.exceptions, rule: reason}

    def deviates(self: Any, rule: str, reason: str) -> None:
        """States that a rule deviates on purpose from what the checker compares it with.

        The rule stays as it is, and `rules()` gives the reason. The checker reports it as declared
        rather than wrong, and checks all other rules. Defining the rule again takes this back.

        Args:
          rule: `impl`, `lowering`, `jvp`, `transpose` or `batch`; or `determinism`, for a primitive
            whose results vary although it has no effects.
          reason: one sentence for readers, which says what the rule does instead.

        Raises:
          ValueError: the rule is not one of these, it does not exist, or the reason is empty.

        Example:
          >>> from mjax import lax
          >>> from mjax_ext import core
          >>> p = core.Primitive("straight_through")
          >>> p.def_jvp(lambda xs, ts: (p.bind(*xs), *ts))  # doctest: +ELLIPSIS
          <function ...>
          >>> p.deviates("jvp", "Its derivative is that of the identity.")
          >>> print(p.rules()["jvp"])  # doctest: +ELLIPSIS
          <doctest ...>:1, deviates: Its derivative is that of the identity.
        """
        check_exception(self, rule, reason, kept=True)
        self.exceptions = {**self.exceptions, rule: reason}
