"""Static arguments: Python values that a function is traced for, each anew.

In a flattened call they are nodes without leaves. So they are part of the structure, which
is part of the keys of caches, and come out of it as they went in.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.util import exact
from mjax._engine.ir.registration import register_pytree_node
from mjax._engine.tracing.flat import function_name
from mjax._engine.tracing.interpreter import Tracer


class Static:
    """A static argument in a flattened call; unflattening gives the bare value."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any):
        self.value = value
        self.key = exact(value)

    @classmethod
    def any(cls, value: Any) -> Static:
        """Of any value: one that is not hashable, so that it may change, is like no other."""
        static = cls(value)
        try:
            hash(static)
        except TypeError:
            static.key = object()
        return static

    def __eq__(self, other: object) -> bool:
        return type(other) is Static and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"static {self.value!r}"


register_pytree_node(Static, lambda static: ((), static), lambda static, _: static.value)


class StaticArguments(Record):
    """Which arguments of a function are static.

    Attributes:
      who: the transformation, for messages.
      function: the function's name, for messages.
      numbers: positions.
      names: names; with those of the positions, where the signature has them.
      positional: names of the positional parameters.
      fixed: whether there are no other positional arguments.
    """

    who: str
    function: str
    numbers: tuple[int, ...]
    names: frozenset[str]
    positional: tuple[str, ...]
    fixed: bool

    @classmethod
    def of(cls, who: str, f: Callable[..., Any], numbers: Any, names: Any) -> StaticArguments:
        """From what users give as `static_argnums` and `static_argnames`.

        Raises:
          TypeError: a number is not an integer, or a name is not a string.
          ValueError: the function has no such argument.
        """
        numbers, names = _integers(who, numbers), _strings(who, names)
        function = function_name(f)
        try:
            parameters = list(inspect.signature(f).parameters.values())
        except (TypeError, ValueError):
            return cls(who, function, numbers, frozenset(names), (), False)
        kinds = {p.kind for p in parameters}
        positional = tuple([p.name for p in parameters if p.kind in (
            p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
        count, fixed = len(positional), inspect.Parameter.VAR_POSITIONAL not in kinds
        for n in numbers:
            if fixed and not -count <= n < count:
                msg = (f"{who}: static_argnums has {n}, but {function} takes {count} positional "
                       f"argument{'s' * (count != 1)}.")
                raise ValueError(msg)
        for name in names:
            if inspect.Parameter.VAR_KEYWORD not in kinds and name not in {
                    p.name for p in parameters}:
                msg = (f"{who}: static_argnames has {name!r}, which is not an argument of "
                       f"{function}.")
                raise ValueError(msg)
        if fixed:
            numbers = tuple([n % count for n in numbers])
        return cls(who, function, numbers, frozenset(names).union(
            positional[n] for n in numbers if 0 <= n < count), positional, fixed)

    def mark(self, args: Sequence[Any], kwargs: dict[str, Any]
             ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with static ones as `Static`.

        Raises:
          ValueError: one is a tracer; there is no argument of that number.
        """
        if not self.numbers and not self.names:
            return tuple(args), kwargs
        count = len(args)
        for n in self.numbers:
            # By position they may be left out where they can be given by name.
            if not self.fixed and not -count <= n < count:
                msg = (f"{self.who}: static_argnums has {n}, but {self.function} was called with "
                       f"{count} positional argument{'s' * (count != 1)}.")
                raise ValueError(msg)
        places = {n % count for n in self.numbers if n < count}
        places.update(i for i, name in enumerate(self.positional[:count]) if name in self.names)
        return (tuple([self._static(a, f"argument {i}") if i in places else a
                       for i, a in enumerate(args)]),
                {name: self._static(a, f"argument {name!r}") if name in self.names else a
                 for name, a in kwargs.items()})

    def _static(self, value: Any, which: str) -> Static:
        if isinstance(value, Tracer):
            msg = (f"{self.who}: static {which} of {self.function} is a traced value of type "
                   f"{value.aval}; its value is not known. Pass it as an ordinary argument.")
            raise ValueError(msg)
        return Static.any(value)


def _integers(who: str, numbers: Any) -> tuple[int, ...]:
    several = isinstance(numbers, (tuple, list, set, frozenset, range))
    try:
        return tuple(map(operator.index, numbers if several else (numbers,)))
    except TypeError:
        msg = f"{who}: static_argnums must be an integer or a tuple of these, got {numbers!r}."
        raise TypeError(msg) from None


def _strings(who: str, names: Any) -> tuple[str, ...]:
    several = not isinstance(names, str) and isinstance(names, Iterable)
    words = tuple(names) if several else (names,)
    if not all(isinstance(word, str) for word in words):
        msg = f"{who}: static_argnames must be a string or a sequence of these, got {names!r}."
        raise TypeError(msg)
    return words
