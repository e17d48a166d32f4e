"""Partial evaluation: runs what is known, writes down the rest as a jaxpr.

A value is known unless it carries a variable of the program under construction. An equation
all of whose operands are known is handed to the parent; any other is staged, and the known
values it reads become the program's constants, its *residuals*. Three customers: linearize
(tangents are unknown), scan (loop-invariant values are known), remat (policies).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mjax._engine.base.context import ctx
from mjax._engine.ir.jaxpr import Atom, Jaxpr, Literal
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.interpreter import running
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import (
    StageInterpreter,
    StageTracer,
    eval_jaxpr,
    stage_under_evaluation,
)

_SCALARS = (bool, int, float, complex)


class PartialEvalInterpreter(StageInterpreter):
    """Stages the equations that depend on its own variables; its parent runs the others."""

    __slots__ = ()
    name = "partial evaluation"

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        for arg in args:
            if type(arg) is StageTracer and arg.interp is self:
                rule = primitive.partial_eval
                if rule is None:
                    return StageInterpreter.process(self, primitive, args, params)
                return rule(self, *args, **params)
        ctx.interpreter = self.parent
        try:
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
        finally:
            ctx.interpreter = self

    def _lift(self, value: Any) -> Atom:
        # Arrays of no axes stay residuals: they are data, and baking them into the program
        # would hide them from whoever takes the residuals for a pytree.
        if type(value) in _SCALARS:
            return Literal(value, typeof(value))
        return self.constant(value, typeof(value)) if hasattr(value, "aval") else super(
        )._lift(value)

    def is_unknown(self, value: Any) -> bool:
        """Whether a value is a variable of the program under construction."""
        return type(value) is StageTracer and value.interp is self

    def call_known(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a function with the parent current; for rules, which run with `self` current."""
        ctx.interpreter = self.parent
        try:
            return f(*args, **kwargs)
        finally:
            ctx.interpreter = self


class PartialEvaluated(NamedTuple):
    """A jaxpr cut in two.

    `known` goes from the known inputs to the known results and the residuals that are not
    inputs; `unknown` goes from all residuals and the unknown inputs to the unknown results.
    `residual_inputs[i]` is the index among the known inputs that residual `i` is, or None
    where it is the next of the extra results of `known`.
    """

    known: Jaxpr
    unknown: Jaxpr
    unknown_outs: list[bool]
    residual_inputs: list[int | None]

    def residuals(self, known_ins: Sequence[Any], known_extra_outs: Sequence[Any]) -> list[Any]:
        """The residuals in order, from the known part's inputs and extra results."""
        extra = iter(known_extra_outs)
        return [next(extra) if i is None else known_ins[i] for i in self.residual_inputs]


def partial_eval_jaxpr(jaxpr: Jaxpr, unknown: Sequence[bool],
                       instantiate: bool | Sequence[bool] = False) -> PartialEvaluated:
    """Cuts a jaxpr into what its known inputs determine and the rest; cached on it.

    Args:
      jaxpr: the program.
      unknown: which inputs are unknown.
      instantiate: which results have to be results of the unknown part.
    """
    unknown = tuple(unknown)
    wanted = ((instantiate,) * len(jaxpr.outvars) if isinstance(instantiate, bool)
              else tuple(instantiate))
    return jaxpr.cached(("partial_eval", unknown, wanted, ctx.settings),
                        lambda: _partial_eval_jaxpr(jaxpr, unknown, wanted))


def _partial_eval_jaxpr(jaxpr: Jaxpr, unknown: Sequence[bool], wanted: Sequence[bool]
                        ) -> PartialEvaluated:
    unknown_jaxpr: list[Jaxpr] = []
    unknown_outs: list[bool] = []
    residual_inputs: list[int | None] = []

    def run_known(*known_ins: Any) -> list[Any]:
        interp = PartialEvalInterpreter(ctx.interpreter, jaxpr.debug_info)
        with running(interp):
            given = iter(known_ins)
            ins = [interp.new_arg(aval) if u else next(given)
                   for aval, u in zip(jaxpr.in_avals, unknown, strict=True)]
            outs = eval_jaxpr(jaxpr, jaxpr.consts, *ins)
            unknown_outs.extend(w or interp.is_unknown(o)
                                for o, w in zip(outs, wanted, strict=True))
            atoms = [interp.atom(o) for o, u in zip(outs, unknown_outs, strict=True) if u]
        input_index = {id(v): i for i, v in enumerate(known_ins)}
        # What is constant to the whole program stays a constant of the unknown part.
        fixed = {id(c) for c in jaxpr.consts}
        moved = [i for i, c in enumerate(interp.consts) if id(c) not in fixed]
        kept = [i for i in range(len(interp.consts)) if i not in set(moved)]
        residuals = [interp.consts[i] for i in moved]
        residual_inputs.extend(input_index.get(id(r)) for r in residuals)
        unknown_jaxpr.append(Jaxpr(
            [interp.constvars[i] for i in kept],
            [interp.constvars[i] for i in moved] + interp.invars, atoms, interp.eqns,
            interp.effects, jaxpr.debug_info, consts=[interp.consts[i] for i in kept]))
        known_outs = [o for o, u in zip(outs, unknown_outs, strict=True) if not u]
        return known_outs + [r for r, i in zip(residuals, residual_inputs, strict=True)
                             if i is None]

    known_avals = [a for a, u in zip(jaxpr.in_avals, unknown, strict=True) if not u]
    known_jaxpr = stage_under_evaluation(run_known, known_avals, jaxpr.debug_info)
    return PartialEvaluated(known_jaxpr, unknown_jaxpr[0], unknown_outs, residual_inputs)
