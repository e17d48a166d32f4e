"""The frame of `scan`: consts, carries, and one slice of xs and ys per iteration.

A loop that is split in two has residuals. Consts and xs need not be saved, and ys are already
results; only carries and fresh intermediates are stacked per iteration. Values that the consts
alone determine are computed once, before the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import partition_list
from mjax._engine.control.calls.jit import call
from mjax._engine.control.cast_varying import bind_cast
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held, How, Runner, Split
from mjax._engine.control.loops.scan import (
    COUNTER,
    Loop,
    rearranged,
    row_of,
    scan_p,
    stacked,
    with_row,
)
from mjax._engine.ir.effects import no_effects
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Var
from mjax._engine.ir.source import here
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import add_any_p
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr

CONST, CARRY, EACH, IN_PLACE = range(4)


class _ScanFrame(Frame):
    """Operands enter, and results leave, as one of the first three, in this order. The last is for
    slices that replace those that entered; the loop carries the array."""

    threaded, each = CARRY, EACH

    def open(self, params: dict[str, Any]) -> Held:
        body, nc, nk = params["jaxpr"], params["num_consts"], params["num_carry"]
        return Held(
            body, [CONST] * nc + [CARRY] * nk + [EACH] * (len(body.invars) - nc - nk),
            [CARRY] * nk + [EACH] * (len(body.outvars) - nk),
            {name: params[name] for name in Loop._fields})

    def close(self, held: Held) -> dict[str, Any]:
        return {"jaxpr": held.body, "num_consts": held.ins.count(CONST),
                "num_carry": held.outs.count(CARRY), **held.rest}

    def times(self, held: Held) -> int:
        times: int = held.rest["length"]
        return times

    def mutable(self, how: How, last: bool) -> tuple[How, How]:
        how = CARRY if how != EACH else IN_PLACE if last else EACH
        return how, how

    def carries(self, held: Held) -> list[tuple[int, int]]:
        return list(zip(_places(held.ins, CARRY), _places(held.outs, CARRY), strict=True))

    def batch_dim(self, how: How) -> int:
        return int(how == EACH)

    def outer(self, held: Held, aval: Any, how: How) -> Any:
        return stacked(aval, held.rest["length"]) if how == EACH else aval

    def nothing_ahead(self, first: Held, unknown_outs: Sequence[bool]) -> bool:
        return all(unknown_outs) and not (first.body.eqns or first.rest["once"].jaxpr.eqns)

    def runner(self, held: Held) -> Runner:
        """Runs the part that runs once, then the loop; returns the results of both."""
        if IN_PLACE in held.ins:
            looped = self.runner(_with_carried_rows(held, self.times(held)))
            return lambda args: looped([iota(COUNTER.dtype, self.times(held)), *args])
        rest = dict(held.rest)
        once = rest.pop("once", None)
        ins, outs = (sorted(range(len(hows)), key=hows.__getitem__)
                     for hows in (held.ins, held.outs))
        body = held.body
        if ins != sorted(ins) or outs != sorted(outs):
            body = body.cached(("arranged", *ins, None, *outs),
                               lambda: rearranged(held.body, ins, outs))
        params, empty = self.close(Held(body, sorted(held.ins), sorted(held.outs), rest)), not (
            body.outvars or body.effects)
        order = sorted(range(len(outs)), key=outs.__getitem__)

        def run(args: Sequence[Any]) -> list[Any]:
            made = list[Any]()
            if once is not None:
                n = len(args) + len(once.taken) - len(ins)
                made = call(once.jaxpr, "invariants", args[:n]) if once.jaxpr.outvars else made
                both = [*args[:n], *made]
                args = [*(both[i] for i in once.taken), *args[n:]]
            if empty:
                return made
            found = bind_cast(scan_p, [args[i] for i in ins], params)
            return [*(found[i] for i in order), *made]

        return run

    def split(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        key = ("scan split", second.body, tuple(residual_forwarding), tuple(first.ins),
               tuple(first.outs), thread.settings)
        whole = super().split
        once, split = first.body.cached(key, lambda: _with_invariants(
            whole(first, second, residual_forwarding), len(first.outs)))
        return split._replace(
            first=split.first._replace(rest={**first.rest, "once": once}), second=second._replace(
                ins=[*split.second.ins[:len(residual_forwarding)], *second.ins]))

    def transposed(self, held: Held, back: Held, known: int) -> Runner:
        """The loop backwards. The first carries are the sums of cotangents of consts."""
        body, n = back.body, back.outs.count(CONST)
        before = [Var(v.aval.strip_weak_type()) for v in body.outvars[:n]]
        after = [Var(v.aval) for v in before]
        sums = [JaxprEqn([b, v], [a], add_any_p, {}, no_effects, here())
                for b, v, a in zip(before, body.outvars, after, strict=False)]
        run = self.runner(Held(
            body.replace(invars=[*before, *body.invars], outvars=[*after, *body.outvars[n:]],
                         eqns=[*body.eqns, *sums]),
            [CARRY] * n + list(back.ins), [CARRY] * n + list(back.outs[n:]),
            {**back.rest, "reverse": not back.rest["reverse"]}))
        return lambda args: run([*(zeros_of(v.aval) for v in before), *args])


scan_frame = _ScanFrame(scan_p)


def _with_carried_rows(held: Held, length: int) -> Held:
    """A loop that carries arrays whose slices enter and are replaced by those that leave.

    It takes the numbers of its iterations first.
    """
    ins, outs = _places(held.ins, IN_PLACE), _places(held.outs, IN_PLACE)

    def step(i: Any, *args: Any) -> list[Any]:
        found = eval_jaxpr(held.body, held.body.consts, *(
            row_of(x, i) if k in ins else x for k, x in enumerate(args)))
        for k, j in zip(ins, outs, strict=True):
            found[j] = with_row(args[k], found[j], i)
        return found

    key = ("in place", *ins, None, *outs, length)
    body = held.body.cached(key, lambda: trace_to_jaxpr(step, [
        COUNTER, *(stacked(a, length) if k in ins else a for k, a in enumerate(held.body.in_avals))
    ], held.body.debug_info))
    return held._replace(
        body=body, ins=[EACH, *(CARRY if h == IN_PLACE else h for h in held.ins)],
        outs=[CARRY if h == IN_PLACE else h for h in held.outs])


def _places(hows: Sequence[How], wanted: How) -> list[int]:
    return [i for i, how in enumerate(hows) if how == wanted]


# ---- two loops -------------------------------------------------------------------------


class _Once(Record):
    """A program that runs before a loop: from its consts to the values that these determine.

    The new consts of the loop are the entries `taken` of the old consts and the results of `jaxpr`.
    """

    jaxpr: Jaxpr
    taken: Sequence[int]


def _with_invariants(split: Split, own: int) -> tuple[_Once, Split]:
    """Moves values that consts alone determine from the first loop to a program that runs once.

    Args:
      split: the two loops.
      own: the number of results of the first; what follows are residuals.
    """
    first, n = split.first, len(split.first.ins)
    cut = partial_eval_jaxpr(
        first.body, [how != CONST for how in first.ins],
        [i < own for i in range(len(first.outs))], effects_known=False)
    once, kept = partition_list(cut.unknown_outs, range(n, n + len(first.outs)))
    # Results of the program that runs once are the last.
    places = [*range(n), *[0] * len(first.outs)]
    for place, i in enumerate((*kept, *once), n):
        places[i] = place
    hows = [CONST if s in once else how for s, how in zip(
        split.residual_forwarding, split.second.ins, strict=False)]
    return _Once(cut.known, cut.residual_forwarding), Split(
        first._replace(body=cut.unknown, ins=[
            *[CONST] * len(cut.residual_forwarding), *(how for how in first.ins if how != CONST)],
            outs=[first.outs[i - n] for i in kept]),
        split.second._replace(ins=[*hows, *split.second.ins[len(hows):]]),
        [places[s] for s in split.residual_forwarding])


__all__ = ["scan_frame"]
