"""Types of functions made of others, for type checkers: parameters and results are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, TypeVarTuple, overload

#: Parameters, and results.
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
#: An auxiliary result; a carry, an element, and a result of a loop.
A = TypeVar("A")
C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")
#: A tree that lambdas compute with: without the bound, type checkers refuse what they do.
T = TypeVar("T", bound=Any)
Operands = TypeVarTuple("Operands")
F = TypeVar("F", bound=Callable[..., Any])
_Self = TypeVar("_Self")
_Rest = ParamSpec("_Rest")


class Function(Protocol[P, R_co]):
    """A function with these parameters and this result; in a class it becomes a method.

    It is used in place of `Callable`, which would make mypy call a lambda that comes back
    "untyped".
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls it."""

    @overload
    def __get__(self, instance: None, owner: Any, /) -> Function[P, R_co]: ...
    @overload
    def __get__(self: Function[Concatenate[_Self, _Rest], R_co], instance: _Self, owner: Any, /
                ) -> Callable[_Rest, R_co]: ...


class Scope(Protocol):
    """A context manager, which also decorates functions."""

    def __enter__(self) -> None:
        """Begins it."""

    def __exit__(self, *error: Any) -> bool | None:
        """Ends it."""

    def __call__(self, function: F, /) -> F:
        """A function whose calls are inside of it."""
