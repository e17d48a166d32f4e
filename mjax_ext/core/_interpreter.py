"""Base class for users' final-style transformations, which define one method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import AbstractValue, typeof
from mjax._engine.tracing import interpreter as engine
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import eval_jaxpr


class Interpreter:
    """A transformation: the effect of primitives on values that carry further data.

    A subclass interprets an application in `apply`. If a value carries more than an array, it also
    defines the data of a constant (`lift`) and the type that the user's function sees (`aval`).
    `run` interprets a function. Methods run under the interpreter that was current when `run` was
    called. So outer transformations differentiate, batch or stage their computations.

    Applications to constants alone are not interpreted. `jit` is entered; see `call`.

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

    def lift(self, value: Any) -> Any:
        """The data of a value that is a constant to this interpreter; by default itself."""
        return value

    def aval(self, carried: Any) -> Any:
        """The type that the interpreted function sees; by default that of `carried`."""
        return typeof(carried)

    def apply(self, primitive: Primitive, carried: Sequence[Any], params: dict[str, Any]) -> Any:
        """The data of the result of an application; a list if it has multiple results."""
        raise NotImplementedError(f"{type(self).__name__}.apply(primitive, carried, params)")

    def call(self, jaxpr: Jaxpr, carried: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """The data of the results of a `jit` equation; by default those of its equations."""
        return list(self.run(lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args), *carried))

    def run(self, f: Callable[..., Any], *carried: Any) -> Any:
        """Interprets a function.

        Args:
          f: takes one value for each of `carried`, returns a pytree of values.
          carried: the data of its arguments.

        Returns:
          The same pytree with the data of the results.

        Raises:
          TypeError: `aval` gives no type, or `apply` no result; names the class and the method.
        """
        interp = _Running(thread.interpreter, self)
        with engine.running(interp):
            leaves, tree = tree_flatten(f(*[_Carrier(interp, c) for c in carried]))
        results = [interp.carried_by(leaf) for leaf in leaves]
        del leaves
        refuse_leaks(interp)
        return tree.unflatten(results)


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

    __slots__ = ("definition", "name")

    def __init__(self, parent: Any, definition: Interpreter):
        super().__init__(parent)
        self.definition = definition
        self.name = type(definition).__name__

    def type_of(self, carried: Any) -> Any:
        """The type that the function sees for the data of an argument or a result."""
        try:
            aval = self.definition.aval(carried)
        except TypeError as error:
            if type(self.definition).aval is not Interpreter.aval:
                raise
            msg = (f"{self.name} carries {describe_value(carried)}, whose type is not known: "
                   f"define {self.name}.aval(carried), which gives the type of the value that it "
                   "stands for. An argument of run is one value, not a tree of them: flatten it "
                   "(mjax.tree_util.tree_flatten), and take it together again in the function.")
            raise TypeError(msg) from error
        if not isinstance(aval, AbstractValue):
            msg = (f"{self.name}.aval returned {describe_value(aval)} for "
                   f"{describe_value(carried)}; it must return a type, such as "
                   "core.ShapedArray(shape, dtype).")
            raise TypeError(msg)
        return aval

    def carried_by(self, value: Any) -> Any:
        """The data of a value for this run."""
        if type(value) is _Carrier and value.interp is self:
            return value.carried
        return self.definition.lift(value)

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        thread.interpreter = self.parent
        try:
            if not any(type(a) is _Carrier and a.interp is self for a in args):
                return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
            carried = list(map(self.carried_by, args))
            out = (self.definition.call(params["jaxpr"], carried, params) if primitive is jit_p
                   else self.definition.apply(primitive, carried, params))
            if out is None:
                msg = (f"{self.name}.{'call' if primitive is jit_p else 'apply'} returned None for "
                       f"primitive {primitive.name!r}; it must return what the result carries. Is "
                       "a return statement missing?")
                raise TypeError(msg)
            if not primitive.multiple_results:
                return _Carrier(self, out)
            if not isinstance(out, (list, tuple)):
                msg = (f"{self.name}.apply returned {describe_value(out)} for primitive "
                       f"{primitive.name!r}, which has multiple results; it must return a list.")
                raise TypeError(msg)
            return [_Carrier(self, c) for c in out]
        finally:
            thread.interpreter = self
