"""Functions with a user's derivative: `custom_jvp`, and `custom_jvp_call`.

Both modes of differentiation run the rule. It is linear in the tangents, so reverse mode transposes
it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import P, R
from mjax._engine.base.util import counted
from mjax._engine.control.custom.as_functions import FunctionPrimitive, Pair
from mjax._engine.control.custom.custom_calls import Call, invariant, refuse_differentiated
from mjax._engine.control.custom.custom_frame import CustomFrame
from mjax._engine.control.custom.custom_rules import Custom
from mjax._engine.control.custom.symbolic_zeros import SymbolicZero, as_arrays, for_rule, from_rule
from mjax._engine.control.trace_body import Typed, check_alike
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import add_tangents, instantiate, zero_tangent
from mjax._engine.tracing.flat import check_arguments, check_callable
from mjax._engine.tracing.symbolic import Zero

custom_jvp_call_p: FunctionPrimitive = FunctionPrimitive("custom_jvp_call", params={
    "call_jaxpr": Jaxpr, "jvp_jaxpr_fun": Any, "num_consts": int, "symbolic_zeros": bool})


class _JVPFrame(CustomFrame):
    """Differentiated by the rule."""

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        rule, n = params[self.rule], params["num_consts"]
        refuse_differentiated(rule.custom, primals, [type(t) is not Zero for t in tangents[:n]])
        return rule.jvp(primals, tangents)


class JVPCall(Call):
    """A call of a `custom_jvp` function, and its rule."""

    __slots__ = ()
    frame = _JVPFrame(custom_jvp_call_p, "jvp_jaxpr_fun")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Results and their tangents."""
        (outer, primals), (_, tangents) = self.split(primals), self.split(tangents)
        avals, n = list(map(typeof, primals)), len(primals)
        if not self.custom.symbolic_zeros:
            tangents = as_arrays(tangents)
        values, self.out_tree = self.traced(
            "jvp", lambda *args: self._run_rule(args[:n], args[n:]), avals,
            [*primals, *tangents], outer)
        m = self.out_tree.num_leaves
        return self.as_function("jvp rule", avals, values[:m]), values[m:]

    def _run_rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], Any]:
        """Runs the user's rule and checks its results."""
        directions = [for_rule(t, self.custom.symbolic_zeros) for t in tangents]
        outs, self.out_tree, result = self.pair(
            "jvp", "(primal output, tangent output)", "primal output",
            f"{len(self.static)} values of nondiff_argnums, the primals and the tangents",
            *self.static, self.in_tree.unflatten(primals), self.in_tree.unflatten(directions))
        expected = [typeof(out).to_tangent() for out in outs]
        tangents = self._checked(result, expected)
        return [*outs, *(from_rule(t) if a.inexact else Zero(a)
                         for a, t in zip(expected, tangents, strict=True))], self.out_tree

    def _checked(self, result: Any, expected: Sequence[Any]) -> list[Any]:
        """The leaves of the rule's tangents, which must be of these types."""
        tangents, tree = tree_flatten(result)
        check_arguments(lambda: f"the {self.custom.rule_name('jvp')}", tree_map(
            lambda t: 0.0 if type(t) is SymbolicZero else t, result), "tangent output")
        wanted = Typed("the tangents of its outputs", self.out_tree, list(map(invariant, expected)))
        given = Typed("the tangents returned", tree, [
            invariant(t.aval if type(t) is SymbolicZero else typeof(t)) for t in tangents])
        check_alike(wanted, given, "output", lambda: (
            f"the {self.custom.rule_name('jvp')} must return tangents of the structure and "
            "types of its primal outputs (float0 for integers):"))
        return tangents


custom_jvp_call_p.def_users_rule(
    lambda params: params["jvp_jaxpr_fun"].custom.rule_name("jvp"))


# ---- public class ----------------------------------------------------------------------


