"""Functions with users' rules: the common part of `custom_jvp` and `custom_vjp`.

A rule speaks of arguments only: what the function closes over is refused if it carries a
tangent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from mjax._engine.base.folding import boundary
from mjax._engine.base.jitted import PjitFunction
from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.signatures import P, R
from mjax._engine.base.thread import thread
from mjax._engine.control.calls.closures import MadeOfFunctions, closed_over
from mjax._engine.control.custom.custom_arguments import Arguments
from mjax._engine.control.custom.custom_calls import Call
from mjax._engine.ir.pytree import tree_flatten, tree_leaves, tree_map
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import is_array_value
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.tracing.flat import (
    check_arguments,
    check_callable,
    describe_function,
    function_name,
)
from mjax._engine.tracing.interpreter import Tracer


class Custom(MadeOfFunctions, Generic[P, R]):
    """A function with rules: the base of `custom_jvp` and `custom_vjp`."""

    who: ClassVar[str]
    #: The method that defines the rules.
    definer: ClassVar[str]
    #: The attributes with the rules, by the names of these in messages.
    kinds: ClassVar[dict[str, str]]
    #: The class of its calls.
    calls: ClassVar[type[Call]]
    #: Methods by which rules are given; asked of the function inside if this class has none.
    definers: ClassVar[tuple[str, ...]] = ("defjvp", "defjvps", "defvjp", "def_vmap")

    #: Whether there are rules.
    given: bool = False
    symbolic_zeros: bool = False
    __name__: str
    arguments: Arguments
    nondiff_argnums: tuple[int, ...]

    def __init__(self, fun: Callable[P, R], nondiff_argnums: int | Sequence[int] = (),
                 nondiff_argnames: str | Sequence[str] = ()):
        check_callable(self.who, fun)
        # Not its dict: another such class keeps its own fields there.
        functools.update_wrapper(self, fun, updated=())
        if isinstance(fun, (FunctionType, PjitFunction)):
            self.__dict__.update({name: value for name, value in fun.__dict__.items()
                                  if name != "__wrapped__" and not hasattr(type(self), name)})
        if not hasattr(fun, "__name__"):
            self.__name__ = function_name(fun)
        self.fun: Callable[..., Any] = fun
        self.arguments = Arguments.of(self.who, fun, nondiff_argnums, nondiff_argnames)
        self.nondiff_argnums = self.arguments.nondiff
        #: Facts about the function, per static arguments and types of the others.
        self.signatures: ProgramCache = ProgramCache(64)
        self._may_close_over = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.fun!r}>"

    def rules(self) -> dict[str, Any]:
        """The functions that define the rules, by name."""
        return {kind: getattr(self, attribute) for kind, attribute in self.kinds.items()}

    def functions(self) -> Sequence[Any]:
        """The function and its rules."""
        return self.fun, *self.rules().values()

    def ruled(self, **rules: Callable[..., Any]) -> None:
        """Takes rules, in their attributes, and forgets results of earlier ones.

        Raises:
          TypeError: one is not callable.
        """
        for rule in rules.values():
            check_callable(self.definer, rule)
        vars(self).update(rules, given=True)
        self.signatures.clear()
        self._may_close_over = True

    def closed_over(self) -> list[Tracer]:
        """The traced values that the rules close over."""
        found = closed_over(*self.rules().values()) if self._may_close_over else []
        self._may_close_over = bool(found)
        return found

    if not TYPE_CHECKING:  # checkers would take any attribute for one of these
        def __getattr__(self, name):
            if name in self.definers and "fun" in self.__dict__:
                return getattr(self.fun, name)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)

    def describe(self) -> str:
        """The name of the function in messages."""
        return f"{self.who} function {describe_function(self.fun)}"

    def rule_name(self, kind: str) -> str:
        """The name of a rule in messages."""
        return f"{kind} rule {describe_function(self.rules()[kind])} of {self.describe()}"

    def check_static(self, static: tuple[Any, ...]) -> None:
        """Refuses values of `nondiff_argnums`."""

    @boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        if not self.given:
            rule, one = ("rule", "one") if len(self.rules()) == 1 else ("rules", "some")
            msg = (f"{self.describe()} has no {rule} yet: give it {one} with "
                   f"{self.__name__}.{self.definer}.")
            raise AttributeError(msg)
        out: R = self.call(args, kwargs)
        return out

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function with its rules."""
        static, dynamic = self.arguments.split(self.arguments.resolve(args, kwargs))
        self.check_static(static)
        leaves, in_tree = tree_flatten(dynamic)
        if not all(map(is_array_value, leaves)):
            check_arguments(f"{self.who} of {self.arguments.parameters.function}", dynamic)
        if static and any(isinstance(x, Tracer) for x in tree_leaves(static)):
            static = tree_map(_constant, static)
        call = self.calls(self, static, in_tree)
        outs = thread.interpreter.process_custom(call, leaves)
        return call.out_tree.unflatten(outs)


def _constant(value: Any) -> Any:
    """A static argument, held constant if it is traced."""
    return (stop_gradient_p.bind(value)
            if isinstance(value, Tracer) and not is_reference(value.aval) else value)


__all__ = ["Custom"]
