"""Effects and their policies.

An effect class declares one `EffectPolicy`. Transformations consult only that record, so a new
effect needs no entry in any list. Jaxprs and equations carry sets of effects.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from mjax._engine.base.records import Record
from mjax._engine.base.util import pickled_by


@pickled_by("effect_policy_v1")
class EffectPolicy(Record):
    """The transformations that an equation with the effect allows.

    Attributes:
      ordered: executions keep the order of the program, through a token.
      token: name of the token; effects that share one are ordered among each other.
      lowerable: programs with it can be compiled.
      control_flow: it may stand in the bodies of cond, while and scan.
      batchable: vmap may repeat it per batch element.
      masked: a cond or while_loop whose predicate is batched may run it for batch elements that
        take another branch, or have finished.
      differentiable: it may stand in a function that is differentiated.
      custom_derivatives: it may stand in the body of a function with custom rules.
      remat: it may stand in a rematerialized body (and run again).
      shardable: programs over several devices may have it.
      kept_by_dce: an equation that has it stays although its results are unused.

    Example:
      >>> from mjax_ext import core
      >>> core.EffectPolicy(ordered=True, token="log", batchable=False).control_flow
      True
    """

    ordered: bool = False
    token: str | None = None
    lowerable: bool = True
    control_flow: bool = True
    batchable: bool = True
    masked: bool = True
    differentiable: bool = True
    custom_derivatives: bool = True
    remat: bool = True
    shardable: bool = True
    kept_by_dce: bool = True


class Question(Record):
    """The decision that a field of the policy makes.

    Attributes:
      transformation: the transformation that asks.
      functions: the public functions of that transformation.
      reason: why it refuses.
    """

    transformation: str
    functions: str
    reason: str


#: Field -> question. The refusals of transformations, and the table in docs/effects.md.
QUESTIONS = {
    "lowerable": Question("compilation", "jit", "Nothing stands for it in a compiled program"),
    "control_flow": Question("control flow", "cond, switch, while_loop, scan",
                             "A body runs any number of times, or never"),
    "batchable": Question("vmap", "vmap", "It would happen once for each batch element, in "
                          "an order that is not that of any program of one element"),
    "masked": Question("vmap over a predicate", "vmap over a predicate",
                       "It would run for batch elements that take another branch, or have "
                       "finished, too"),
    "differentiable": Question("differentiation", "jvp, linearize, vjp, grad",
                               "An effect has no derivative"),
    "custom_derivatives": Question("differentiation by a custom rule", "custom_jvp, custom_vjp",
                                   "The rule would run in its place, or besides"),
    "remat": Question("rematerialization", "checkpoint", "It cannot run a second time"),
    "shardable": Question("partition over devices", "shard_map",
                          "It would happen once per device"),
}


def _check_policy(name: str, policy: Any) -> None:
    if not isinstance(policy, EffectPolicy):
        msg = (f"{name}.policy is {policy!r} of type {type(policy).__name__}; it must be a "
               "core.EffectPolicy, such as EffectPolicy(remat=False).")
        raise TypeError(msg)
    for field, value in zip(policy._fields, policy, strict=True):
        kinds: Any = (str, type(None)) if field == "token" else bool
        if not isinstance(value, kinds):
            msg = (f"{name}.policy has {field}={value!r}; it must be "
                   f"{'a text or None' if field == 'token' else 'True or False'}.")
            raise TypeError(msg)
    if policy.token is not None and not policy.ordered:
        msg = (f"{name}.policy names the token {policy.token!r}, but is not ordered: only ordered "
               "effects have a token. Add ordered=True, or leave the token out.")
        raise ValueError(msg)


class Effect:
    """Base class of effects; instances are compared by identity unless they define equality.

    Raises:
      TypeError: a subclass is made whose policy is not an `EffectPolicy`, or has a field of another
        type.
      ValueError: its policy names a token, but is not ordered.

    Example:
      >>> class Logging(Effect):
      ...     policy = EffectPolicy(ordered=True, token="log")
    """

    policy: ClassVar[EffectPolicy] = EffectPolicy()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_policy(cls.__name__, cls.policy)

    def __repr__(self) -> str:
        return type(self).__name__


class OperandEffect(Effect):
    """Base of effects on an operand, such as reading from and writing to a reference.

    The effect of an equation has the number of an operand; that of a jaxpr, the number of an
    input. The engine renumbers effects when operands are moved, dropped or closed over. Effects on
    values that a program makes itself are not effects of the program.

    Args:
      index: the number; None: a constant that the program holds.

    Raises:
      TypeError: a subclass is made whose policy is ordered. Data flow already orders the effects
        on one operand. See `Effect` too.

    Example:
      >>> class Read(OperandEffect):
      ...     policy = EffectPolicy(kept_by_dce=False)
      >>> Read(0), Read(0) == Read(0), Read(0).at(2)
      (Read(0), True, Read(2))
    """

    index: int | None

    def __init__(self, index: int | None):
        self.index = index

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.policy.ordered:
            msg = f"{cls.__name__}: the policy of an OperandEffect cannot be ordered."
            raise TypeError(msg)

    def at(self, index: Any) -> OperandEffect:
        """The same effect on another operand."""
        moved = copy.copy(self)
        moved.index = index
        return moved

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.index))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index})"


#: The effects of a program.
Effects = frozenset[Effect]
#: The empty set of effects.
no_effects: Effects = frozenset()


def join_effects(sets: Iterable[Effects]) -> Effects:
    """The union of sets of effects."""
    return no_effects.union(*sets)


def renumbered(effects: Effects, places: Sequence[int]) -> Effects:
    """Translates the effects of a body to the equation that holds it.

    Args:
      effects: those of the body.
      places: for each input of the body the operand that enters there.
    """
    if not any(isinstance(e, OperandEffect) for e in effects):
        return effects
    return frozenset(e.at(places[e.index]) if isinstance(e, OperandEffect) and e.index is not None
                     else e for e in effects)


def forbidden(effects: Effects, field: str) -> list[Effect]:
    """The effects whose policy says no in `field`, in a stable order."""
    return sorted((e for e in effects if not getattr(e.policy, field)), key=repr)


def token_name(effect: Effect | type[Effect]) -> str | None:
    """The name of an ordered effect's token; an effect that names none gets one of its own."""
    policy = effect.policy
    if not policy.ordered:
        return None
    cls = effect if isinstance(effect, type) else type(effect)
    return policy.token or f"{cls.__module__}.{cls.__qualname__}"


