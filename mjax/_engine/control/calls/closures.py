"""Finds traced values in the closures of functions.

A rule runs later than its function, maybe in a program of its own. The traced values that it closes
over have to be operands of the function's call. Tracing shows them for the function, but rules are
not traced then, so their closures are searched. A value that is found but not used costs an
operand. A value inside of an object is not found; it is refused when the rule runs.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any

from mjax._engine.base.jitted import PjitFunction
from mjax._engine.tracing.interpreter import Tracer


class MadeOfFunctions:
    """Base of callables that are made of Python functions."""

    def functions(self) -> Iterable[Any]:
        """These functions."""
        raise NotImplementedError


#: The depth of the search in functions and containers.
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
    if type(value) is PjitFunction:
        return (value._fun,)
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if inspect.ismethod(value):
        return value.__func__, value.__self__
    if isinstance(value, types.FunctionType):
        return [*_cells(value), value.__defaults__, value.__kwdefaults__,
                getattr(value, "__wrapped__", None)]
    return value.functions() if isinstance(value, MadeOfFunctions) else ()


def _cells(function: Any) -> Iterable[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


__all__ = ["MadeOfFunctions", "closed_over"]
