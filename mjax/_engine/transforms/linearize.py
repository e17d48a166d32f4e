"""Linearization: evaluates a function and writes down its derivative as a linear jaxpr.

It is jvp over partial evaluation: primals are known and run under the interpreter the user
called from; tangents are unknown, so that what a jvp rule does to them is staged. A
primitive may have a `linearize` rule of its own (those that hold jaxprs do).

Source: Radul et al. 2022, "You Only Linearize Once", arXiv:2204.10923.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mjax._engine.base.context import ctx
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, no_debug_info
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import instantiate, zero_tangent
from mjax._engine.tracing.interpreter import Interpreter, running
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import _patient_collector, eval_jaxpr, stage_under_evaluation
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.jvp import JVPInterpreter, JVPTracer, split_results
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter


class LinearizeInterpreter(JVPInterpreter):
    """Runs primals, stages tangents. Its parent is the partial evaluation of tangents."""

    __slots__ = ()
    name = "linearize"
    parent: PartialEvalInterpreter

    def differentiate(self, primitive: Primitive, primals: list[Any], tangents: list[Any],
                      params: dict[str, Any]) -> tuple[Any, Any]:
        rule = primitive.linearize
        if rule is None:
            return super().differentiate(primitive, primals, tangents, params)
        nonzeros = [type(t) is not Zero for t in tangents]
        outs, nonzero_outs, residuals, linear = self.parent.call_known(
            rule, nonzeros, *primals, **params)
        given = iter(linear(residuals, *[t for t in tangents if type(t) is not Zero]))
        if not primitive.multiple_results:
            return outs, next(given) if nonzero_outs else zero_tangent(outs)
        return outs, [next(given) if nz else zero_tangent(o)
                      for o, nz in zip(outs, nonzero_outs, strict=True)]


class Linearized(NamedTuple):
    """`outs` with the linear program of their tangents.

    `jaxpr` goes from the tangents of the inputs that have one to those of the results that
    have one (`nonzero_outs`); `jaxpr.consts` are the residuals.
    """

    outs: list[Any]
    jaxpr: Jaxpr
    nonzero_outs: list[bool]


def linearize_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any],
                   nonzeros: Sequence[bool], instantiate_outs: bool = False,
                   debug_info: DebugInfo = no_debug_info) -> Linearized:
    """Linearizes a function of flat values at a point.

    Args:
      f: the function.
      primals: the point.
      nonzeros: the inputs to differentiate in.
      instantiate_outs: whether every result gets a tangent, zeros if need be.
      debug_info: names for messages.
    """
    tangent_interp = PartialEvalInterpreter(ctx.interpreter, debug_info)
    interp = LinearizeInterpreter(tangent_interp)
    with _patient_collector(), running(interp):
        ins = [JVPTracer(interp, p, tangent_interp.new_arg(typeof(p).to_tangent())) if nz else p
               for p, nz in zip(primals, nonzeros, strict=True)]
        outs, tangents = split_results(interp, f(*ins))
        if instantiate_outs:
            with _under(tangent_interp):
                tangents = [instantiate(t) for t in tangents]
    nonzero_outs = [type(t) is not Zero for t in tangents]
    atoms = [tangent_interp.atom(t) for t in tangents if type(t) is not Zero]
    tangent_interp.alive = False
    return Linearized(outs, tangent_interp.build(atoms), nonzero_outs)


class _under:
    """Makes an interpreter current without ending it."""

    def __init__(self, interp: Interpreter):
        self.interp = interp

    def __enter__(self) -> None:
        self.previous, ctx.interpreter = ctx.interpreter, self.interp

    def __exit__(self, *exc: Any) -> None:
        ctx.interpreter = self.previous


class LinearizedJaxpr(NamedTuple):
    """A jaxpr cut into its evaluation and its derivative.

    `primal` goes from the inputs to the results and the residuals that are not inputs;
    `linear` goes from all residuals and the nonzero tangents to the tangents of the results
    that have one. `residual_inputs[i]` is the input that residual `i` is, or None.
    """

    primal: Jaxpr
    linear: Jaxpr
    nonzero_outs: list[bool]
    residual_inputs: list[int | None]

    def residuals(self, ins: Sequence[Any], extra_outs: Sequence[Any]) -> list[Any]:
        """The residuals in order, from the inputs and the extra results of `primal`."""
        extra = iter(extra_outs)
        return [next(extra) if i is None else ins[i] for i in self.residual_inputs]


def linearize_jaxpr(jaxpr: Jaxpr, nonzeros: Sequence[bool], instantiate_outs: bool = False
                    ) -> LinearizedJaxpr:
    """Linearizes a jaxpr in the inputs marked `nonzeros`; cached on it."""
    nonzeros = tuple(nonzeros)
    return jaxpr.cached(("linearize", nonzeros, instantiate_outs, ctx.settings),
                        lambda: _linearize_jaxpr(jaxpr, nonzeros, instantiate_outs))


def _linearize_jaxpr(jaxpr: Jaxpr, nonzeros: Sequence[bool], instantiate_outs: bool
                     ) -> LinearizedJaxpr:
    made: list[Any] = []

    def run(*ins: Any) -> list[Any]:
        outs, linear, nonzero_outs = linearize_flat(
            lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args), ins, nonzeros,
            instantiate_outs, jaxpr.debug_info)
        input_index = {id(v): i for i, v in enumerate(ins)}
        fixed = {id(c) for c in jaxpr.consts}
        moved = [i for i, c in enumerate(linear.consts) if id(c) not in fixed]
        kept = [i for i, c in enumerate(linear.consts) if id(c) in fixed]
        residuals = [linear.consts[i] for i in moved]
        residual_inputs = [input_index.get(id(r)) for r in residuals]
        made.append((linear.replace(
            constvars=[linear.constvars[i] for i in kept], consts=[linear.consts[i] for i in kept],
            invars=[linear.constvars[i] for i in moved] + linear.invars),
            nonzero_outs, residual_inputs))
        return [*outs, *[r for r, i in zip(residuals, residual_inputs, strict=True)
                         if i is None]]

    primal = stage_under_evaluation(run, jaxpr.in_avals, jaxpr.debug_info)
    linear, nonzero_outs, residual_inputs = made[0]
    if ctx.options.enable_checks:
        check_jaxpr(linear)
    return LinearizedJaxpr(primal, linear, nonzero_outs, residual_inputs)
