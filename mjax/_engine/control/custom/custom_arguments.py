"""The arguments of functions with rules: by position, and apart from those that are not
differentiated."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.tracing.flat import function_name


class Arguments(Record):
    """How the arguments of a function with custom rules are taken apart.

    Attributes:
      who: the decorator, for messages.
      function: name of the function, for messages.
      signature: that of the function, if it has one.
      positional: the number of positional arguments, if it is fixed.
      nondiff: positions of the arguments that are handed to rules by themselves.
    """

    who: str
    function: str
    signature: inspect.Signature | None
    positional: int | None
    nondiff: tuple[int, ...]

    @classmethod
    def of(cls, who: str, f: Callable[..., Any], numbers: Any, names: Any) -> Arguments:
        """From what users give as `nondiff_argnums` and `nondiff_argnames`.

        Raises:
          TypeError: a number is not an integer.
          ValueError: the function has no such argument.
        """
        function = function_name(f)
        try:
            signature = inspect.signature(f)
        except (TypeError, ValueError):
            signature = None
        positional, fixed = _positional(signature)
        places = set()
        for n in (numbers,) if hasattr(numbers, "__index__") else numbers:
            n = operator.index(n)
            if fixed and not -len(positional) <= n < len(positional):
                msg = (f"{who}: nondiff_argnums has {n}, but {function} takes {len(positional)} "
                       "positional arguments.")
                raise ValueError(msg)
            places.add(n + len(positional) if n < 0 else n)
        for name in (names,) if isinstance(names, str) else names:
            if name not in positional:
                msg = (f"{who}: nondiff_argnames has {name!r}, which is not a positional argument "
                       f"of {function}.")
                raise ValueError(msg)
            places.add(positional.index(name))
        return cls(who, function, signature, len(positional) if fixed else None,
                   tuple(sorted(places)))

    def resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call by position, defaults among them: rules take them so.

        Raises:
          TypeError: they do not fit the signature, or one has no position.
        """
        if not kwargs and len(args) == self.positional:
            return args
        if self.signature is None:
            if kwargs:
                msg = (f"{self.who} of {self.function}: it has no signature to be seen, so that "
                       f"the keyword arguments {', '.join(kwargs)} have no position.")
                raise TypeError(msg)
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            msg = f"{self.who} of {self.function}: {error}."
            raise TypeError(msg) from None
        bound.apply_defaults()
        # Those left out of the call take their defaults when the function is called.
        without_position = [name for name in bound.kwargs if name in kwargs]
        if without_position:
            msg = (f"{self.who} of {self.function}: the keyword arguments "
                   f"{', '.join(without_position)} have no position, and rules take arguments by "
                   "position. Make them positional parameters.")
            raise TypeError(msg)
        return bound.args

    def split(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Those that are handed to rules by themselves, and the others."""
        return (tuple([args[i] for i in self.nondiff if i < len(args)]),
                tuple([a for i, a in enumerate(args) if i not in self.nondiff]))

    def join(self, static: Sequence[Any], dynamic: Sequence[Any]) -> list[Any]:
        """Inverse of `split`."""
        given, rest = dict(zip(self.nondiff, static, strict=False)), iter(dynamic)
        return [given[i] if i in given else next(rest)
                for i in range(len(static) + len(dynamic))]


def _positional(signature: inspect.Signature | None) -> tuple[list[str], bool]:
    """Names of the positional parameters, and whether there are no others."""
    if signature is None:
        return [], False
    parameters = signature.parameters.values()
    return ([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
            all(p.kind is not p.VAR_POSITIONAL for p in parameters))


__all__ = ["Arguments"]
