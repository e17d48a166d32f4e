"""The evaluating interpreter, at the bottom of every stack of interpreters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.ir.jaxpr import named_axes
from mjax._engine.ir.types import is_array_value, same_type_but_weak, typeof
from mjax._engine.tracing.flat import refuse_operands
from mjax._engine.tracing.interpreter import Interpreter, Tracer, call_with, check_alive
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import (
    bad_rule_result,
    check_lists,
    describe_value,
    name_rule,
)
from mjax._engine.tracing.rule_results import check_values
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero


class Evaluation(Interpreter):
    """Runs primitives on values: by their impl, else compiled by the runtime.

    Example:
      >>> from mjax_ext import core
      >>> isinstance(core.find_top_trace(()), core.EvalTrace)
      True
    """

    __slots__ = ()
    name = "evaluation"

    def __init__(self) -> None:
        super().__init__(None)

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        impl = primitive.impl
        if impl is None:
            return sockets.execute(primitive, args, params)
        for arg in args:
            check_alive(arg)
            if type(arg) is Zero or type(arg) is UndefinedPrimal:
                typeof(arg)  # refuses it
        typed = primitive.abstract_eval is not None and primitive.types_cacheable
        if not typed:
            primitive.check_params(params)
        try:
            out = impl(*args, **params)
        except Exception as error:
            if isinstance(error, TypeError):
                refuse_operands(primitive.name, args)
            name_rule(error, primitive, "impl", params)
            raise
        # If jaxprs among the params determine the types, the impl runs these jaxprs.
        if typed:
            _check_impl(primitive, args, params, out)
        elif primitive.abstract_eval is not None and "impl" in primitive.foreign:
            check_values(primitive, "impl", out, (), params)
            if primitive.frame is not None:
                check_lists(primitive, "impl", [out], len(primitive.infer(
                    list(map(typeof, args)), params)[0]), "a list of results")
        elif primitive.multiple_results:
            check_lists(primitive, "impl", [out], None, "a list of values")
        return out

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        return call.evaluate(values)

    def process_call(self, primitive: Any, f: Any, tracers: Sequence[Any], params: dict[str, Any]
                     ) -> list[Any]:
        outs: list[Any] = call_with(self, primitive.run, f, *tracers, **params)
        return outs


def _check_impl(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any], out: Any
                ) -> None:
    """Compares an impl's results with the abstract evaluation; the results go on as they are."""
    declared, _ = primitive.type_of(tuple(map(typeof, args)), params)
    if primitive.multiple_results:
        check_lists(primitive, "impl", [out], len(declared), "a list of values")
        outs, avals = out, declared
    else:
        outs, avals = [out], [declared]
    try:
        fits = all(map(same_type_but_weak, map(typeof, outs), avals))
    except TypeError:
        fits = False
    if not fits:
        bad_rule_result(primitive, "impl", lambda: (
            f"returned {', '.join(map(_type_text, outs))}, but its abstract evaluation says "
            f"{', '.join(map(str, avals))}. Make them agree: under jit the abstract evaluation "
            "decides."))


def _type_text(value: Any) -> str:
    return str(typeof(value)) if is_array_value(value) else describe_value(value)


evaluation = Evaluation()
ThreadState.interpreter = thread.interpreter = evaluation


class CompileTimeEvaluation(Interpreter):
    """Evaluates operations on known values; hands all others to the outer interpreter.

    Args:
      outer: the outer interpreter.
    """

    __slots__ = ("outer",)
    name = "compile-time evaluation"

    def __init__(self, outer: Interpreter):
        super().__init__(evaluation)
        self.outer = outer

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        # A collective concerns all elements of the outer map, whatever its operands are.
        outside = primitive.axis_batch is not None and not named_axes(params).isdisjoint(
            [axis.name for axis in thread.axis_env])
        with self.chosen(args, outside):
            return thread.interpreter.process(primitive, args, params)

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        with self.chosen(values):
            return thread.interpreter.process_custom(call, values)

    @contextmanager
    def chosen(self, values: Sequence[Any], outside: bool = False) -> Iterator[None]:
        """Makes the interpreter for an operation on these values current.

        Args:
          values: the operands.
          outside: whether it belongs to the outer interpreter in any case.
        """
        previous = thread.interpreter, thread.axis_env
        if outside or any([isinstance(value, Tracer) for value in values]):
            thread.interpreter = self.outer
        else:
            # Named axes belong to the interpreter that is bypassed.
            thread.interpreter, thread.axis_env = evaluation, ()
        try:
            yield
        finally:
            thread.interpreter, thread.axis_env = previous
