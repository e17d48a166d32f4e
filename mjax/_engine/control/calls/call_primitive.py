"""Primitives that call a function: `CallPrimitive`, and the primitive `call`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.control.calls.wrapped import WrappedFun, wrap_init
from mjax._engine.control.frame import Frame
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.flat import describe_function
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import eval_jaxpr, lift_tracers, stage


def call_impl(f: Any, *args: Any, **params: Any) -> list[Any]:
    """The implementation of call primitives: calls the function, whatever the params are.

    Args:
      f: the function, of flat values; a `WrappedFun`.
      args: its operands.
      params: the params of the primitive.

    Returns:
      A list of values.

    Raises:
      TypeError: the function does not return a list or a tuple.
      AttributeError: `f` is not a `WrappedFun`.
      Exception: the error of the function, if it raises one.

    Example:
      >>> from mjax_ext import core, linear_util as lu
      >>> core.call_impl(lu.wrap_init(lambda x: [x + 1]), 1, name="region")
      [2]
    """
    outs = f.call_wrapped(*args)
    if not isinstance(outs, (list, tuple)):
        msg = (f"a call primitive calls {describe_function(f.f)}, which returned "
               f"{describe_value(outs)}; functions of flat values return a list.")
        raise TypeError(msg)
    return list(outs)


class TakesFunctions(Primitive):
    """A primitive whose `bind` takes functions, by `subfuns`, or the params of an equation."""

    __slots__ = ()

    @boundary
    def bind(self, *args: Any, **params: Any) -> Any:
        """Calls functions; without `subfuns` repeats an equation.

        Args:
          args: the operands.
          params: `subfuns`, a tuple of the functions as `WrappedFun`s, and params; or those of an
            equation.

        Returns:
          The list of results.
        """
        if "subfuns" not in params:
            return super().bind(*args, **params)
        return self.bind_with_trace(thread.interpreter, args, params)

    def bind_with_trace(self, trace: Any, args: Sequence[Any], /, *more: Any) -> Any:
        """`bind` by an interpreter, whichever one is current; see `Primitive.bind_with_trace`."""
        params = dict(more[-1])
        if "subfuns" not in params:
            return super().bind_with_trace(trace, args, params)
        return self._call_functions(trace, args, params.pop("subfuns"), params)

    def _call_functions(self, trace: Any, args: Sequence[Any], functions: Sequence[Any],
                       params: dict[str, Any]) -> Any:
        """The results of a call of functions, by an interpreter."""
        raise NotImplementedError


class CallPrimitive(TakesFunctions):
    """A primitive that calls a function of flat values, in one equation.

    `bind(*operands, subfuns=(f,), **params)` takes the function as a `WrappedFun`
    (`mjax_ext.linear_util.wrap_init`). Evaluation runs `impl(f, *operands, **params)`, which by
    default calls it. A `Trace` of a user's gets it in `process_call`. All other interpreters stage
    it: the equation has its program in the param `call_jaxpr`, and values that it closes over as
    leading operands. The equation is transformed and lowered as a call.

    Args:
      name: its name in jaxprs and messages.
      params: the types of its params by name, besides `call_jaxpr`; None: it may have any.

    Raises:
      TypeError: by `bind`: the function is not a function, or there is not exactly one.

    Example:
      >>> from mjax_ext import core, linear_util as lu
      >>> region_p = core.CallPrimitive("region")
      >>> fun = lu.wrap_init(lambda x: [lax.sin(x)])
      >>> region = lambda x: region_p.bind(x, subfuns=(fun,), name="waves")[0]
      >>> float(mjax.grad(region)(0.0))
      1.0
      >>> mjax.make_jaxpr(region)(1.0).eqns[0].params["call_jaxpr"].eqns
      [a:~f32[] = sin b]

    Source: JAX, `jax.extend.core.CallPrimitive` of release 0.10.2.
    """

    __slots__ = ()
    call_primitive = True

    def __init__(self, name: str, params: Mapping[str, Any] | None = None):
        super().__init__(name, multiple_results=True, params=None if params is None else {
            "call_jaxpr": Jaxpr, **params})
        Frame(self, "call_jaxpr")
        self.def_impl(call_impl)
        self.def_lowering(self._call)

    def _call(self, ctx: Any, *operands: Any, call_jaxpr: Jaxpr, **params: Any) -> Any:
        return ctx.call(call_jaxpr, str(params.get("name", self.name)), *operands)

    def _call_functions(self, trace: Any, args: Sequence[Any], functions: Sequence[Any],
                       params: dict[str, Any]) -> Any:
        """The results of a call of the function, by an interpreter."""
        if len(functions) != 1:
            msg = (f"primitive {self.name!r} calls one function: subfuns=(f,); it was given "
                   f"{len(functions)}.")
            raise TypeError(msg)
        (f,) = functions
        return trace.process_call(self, as_wrapped(f), args, params)

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The params with which `bind` repeats an equation, as a call of a function."""
        rest = {name: value for name, value in params.items() if name != "call_jaxpr"}
        return {**rest, "subfuns": (function_of(params["call_jaxpr"]),)}

    def staged(self, f: WrappedFun, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """Applies the primitive to the program of a function."""
        jaxpr, consts = lift_tracers(stage(
            functools.partial(call_impl, f), list(map(typeof, args)),
            f.debug_info._replace(arg_names=None)))
        outs: list[Any] = thread.interpreter.process(
            self, (*consts, *args), {**params, "call_jaxpr": jaxpr})
        return outs

    def run(self, f: WrappedFun, *args: Any, **params: Any) -> Any:
        """Evaluates a call of a function."""
        return self.impl.__wrapped__(f, *args, **params)  # type: ignore[union-attr]

    def define(self, field: str, rule: Callable[..., Any] | None, *, derived: bool = False) -> Any:
        """Sets a rule; `impl` takes the function in front of the operands."""
        if field != "impl" or not callable(rule):
            return super().define(field, rule, derived=derived)

        def impl(*args: Any, call_jaxpr: Jaxpr, **params: Any) -> Any:
            return rule(function_of(call_jaxpr), *args, **params)

        impl.__wrapped__ = rule  # type: ignore[attr-defined]
        super().define("impl", impl, derived=derived)
        return rule


class EngineCall(CallPrimitive, EnginePrimitive):
    """A call of the engine's own. Its params: the function's name in lowered modules."""

    __slots__ = ()

    def __init__(self, name: str):
        super().__init__(name, {"name": NotRequired[str]})


def as_wrapped(f: Any) -> WrappedFun:
    """A function as a `WrappedFun`, if it is not one."""
    return f if isinstance(f, WrappedFun) else wrap_init(f)


def function_of(jaxpr: Jaxpr) -> WrappedFun:
    """A program as a function of flat values."""
    return wrap_init(lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args),
                     debug_info=jaxpr.debug_info)


call_p = EngineCall("call")

__all__ = ["CallPrimitive", "TakesFunctions", "as_wrapped", "call_impl", "call_p", "function_of"]
