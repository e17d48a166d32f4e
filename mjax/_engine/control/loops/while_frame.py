"""The frame of `while`: consts of the condition, consts of the body, and carries.

The frame holds the body and the condition as programs that both take all operands, so that every
transformation marks and orders these once. `runner` gives each program only the consts that it
reads.

Reverse mode is refused: the number of iterations, and so the size of what they would save, is
known only when the loop has run.

Source: Frostig et al. 2018 (JAX) for the batching rule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyNoDerivativeError
from mjax._engine.base.util import selected
from mjax._engine.control.cast_varying import Axes, refuse_alone, widened
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import OF_JAXPRS, Held, How, Runner
from mjax._engine.control.loops.while_loop import Parts, bind_while, while_p
from mjax._engine.control.programs import Programs
from mjax._engine.ir.effects import keeps_equation
from mjax._engine.ir.jaxpr import Jaxpr, Var, used_variables
from mjax._engine.primitives.reductions import reduce_or_p
from mjax._engine.primitives.select import select_n_p
from mjax._engine.primitives.shapes import broadcast_in_dim_p
from mjax._engine.tracing.operands import no_axes
from mjax._engine.tracing.rule_errors import refuse_masked_effects
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr, live_inputs, with_inputs
from mjax._engine.transforms.partial_eval import PartialEvaluated, partial_eval_jaxpr

#: How an operand enters. No program reads tangents of consts of the condition.
COND, BODY, CARRY, UNREAD = range(4)
#: The reason for tracing the condition of a loop whose body runs until all elements have ended.
_BATCHED = "vmap of while_loop"


class Iteration(Programs):
    """The body of a loop and its condition; both take all operands."""

    __slots__ = ()


# ---- transformations of both programs ----------------------------------------------------


def _along(push: Callable[..., Any]) -> Callable[..., Any]:
    """Lifts a transformation that adds inputs, which the condition does not read."""

    def of_both(programs: Iteration, nonzeros: Sequence[bool], wanted: Sequence[bool]) -> Any:
        body, cond = programs
        pushed, nonzero_outs = push(body, nonzeros, wanted)
        more = map(Var, pushed.in_avals[len(body.invars):])
        return Iteration((pushed, cond.replace(invars=[*cond.invars, *more]))), nonzero_outs

    return of_both


def _batch(programs: Iteration, axis: AxisData, dims: Sequence[int | None],
           wanted: Sequence[bool]) -> Any:
    """If the elements end at different times, then all carries are batched."""
    body, cond = programs
    many_cond, (decision,) = batch_jaxpr(cond, axis, dims)
    if decision is not None:
        refuse_masked_effects("while_loop", (cond, body))
        if not all(wanted):  # `complete` asks again, for a batch of every carry
            return None, [0] * len(wanted)
    many_body, out_dims = batch_jaxpr(body, axis, dims, wanted)
    return Iteration((many_body, many_cond)), out_dims


def _partial_eval(programs: Iteration, unknown: Sequence[bool], wanted: Sequence[bool],
                  **options: Any) -> PartialEvaluated:
    """That of the body. If the end of the loop is unknown, then all results are."""
    body, cond = programs
    (decides,) = partial_eval_jaxpr(cond, unknown).unknown_outs
    return partial_eval_jaxpr(body, unknown, decides or wanted, **options)


def _dce(programs: Iteration, used: Sequence[bool], kept: Sequence[bool]) -> Any:
    runs = [any(used) or keeps_equation(programs.effects)]
    parts = [dce_jaxpr(program, wanted, True)[0]
             for program, wanted in zip(programs, (used, runs), strict=True)]
    read = list(map(operator.or_, kept, map(operator.or_, *map(live_inputs, parts))))
    return Iteration(parts if all(read) else [
        with_inputs(part, selected(read, part.invars)) for part in parts]), read


def _cast(programs: Iteration, varying: Sequence[Axes], outs: Sequence[Axes] | None = None
          ) -> Iteration:
    """Carries also vary along the axes along which the number of iterations does."""
    body, cond = programs
    cond = widened(cond, varying)
    ends = cond.out_avals[0].varying
    refuse_alone("while", "the number of iterations", ends, (cond, body))
    return Iteration((widened(body, varying, [
        ends | axes for axes in outs or [no_axes] * len(body.outvars)]), cond))


# ---- the frame ---------------------------------------------------------------------------


class _WhileFrame(Frame):
    """Operands enter as consts of the condition or the body, or as carries."""

    derives = ("cast_varying", "jvp", "linearize", "transpose", "axis_batch", "partial_eval", "dce")
    threaded = CARRY
    transforms = OF_JAXPRS._replace(
        along=_along, partial_eval=_partial_eval, batch=_batch, dce=_dce, cast=_cast)

    def body(self, params: dict[str, Any]) -> Programs:
        return Programs((params[self.param], params["cond_jaxpr"]))

    def open(self, params: dict[str, Any]) -> Held:
        both, nc, nb = self.body(params), params["cond_nconsts"], params["body_nconsts"]
        outs = [CARRY] * len(both.outvars)
        ins = [COND] * nc + [BODY] * nb + outs

        def taking_all() -> Iteration:
            body, cond = both
            return Iteration((with_inputs(body, [*map(Var, cond.in_avals[:nc]), *body.invars]),
                              with_inputs(cond, [*cond.invars[:nc], *map(Var, body.in_avals[:nb]),
                                              *cond.invars[nc:]])))

        return Held(both.cached(("open", nc, nb), taking_all), ins, outs, {})

    def close(self, held: Held) -> dict[str, Any]:
        body, cond = (_without(jaxpr, how, held.ins)
                      for jaxpr, how in zip(held.body, (COND, BODY), strict=True))
        return {"cond_jaxpr": cond, "cond_nconsts": held.ins.count(COND),
                "body_jaxpr": body, "body_nconsts": held.ins.count(BODY)}

    def times(self, held: Held) -> None:
        return None

    def runs_on(self, held: Held) -> bool:
        return held.body[1].debug_info.traced_for == _BATCHED

    def carries(self, held: Held) -> list[tuple[int, int]]:
        places = [i for i, how in enumerate(held.ins) if how == CARRY]
        return list(zip(places, range(len(held.outs)), strict=True))

    def batch_dim(self, how: How) -> int:
        return 0

    def derivative(self, how: How) -> How:
        return UNREAD if how == COND else how

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        raise LazyNoDerivativeError(
            "Reverse-mode differentiation of while_loop, or of fori_loop with bounds that are not "
            "known when it is traced, is not possible: the number of iterations, and so what would "
            "have to be remembered of them, is known only at run time. Use scan, or fori_loop with "
            "static bounds (stop early by masking with where), or give the loop a rule by "
            "custom_vjp or lax.custom_root; forward mode (jvp, jacfwd) works.")

    def runner(self, held: Held) -> Runner:
        """Applies the loop. A carry that each iteration hands on as it is becomes a const of the
        programs that read it."""
        first, held = _rotated(self.carries(held), held)
        body, cond = held.body
        sources = {j: i for i, j in self.carries(held)}
        moving = [j for j, i in sources.items()
                  if body.outvars[j] is not body.invars[i] or held.body.effects]
        carried = [sources[j] for j in moving]
        still = set(sources.values()).difference(carried)

        def fitting(jaxpr: Jaxpr, outvars: Sequence[Any], other: How) -> tuple[Jaxpr, list[int]]:
            read = still and used_variables(
                [*outvars, *(v for eqn in jaxpr.eqns for v in eqn.invars)])
            places = [i for i, how in enumerate(held.ins) if (
                jaxpr.invars[i] in read if i in still else how not in (other, CARRY, UNREAD))]
            return with_inputs(jaxpr, [jaxpr.invars[i] for i in (*places, *carried)],
                               outvars), places

        body, of_body = fitting(body, [body.outvars[j] for j in moving], COND)
        cond, of_cond = fitting(cond, cond.outvars, BODY)

        def run(args: Sequence[Any]) -> list[Any]:
            args = first(args)
            outs = [args[sources[j]] for j in range(len(held.outs))]
            if carried or held.body.effects:
                found = bind_while(cond, body, Parts(*(
                    [args[i] for i in places] for places in (of_cond, of_body, carried))))
                for j, value in zip(moving, found, strict=True):
                    outs[j] = value
            return outs[:n_outs]

        n_outs = len(held.outs) - (first is not _as_given)
        return run


while_frame = _WhileFrame(while_p, "body_jaxpr")


def _rotated(carries: Sequence[tuple[int, int]], held: Held
             ) -> tuple[Callable[[Sequence[Any]], Sequence[Any]], Held]:
    """A loop whose condition returns only a predicate, and the preparation of its operands.

    Any other condition runs before the loop and at the end of its body. The loop carries its
    results: the active elements of a batch, or the values threaded through it.
    """
    body, cond = held.body
    going, n_more = cond.out_avals[0], len(cond.outvars) - 1
    places = [i for i, _ in carries]
    if n_more and cond.outvars[1:] == [cond.invars[i] for i in places[len(places) - n_more:]]:
        # It hands on what is threaded through it, as it is.
        cond, n_more = cond.replace(outvars=cond.outvars[:1]), 0
        held = held._replace(body=Iteration((body, cond)))
    if not going.shape and not n_more:
        return _as_given, held

    def decide(args: Sequence[Any]) -> list[Any]:
        decision, *more = eval_jaxpr(cond, cond.consts, *args)
        kept = list(args)
        for i, value in zip(places[len(places) - n_more:], more, strict=True):
            kept[i] = value
        return [*kept, decision]

    def iterate(*args: Any) -> list[Any]:
        *old, decision = args
        new = eval_jaxpr(body, body.consts, *old)
        after = list(old)
        for i, value in zip(places, new, strict=True):
            after[i] = _select(decision, old[i], value) if going.shape else value
        *after, decision = decide(after)
        return [*(after[i] for i in places), decision]

    def goes_on(*args: Any) -> list[Any]:
        return [reduce_or_p.bind(args[-1], axes=(0,)) if going.shape else args[-1]]

    avals = [*body.in_avals, going]
    of_cond = cond.debug_info._replace(traced_for=_BATCHED) if going.shape else cond.debug_info
    programs = Iteration((trace_to_jaxpr(iterate, avals, body.debug_info),
                          trace_to_jaxpr(goes_on, avals, of_cond)))
    ins = [BODY if how == COND else how for how in held.ins]
    return decide, Held(programs, [*ins, CARRY], [*held.outs, CARRY], held.rest)


def _as_given(args: Sequence[Any]) -> Sequence[Any]:
    return args


def _select(going: Any, old: Any, new: Any) -> Any:
    """The new value of the elements that go on, the old one of the others."""
    which = broadcast_in_dim_p.bind(going, shape=new.shape, broadcast_dimensions=(0,))
    return select_n_p.bind(which, old, new)


def _without(jaxpr: Jaxpr, other: How, ins: Sequence[How]) -> Jaxpr:
    """The program without the consts of the other one."""
    if other not in ins:
        return jaxpr
    return jaxpr.cached(("without", other, *ins), lambda: with_inputs(
        jaxpr, [v for v, how in zip(jaxpr.invars, ins, strict=True) if how != other]))


__all__ = ["while_frame"]
