"""Arguments chosen by number or by name, mainly static ones: Python values that a function is
traced for, each anew.

In a flattened call they are nodes without leaves. So they are part of the structure, which is part
of cache keys, and unflattening returns them unchanged.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.records import Record
from mjax._engine.base.util import exact
from mjax._engine.ir.tree_registration import register_pytree_node
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
        """The same for any value. One that is not hashable may change, so it equals no other."""
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


class Parameters(Record):
    """Facts of a signature about arguments chosen by number or by name.

    Attributes:
      who: the transformation, for messages.
      function: the function's name, for messages.
      positional: names of the positional parameters.
      unnamed: the number of leading ones that cannot be given by name.
      names: names that arguments can be given by; None: any.
      fixed: whether there are no other positional arguments.
      signature: that of the function; None if it has none.
    """

    who: str
    function: str
    positional: tuple[str, ...]
    unnamed: int
    names: frozenset[str] | None
    fixed: bool
    signature: inspect.Signature | None

    @classmethod
    def of(cls, who: str, f: Callable[..., Any]) -> Parameters:
        """The parameters of a function."""
        try:
            signature = inspect.signature(f)
        except (TypeError, ValueError):
            return cls(who, function_name(f), (), 0, None, False, None)
        parameters = list(signature.parameters.values())
        named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        kinds = {p.kind for p in parameters}
        positional = [p.name for p in parameters
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return cls(
            who, function_name(f), tuple(positional), sum(n not in named for n in positional),
            None if inspect.Parameter.VAR_KEYWORD in kinds else frozenset(named),
            inspect.Parameter.VAR_POSITIONAL not in kinds, signature)

    def numbers(self, what: str, numbers: Any) -> tuple[int, ...]:
        """Checked argument numbers from users; negative only if any number of them is taken.

        Args:
          what: "static", "donate" or "nondiff".
          numbers: an int, several, or None.

        Raises:
          TypeError: one is not an integer.
          ValueError: the function has no such argument.
        """
        given = () if numbers is None else _integers(f"{self.who}: {what}_argnums", numbers)
        count = len(self.positional)
        if not self.fixed:
            return given
        for n in given:
            if not -count <= n < count:
                self._refuse(what, n, "takes", count)
        return tuple([n % count for n in given])

    def words(self, what: str, names: Any) -> tuple[str, ...]:
        """Checked names of arguments from users: one, several, or None.

        Raises:
          TypeError: one is not a string.
          ValueError: the function has no such argument.
        """
        given = () if names is None else _strings(f"{self.who}: {what}_argnames", names)
        for name in given:
            if self.names is not None and name not in self.names:
                msg = (f"{self.who}: {what}_argnames has {name!r}, which is not an argument of "
                       f"{self.function} that is given by name.")
                raise ValueError(msg)
        return given

    def places(self, what: str, numbers: Iterable[int], count: int, all_given: bool = False
               ) -> list[int]:
        """The positions that numbers denote in a call.

        Args:
          what: as in `numbers`.
          numbers: the result of `numbers`.
          count: the number of positional arguments.
          all_given: whether each must be given, unless it can be given by name.

        Raises:
          ValueError: a required one is not given.
        """
        for n in numbers:
            if n < -count or (all_given and not self.fixed and n >= count):
                self._refuse(what, n, "was called with", count)
        return sorted({n % count for n in numbers if n < count})

    def _refuse(self, what: str, number: int, has: str, count: int) -> NoReturn:
        msg = (f"{self.who}: {what}_argnums has {number}, but {self.function} {has} {count} "
               f"positional argument{'s' * (count != 1)}.")
        raise ValueError(msg)

    def hashable(self, value: Any, which: str) -> Any:
        """A static argument.

        Raises:
          ValueError: it is not hashable.
        """
        try:
            hash(value)
        except TypeError:
            msg = (f"{self.who}: static {which} of {self.function} is not hashable: of type "
                   f"{type(value).__name__}. Static arguments are part of the cache key: pass a "
                   "tuple for a list, a frozen dataclass for a mutable object, or do not mark the "
                   "argument static.")
            raise ValueError(msg) from None
        return value


def with_static(f: Callable[..., Any], static: Sequence[tuple[int | str, Any]]
                ) -> Callable[..., Any]:
    """The function with its static arguments, by position or name, put back in their places."""
    if not static:
        return f
    places = {name: value for name, value in static if isinstance(name, int)}
    words = {name: value for name, value in static if isinstance(name, str)}

    def complete(*args: Any, **kwargs: Any) -> Any:
        given, total = iter(args), len(args) + len(places)
        return f(*[places[i] if i in places else next(given) for i in range(total)], **kwargs,
                 **words)

    return complete


class StaticArguments(Record):
    """The static arguments of a function.

    Attributes:
      parameters: the facts of its signature.
      numbers: positions.
      names: names; including those of the positions, if the signature has them.
    """

    parameters: Parameters
    numbers: tuple[int, ...]
    names: frozenset[str]

    @classmethod
    def of(cls, who: str, f: Callable[..., Any], numbers: Any, names: Any) -> StaticArguments:
        """From the arguments `static_argnums` and `static_argnames` of users.

        Raises:
          TypeError: a number is not an integer, or a name is not a string.
          ValueError: the function has no such argument.
        """
        parameters = Parameters.of(who, f)
        positional, numbers = parameters.positional, parameters.numbers("static", numbers)
        return cls(parameters, numbers, frozenset(parameters.words("static", names)).union(
            positional[n] for n in numbers if 0 <= n < len(positional)))

    def mark(self, args: Sequence[Any], kwargs: dict[str, Any]
             ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with static ones as `Static`.

        Raises:
          ValueError: one is a tracer; there is no argument of that number.
        """
        if not self.numbers and not self.names:
            return tuple(args), kwargs
        count = len(args)
        places = {*self.parameters.places("static", self.numbers, count, all_given=True)}
        places.update(i for i, name in enumerate(self.parameters.positional[:count])
                      if name in self.names)
        return (tuple([self._static(a, f"argument {i}") if i in places else a
                       for i, a in enumerate(args)]),
                {name: self._static(a, f"argument {name!r}") if name in self.names else a
                 for name, a in kwargs.items()})

    def _static(self, value: Any, which: str) -> Static:
        if isinstance(value, Tracer):
            msg = (f"{self.parameters.who}: static {which} of {self.parameters.function} is a "
                   f"traced value of type {value.aval}; its value is not known. Pass it as an "
                   "ordinary argument.")
            raise ValueError(msg)
        return Static.any(value)


def _integers(what: str, numbers: Any) -> tuple[int, ...]:
    several = isinstance(numbers, (tuple, list, set, frozenset, range))
    try:
        return tuple(map(operator.index, numbers if several else (numbers,)))
    except TypeError:
        msg = f"{what} must be an integer or a tuple of these, got {numbers!r}."
        raise TypeError(msg) from None


def _strings(what: str, names: Any) -> tuple[str, ...]:
    several = not isinstance(names, str) and isinstance(names, Iterable)
    words = tuple(names) if several else (names,)
    if not all(isinstance(word, str) for word in words):
        msg = f"{what} must be a string or a sequence of these, got {names!r}."
        raise TypeError(msg)
    return words
