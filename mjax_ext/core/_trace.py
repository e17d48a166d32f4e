"""Traces: interpreters of users in JAX's form."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from mjax._engine.base.thread import thread
from mjax._engine.control.calls.call_primitive import TakesFunctions
from mjax._engine.control.custom.as_functions import (
    FunctionPrimitive,
    functions_in,
    functions_of,
)
from mjax._engine.tracing.agreed import note_beside
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import Interpreter, Refusal, check_alive
from mjax._engine.tracing.rule_errors import describe_value, name_interpreter
from mjax._engine.tracing.rule_results import refuse_other_count

#: Traces of users that have ended, and that something refers to: maybe tracers that escaped. Those
#: of the engine are refused by interpreters below, as under the engine's own transformations.
_ended: set[weakref.ref[Any]] = set()


class _TraceMeta(type):
    """Every interpreter is a trace to `isinstance`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Interpreter) if cls is Trace else (
            type.__instancecheck__(cls, instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Interpreter) if cls is Trace else (
            type.__subclasscheck__(cls, subclass))


class Trace(Interpreter, metaclass=_TraceMeta):
    """An interpreter of a user's, in JAX's form: the base of quax's, for one.

    A subclass defines `process_primitive(primitive, tracers, params)`, which gives one value, or a
    list if `primitive.multiple_results`. Among the operands are its own tracers (`Tracer`), those
    of other traces, arrays and numbers. Methods run under evaluation. A rule that computes on
    behalf of outer transformations makes the trace below current: `with
    set_current_trace(self.parent_trace)`.

    `parent_trace` is that trace; the subclass sets it in `__init__`. Without it the trace counts as
    one above evaluation.

    Functions with rules of their own come to `process_custom_jvp_call` and
    `process_custom_vjp_call`, calls by a `CallPrimitive` to `process_call`. Loops, branches and
    `jit` come to `process_primitive` as primitives with jaxprs among their params;
    `jaxpr_as_fun(jaxpr)` is a function to interpret again.

    `core.Interpreter` does the same with less: it makes the tracers, finds the interpreter below,
    takes trees, enters loops and branches, and needs one method.

    Raises:
      NotImplementedError: at an application whose method the subclass does not define.
      TypeError: a method gives None, or not a list for several results, or another number of them;
        names it.

    Example:
      >>> from mjax_ext import core
      >>> class Named(core.Tracer):
      ...   def __init__(self, trace, name, value):
      ...     super().__init__(trace, mjax.typeof(value))
      ...     self.name, self.value = name, value
      >>> class Naming(core.Trace):
      ...   def __init__(self, parent):
      ...     super().__init__()
      ...     self.parent_trace = parent
      ...   def process_primitive(self, primitive, tracers, params):
      ...     mine = [isinstance(t, Named) and t._trace is self for t in tracers]
      ...     names = [t.name if m else str(t) for t, m in zip(tracers, mine)]
      ...     values = [t.value if m else t for t, m in zip(tracers, mine)]
      ...     with core.set_current_trace(self.parent_trace):
      ...       out = primitive.bind(*values, **params)
      ...     return Named(self, f"{primitive}({', '.join(names)})", out)
      >>> def name_of(f, x):
      ...   with core.take_current_trace() as parent:
      ...     trace = Naming(parent)
      ...     with core.set_current_trace(trace):
      ...       return f(Named(trace, "x", x)).name
      >>> name_of(lambda x: lax.sin(x) * 2.0, 1.0)
      'mul(sin(x), 2.0)'

    Source: JAX, `jax.core.Trace` of release 0.10.2.
    """

    __slots__ = ("_alive", "parent_trace")
    function: Any

    def __init__(self) -> None:
        self.function = None
        self._alive: bool | Refusal = True

    @property
    def alive(self) -> bool | Refusal:
        """Whether its tracers may be used."""
        return self._alive

    @alive.setter
    def alive(self, alive: bool | Refusal) -> None:
        self._alive = alive
        if not alive:
            _ended.add(weakref.ref(self, _ended.discard))

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the class, for messages."""
        return type(self).__name__

    @property
    def parent(self) -> Any:  # type: ignore[override]
        """The trace below, as the engine asks for it."""
        return getattr(self, "parent_trace", evaluation)

    def __repr__(self) -> str:
        return type(self).__name__

    def full_raise(self, x: Any) -> Any:
        """The value: an interpreter wraps its operands itself, as JAX's have done since 0.4.36."""
        return x

    # -- to be defined --

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any],
                          /) -> Any:
        """Interprets an application of a primitive.

        Args:
          primitive: the primitive.
          tracers: its operands.
          params: its params.

        Returns:
          One value, or a list with `primitive.multiple_results`.
        """
        self._missing("process_primitive(primitive, tracers, params)", f"primitive {primitive}")

    def process_call(self, call_primitive: Any, f: Any, tracers: Sequence[Any],
                     params: dict[str, Any], /) -> list[Any]:
        """Interprets a call of a function of flat values, `f.call_wrapped(*tracers)`.

        Args:
          call_primitive: a `CallPrimitive`.
          f: a `WrappedFun`.
          tracers: the operands.
          params: the primitive's params, without the function.

        Returns:
          The list of results.
        """
        self._missing("process_call(call_primitive, f, tracers, params)",
                      f"a call by {call_primitive}")

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Sequence[Any],
                                /, *, symbolic_zeros: bool) -> list[Any]:
        """Interprets a call of a `custom_jvp` function.

        To drop the rule, return `fun.call_wrapped(*tracers)` with `self` current. To keep it,
        transform both functions and bind them below: `primitive.bind_with_trace(
        self.parent_trace, values, avals, dict(subfuns=(fun, jvp), symbolic_zeros=...))`.

        Args:
          primitive: `custom_jvp_call_p`.
          fun: the function, of flat values; a `WrappedFun`.
          jvp: its rule; takes the primals, then as many tangents; gives results, then tangents.
          tracers: the operands.
          symbolic_zeros: whether a tangent known to be zero is a `SymbolicZero`.

        Returns:
          The list of results.
        """
        self._missing("process_custom_jvp_call(primitive, fun, jvp, tracers, *, symbolic_zeros)",
                      f"a call of {fun.__name__}, which has a rule for jvp")

    def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any,
                                tracers: Sequence[Any], /, *, out_trees: Any,
                                symbolic_zeros: bool) -> list[Any]:
        """Interprets a call of a `custom_vjp` function.

        Args:
          primitive: `custom_vjp_call_p`.
          fun: the function, of flat values; a `WrappedFun`.
          fwd: takes each operand, followed by whether it is differentiated; gives the residuals,
            then the results.
          bwd: takes the residuals and the cotangents of the results; gives those of the operands.
          tracers: the operands.
          out_trees: after `fwd` has run, gives the trees of the results and of the residuals, and
            for each residual the operand that it is, or None.
          symbolic_zeros: whether a cotangent known to be zero is a `SymbolicZero`.

        Returns:
          The list of results.
        """
        self._missing("process_custom_vjp_call(primitive, fun, fwd, bwd, tracers, *, out_trees, "
                      "symbolic_zeros)", f"a call of {fun.__name__}, which has rules for vjp")

    def _missing(self, method: str, what: str) -> NoReturn:
        raise NotImplementedError(
            f"{self.name} does not interpret {what}: define {self.name}.{method}.")

    # -- the engine's protocol --

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if isinstance(primitive, TakesFunctions):
            return self._call(primitive, args, params)
        if _ended:
            for value in args:
                check_alive(value)
        thread.interpreter = evaluation
        try:
            out = self.process_primitive(primitive, [*args], params)
            thread.interpreter = self
            if primitive.multiple_results:
                known = primitive.agreed
                for arg in args:
                    known = known[arg.aval]
                if params in known[out.__class__][len(out)]:
                    return out
            elif out.aval is not None:
                return out
        except Exception as error:
            if thread.interpreter is not self or "out" not in locals():  # The method raised it.
                thread.interpreter = self
                name_interpreter(error, self.name, primitive)
                raise
        except BaseException:
            thread.interpreter = self
            raise
        out = self._checked("process_primitive", primitive, out)
        return self._counted(primitive, out, args, params) if primitive.multiple_results else out

    def _call(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The results of a primitive that holds functions."""
        if isinstance(primitive, FunctionPrimitive):
            return self._custom(primitive, functions_in(primitive, params), args)
        rest = primitive.get_bind_params(params)
        (f,) = rest.pop("subfuns")
        return self._apart("process_call", primitive, args, lambda: self.process_call(
            primitive, f, list(args), rest))

    def _counted(self, primitive: Any, outs: list[Any], args: tuple[Any, ...],
                 params: dict[str, Any]) -> list[Any]:
        """The results of a primitive with several; notes the number that it has."""
        refuse_other_count(primitive, f"{self.name}.process_primitive", outs, args, params,
                           " If the method changes params, let it change a copy: dict(params).")
        if primitive.types_cacheable:
            primitive.used = True  # An abstract evaluation that it gets later takes this back.
            note_beside(primitive.comparisons, args, params, list, len(outs))
        return outs

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        return self._custom(call.frame.primitive, functions_of(call), values)

    def _custom(self, primitive: Any, parts: tuple[list[Any], dict[str, Any]],
                values: Sequence[Any]) -> list[Any]:
        functions, params = parts
        method = f"process_custom_{'jvp' if len(functions) == 2 else 'vjp'}_call"
        outs: list[Any] = self._apart(method, primitive, values, lambda: getattr(self, method)(
            primitive, *functions, list(values), **params))
        return outs

    def _apart(self, method: str, primitive: Any, values: Sequence[Any], run: Any) -> Any:
        """Runs a method under evaluation, and checks its result."""
        for value in values:
            check_alive(value)
        thread.interpreter = evaluation
        try:
            return self._checked(method, primitive, run())
        except Exception as error:
            name_interpreter(error, self.name, primitive)
            raise
        finally:
            thread.interpreter = self

    def _checked(self, method: str, primitive: Any, out: Any) -> Any:
        """The result of a method."""
        if primitive.multiple_results:
            if isinstance(out, (list, tuple)):
                return list(out)
        elif out is not None and not isinstance(out, (list, tuple)):
            return out
        what = "None" if out is None else describe_value(out)
        wanted = "a list of values" if primitive.multiple_results else "a value"
        msg = (f"{self.name}.{method} returned {what} for primitive {primitive.name!r}; it must "
               f"return {wanted}.{' Is a return statement missing?' if out is None else ''}")
        raise TypeError(msg)


class TraceTag:
    """A tag by which a trace knows its tracers: `tracer._trace.tag is self.tag`.

    All tags are equal, so that functions made with one are found again in caches; identity tells
    them apart.

    Example:
      >>> from mjax_ext import core
      >>> core.TraceTag() == core.TraceTag()
      True

    Source: JAX, `jax.extend.core.TraceTag`.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TraceTag)

    def __hash__(self) -> int:
        return hash(TraceTag)
