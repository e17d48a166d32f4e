"""Functions whose derivative their users wrote: `custom_jvp`, and `custom_jvp_call`.

Both modes of differentiation run the rule; what it does to tangents is linear, and is transposed
for reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary, calling
from mjax._engine.control.custom.custom_calls import (
    Call,
    check_primal_output,
    invariant,
    refuse_differentiated,
)
from mjax._engine.control.custom.custom_frame import CustomFrame
from mjax._engine.control.custom.custom_rules import Custom
from mjax._engine.control.custom.symbolic_zeros import (
    SymbolicZero,
    as_arrays,
    for_rule,
    from_rule,
)
from mjax._engine.control.trace_body import Typed, agree, differences
from mjax._engine.ir.pytree import tree_flatten, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import add_tangents, instantiate, zero_tangent
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.symbolic import Zero

custom_jvp_call_p = Primitive("custom_jvp_call", multiple_results=True, types_cacheable=False,
                              own_varying=True)


class _JVPFrame(CustomFrame):
    """Differentiated by the rule."""

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        rule, n = params[self.rule], params["num_consts"]
        refuse_differentiated(rule.custom.describe(), primals,
                              [type(t) is not Zero for t in tangents[:n]])
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
        return self.as_function("jvp rule", avals, primals, outer, values[:m]), values[m:]

    def _run_rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], Any]:
        """Runs the user's function and checks what it gives."""
        custom, name = self.custom, _rule_name(self.custom)
        static, dynamic = self.take(primals)
        directions = self.in_tree.unflatten(
            [for_rule(t, custom.symbolic_zeros) for t in tangents[self.hidden:]])
        with calling(lambda: (f"The {name} is given {len(static)} values of "
                              "nondiff_argnums, the primals and the tangents.")):
            result = custom.jvp(*static, dynamic, directions)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise LazyTypeError(lambda: (
                f"the {name} must return a pair (primal output, tangent output), but "
                f"returned {describe_value(result)}."))
        outs, self.out_tree = tree_flatten(result[0])
        check_arguments(f"the {name}", result[0], "primal output")
        avals = list(map(typeof, outs))
        check_primal_output(self, "jvp rule", self.out_tree, avals)
        expected = [a.to_tangent() for a in avals]
        tangents = self._checked(name, result[1], expected)
        return [*outs, *(from_rule(t) if a.inexact else Zero(a)
                         for a, t in zip(expected, tangents, strict=True))], self.out_tree

    def _checked(self, name: str, result: Any, expected: Sequence[Any]) -> list[Any]:
        """The leaves of the rule's tangents, which must be of these types."""
        tangents, tree = tree_flatten(result)
        if not all(type(t) is SymbolicZero for t in tangents):
            check_arguments(f"the {name}", tree_map(
                lambda t: 0.0 if type(t) is SymbolicZero else t, result), "tangent output")
        wanted = Typed("the tangents of its outputs", self.out_tree, list(map(invariant, expected)))
        given = Typed("the tangents returned", tree, [
            invariant(t.aval if type(t) is SymbolicZero else typeof(t)) for t in tangents])
        if not agree(wanted, given):
            raise LazyTypeError(lambda: (
                f"the {name} must return tangents of the structure and types of its "
                f"primal outputs (float0 for integers):\n{differences(wanted, given, 'output')}"))
        return tangents


def _rule_name(custom: Any) -> str:
    return f"jvp rule {describe_function(custom.jvp)} of {custom.describe()}"


custom_jvp_call_p.def_users_rule(lambda params: _rule_name(params["jvp_jaxpr_fun"].custom))


# ---- what users call -------------------------------------------------------------------


class custom_jvp(Custom):
    """A function with a derivative of its own: `jvp`, `grad` and the others run the rule.

    Use it as a decorator, and give the rule with `defjvp` or `defjvps`.

    Args:
      fun: a function of pytrees of arrays. Arguments that calls give by name are passed to
        the rule by position, and defaults as if they had been given.
      nondiff_argnums: positions of arguments that may be any Python values, functions for one;
        the rule gets them by themselves, in front, and no tangents of them.
      nondiff_argnames: the same by name.

    Raises:
      TypeError: `fun` is not callable; at calls: arguments without a position; an argument or
        output that is not an array; when differentiated: the rule does not give a pair, or
        trees, shapes or dtypes that do not fit.
      ValueError: an argument that `fun` does not have.
      AttributeError: at calls: there is no rule.
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

    who = "custom_jvp"
    jvp: Callable[..., Any] | None = None
    symbolic_zeros: bool = False

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (),
                 nondiff_argnames: str | Sequence[str] = ()):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)

    def rules(self) -> dict[str, Any]:
        """The functions that were given as rules."""
        return {"jvp": self.jvp}

    @boundary
    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Gives the rule: `jvp(primals, tangents) -> (primal output, tangent output)`.

        Args:
          jvp: takes two tuples, of the arguments and of their tangents, after the values of
            `nondiff_argnums`. Tangents of integers are of dtype float0. Its second result is
            linear in the tangents, with structure, shapes and dtypes of the first.
          symbolic_zeros: whether a tangent known to be zero is given as a
            `mjax.custom_derivatives.SymbolicZero` rather than as an array.

        Returns:
          `jvp`, so that this can be used as a decorator.

        Raises:
          TypeError: `jvp` is not callable.
        """
        check_callable("defjvp", jvp)
        self.jvp, self.symbolic_zeros = jvp, bool(symbolic_zeros)
        self.ruled()
        return jvp

    @boundary
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Gives the rule as a sum of terms, one per argument.

        Args:
          jvps: per argument `term(tangent, primal output, *arguments) -> tangent of the output`,
            or None where the output does not depend on it.

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
                msg = (f"defjvps of {self.describe()} was given {len(jvps)} functions for "
                       f"{len(primals)} arguments; give one, or None, for each.")
                raise TypeError(msg)
            out = self(*primals)
            terms = [term(tangent, out, *primals) for term, tangent in
                     zip(jvps, tangents, strict=True) if term is not None]
            zeros = tree_map(lambda o: instantiate(zero_tangent(o)), out)
            if not terms:
                return out, zeros
            return out, tree_map(_sum, zeros, *terms)

        # Where messages say that it is.
        jvp.__wrapped__ = next(filter(None, jvps), self.fun)  # type: ignore[attr-defined]
        self.defjvp(jvp)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        if self.jvp is None:
            msg = (f"{self.describe()} has no rule yet: give it one with "
                   f"{self.__name__}.defjvp.")
            raise AttributeError(msg)
        return self.call(JVPCall, args, kwargs)


def _sum(zero: Any, *terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = add_tangents(total, term)
    return total


__all__ = ["custom_jvp", "custom_jvp_call_p"]
