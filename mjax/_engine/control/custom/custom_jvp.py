"""Functions whose derivative their users wrote: `custom_jvp`, and `custom_jvp_call`.

The primitive holds the function's jaxpr and the rule, a function of flat values:
`rule(primals, tangents) -> outs, out_tangents`, where tangents may be `Zero`s. What transforms
the function transforms the rule with it: a batched rule applies the rule to a batch, a pruned
one drops results. Both modes of differentiation run the rule; what it does to tangents is
linear, and is transposed for reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary, calling
from mjax._engine.control.calls.closed_call import evaluates_as_call, types_as_call
from mjax._engine.control.custom.custom_calls import (
    Call,
    RuleRun,
    check_primal_output,
    invariant,
    refuse_differentiated,
)
from mjax._engine.control.custom.custom_rules import BatchedCall, Custom, batched_call, is_float0
from mjax._engine.control.custom.symbolic_zeros import SymbolicZero, for_rule, from_rule
from mjax._engine.control.trace_body import Typed, agree, differences
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import add_tangents, instantiate, zero_tangent
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import AxisData, batch_flat, element_type, to_dim
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.transpose import backward_pass

custom_jvp_call_p = Primitive("custom_jvp_call", multiple_results=True, types_cacheable=False,
                              own_varying=True)
types_as_call(custom_jvp_call_p, "call_jaxpr")
evaluates_as_call(custom_jvp_call_p, "call_jaxpr")


# ---- rules as functions of flat values -------------------------------------------------


class JVPCall(Call):
    """A call of a `custom_jvp` function; applied to primals and tangents it is its rule."""

    __slots__ = ()
    primitive = custom_jvp_call_p

    def params(self, rule: Any, jaxpr: Jaxpr | None = None, num_consts: int = 0
               ) -> dict[str, Any]:
        return {"call_jaxpr": jaxpr, "jvp_jaxpr_fun": rule, "num_consts": num_consts,
                "symbolic_zeros": self.custom.symbolic_zeros}

    def batched(self, *args: Any) -> BatchedJVP:
        return BatchedJVP(*args)

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]
                 ) -> tuple[list[Any], list[Any]]:
        outer, primals, tangents = (self.leading(primals), self.own(primals),
                                    self.own(tangents))
        avals = list(map(typeof, primals))
        if not self.custom.symbolic_zeros:
            tangents = [t if is_float0(t) else instantiate(t) for t in tangents]
        given = [t for t in tangents if type(t) is not Zero]
        values, known = self.traced(self._rule(tangents), avals, [*primals, *given], outer)
        outs, out_tangents = self._results(values, known)
        return self.as_function("jvp rule", avals, outer, outs), out_tangents

    def _rule(self, tangents: Sequence[Any]) -> RuleRun:
        """The rule, of operands and those tangents that are not zero."""
        zeros = [t if type(t) is Zero else None for t in tangents]
        n = len(zeros)

        def f(*args: Any) -> tuple[list[Any], Any]:
            given = iter(args[n:])
            outs, out_tangents = self._run_rule(
                args[:n], [next(given) if z is None else z for z in zeros])
            known = [t if type(t) is Zero else None for t in out_tangents]
            return [*outs, *[t for t in out_tangents if type(t) is not Zero]], (
                self.out_tree, known)

        return RuleRun("jvp", tuple([z is not None for z in zeros]), f)

    def _results(self, values: Sequence[Any], known: Any) -> tuple[list[Any], list[Any]]:
        self.out_tree, zeros = known
        n = len(zeros)
        given = iter(values[n:])
        return list(values[:n]), [next(given) if z is None else z for z in zeros]

    def _run_rule(self, primals: Sequence[Any], tangents: Sequence[Any]
                  ) -> tuple[list[Any], list[Any]]:
        """Runs the user's function and checks what it gives."""
        custom = self.custom
        static, dynamic = self.take(primals)
        directions = self.in_tree.unflatten(
            [for_rule(t, custom.symbolic_zeros) for t in tangents[self.hidden:]])
        with calling(lambda: (f"The {self._name()} is given {len(static)} values of "
                              "nondiff_argnums, the primals and the tangents.")):
            result = custom.jvp(*static, dynamic, directions)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise LazyTypeError(lambda: (
                f"the {self._name()} must return a pair (primal output, tangent output), but "
                f"returned {describe_value(result)}."))
        outs, self.out_tree = tree_flatten(result[0])
        out_tangents, tangent_tree = tree_flatten(result[1])
        check_arguments(f"the {self._name()}", result[0], "primal output")
        avals = list(map(typeof, outs))
        check_primal_output(self, "jvp rule", self.out_tree, avals)
        self._check_tangents(result[1], avals, out_tangents, tangent_tree)
        return outs, [Zero(a.to_tangent()) if a.to_tangent().dtype == dtypes.float0
                      else from_rule(t) for a, t in zip(avals, out_tangents, strict=True)]

    def _name(self) -> str:
        return _rule_name(self.custom)

    def _check_tangents(self, result: Any, avals: Sequence[Any], tangents: Sequence[Any],
                        tree: Any) -> None:
        if not all(type(t) is SymbolicZero for t in tangents):
            check_arguments(f"the {self._name()}", tree_map(
                lambda t: 0.0 if type(t) is SymbolicZero else t, result), "tangent output")
        expected = Typed("the tangents of its outputs", self.out_tree,
                         [invariant(a.to_tangent()) for a in avals])
        given = Typed("the tangents returned", tree, [
            invariant(t.aval if type(t) is SymbolicZero else typeof(t)) for t in tangents])
        if not agree(expected, given):
            raise LazyTypeError(lambda: (
                f"the {self._name()} must return tangents of the structure and types of its "
                f"primal outputs (float0 for integers):\n{differences(expected, given, 'output')}"
            ))


