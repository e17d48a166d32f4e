"""Fragments of docstrings: the description of a shared parameter is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def documented(**fragments: str) -> Callable[[F], F]:
    """Decorator that puts fragments into a docstring, in the place of their names in brackets.

    Args:
      fragments: name -> text. Its lines after the first are given the indentation of the line
        that holds the name.

    Example:
      >>> @documented(x="x: an array,\\n  or a number.")
      ... def f(x):
      ...     '''Gives it.
      ...
      ...     Args:
      ...       [x]
      ...     '''
      >>> print(f.__doc__.splitlines()[4].strip())
      or a number.
    """

    def fill(function: F) -> F:
        if function.__doc__:
            lines = []
            for line in function.__doc__.split("\n"):
                name = line.strip()
                if name[:1] == "[" and name[1:-1] in fragments:
                    indent = line[:len(line) - len(line.lstrip())]
                    lines += [indent + text if text else "" for text in
                              fragments[name[1:-1]].split("\n")]
                else:
                    lines.append(line)
            function.__doc__ = "\n".join(lines)
        return function

    return fill
