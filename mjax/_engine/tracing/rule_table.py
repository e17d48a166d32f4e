"""The table of a primitive's rules, as `Primitive.rules` shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.tracing.registration import is_traceable
from mjax._engine.tracing.rule_errors import where

#: Rule -> the text of `Primitive.rules` if it is not defined.
_WITHOUT: dict[str, Callable[[Any], str]] = {
    "impl": lambda p: "derived from the lowering" if p.lowerings else "missing",
    "abstract_eval": lambda p: "missing",
    "jvp": lambda p: "missing",
    "linearize": lambda p: "derived from jvp" if p.jvp else "missing",
    "partial_eval": lambda p: "default: all unknown if an operand is",
    "transpose": lambda p: "missing",
    "batch": lambda p: "missing",
    "dce": lambda p: "default: dropped if unused and without effects",
    "recompute": lambda p: "default: repeated as it is",
    "staging": lambda p: "default: one equation",
    "typecheck": lambda p: "default: by the abstract evaluation",
    "cast_varying": lambda p: "default: operands vary alike",
    "collective_axes": lambda p: "default: no devices wait for each other",
    "pretty": lambda p: "default",
}


class Rules(dict[str, str]):
    """A dict that prints as a table, one rule a line."""

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:{width}}  {what}" for name, what in self.items())


def rules_of(primitive: Any) -> Rules:
    """The rules of a primitive, with their places."""
    table = Rules()
    for field, without in _WITHOUT.items():
        used = "axis_batch" if field == "batch" and primitive.batch is None else field
        rule = getattr(primitive, used)
        reason = primitive.exceptions.get(field)
        table[field] = (where(rule) if rule is not None else
                        without(primitive) if reason is None else f"left out: {reason}")
        if rule is not None and used in primitive.derived:
            table[field] = f"derived at {table[field]}"
        if rule is not None and reason is not None:
            table[field] += f", deviates: {reason}"
    for platform, rule in (primitive.lowerings or {None: None}).items():
        table[f"lowering[{platform or 'any'}]"] = (
            "missing" if rule is None else
            f"derived from {where(rule)}" if is_traceable(rule) else where(rule))
    for name in {"lowering", "determinism"} & primitive.exceptions.keys():
        said = "left out" if name == "lowering" and not primitive.lowerings else "deviates"
        table[name] = f"{said}: {primitive.exceptions[name]}"
    return table