def token_names(effects: Effects) -> tuple[str, ...]:
    """The names of the tokens that a program with these effects takes, in order."""
    if not effects:
        return ()
    return tuple(sorted({name for e in effects if (name := token_name(e)) is not None}))


def keeps_equation(effects: Effects) -> bool:
    """Whether dead-code elimination must keep an equation with these effects."""
    return any(e.policy.kept_by_dce for e in effects)


def policy_table(effects: Iterable[type[Effect]]) -> str:
    """A Markdown table of the policies: transformations against effects.

    Example:
      >>> class Logging(Effect):
      ...     policy = EffectPolicy(ordered=True, token="log", remat=False)
      >>> print(policy_table([Logging]).splitlines()[8])
      | checkpoint | no |
    """
    effects = list(effects)
    rows = [["", *(f"`{e.__name__}`" for e in effects)], ["---"] * (len(effects) + 1)]
    rows += [[question.functions, *("yes" if getattr(e.policy, field) else "no" for e in effects)]
             for field, question in QUESTIONS.items()]
    rows += [["dead-code elimination", *("keeps" if e.policy.kept_by_dce else "drops"
                                         for e in effects)],
             ["order", *(f"token `{token_name(e)}`" if e.policy.ordered else "none"
                         for e in effects)]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def describe(effects: Iterable[Any]) -> str:
    """Names of effects for error texts."""
    return ", ".join(sorted(map(repr, effects)))