class custom_jvp(Custom[P, R]):
    """A function with a derivative of its own: `jvp`, `grad` and the others run the rule.

    Use it as a decorator, and define the rule with `defjvp` or `defjvps`.

    Args:
      fun: a function of pytrees of arrays. The rule gets keyword arguments by position, and
        defaults like given arguments.
      nondiff_argnums: positions of arguments that may be any Python values, such as functions.
        The rule gets them separately, in front, and without tangents.
      nondiff_argnames: the same by name.

    Raises:
      TypeError: `fun` is not callable; at calls: arguments without a position; an argument or
        output that is not an array; when differentiated: the rule does not return a pair, or
        returns trees, shapes or dtypes that do not fit.
      ValueError: an argument that `fun` does not have.
      AttributeError: at calls: the rule is missing.
      UnexpectedTracerError: `fun` closes over a value that is differentiated.

    Example:
      >>> @mjax.custom_jvp
      ... def f(x, y):
      ...   return lax.mul(lax.sin(x), y)
      >>> @f.defjvp
      ... def f_jvp(primals, tangents):
      ...   (x, y), (dx, dy) = primals, tangents
      ...   return f(x, y), lax.add(lax.mul(lax.mul(lax.cos(x), dx), y), lax.mul(lax.sin(x), dy))
      >>> mjax.grad(f)(0.0, 2.0)
      Array(2., dtype=float32, weak_type=True)

    Source: JAX, `jax.custom_jvp`.
    """

    who: ClassVar[str] = "custom_jvp"
    definer: ClassVar[str] = "defjvp"
    kinds: ClassVar[dict[str, str]] = {"jvp": "jvp"}
    calls: ClassVar[type[Call]] = JVPCall
    symbolic_zeros: bool
    jvp: Callable[..., Any] | None = None

    @boundary
    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Defines the rule: `jvp(primals, tangents) -> (primal output, tangent output)`.

        Args:
          jvp: takes two tuples, of the arguments and of their tangents, after the values of
            `nondiff_argnums`. Tangents of integers are of dtype float0. Its second result is
            linear in the tangents, with structure, shapes and dtypes of the first.
          symbolic_zeros: whether a tangent known to be zero is a
            `mjax.custom_derivatives.SymbolicZero` rather than an array.

        Returns:
          `jvp`, so that this can be used as a decorator.

        Raises:
          TypeError: `jvp` is not callable.
        """
        self.ruled(jvp=jvp)
        self.symbolic_zeros = bool(symbolic_zeros)
        return jvp

    @boundary
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Defines the rule as a sum of terms, one per argument.

        Args:
          jvps: per argument `term(tangent, primal output, *arguments) -> tangent of the output`,
            or None if the output does not depend on it.

        Raises:
          TypeError: the function has `nondiff_argnums`; a term is neither callable nor None; when
            differentiated: there are not as many terms as arguments.
        """
        if self.nondiff_argnums:
            msg = "defjvps cannot be used with nondiff_argnums; give one rule with defjvp."
            raise TypeError(msg)
        for term in jvps:
            if term is not None:
                check_callable("defjvps", term)

        def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
            if len(jvps) != len(primals):
                msg = (f"defjvps of {self.describe()} was given "
                       f"{counted(len(jvps), 'function')} for "
                       f"{counted(len(primals), 'argument')}; give one, or None, for each.")
                raise TypeError(msg)
            out: Any = self.call(primals, {})
            terms = [term(tangent, out, *primals) for term, tangent in
                     zip(jvps, tangents, strict=True) if term is not None]
            return out, tree_map(_sum, out, *terms)

        # The source location in messages.
        jvp.__wrapped__ = next(filter(None, jvps), self.fun)  # type: ignore[attr-defined]
        self.defjvp(jvp)


def _sum(out: Any, *terms: Any) -> Any:
    """The tangent of a result, from its terms."""
    return functools.reduce(add_tangents, terms) if terms else instantiate(zero_tangent(out))


def _of_functions(pair: Pair, params: dict[str, Any]) -> custom_jvp:
    """The function of flat values with a rule `jvp(*primals, *tangents) -> outs and tangents`."""
    fun, jvp = pair.functions
    custom = custom_jvp(fun)

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        found = jvp(*primals, *tangents)
        n = len(found) // 2
        return found[:n], found[n:]

    custom.defjvp(rule, params["symbolic_zeros"])
    return custom


custom_jvp_call_p.of_functions = _of_functions

__all__ = ["custom_jvp", "custom_jvp_call_p"]
