"""Base class for users' final-style transformations, which define one method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.control.calls.closures import closed_over
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.control.custom.as_functions import FunctionPrimitive, functions_in, functions_of
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, named_axes
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import AbstractValue, is_array_value, typeof
from mjax._engine.tracing import interpreter as engine
from mjax._engine.tracing.flat import check_callable
from mjax._engine.tracing.interpreter import axes_in_scope, call_with
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value, name_interpreter
from mjax._engine.tracing.rule_results import refuse_other_count
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax_ext.core._entering import enter


class Interpreter:
    """A transformation: the effect of primitives on values that carry further data.

    A subclass interprets an application in `apply`. If a value carries more than an array, it also
    defines the data of a constant (`lift`) and the type that the user's function sees (`aval`).
    `run` interprets a function, `on_trees` one of pytrees. Methods run under the interpreter that
    was current when `run` was called. So outer transformations differentiate, batch or stage their
    computations.

    Applications to constants alone are not interpreted, unless they are collectives over an axis of
    `named_axes`. `jit` is entered; see `call`. Loops, branches and other primitives that hold
    programs come to `apply`, which may `enter` them: the equation then holds the interpreted
    programs. Functions with derivative rules of their own come to `custom`.

    `core.Trace` is JAX's form of the same, with tracers made by hand.

    Example:
      >>> from mjax_ext import core
      >>> class Names(core.Interpreter):
      ...     def apply(self, primitive, values, params):
      ...         print(primitive.name)
      ...         return primitive.bind(*values, **params)
      >>> Names().run(lambda x: lax.mul(lax.neg(x), x), 3.0)
      neg
      mul
      Array(-9., dtype=float32, weak_type=True)
    """

    # -- the values --

    def lift(self, value: Any) -> Any:
        """The data of a value that is a constant to this interpreter; by default itself."""
        return value

    def aval(self, carried: Any) -> Any:
        """The type that the interpreted function sees; by default that of `carried`."""
        return typeof(carried)

    def array(self, carried: Any) -> Any:
        """The array in the place of a value where one is needed to `enter` a primitive: the index
        of a branch, whether a loop goes on. By default `carried`, if it is one."""
        return carried

    def widen(self, carried: Any, tree: Any) -> Any:
        """The data of the same value in another tree; asked for by `enter`, where a carry or the
        result of a branch comes in two trees, for that with fewer leaves.

        Raises:
          TypeError: by default.
        """
        name = type(self).__name__
        msg = (f"{name} carries {describe_value(carried)} in the place of data of the structure "
               f"{tree}, in a carry or in results of branches. Define {name}.widen(carried, tree), "
               f"or let {name}.lift give data of that structure.")
        raise TypeError(msg)

    def named_axes(self) -> Mapping[Any, int]:
        """Named axes that the interpreter maps over, by size; by default none.

        They are in scope while a function is interpreted. Collectives over them come to `apply`,
        those on constants too.
        """
        return {}

    # -- what is interpreted --

    def apply(self, primitive: Primitive, carried: Sequence[Any], params: dict[str, Any]) -> Any:
        """The data of the result of an application; a list if it has multiple results."""
        name = type(self).__name__
        msg = (f"{name} does not interpret primitive {primitive}: define {name}.apply(primitive, "
               "carried, params).")
        raise NotImplementedError(msg)

    def call(self, jaxpr: Jaxpr, carried: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """The data of the results of a `jit` equation; by default those of its equations.

        `enter(jit_p, carried, params)` keeps the call.
        """
        return list(self.run(lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args), *carried))

    def custom(self, function: Callable[..., list[Any]], rules: Mapping[str, Callable[..., Any]],
               carried: Sequence[Any]) -> list[Any]:
        """The data of the results of a function with derivative rules of its own (`custom_jvp`,
        `custom_vjp`); by default those of its operations, without the rules.

        Args:
          function: of flat values; `self.run(function, *carried)` interprets it.
          rules: "jvp", which takes primals, then tangents, and gives results, then their tangents;
            or "fwd", which takes the operands and gives a list of results and one of residuals, and
            "bwd", which takes both lists, of residuals and of cotangents, and gives a cotangent for
            each operand.
          carried: the data of its operands.

        Example, of an interpreter of trees whose derivatives follow the rules:
          >>> from mjax_ext import core
          >>> class Twice(core.Interpreter):
          ...   def lift(self, value):
          ...     return (value, value)
          ...   def aval(self, carried):
          ...     return mjax.typeof(carried[0])
          ...   def apply(self, primitive, carried, params):
          ...     return tuple(primitive.bind(*half, **params) for half in zip(*carried))
          ...   def custom(self, function, rules, carried):
          ...     both = mjax.custom_jvp(lambda *data: self.run(function, *data))
          ...     @both.defjvp
          ...     def rule(data, tangents):
          ...       found = self.run(rules["jvp"], *data, *tangents)
          ...       return found[:len(found) // 2], found[len(found) // 2:]
          ...     return both(*carried)
          >>> f = mjax.custom_jvp(lambda x: lax.sin(x))
          >>> _ = f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
          >>> mjax.jvp(lambda x: Twice().run(f, (x, x + 1)), (0.0,), (1.0,))[1]
          (Array(1., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
        """
        return list(self.run(function, *carried))

    def enter(self, primitive: Primitive, carried: Sequence[Any], params: dict[str, Any]
              ) -> list[Any]:
        """The data of the results of a primitive that holds programs, which are interpreted.

        It applies the primitive to the leaves of the data, which are trees of arrays. A leaf enters
        as its value does: as it is, or one slice per iteration where it has that axis. Each
        application traces the programs.

        Args:
          primitive: one with a frame, such as `scan_p`, `while_p`, `cond_p`, `jit_p`, `remat_p`, or
            a user's (`core.Frame`).
          carried: the data of its operands.
          params: its params.

        Raises:
          TypeError: it does not hold programs; data is not a tree of arrays; a carry, or a result
            of branches, has different trees or types.

        Example:
          >>> from mjax_ext import core
          >>> class Doubled(core.Interpreter):
          ...   def apply(self, primitive, carried, params):
          ...     if primitive.frame is not None:
          ...       return self.enter(primitive, carried, params)
          ...     return 2.0 * primitive.bind(*carried, **params)
          >>> f = lambda x: lax.scan(lambda c, _: (c * x, c), 1.0, length=3)[0]
          >>> float(Doubled().run(f, 3.0))
          216.0
        """
        return enter(self, primitive, carried, params)

    # -- functions --

    def run(self, f: Callable[..., Any], *carried: Any) -> Any:
        """Interprets a function.

        Args:
          f: takes one value for each of `carried`, returns a pytree of values.
          carried: the data of its arguments.

        Returns:
          The same pytree with the data of the results.

        Raises:
          TypeError: `aval` gives no type, or `apply` no result or another number of them; names
            the class and the method.
        """
        check_callable(f"{type(self).__name__}.run", f)
        interp = _Running(thread.interpreter, self)
        with axes_in_scope(interp.axes.items()), engine.running(interp):
            leaves, tree = tree_flatten(f(*[_Carrier(interp, c) for c in carried]))
        results = [interp.carried_by(leaf) for leaf in leaves]
        del leaves
        refuse_leaks(interp)
        return tree.unflatten(results)

    def on_trees(self, f: Callable[..., Any], is_leaf: Callable[[Any], bool] | None = None
                 ) -> Callable[..., Any]:
        """A function of pytrees, as an interpreted one.

        Args:
          f: a function of pytrees of values.
          is_leaf: tells data that are not arrays, within arguments and keyword arguments; None:
            all data are.

        Returns:
          A function of the same arguments, with data for the values; its result has data in their
          places too. Other leaves are passed as they are.

        Example:
          >>> from mjax_ext import core
          >>> class Plain(core.Interpreter):
          ...   def apply(self, primitive, carried, params):
          ...     return primitive.bind(*carried, **params)
          >>> f = lambda x, *, mode: {mode: x["a"] * 2.0}
          >>> Plain().on_trees(f)({"a": jnp.ones(2)}, mode="double")
          {'double': Array([2., 2.], dtype=float32)}
        """
        check_callable(f"{type(self).__name__}.on_trees", f)

        def interpreted(*args: Any, **kwargs: Any) -> Any:
            given = (args, kwargs)
            ours = {id(given), id(args), id(kwargs)}  # not data, whatever they look like
            leaves, tree = tree_flatten(given, None if is_leaf is None else (
                lambda x: id(x) not in ours and is_leaf(x)))
            data = [leaf for leaf in leaves if _is_data(leaf, is_leaf)]
            found: list[Any] = []

            def flat(*values: Any) -> list[Any]:
                rest = iter(values)
                args, kwargs = tree.unflatten([
                    next(rest) if _is_data(leaf, is_leaf) else leaf for leaf in leaves])
                outs, out_tree = tree_flatten(f(*args, **kwargs))
                found.extend((outs, out_tree, [is_array_value(out) for out in outs]))
                return [out for out in outs if is_array_value(out)]

            results = iter(self.run(flat, *data))
            outs, out_tree, marks = found
            return out_tree.unflatten([
                next(results) if mark else out for out, mark in zip(outs, marks, strict=True)])

        return interpreted


def _is_data(leaf: Any, is_leaf: Callable[[Any], bool] | None) -> bool:
    return is_array_value(leaf) or (is_leaf is not None and is_leaf(leaf))


@engine.register_tracer
class _Carrier(engine.Tracer):
    """A value with its data for one run of an interpreter."""

    __slots__ = ("carried",)

    def __init__(self, interp: _Running, carried: Any):
        self.interp = interp
        self.aval = interp.type_of(carried)
        self.carried = carried


class _Running(engine.Interpreter):
    """One run of an interpreter, as the engine sees it."""

    __slots__ = ("axes", "definition", "name")

    def __init__(self, parent: Any, definition: Interpreter):
        super().__init__(parent)
        self.definition = definition
        self.name = type(definition).__name__
        self.axes = definition.named_axes()

    def type_of(self, carried: Any) -> Any:
        """The type that the function sees for the data of an argument or a result."""
        try:
            aval = self.definition.aval(carried)
        except Exception as error:
            if type(self.definition).aval is not Interpreter.aval:
                error.add_note(f"Raised in {self.name}.aval for {describe_value(carried)}.")
                raise
            if not isinstance(error, TypeError):
                raise
            msg = (f"{self.name} carries {describe_value(carried)}, whose type is not known: "
                   f"define {self.name}.aval(carried), which gives the type of the value that it "
                   f"stands for. An argument of run is one value, not a tree of them: {self.name}"
                   ".on_trees(f) takes trees.")
            raise TypeError(msg) from error
        if not isinstance(aval, AbstractValue):
            msg = (f"{self.name}.aval returned {describe_value(aval)} for "
                   f"{describe_value(carried)}; it must return a type, such as "
                   "core.ShapedArray(shape, dtype).")
            raise TypeError(msg)
        return aval

    def is_mine(self, value: Any) -> bool:
        """Whether a value carries data for this run."""
        return type(value) is _Carrier and value.interp is self

    def carried_by(self, value: Any) -> Any:
        """The data of a value for this run."""
        return value.carried if self.is_mine(value) else self.definition.lift(value)

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        thread.interpreter = self.parent
        try:
            if not (any(map(self.is_mine, args)) or self.names_axis(primitive, params)):
                return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
            try:
                method, out = self.interpret(primitive, list(map(self.carried_by, args)), params)
                return self.results(primitive, method, out, args, params)
            except Exception as error:
                name_interpreter(error, self.name, primitive)
                raise
        finally:
            thread.interpreter = self

    def results(self, primitive: Primitive, method: str, out: Any, args: Sequence[Any],
                params: dict[str, Any]) -> Any:
        """The values that the function sees for what a method returned."""
        if out is None or out is NotImplemented:
            msg = (f"{self.name}.{method} returned {out} for primitive {primitive.name!r}; it must "
                   "return what the result carries" + (
                       ". Is a return statement missing?" if out is None else
                       ", or raise NotImplementedError."))
            raise TypeError(msg)
        if not primitive.multiple_results:
            return _Carrier(self, out)
        if not isinstance(out, (list, tuple)):
            msg = (f"{self.name}.{method} returned {describe_value(out)} for primitive "
                   f"{primitive.name!r}, which has multiple results; it must return a list.")
            raise TypeError(msg)
        refuse_other_count(primitive, f"{self.name}.{method}", out, args, params)
        return [_Carrier(self, c) for c in out]

    def interpret(self, primitive: Primitive, carried: list[Any], params: dict[str, Any]
                  ) -> tuple[str, Any]:
        """The method that interprets an application, and its result."""
        if primitive is jit_p:
            return "call", self.definition.call(params["jaxpr"], carried, {**params})
        if isinstance(primitive, FunctionPrimitive):
            return "custom", self.definition.custom(*_rules(functions_in(primitive, params)),
                                                    carried)
        return "apply", self.definition.apply(primitive, carried, {**params})

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        if not any(map(self.is_mine, [*values, *closed_over(call.custom.fun)])):
            parent: Any = self.parent
            outs: list[Any] = call_with(parent, parent.process_custom, call, values)
            return outs
        if type(self.definition).custom is Interpreter.custom:
            outs = call.run(*values)  # it may close over values
            return outs
        asked: list[Any] = []
        function, rules = _rules(functions_of(call))
        found = call_with(
            self.parent, self.definition.custom, _noting(asked, function),
            {kind: _noting(asked, rule) for kind, rule in rules.items()},
            list(map(self.carried_by, values)))
        if not isinstance(found, (list, tuple)):
            msg = (f"{self.name}.custom returned {describe_value(found)} for {call.custom.who} "
                   f"function {call.custom.__name__}; it must return a list.")
            raise TypeError(msg)
        if not asked:  # neither function nor rule has told the structure of the results
            jaxpr = call_with(self.parent, trace_to_jaxpr, lambda *args: call.run(*args),
                              list(map(typeof, values)), DebugInfo("custom", self.name))
            if len(jaxpr.outvars) != len(found):
                msg = (f"{self.name}.custom returned {describe_value(found)} for {call.custom.who} "
                       f"function {call.custom.__name__}; its results are {len(jaxpr.outvars)}.")
                raise TypeError(msg)
        return [_Carrier(self, c) for c in found]

    def names_axis(self, primitive: Primitive, params: dict[str, Any]) -> bool:
        """Whether a collective refers to an axis of this interpreter."""
        return bool(self.axes) and primitive.axis_batch is not None and (
            not named_axes(params).isdisjoint(self.axes))


def _noting(calls: list[Any], f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which notes that it is called."""

    def noted(*args: Any) -> Any:
        calls.append(f)
        return f(*args)

    return noted


def _rules(parts: tuple[list[Any], dict[str, Any]]
           ) -> tuple[Callable[..., list[Any]], dict[str, Callable[..., Any]]]:
    """A function with rules, and its rules, as `Interpreter.custom` takes them."""
    (function, *rules), more = parts
    if len(rules) == 1:
        return function.call_wrapped, {"jvp": rules[0].call_wrapped}
    fwd, bwd = rules

    def forward(*operands: Any) -> tuple[list[Any], list[Any]]:
        found = fwd.call_wrapped(*(x for operand in operands for x in (operand, True)))
        n = more["out_trees"]()[1].num_leaves
        return found[n:], found[:n]

    return function.call_wrapped, {
        "fwd": forward, "bwd": lambda residuals, cts: bwd.call_wrapped(*residuals, *cts)}
