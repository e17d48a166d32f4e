"""What functions close over: the traced values in their cells.

A rule runs later than the function it belongs to, maybe in a program of its own; what it
closes over has to be known when the function is called, to be handed to it then. A function
that is traced shows what it uses; a rule is not, so its closure is looked through. What is
found and not used costs an operand. What is not found, because an object holds it, is
refused when the rule runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any

from mjax._engine.tracing.interpreter import Tracer

#: How many functions and containers deep.
_DEPTH = 6


def closed_over(*functions: Any) -> list[Tracer]:
    """The tracers in the closures of functions, and in those of the functions found there."""
    found: dict[int, Tracer] = {}
    seen: set[int] = set()
    level: list[Any] = list(functions)
    for _ in range(_DEPTH):
        inside: list[Any] = []
        for value in level:
            if isinstance(value, Tracer):
                found[id(value)] = value
            elif id(value) not in seen:
                seen.add(id(value))
                inside.extend(_contents(value))
        level = inside
    return list(found.values())


def _contents(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple, set)):
        return value
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if inspect.ismethod(value):
        return value.__func__, value.__self__
    if not callable(value):
        return ()
    # A function, or an object that stands for one: jitted, or with rules.
    defaults = getattr(value, "__defaults__", None), getattr(value, "__kwdefaults__", None)
    rules = [getattr(value, name, None) for name in ("fun", "jvp", "fwd", "bwd", "vmap_rule")]
    cells = []
    for cell in getattr(value, "__closure__", None) or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return [*cells, *filter(None, defaults), getattr(value, "__wrapped__", None), *rules]


__all__ = ["closed_over"]
