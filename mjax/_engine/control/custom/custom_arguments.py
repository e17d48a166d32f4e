"""The arguments of functions with rules: by position, and apart from those that are not
differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.control.calls.static_arguments import Parameters


class Arguments(Record):
    """Splits the arguments of a function with custom rules.

    Attributes:
      parameters: the facts of its signature.
      nondiff: positions of the arguments that rules get separately.
    """

    parameters: Parameters
    nondiff: tuple[int, ...]

    @classmethod
    def of(cls, who: str, f: Callable[..., Any], numbers: Any, names: Any) -> Arguments:
        """From the arguments `nondiff_argnums` and `nondiff_argnames` of users.

        Raises:
          TypeError: a number is not an integer.
          ValueError: the function has no such argument.
        """
        parameters = Parameters.of(who, f)
        positional = parameters.positional
        places = {n + len(positional) if n < 0 else n
                  for n in parameters.numbers("nondiff", numbers)}
        for name in (names,) if isinstance(names, str) else names:
            if name not in positional:
                msg = (f"{who}: nondiff_argnames has {name!r}, which is not a positional argument "
                       f"of {parameters.function}.")
                raise ValueError(msg)
            places.add(positional.index(name))
        return cls(parameters, tuple(sorted(places)))

    def resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call by position, defaults among them: rules take them so.

        Raises:
          TypeError: they do not fit the signature, or one has no position.
        """
        who, function, positional, _, _, fixed, signature = self.parameters
        if not kwargs and fixed and len(args) == len(positional):
            return args
        if signature is None:
            if kwargs:
                msg = (f"{who} of {function}: it has no signature to be seen, so that "
                       f"the keyword arguments {', '.join(kwargs)} have no position.")
                raise TypeError(msg)
            return args
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            msg = f"{who} of {function}: {error}."
            raise TypeError(msg) from None
        bound.apply_defaults()
        # Those left out of the call take their defaults when the function is called.
        without_position = [name for name in bound.kwargs if name in kwargs]
        if without_position:
            msg = (f"{who} of {function}: the keyword arguments "
                   f"{', '.join(without_position)} have no position, and rules take arguments by "
                   "position. Make them positional parameters.")
            raise TypeError(msg)
        return bound.args

    def split(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The arguments that rules get separately, and the others."""
        return (tuple([args[i] for i in self.nondiff if i < len(args)]),
                tuple([a for i, a in enumerate(args) if i not in self.nondiff]))

    def join(self, static: Sequence[Any], dynamic: Sequence[Any]) -> list[Any]:
        """Inverse of `split`."""
        given, rest = dict(zip(self.nondiff, static, strict=False)), iter(dynamic)
        return [given[i] if i in given else next(rest)
                for i in range(len(static) + len(dynamic))]


__all__ = ["Arguments"]
