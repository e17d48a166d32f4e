"""Functions with rules of their users': what `custom_jvp` and `custom_vjp` have in common.

Who gets such a call depends on what interprets it:

- Evaluation runs the function, on values, with Python's control flow.
- Differentiation, if an argument carries a tangent, runs the rule in place of the function,
  with the interpreter below current. The function is not traced.
- vmap hands on a function of batches, if it is differentiated below; else it runs the function.
- Staging traces the function to a jaxpr and applies a primitive that holds it and the rule.
  The rule runs when the equation is differentiated.

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
from mjax._engine.control.custom.custom_calls import Call, Equation
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_leaves
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.tracing.evaluate import CompileTimeEvaluation
from mjax._engine.tracing.flat import (
    check_arguments,
    check_callable,
    describe_function,
    function_name,
)
from mjax._engine.tracing.interpreter import Tracer, call_with, interpreters, refusing
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import (
    AxisData,
    BatchInterpreter,
    BatchTracer,
    batch_jaxpr,
    element_type,
    split_results,
)
from mjax._engine.transforms.jvp import JVPInterpreter, JVPTracer
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter


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

    def rules(self) -> Sequence[Any]:
        """The functions that were given as rules."""
        raise NotImplementedError

    def functions(self) -> Sequence[Any]:
        """The function and its rules."""
        return self.fun, *self.rules()

    def ruled(self) -> None:
        """Forgets what was made by other rules."""
        self.signatures.clear()
        self._closed_over = None

    def closed_over(self) -> list[Tracer]:
        """The traced values that the rules close over."""
        if self._closed_over is None:
            found = closed_over(*self.rules())
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
            check_arguments(f"{self.who} of {self.arguments.function}", dynamic)
            raise
        hidden = [x for x in tree_leaves(static) if isinstance(x, Tracer)] if static else []
        call = make(self, static, in_tree)
        outs = apply(call, [*map(stop_gradient_p.bind, hidden), *leaves])
        return call.out_tree.unflatten(outs)


# ---- under vmap ----------------------------------------------------------------------------


class BatchedCall:
    """A call under vmap, as the interpreters below see it: of a function of batches.

    The function and its rules run under the interpreter of the vmap, put on top of whichever
    runs them, so that they may close over values of the batch.

    Args:
      call: the call of one element.
      interp: the interpreter of the vmap.
      dims: batch dims of the operands.

    Attributes:
      out_dims: batch dims of the results; known once the function or a rule has run.
    """

    __slots__ = ("call", "custom", "dims", "interp", "out_dims", "primitive")

    def __init__(self, call: Any, interp: BatchInterpreter, dims: Sequence[int | None]):
        self.call, self.interp, self.dims = call, interp, dims
        self.custom, self.primitive = call.custom, call.primitive
        self.out_dims: Sequence[int | None] = ()

    @property
    def names_in_scope(self) -> Any:
        """The axes that the rules may refer to."""
        return self.call.names_in_scope

    def params(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The params of the primitive."""
        return self.call.params(*args, **kwargs)

    def outside(self, tracer: Tracer) -> str:
        """Why a value is refused that is not among the arguments."""
        return self.call.outside(tracer)

    def within(self, f: Callable[..., Any], args: Sequence[Any], dims: Sequence[int | None]
               ) -> tuple[list[Any], list[int | None]]:
        """Evaluates a function for the batch; gives values with their batch dims."""
        interp = self.interp
        parent, interp.parent = interp.parent, thread.interpreter
        thread.interpreter = interp
        try:
            outs = f(*[arg if dim is None else BatchTracer(interp, arg, dim)
                       for arg, dim in zip(args, dims, strict=True)])
            return split_results(interp, outs)
        finally:
            thread.interpreter, interp.parent = interp.parent, parent

    def run(self, *values: Any) -> list[Any]:
        """Runs the function."""
        outs, self.out_dims = self.within(self.call.run, values, self.dims)
        return outs

    def rule(self) -> Any:
        """The rule of this call, to be run at once."""
        return self.batched(self.call.rule(), self.interp.axis, self.dims, True, self)

    def batched(self, *args: Any) -> Any:
        """A rule for a batch."""
        return self.call.batched(*args)

    def equation(self, avals: Sequence[Any]) -> Equation:
        """What an equation holds, and the operands that lead the function's."""
        elements = [a if d is None else element_type(a, d)
                    for a, d in zip(avals, self.dims, strict=True)]
        one = self.call.equation(elements)
        leading, dims = split_results(self.interp, one.leading)
        dims = [*dims, *self.dims]
        batched, self.out_dims = batched_call(one.jaxpr, self.interp.axis, dims)
        rule = self.batched(one.rule, self.interp.axis, dims, self.out_dims[:1] != [None])
        return one._replace(jaxpr=batched, rule=rule, leading=leading)


