"""The rules of primitives that call a jaxpr: `jit`, and `closed_call`, which is not compiled.

Other primitives that hold a jaxpr, such as `custom_jvp_call`, share its types and evaluation.

Every transformation of a call is the same transformation of its jaxpr, cached there. What the
function closed over comes as operands, except arrays, which stay the jaxpr's constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.control.cast_varying import retypes_as_call
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, Var
from mjax._engine.ir.types import same_type_but_weak
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

Params = dict[str, Any]


# ---- of every primitive that calls a jaxpr ---------------------------------------------


def types_as_call(primitive: Primitive, param: str) -> None:
    """Gives a primitive that calls the jaxpr in a param the rules for types and effects."""

    def abstract_eval(*avals: Any, **params: Any) -> Any:
        return params[param].out_avals, params[param].effects

    def typecheck(*avals: Any, **params: Any) -> None:
        check_operands(primitive, params[param], avals)

    primitive.def_effectful_abstract_eval(abstract_eval)
    primitive.define("typecheck", typecheck)
    retypes_as_call(primitive, param)


def evaluates_as_call(primitive: Primitive, param: str) -> None:
    """Makes the evaluation of a primitive that of the jaxpr in a param, equation by equation."""

    def impl(*args: Any, **params: Any) -> list[Any]:
        jaxpr = params[param]
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)

    primitive.def_impl(impl)


def check_operands(primitive: Primitive, jaxpr: Jaxpr, avals: Sequence[Any]) -> None:
    """Compares the operands of a call with the inputs of its jaxpr.

    Raises:
      TypeError: their number or a type differs; shows both.
    """
    expected = jaxpr.in_avals
    if len(avals) != len(expected) or not all(map(same_type_but_weak, avals, expected)):
        msg = (f"{primitive} of a program that takes {', '.join(map(str, expected))} "
               f"applied to {', '.join(map(str, avals))}")
        raise TypeError(msg)


# ---- of those that do nothing else -----------------------------------------------------


class Calls:
    """Gives a primitive whose applications are calls of a jaxpr all rules but impl and lowering.

    Args:
      primitive: the primitive.
      param: which of its params is the jaxpr.
      again: from the params of a call and a number of operands, the params of a call that is
        made from it, but for the jaxpr.
      without: from the params of a call and which operands are kept, those of the call without
        the others, but for the jaxpr.
    """

    def __init__(self, primitive: Primitive, param: str, again: Callable[[Params, int], Params],
                 without: Callable[[Params, Sequence[bool]], Params]):
        self.primitive = primitive
        self.param = param
        self.again = again
        self.without = without
        types_as_call(primitive, param)
        primitive.def_jvp(self.jvp)
        primitive.def_transpose(self.transpose)
        for field in ("linearize", "partial_eval", "axis_batch", "dce", "recompute"):
            primitive.define(field, getattr(self, field))

    def call(self, jaxpr: Jaxpr, args: Sequence[Any], params: Params) -> list[Any]:
        """Applies the primitive to a jaxpr that was made from that of a call with these params."""
        return self.primitive.bind(*args, **self.with_jaxpr(jaxpr, params, len(args)))

    def with_jaxpr(self, jaxpr: Jaxpr, params: Params, operands: int) -> Params:
        """The params of a call made from one with these."""
        return {self.param: jaxpr, **self.again(params, operands)}

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The forward derivative."""
        jaxpr = params[self.param]
        nonzeros = [type(t) is not Zero for t in tangents]
        jvp, nonzero_outs = jvp_jaxpr(jaxpr, nonzeros, False)
        outs = self.call(jvp, [*primals, *[t for t in tangents if type(t) is not Zero]], params)
        n = len(jaxpr.outvars)
        given = iter(outs[n:])
        return outs[:n], [next(given) if nz else Zero(a.to_tangent())
                          for a, nz in zip(jaxpr.out_avals, nonzero_outs, strict=True)]

    def linearize(self, nonzeros: Any, *primals: Any, **params: Any) -> Any:
        """The results, and the linear program of their tangents."""
        jaxpr = params[self.param]
        parts = linearize_jaxpr(jaxpr, nonzeros)
        outs = self.call(parts.primal, primals, params)
        n = len(jaxpr.outvars)

        def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
            given = iter(self.call(parts.linear, [
                *residuals, *[t for t in tangents if type(t) is not Zero]], params)
                if parts.linear.outvars else ())
            return [next(given) if nz else Zero(a.to_tangent())
                    for a, nz in zip(jaxpr.out_avals, parts.nonzero_outs, strict=True)]

        return outs[:n], parts.nonzero_outs, parts.residuals(primals, outs), linear

    def partial_eval(self, interp: PartialEvalInterpreter, *args: Any, **params: Any) -> Any:
        """Calls what is known and stages the rest."""
        jaxpr = params[self.param]
        unknown = [interp.is_unknown(a) for a in args]
        parts = partial_eval_jaxpr(jaxpr, unknown, effects_known=interp.effects_known)
        if not parts.known.eqns:
            # Nothing can be done ahead: one equation says the same as two.
            return StageInterpreter.process(interp, self.primitive, args, params)
        known_ins = [a for a, u in zip(args, unknown, strict=True) if not u]
        known = interp.call_known(self.call, parts.known, known_ins, params)
        n = len(jaxpr.outvars) - sum(parts.unknown_outs)
        residuals = parts.residuals(known_ins, known)
        ins = (*residuals, *[a for a, u in zip(args, unknown, strict=True) if u])
        staged = StageInterpreter.process(interp, self.primitive, ins, self.with_jaxpr(
            parts.unknown, params, len(ins)))
        known_outs, unknown_outs = iter(known[:n]), iter(staged)
        return [next(unknown_outs) if u else next(known_outs) for u in parts.unknown_outs]

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        """The cotangents of the operands in which the call is linear."""
        jaxpr = params[self.param]
        undefined = [type(a) is UndefinedPrimal for a in args]
        nonzero_cts = [type(ct) is not Zero for ct in cts]
        transposed, nonzero_ins = transpose_jaxpr(jaxpr, undefined, nonzero_cts)
        outs = iter(self.call(transposed, [
            *[a for a, u in zip(args, undefined, strict=True) if not u],
            *[ct for ct in cts if type(ct) is not Zero]], params))
        nonzero = iter(nonzero_ins)
        return [(next(outs) if next(nonzero) else Zero(a.to_tangent())) if u else None
                for a, u in zip(jaxpr.in_avals, undefined, strict=True)]

    def axis_batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
        """The call for a batch: of the same operands, so that donated ones stay donated."""
        batched, out_dims = batch_jaxpr(params[self.param], axis, dims)
        return self.primitive.bind(*args, **{**params, self.param: batched}), out_dims

    def dce(self, used: Sequence[bool], eqn: Any) -> Any:
        """The call that gives the used results only."""
        jaxpr, used_ins = dce_jaxpr(eqn.params[self.param], used)
        if not any(used) and not jaxpr.effects:
            return [False] * len(eqn.invars), None
        return used_ins, eqn.replace(
            params={self.param: jaxpr, **self.without(eqn.params, used_ins)},
            invars=[v for v, u in zip(eqn.invars, used_ins, strict=True) if u],
            outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
            effects=jaxpr.effects)

    def recompute(self, saveable: Policy, used: Sequence[bool], eqn: Any) -> Any:
        """The call that also gives what it saves, and the one that gives results again."""
        parts = recompute_jaxpr(eqn.params[self.param], [True] * len(used), used, saveable)
        outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
        outvars += [Var(a) for a in parts.known.out_avals[len(outvars):]]
        invars = parts.residuals(eqn.invars, outvars)
        known = eqn.replace(outvars=outvars, params=self.with_jaxpr(
            parts.known, eqn.params, len(eqn.invars)))
        again = eqn.replace(
            invars=invars, outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
            effects=parts.again.effects,
            params=self.with_jaxpr(parts.again, eqn.params, len(invars)))
        return known, again


closed_call_p = Primitive("closed_call", multiple_results=True, types_cacheable=False,
                          own_varying=True)
closed_call_rules = Calls(closed_call_p, "call_jaxpr", lambda params, operands: {},
                          lambda params, kept: {})
evaluates_as_call(closed_call_p, "call_jaxpr")


@closed_call_p.def_lowering
def _closed_call_lowering(ctx: Any, *operands: Any, call_jaxpr: Jaxpr) -> Any:
    return ctx.call(call_jaxpr, "closed_call", *operands)
