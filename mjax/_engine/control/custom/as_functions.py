"""Functions with rules as functions of flat values, for interpreters of users.

`functions_of` gives those of a call to a user's interpreter, `functions_in` those of an equation.
The interpreter may transform them, and then hands them to the one below: `bind` of a
`FunctionPrimitive` takes them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mjax._engine.control.calls.call_primitive import TakesFunctions, as_wrapped
from mjax._engine.control.calls.closures import MadeOfFunctions
from mjax._engine.control.calls.wrapped import WrappedFun, wrap_init
from mjax._engine.control.custom.symbolic_zeros import for_rule, from_rule
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.pytree import tree_structure
from mjax._engine.tracing.flat import describe_function, function_name
from mjax._engine.tracing.interpreter import call_with
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.stage import eval_jaxpr


class FunctionPrimitive(TakesFunctions, EnginePrimitive):
    """A primitive that holds a function and its rules, whose `bind` also takes these.

    `bind(*operands, subfuns=(function, *rules), **params)` calls the function with its rules under
    the current interpreter. `of_functions(pair, params)` makes an object with a method `call(args,
    kwargs)` of a `Pair`; the file of the primitive defines it.
    """

    __slots__ = ()
    of_functions: Callable[[Pair, dict[str, Any]], Any]

    def __init__(self, name: str, params: Mapping[str, Any]):
        super().__init__(name, params=params, multiple_results=True)

    def _call_functions(self, trace: Any, args: Sequence[Any], functions: Sequence[Any],
                       params: dict[str, Any]) -> Any:
        """The results of a call of the function with its rules, by an interpreter."""
        pair = Pair(functions)
        outs = call_with(trace, self.of_functions(pair, params).call, tuple(args), {})
        pair.bound = True
        return outs

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The params with which `bind` repeats an equation, as a call of a function with rules."""
        functions, rest = functions_in(self, params)
        return {**rest, "subfuns": tuple(functions)}


class Pair:
    """A function and its rules, which are bound together.

    The functions may run more often than their stores can be filled, so each run empties these
    first. While the primitive is bound, only the function that runs first keeps them filled: users
    ask then which one has run (`merge_linear_aux`).

    Args:
      functions: the function and its rules.

    Attributes:
      functions: the same, to be called with flat values.
      bound: whether `bind` has returned.
      first: the function that ran first.
    """

    def __init__(self, functions: Iterable[Any]):
        self.functions: list[Running] = [Running(as_wrapped(f), self) for f in functions]
        self.bound: bool = False
        self.first: Running | None = None


class Running(MadeOfFunctions):
    """One of the functions of a `Pair`."""

    fun: WrappedFun
    pair: Pair
    __name__: str

    def __init__(self, fun: WrappedFun, pair: Pair):
        self.fun, self.pair, self.__name__ = fun, pair, fun.__name__

    def __call__(self, *args: Any) -> list[Any]:
        self._empty()
        outs = list(self.fun.call_wrapped(*args))
        self.pair.first = self.pair.first or self
        if not (self.pair.bound or self.pair.first is self):
            self._empty()
        return outs

    def _empty(self) -> None:
        for store in self.fun.stores:
            if store is not None:
                store.reset()

    def functions(self) -> Iterable[Any]:
        """The values that may be traced."""
        return (self.fun,)


# ---- calls, for interpreters of users ---------------------------------------------------


def functions_of(rule: Any, run: Callable[..., list[Any]] | None = None
                 ) -> tuple[list[WrappedFun], dict[str, Any]]:
    """A function and its rules as functions of flat values, and further params.

    They run under the interpreter that is current when they are called.

    Args:
      rule: a call (`control.custom.custom_calls`), that of a batch, or the rule of an equation.
      run: the function; None: that of the call.
    """
    custom, rules = rule.custom, rule.custom.rules()
    symbolic = bool(custom.symbolic_zeros)
    fun = _named(run or rule.run, custom, custom.fun)
    if "fwd" not in rules:
        jvp = _named(_forward(rule, symbolic), custom, rules["jvp"])
        return [fun, jvp], {"symbolic_zeros": symbolic}
    trees: list[Any] = []
    fwd, bwd = _reverse(rule, trees)
    return [fun, _named(fwd, custom, rules["fwd"]), _named(bwd, custom, rules["bwd"])], {
        "out_trees": lambda: trees[0], "symbolic_zeros": symbolic}


def _named(f: Callable[..., list[Any]], custom: Any, users: Callable[..., Any]) -> WrappedFun:
    """A function under the name of the user's function that it calls."""
    own = lambda *args: f(*args)
    own.__name__ = function_name(users)
    return wrap_init(own, debug_info=DebugInfo(custom.who, describe_function(users)))


def functions_in(primitive: FunctionPrimitive, params: dict[str, Any]
                 ) -> tuple[list[WrappedFun], dict[str, Any]]:
    """`functions_of` an equation, from its params."""
    frame, jaxpr = primitive.frame, primitive.frame.body(params)
    return functions_of(params[frame.rule], lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args))


def _forward(rule: Any, symbolic: bool) -> Callable[..., list[Any]]:
    def jvp(*args: Any) -> list[Any]:
        n = len(args) // 2
        outs, tangents = rule.jvp(args[:n], list(map(from_rule, args[n:])))
        return [*outs, *(for_rule(t, symbolic) for t in tangents)]

    return jvp


def _reverse(rule: Any, trees: list[Any]) -> tuple[Callable[..., list[Any]], ...]:
    """Both passes; the first one says the trees of the output and of the residuals."""
    pulls: list[Any] = []

    def fwd(*pairs: Any) -> list[Any]:
        outs, residuals, pull = rule.forward(list(map(bool, pairs[1::2])), pairs[::2])
        n = len(residuals)
        pulls[:], trees[:] = [pull], [(_flat(len(outs)), _flat(n), [None] * n)]
        return [*residuals, *outs]

    def bwd(*args: Any) -> list[Any]:
        n = trees[0][1].num_leaves
        cts: list[Any] = pulls[0](list(args[:n]), list(map(from_rule, args[n:])))
        return cts

    return fwd, bwd


def _flat(n: int) -> Any:
    """The tree of a list."""
    return tree_structure([0] * n)


__all__ = ["FunctionPrimitive", "Pair", "functions_in", "functions_of"]