def batched_call(call_jaxpr: Jaxpr, axis: AxisData, dims: Sequence[int | None]
                 ) -> tuple[Jaxpr, list[int | None]]:
    """The jaxpr of a function with rules for a batch: all results are batched, or none.

    A rule may make a batch of what the function gives once.
    """
    if all(d is None for d in dims):
        batched, out_dims = batch_jaxpr(call_jaxpr, axis, dims)
        if all(d is None for d in out_dims):
            return batched, out_dims
    return batch_jaxpr(call_jaxpr, axis, dims, True)


# ---- dispatch ------------------------------------------------------------------------------


def apply(call: Any, values: Sequence[Any]) -> list[Any]:
    """Applies a function with rules to operands, under the current interpreter.

    Args:
      call: a `Call` or a `BatchedCall`.
      values: the operands.
    """
    interp = thread.interpreter
    if interp.parent is None:
        return call.run(*map(array_of, values))
    if isinstance(interp, CompileTimeEvaluation):
        with interp.chosen(values):
            return apply(call, values)
    if isinstance(interp, JVPInterpreter):
        with refusing(interp, call.outside):
            if any(type(v) is JVPTracer and v.interp is interp for v in values):
                return interp.process(call.primitive, tuple(values), call.params(call.rule()))
            return call_with(interp.parent, apply, call, values)
    if isinstance(interp, PartialEvalInterpreter) and not any(map(interp.is_unknown, values)):
        with refusing(interp, call.outside):
            return call_with(interp.parent, apply, call, values)
    if isinstance(interp, BatchInterpreter):
        if all(i.parent is None or isinstance(i, BatchInterpreter) for i in interpreters()):
            return call.run(*map(array_of, values))  # nobody will ask for the rule
        if _differentiates_now():
            return _apply_batched(call, interp, values)
    jaxpr, rule, leading, num_consts = call.equation(list(map(typeof, values)))
    return call.primitive.bind(*leading, *values, **call.params(rule, jaxpr, num_consts))


def _differentiates_now() -> bool:
    """Whether what the current interpreter does is differentiated now rather than later, so
    that function or rule run now, and on values if there are any."""
    for interp in interpreters():
        if isinstance(interp, (JVPInterpreter, PartialEvalInterpreter)):
            return True
        if interp.stages_all:
            return False
    return False


def _apply_batched(call: Any, interp: BatchInterpreter, values: Sequence[Any]) -> list[Any]:
    mine = [type(v) is BatchTracer and v.interp is interp for v in values]
    below = BatchedCall(call, interp, [v.dim if m else None
                                       for v, m in zip(values, mine, strict=True)])
    outs = call_with(interp.parent, apply, below, [
        v.value if m else v for v, m in zip(values, mine, strict=True)])
    return [o if d is None else BatchTracer(interp, o, d)
            for o, d in zip(outs, below.out_dims, strict=True)]


# ---- tangents and cotangents ---------------------------------------------------------------


def is_float0(tangent: Any) -> bool:
    """Whether a tangent or cotangent is that of an integer, which has no other than zero."""
    return (tangent.aval if type(tangent) is Zero else typeof(tangent)).dtype == dtypes.float0


__all__ = ["BatchedCall", "Custom", "apply", "batched_call", "is_float0"]
