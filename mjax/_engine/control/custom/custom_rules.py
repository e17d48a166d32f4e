"""Functions with rules of their users: what `custom_jvp` and `custom_vjp` have in common.

A rule speaks of arguments only: what the function closes over is refused if it carries a
tangent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, ClassVar

from mjax._engine.base.jitted import PjitFunction
from mjax._engine.base.programs import ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.control.calls.closures import MadeOfFunctions, closed_over
from mjax._engine.control.custom.custom_arguments import Arguments
from mjax._engine.control.custom.custom_calls import Call
from mjax._engine.ir.pytree import tree_flatten, tree_leaves
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.tracing.flat import (
    check_arguments,
    check_callable,
    describe_function,
    function_name,
)
from mjax._engine.tracing.interpreter import Tracer


class Custom(MadeOfFunctions):
    """A function with rules: base of `custom_jvp` and `custom_vjp`."""

    who: ClassVar[str]
    #: Methods by which rules are given; asked of the function inside if this class has none.
    definers: ClassVar[tuple[str, ...]] = ("defjvp", "defjvps", "defvjp", "def_vmap")

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Any, nondiff_argnames: Any):
        check_callable(self.who, fun)
        # Not its dict: another such class keeps its own fields there.
        functools.update_wrapper(self, fun, updated=())  # type: ignore[arg-type]
        if isinstance(fun, (FunctionType, PjitFunction)):
            self.__dict__.update({name: value for name, value in fun.__dict__.items()
                                  if name != "__wrapped__" and not hasattr(type(self), name)})
        if not hasattr(fun, "__name__"):
            self.__name__ = function_name(fun)
        self.fun = fun
        self.arguments = Arguments.of(self.who, fun, nondiff_argnums, nondiff_argnames)
        self.nondiff_argnums = self.arguments.nondiff
        #: What is known of the function, per static arguments and types of the others.
        self.signatures = ProgramCache(64)
        self._closed_over: list[Tracer] | None = None

    def rules(self) -> dict[str, Any]:
        """The functions that were given as rules, by name."""
        raise NotImplementedError

    def functions(self) -> Sequence[Any]:
        """The function and its rules."""
        return self.fun, *self.rules().values()

    def ruled(self) -> None:
        """Forgets what was made by other rules."""
        self.signatures.clear()
        self._closed_over = None

    def closed_over(self) -> list[Tracer]:
        """The traced values that the rules close over."""
        if self._closed_over is None:
            found = closed_over(*self.rules().values())
            if found:
                return found  # and is not kept alive
            self._closed_over = []
        return self._closed_over

    def __getattr__(self, name: str) -> Any:
        if name in self.definers and "fun" in self.__dict__:
            return getattr(self.fun, name)
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    def describe(self) -> str:
        """How messages speak of the function."""
        return f"{self.who} function {describe_function(self.fun)}"

    def check_static(self, static: tuple[Any, ...]) -> None:
        """Refuses values of `nondiff_argnums`."""

    def call(self, make: type[Call], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function with its rules."""
        static, dynamic = self.arguments.split(self.arguments.resolve(args, kwargs))
        self.check_static(static)
        leaves, in_tree = tree_flatten(dynamic)
        try:
            for leaf in leaves:
                typeof(leaf)
        except (TypeError, OverflowError):
            check_arguments(f"{self.who} of {self.arguments.parameters.function}", dynamic)
            raise
        hidden = [x for x in tree_leaves(static) if isinstance(x, Tracer)] if static else []
        call = make(self, static, in_tree)
        outs = thread.interpreter.process_custom(
            call, [*map(stop_gradient_p.bind, hidden), *leaves])
        return call.out_tree.unflatten(outs)


__all__ = ["Custom"]
