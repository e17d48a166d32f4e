"""Linearization: evaluates a function and records its derivative as a linear jaxpr.

It is jvp over partial evaluation. Primals are known, and run under the interpreter the user
called from. Tangents are unknown, so operations of jvp rules on them are staged. A primitive may
have a `linearize` rule of its own; those that hold jaxprs do.

Source: Radul et al. 2022, "You Only Linearize Once", arXiv:2204.10923.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count, per_item, selected
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, no_debug_info
from mjax._engine.ir.source import here
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import instantiate, zero_tangent
from mjax._engine.tracing.interpreter import call_with, running
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import (
    applied_at,
    bad_rule_result,
    check_lists,
    describe_value,
    jvp_rule_text,
    name_rule,
    refuse_flags,
)
from mjax._engine.tracing.stage import (
    StageTracer,
    eval_jaxpr,
    lift_tracers,
    patient_collector,
    trace_to_jaxpr,
)
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import (
    JVPInterpreter,
    JVPTracer,
    are_named,
    split_results,
    under_its_name,
)
from mjax._engine.transforms.partial_eval import (
    PartialEvalInterpreter,
    PartialEvaluated,
    find_residuals,
)


class LinearizeInterpreter(JVPInterpreter):
    """Runs primals, stages tangents. Its parent is the partial evaluation of tangents."""

    __slots__ = ("culprit",)
    name = "linearize"
    parent: PartialEvalInterpreter

    def __init__(self, parent: PartialEvalInterpreter):
        super().__init__(parent)
        #: The first primitive whose rule computed a result from tangents, its params, and where it
        #: was applied.
        self.culprit: tuple[Primitive, dict[str, Any], Any] | None = None

    def rule_name(self, primitive: Primitive) -> str:
        return "jvp" if primitive.linearize is None else "linearize"

    def differentiate(self, primitive: Primitive, primals: list[Any], tangents: list[Any],
                      params: dict[str, Any]) -> tuple[Any, Any]:
        rule = primitive.linearize
        if rule is None:
            pair = JVPInterpreter.differentiate(self, primitive, primals, tangents, params)
            try:
                outs, dots = pair
                if not primitive.multiple_results:
                    if type(outs) is not StageTracer or outs.interp is not self.parent:
                        return pair
                    outs, dots = [outs], [dots]
                unknown = [type(out) is StageTracer and out.interp is self.parent for out in outs]
                if not any(unknown):
                    return pair
            except (TypeError, ValueError):
                return pair  # It is refused there.
            if primitive.users_rule is None and all(
                    map(self.parent.is_unknown, selected(unknown, dots))):
                # One equation gives both: it is part of the linear program, with known primals.
                # A rule of `custom_jvp` is named instead: its results are exchanged.
                return call_with(self.parent, primitive.bind, *primals, **params), (
                    dots if primitive.multiple_results else dots[0])
            self.culprit = self.culprit or (primitive, params, here())
            return pair
        if primitive.effectful:  # An effect that is refused must not happen.
            primitive.declared(list(map(typeof, primals)), params, "differentiable")
        nonzeros = [type(t) is not Zero for t in tangents]
        try:
            result = self.parent.call_known(rule, nonzeros, *primals, **params)
        except Exception as error:
            name_rule(error, primitive, "linearize", params)
            raise
        try:
            out, nonzero_out, residuals, linear = result
        except (TypeError, ValueError):
            bad_rule_result(primitive, "linearize", lambda: (
                f"returned {describe_value(result)}; it must return results, which of them have a "
                "tangent, residuals, and a function (residuals, *tangents) -> tangents."))
        several = primitive.multiple_results
        if several:
            check_lists(primitive, "linearize", (out, nonzero_out), None,
                        "a list of results and one that says which have a tangent")
        try:
            tangent = self.parent.call_staged(linear, residuals, *tangents)
        except Exception as error:
            if not callable(linear):
                bad_rule_result(primitive, "linearize", lambda: (
                    f"returned {describe_value(linear)} in the last place; it must be a function "
                    "(residuals, *tangents) -> tangents."))
            name_rule(error, primitive, "linearize", params)
            raise
        if not several:
            return out, tangent if nonzero_out else zero_tangent(out)
        check_lists(primitive, "linearize", [tangent], len(out),
                    "a function that gives a list of tangents")
        return out, [t if nz else zero_tangent(o)
                     for o, nz, t in zip(out, nonzero_out, tangent, strict=True)]


class _NamingInterpreter(LinearizeInterpreter):
    """Names the operations in the sources of their derivatives, for messages about NaNs."""

    __slots__ = ()
    differentiate = under_its_name(LinearizeInterpreter.differentiate)


class Linearized(Record):
    """`outs` with the linear program of their tangents.

    `jaxpr` goes from the tangents of the inputs that have one to those of the results that
    have one (`nonzero_outs`); `jaxpr.consts` are the residuals.
    """

    outs: list[Any]
    jaxpr: Jaxpr
    nonzero_outs: list[bool]


def linearize_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any],
                   nonzeros: Sequence[bool], instantiate_outs: Sequence[bool] = (),
                   debug_info: DebugInfo = no_debug_info) -> Linearized:
    """Linearizes a function of flat values at a point.

    Args:
      f: the function.
      primals: the point.
      nonzeros: the inputs to differentiate in.
      instantiate_outs: for which results a zero tangent is made an array; empty: for none.
      debug_info: names for messages.
    """
    tangent_interp = PartialEvalInterpreter(thread.interpreter, debug_info)
    interp = (_NamingInterpreter if are_named() else LinearizeInterpreter)(tangent_interp)
    interp.function = f
    with patient_collector, running(tangent_interp), running(interp):
        outs, tangents = split_results(interp, f(*[
            JVPTracer(interp, p, tangent_interp.new_arg(typeof(p).to_tangent())) if nz else p
            for p, nz in zip(primals, nonzeros, strict=True)]))
        if instantiate_outs:
            # Zeros are made where they are used; computed here they would be residuals.
            tangents = [tangent_interp.call_staged(instantiate, t) if w else t
                        for t, w in zip(tangents, instantiate_outs, strict=True)]
    refuse_leaks(interp)
    for out in outs:
        if tangent_interp.is_unknown(out):
            _refuse_result(interp, out)
    nonzero_outs = [type(t) is not Zero for t in tangents]
    atoms = [tangent_interp.atom(t) for t in tangents if type(t) is not Zero]
    return Linearized(outs, tangent_interp.build(atoms), nonzero_outs)


def _refuse_result(interp: LinearizeInterpreter, out: Any) -> NoReturn:
    """Raises the error for a result that was computed from tangents."""
    culprit = interp.culprit
    rule, at = ("a derivative rule", "") if culprit is None else (
        jvp_rule_text(*culprit[:2]), f"\n{applied_at(culprit[2])}")
    raise LazyTypeError(lambda: (
        f"{rule} returned a result of type {out.aval} that is computed from tangents. Results must "
        f"depend on primals only: check the order in which the jvp rule returns its two values.{at}"
    ))


def linearize_jaxpr(jaxpr: Jaxpr, nonzeros: Sequence[bool],
                    instantiate: bool | Sequence[bool] = False) -> PartialEvaluated:
    """Linearizes a jaxpr; cached on it.

    Args:
      jaxpr: the program.
      nonzeros: the inputs to differentiate in.
      instantiate: for which results a zero tangent is made an array.

    Returns:
      The evaluation, and from residuals and the nonzero tangents the tangents of those results
      that have one, the unknown ones.

    Raises:
      TypeError: `jaxpr` is not a jaxpr, `nonzeros` is not iterable, `instantiate` is neither a bool
        nor iterable, or a jvp rule gives what does not fit.
      ValueError: there are more or fewer flags than inputs or results.
      MissingRuleError: a primitive does not have a jvp rule.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> jaxpr = mjax.make_jaxpr(lambda x: lax.sin(x))(1.0)
      >>> parts = ad.linearize_jaxpr(jaxpr, [True])
      >>> [eqn.primitive for eqn in parts.known.eqns], [eqn.primitive for eqn in parts.unknown.eqns]
      ([sin, cos], [mul])
    """
    try:
        nonzeros = tuple(nonzeros)
        wanted = per_item(instantiate, len(jaxpr.outvars))
    except (AttributeError, TypeError):
        refuse_flags("linearize_jaxpr", jaxpr, nonzeros=nonzeros, instantiate=instantiate)
        raise
    return jaxpr.cached(("linearize", nonzeros, wanted, thread.settings),
                        lambda: _linearize_jaxpr(jaxpr, nonzeros, wanted))


def _linearize_jaxpr(jaxpr: Jaxpr, nonzeros: Sequence[bool], wanted: Sequence[bool]
                     ) -> PartialEvaluated:
    check_count("linearize_jaxpr", "nonzeros", nonzeros, jaxpr.invars, "input")
    check_count("linearize_jaxpr", "instantiate", wanted, jaxpr.outvars, "result")
    made: list[Any] = []

    def run(*ins: Any) -> list[Any]:
        outs, linear, nonzero_outs = linearize_flat(
            lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args), ins, nonzeros, wanted,
            jaxpr.debug_info)
        linear, residuals = lift_tracers(linear)
        # Unwanted tangents would keep residuals alive.
        n = len(residuals)
        linear, used = dce_jaxpr(linear, [True] * len(linear.outvars),
                                 [False] * n + [True] * sum(nonzeros))
        residuals = [r for r, u in zip(residuals, used[:n], strict=True) if u]
        forwarding, extra = find_residuals(residuals, ins, outs)
        made.extend((linear, forwarding, nonzero_outs))
        return [*outs, *extra]

    primal = trace_to_jaxpr(run, jaxpr.in_avals, jaxpr.debug_info)
    return PartialEvaluated(primal, *made)