class Derived:
    """A rule made of another rule."""

    __slots__ = ("names_in_scope", "rule")

    def __init__(self, rule: Any):
        self.rule = rule
        self.names_in_scope = rule.names_in_scope

    @property
    def custom(self) -> Any:
        """The function whose rule it is."""
        return self.rule.custom

    def output(self, i: int) -> str:
        """How messages call an output of the backward pass."""
        return str(self.rule.output(i))


class BatchedJVP(Derived):
    """A rule for a batch.

    Args:
      rule: that for one element.
      axis: the axis.
      dims: batch dims of the operands.
      batched: whether results are a batch, along axis 0.
      live: the call whose rule it is, where that runs at once; it settles what is batched.
    """

    __slots__ = ("axis", "batched", "dims", "live")

    def __init__(self, rule: Any, axis: AxisData, dims: Sequence[int | None], batched: bool,
                 live: BatchedCall | None = None):
        super().__init__(rule)
        self.names_in_scope = tuple(n for n in rule.names_in_scope if n != axis.name)
        self.axis, self.dims, self.batched, self.live = axis, dims, batched, live

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]
                 ) -> tuple[list[Any], list[Any]]:
        n = len(primals)
        nonzero = [type(t) is not Zero for t in tangents]
        zeros = [element_zero(p, d) for p, d in zip(primals, self.dims, strict=True)]
        known: list[bool] = []

        def f(*args: Any) -> list[Any]:
            given = iter(args[n:])
            outs, out_tangents = self.rule(args[:n], [
                next(given) if nz else z for nz, z in zip(nonzero, zeros, strict=True)])
            known.extend(type(t) is not Zero for t in out_tangents)
            return [*outs, *[t for t in out_tangents if type(t) is not Zero]]

        values, dims = run_batched(self, f, [
            *primals, *[t for t in tangents if type(t) is not Zero]],
            [*self.dims, *[d for d, nz in zip(self.dims, nonzero, strict=True) if nz]])
        return self._results(values, dims, known)

    def _results(self, values: Sequence[Any], dims: Sequence[int | None], known: Sequence[bool]
                 ) -> tuple[list[Any], list[Any]]:
        """Results and tangents, batched alike."""
        n, size = len(known), self.axis.size
        pairs = iter(zip(values[n:], dims[n:], strict=True))
        tangents = [next(pairs) if nz else (None, None) for nz in known]
        out_dims: list[int | None] = [0 if self.batched else None] * n
        if self.live is not None:
            self.live.out_dims = out_dims = [
                None if d is None and t is None else 0
                for d, (_, t) in zip(dims, tangents, strict=False)]
        elif not self.batched:
            refuse_batched(self, dims)
        outs = [to_dim(o, d, w, size) for o, d, w in zip(values, dims, out_dims, strict=False)]
        return outs, [to_dim(t, d, w, size) if nz else zero_tangent(o) for o, nz, (t, d), w in
                      zip(outs, known, tangents, out_dims, strict=True)]


def element_zero(value: Any, dim: int | None) -> Zero:
    """The zero tangent of one element of a batch."""
    aval = typeof(value)
    return Zero((aval if dim is None else element_type(aval, dim)).to_tangent())


