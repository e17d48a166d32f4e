"""Types of functions made of others, for type checkers: parameters and results are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    TypeVarTuple,
    overload,
)

#: Parameters, and results.
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
#: Parameters of a function that is decorated.
Q = ParamSpec("Q")
#: An auxiliary result; a carry, an element, and a result of a loop.
A = TypeVar("A")
C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")
#: A tree that lambdas compute with: without the bound, type checkers refuse what they do.
T = TypeVar("T", bound=Any)
Operands = TypeVarTuple("Operands")
F = TypeVar("F", bound=Callable[..., Any])
#: A class that a decorator registers.
Class = TypeVar("Class", bound=type[Any])
_Self = TypeVar("_Self")
_Rest = ParamSpec("_Rest")

#: A result, or that of no function: mypy takes it from here, pyright from the default argument.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as _TypeVar

    D = _TypeVar("D", default="NoResult")
else:
    D = TypeVar("D")


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
    def __get__(self: _OfAnything[R_co], instance: object, owner: Any, /
                ) -> Callable[..., R_co]: ...
    @overload
    def __get__(self: Function[Concatenate[_Self, _Rest], R_co], instance: _Self, owner: Any, /
                ) -> Callable[_Rest, R_co]: ...
    @overload
    def __get__(self: Function[Concatenate[type[_Self], _Rest], R_co], instance: _Self,
                owner: Any, /) -> Callable[_Rest, R_co]: ...  # under classmethod
    @overload
    def __get__(self, instance: object, owner: Any, /) -> Function[P, R_co]: ...  # staticmethod


class Decorated(Function[P, R_co], Protocol[P, R_co]):
    """A decorated function; without one, a decorator."""

    @overload
    def __call__(self, *args: P.args,  # type: ignore[overload-overlap]
                 **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self: Decorated[[NoResult], NoResult], f: Callable[Q, R], /
                 ) -> Function[Q, R]: ...


if TYPE_CHECKING:  # types that only annotations name
    class NoResult(Protocol):
        """The result of a function that is not given, as in `jit(static_argnums=0)`.

        The result of `jit` has an overload for the function. `jit` itself has none: mypy would lose
        the types of `functools.partial(jit, ...)(f)`.
        """

        def __no_result(self) -> None: ...

    NoFunction = Callable[[NoResult], NoResult]

    class _OfAnything(Protocol[R_co]):
        """A function of unknown parameters, such as `functools.partial(jit, ...)(f)` to mypy."""

        def __call__(self, *, __unlikely: Any) -> R_co:
            """Calls it."""

    class Scope(Protocol):
        """A context manager, which also decorates functions."""

        def __enter__(self) -> None:
            """Begins it."""

        def __exit__(self, *error: Any) -> bool | None:
            """Ends it."""

        def __call__(self, function: F, /) -> F:
            """A function whose calls are inside of it."""

    class Switch(Protocol):
        """The context manager of a flag that is on or off, as a function; it also decorates."""

        def __call__(self, new_val: bool = True) -> Scope:
            """Sets it in this thread."""

    class DisableJit(Protocol):
        """`Switch` of `disable_jit`, whose argument has a name of its own."""

        def __call__(self, disable: bool = True) -> Scope:
            """Sets it in this thread."""

    class Setter(Protocol):
        """The context manager of a flag with other values, as a function; it also decorates."""

        def __call__(self, new_val: Any) -> Scope:
            """Sets it in this thread."""