def run_batched(rule: Any, f: Callable[..., Any], args: Sequence[Any],
                dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    """Runs a rule for a batch; gives values with their batch dims.

    Args:
      rule: what is batched, with its `axis` and the `live` call if there is one.
      f: the rule, of flat values.
      args: its arguments.
      dims: their batch dims.
    """
    if rule.live is not None:
        return rule.live.within(f, args, dims)
    return batch_flat(f, rule.axis, args, dims)


def refuse_batched(rule: Any, dims: Sequence[int | None]) -> None:
    """Refuses a batch of results where the function, called once for all elements, has one.

    Raises:
      TypeError: names the axis.
    """
    if any(d is not None for d in dims):
        raise LazyTypeError(lambda: (
            f"a rule of {rule.custom.describe()} gives each element of the axis {rule.axis.name!r} "
            "another result, though all have the same arguments and the same output of the "
            "function. Reduce the rule's results over the axis (lax.psum, lax.pmean)."))


class PrunedJVP(Derived):
    """A rule some of whose results nobody wants."""

    __slots__ = ("used",)

    def __init__(self, rule: Any, used: Sequence[bool]):
        super().__init__(rule)
        self.used = used

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]
                 ) -> tuple[list[Any], list[Any]]:
        outs, out_tangents = self.rule(primals, tangents)
        return ([o for o, u in zip(outs, self.used, strict=True) if u],
                [t for t, u in zip(out_tangents, self.used, strict=True) if u])


# ---- the primitive ---------------------------------------------------------------------


def _rule_name(custom: Any) -> str:
    return f"jvp rule {describe_function(custom.jvp)} of {custom.describe()}"


custom_jvp_call_p.users_rule = lambda params: _rule_name(params["jvp_jaxpr_fun"].custom)


@custom_jvp_call_p.def_lowering
def _lowering(ctx: Any, *operands: Any, call_jaxpr: Jaxpr, jvp_jaxpr_fun: Any, **params: Any
              ) -> Any:
    return ctx.call(call_jaxpr, jvp_jaxpr_fun.custom.__name__, *operands)


@custom_jvp_call_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, jvp_jaxpr_fun: Any, num_consts: int, **params: Any) -> Any:
    for primal, tangent in zip(primals[:num_consts], tangents, strict=False):
        if type(tangent) is not Zero:
            refuse_differentiated(jvp_jaxpr_fun.custom.describe(), typeof(primal))
    return jvp_jaxpr_fun(primals, tangents)


@custom_jvp_call_p.def_transpose
def _transpose(cts: Any, *args: Any, call_jaxpr: Jaxpr, **params: Any) -> Any:
    return backward_pass(call_jaxpr, call_jaxpr.consts, args, cts)


def _batch(axis: AxisData, args: Any, dims: Any, *, call_jaxpr: Jaxpr, jvp_jaxpr_fun: Any,
           **params: Any) -> Any:
    batched, out_dims = batched_call(call_jaxpr, axis, dims)
    rule = call_jaxpr.cached(("batched rule", jvp_jaxpr_fun, axis, tuple(dims)), lambda: BatchedJVP(
        jvp_jaxpr_fun, axis, dims, out_dims[:1] != [None]))
    return custom_jvp_call_p.bind(*args, call_jaxpr=batched, jvp_jaxpr_fun=rule, **params), out_dims


custom_jvp_call_p.axis_batch = _batch


def _dce(used: Sequence[bool], eqn: Any) -> Any:
    jaxpr = eqn.params["call_jaxpr"]
    if not any(used) and not jaxpr.effects:
        return [False] * len(eqn.invars), None
    if all(used):
        return [True] * len(eqn.invars), eqn
    # Inputs stay: the rule may read them.
    smaller, _ = dce_jaxpr(jaxpr, used, True)
    rule = eqn.params["jvp_jaxpr_fun"]
    pruned = jaxpr.cached(("pruned rule", rule, tuple(used)), lambda: PrunedJVP(rule, used))
    return [True] * len(eqn.invars), eqn.replace(
        params={**eqn.params, "call_jaxpr": smaller, "jvp_jaxpr_fun": pruned},
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u], effects=smaller.effects)


custom_jvp_call_p.dce = _dce


def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    custom = params["jvp_jaxpr_fun"].custom
    shown = {"name": custom.__name__, "call_jaxpr": params["call_jaxpr"], "jvp": custom.jvp,
             "symbolic_zeros": params["symbolic_zeros"]}
    return shown | ({"num_consts": params["num_consts"]} if params["num_consts"] else {})


custom_jvp_call_p.pretty = _pretty


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

    def rules(self) -> Sequence[Any]:
        """The functions that were given as rules."""
        return (self.jvp,)

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


__all__ = ["Derived", "custom_jvp", "custom_jvp_call_p",
           "refuse_batched", "run_batched"]
