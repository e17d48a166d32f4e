"""The frame of `scan`: consts, carries, and one slice of xs and ys per iteration.

A loop that is split in two has residuals. Consts and xs need not be saved, and ys are already
results; only carries and fresh intermediates are stacked per iteration. Values that the consts
alone determine are computed once, before the loops.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import partition_list, split_list
from mjax._engine.control.calls.jit import call
from mjax._engine.control.cast_varying import bind_cast
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held, How, Runner, Split
from mjax._engine.control.loops.carries import fixpoint
from mjax._engine.control.loops.scan import Loop, bind_scan, rearranged, scan_p, stacked
from mjax._engine.ir.effects import no_effects
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Var
from mjax._engine.ir.source import here
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import add_any_p, instantiate
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.partial_eval import PartialEvaluated, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

CONST, CARRY, EACH = range(3)


class _ScanFrame(Frame):
    """Operands enter, and results leave, as one of these, in this order."""

    threaded = CARRY

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

    def mutable(self, how: How) -> tuple[How, How]:
        return (how, how) if how == EACH else (CARRY, CARRY)

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
        rest = dict(held.rest)
        once = rest.pop("once", None)
        held, ins, outs = self.arranged(held._replace(rest=rest))
        params, empty = self.close(held), not (held.body.outvars or held.body.effects)
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

    def arranged(self, held: Held) -> tuple[Held, list[int], list[int]]:
        """The same with operands and results in the primitive's order, and their former places."""
        ins, outs = (sorted(range(len(hows)), key=hows.__getitem__)
                     for hows in (held.ins, held.outs))
        if ins == sorted(ins) and outs == sorted(outs):
            return held, ins, outs
        body = held.body.cached(("arranged", *ins, None, *outs),
                                lambda: rearranged(held.body, ins, outs))
        return Held(body, sorted(held.ins), sorted(held.outs), held.rest), ins, outs

    def split(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        key = ("scan split", second.body, tuple(residual_forwarding), tuple(first.ins),
               tuple(first.outs), thread.settings)
        cut = first.body.cached(key, lambda: _make_cut(first, residual_forwarding))
        return Split(
            Held(cut.body, cut.ins, cut.outs, {**first.rest, "once": cut.once}),
            second._replace(ins=[*cut.residuals, *second.ins]), cut.residual_forwarding)

    # -- transposition, recomputation -------------------------------------------------------

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        held, nc, nk = self.open(params), params["num_consts"], params["num_carry"]
        jaxpr, n, loop = held.body, nc + nk, Loop(**held.rest)
        linear = [type(a) is UndefinedPrimal for a in args]
        if not all(linear[nc:n]):
            reached, parts = self.complete(
                held, linear, partial_eval_jaxpr, operator.attrgetter("unknown_outs"))
            if not all(reached[nc:n]):
                return self._transpose_rest(reached, parts, held, cts, args)
        # A carry may start at a known zero, a tangent before the first step: it is linear as well.
        linear[nc:n] = [True] * nk
        key = ("scan_transpose", tuple(linear), tuple(type(ct) is not Zero for ct in cts), nc,
               nk, thread.settings)
        plan = jaxpr.cached(key, lambda: _transposed(jaxpr, key[1], key[2], nc, nk))
        known_c, _ = partition_list(linear[:nc], args[:nc])
        known_x, _ = partition_list(linear[n:], args[n:])
        sums = [zeros_of(jaxpr.in_avals[i].to_tangent().strip_weak_type()) for i in plan.consts]
        ct_carry = [instantiate(ct) for ct, nz in zip(cts, plan.nonzero_carry, strict=False) if nz]
        ct_ys = [ct for ct in cts[nk:] if type(ct) is not Zero]
        outs = bind_scan(plan.jaxpr, len(known_c), len(sums) + len(ct_carry),
                         [*known_c, *sums, *ct_carry, *ct_ys, *known_x],
                         loop._replace(reverse=not loop.reverse)) if plan.jaxpr.outvars else []
        found = dict(zip([*plan.consts, *plan.carry, *plan.xs], outs, strict=True))
        return [None if type(a) is not UndefinedPrimal
                else found.get(i, Zero(a.aval.to_tangent())) for i, a in enumerate(args)]

    def _transpose_rest(self, reached: Sequence[bool], parts: Any, held: Held, cts: Any,
                        args: Sequence[Any]) -> list[Any]:
        """Runs the part without linear operands (such as a counter), and transposes the rest."""
        (known_ins, rest_ins), (known_outs, rest_outs) = (
            partition_list(reached, held.ins), partition_list(parts.unknown_outs, held.outs))
        split = self.split(
            held._replace(body=parts.known, ins=known_ins, outs=known_outs),
            held._replace(body=parts.unknown, ins=rest_ins, outs=rest_outs),
            parts.residual_forwarding)
        known_args, rest_args = partition_list(reached, args)
        operands = [*split.residuals(known_args, self.runner(split.first)(known_args)), *rest_args]
        second, ins, outs = self.arranged(split.second)
        wanted = [ct for ct, u in zip(cts, parts.unknown_outs, strict=True) if u]
        found = dict(zip(ins, self.transpose(
            [wanted[i] for i in outs], *[operands[i] for i in ins], **self.close(second)),
            strict=True))
        places = iter(range(len(operands) - len(rest_args), len(operands)))
        return [found[next(places)] if u else None for u in reached]

    def recompute(self, saveable: Policy, used: Sequence[bool], eqn: JaxprEqn) -> Any:
        jaxpr, nc, nk = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
        n, m, length = len(jaxpr.invars), len(jaxpr.outvars), eqn.params["length"]

        def recompute(wanted: Sequence[bool]) -> PartialEvaluated:
            return recompute_jaxpr(jaxpr, [True] * m, wanted, saveable)

        # A carry is wanted again if its result is, or if a later iteration reads it.
        wanted = fixpoint(used, slice(nk), lambda w: [
            nc + i in recompute(w).residual_forwarding for i in range(nk)])
        parts = recompute(wanted)
        # The first loop returns its own results and, per iteration, the saved values.
        carries = [s - n for s in dict.fromkeys(parts.residual_forwarding) if n <= s < n + nk]
        first = parts.known.replace(outvars=[
            *parts.known.outvars, *(parts.known.outvars[i] for i in carries)])
        outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
        outvars += [Var(stacked(a, length)) for a in first.out_avals[m:]]
        known = eqn.replace(outvars=outvars, params={**eqn.params, "jaxpr": first})
        place = dict(enumerate([*eqn.invars, *outvars[:len(parts.known.outvars)]]))
        place |= {n + i: outvars[len(parts.known.outvars) + k] for k, i in enumerate(carries)}
        # The second reads consts and xs of the first and saved values, and has the wanted carries.
        reads = dict(zip(parts.residual_forwarding, parts.unknown.invars, strict=True))
        groups = [[s for s in reads if s < nc], [nc + i for i, w in enumerate(wanted[:nk]) if w],
                  [s for s in reads if s >= nc + nk]]
        ins = [s for group in groups for s in group]
        again = parts.unknown.replace(invars=[
            reads[s] if s in reads else Var(jaxpr.in_avals[s]) for s in ins])
        return known, eqn.replace(
            invars=[place[s] for s in ins], effects=again.effects,
            outvars=[v if u else DropVar(v.aval)
                     for v, u, w in zip(eqn.outvars, used, wanted, strict=True) if w],
            params={**eqn.params, "jaxpr": again, "num_consts": len(groups[0]),
                    "num_carry": len(groups[1])})


scan_frame = _ScanFrame(scan_p)


def _places(hows: Sequence[How], wanted: How) -> list[int]:
    return [i for i, how in enumerate(hows) if how == wanted]


# ---- two loops -------------------------------------------------------------------------


class _Once(Record):
    """A program that runs before a loop: from its consts to the values that these determine.

    The new consts of the loop are the entries `taken` of the old consts and the results of `jaxpr`.
    """

    jaxpr: Jaxpr
    taken: Sequence[int]


class _Cut(Record):
    """The first of two loops, and how its residuals enter the second; see `frame.Split`."""

    once: _Once
    body: Jaxpr
    ins: list[How]
    outs: list[How]
    residuals: list[How]
    residual_forwarding: list[int]


def _make_cut(first: Held, sources: Sequence[int]) -> _Cut:
    body, n = first.body, len(first.ins)
    cut = partial_eval_jaxpr(
        body, [how != CONST for how in first.ins],
        [i < len(first.outs) for i in range(len(body.outvars))], effects_known=False)
    once, kept = partition_list(cut.unknown_outs, range(len(body.outvars)))
    loop, moving = cut.unknown, [how for how in first.ins if how != CONST]
    history = list(loop.outvars)
    outs = [*first.outs, *[EACH] * (len(history) - len(first.outs))]

    def place(source: int) -> tuple[int, How]:
        """The place of a residual outside of the loop; values computed once are the last."""
        if source < n and first.ins[source] != CARRY:
            return source, first.ins[source]
        if source - n in once:
            return ~once.index(source - n), CONST
        # A carry is a result only once, but its values in all iterations are needed.
        atom = (loop.invars[len(cut.residual_forwarding) + source - (n - len(moving))] if source < n
                else history[kept.index(source - n)])
        for i, how in enumerate(outs):
            if how == EACH and history[i] is atom:
                return n + i, EACH
        history.append(atom)
        outs.append(EACH)
        return n + len(outs) - 1, EACH

    places = [place(s) for s in sources]
    return _Cut(
        _Once(cut.known, cut.residual_forwarding), loop.replace(outvars=history),
        [CONST] * len(cut.residual_forwarding) + moving, outs, [how for _, how in places],
        [p if p >= 0 else n + len(outs) + ~p for p, _ in places])


# ---- the loop backwards ----------------------------------------------------------------


class _Transposed(Record):
    """The scan backwards.

    Its consts are the known ones. Its carry holds the sums of cotangents of linear consts, then the
    cotangents of the carry. Its xs are the cotangents of the ys, then the known xs.
    """

    jaxpr: Jaxpr
    nonzero_carry: list[bool]
    #: Linear operands that get a cotangent: consts, carries, xs.
    consts: list[int]
    carry: list[int]
    xs: list[int]


def _transposed(jaxpr: Jaxpr, linear: Sequence[bool], nonzero_cts: Sequence[bool], nc: int,
                nk: int) -> _Transposed:
    n, ys = nc + nk, list(nonzero_cts[nk:])
    lins = [i for i, u in enumerate(linear) if u]
    first = lins.index(nc) if nk else 0

    def back(nz: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
        wanted = [nc <= i < n and nz[i - nc] for i in lins]
        return transpose_jaxpr(jaxpr, linear, [*nz[:nk], *ys], wanted)

    nonzeros = fixpoint(nonzero_cts[:nk], slice(nk), lambda nz: back(nz)[1][first:first + nk])
    transposed, nonzero_ins = back(nonzeros)
    got = [i for i, nz in zip(lins, nonzero_ins, strict=True) if nz]
    consts, carry, xs = ([i for i in got if i < nc], [i for i in got if nc <= i < n],
                         [i for i in got if i >= n])
    known_c, known_x, cts = split_list(
        transposed.invars, [linear[:nc].count(False), linear[n:].count(False)])
    ct_carry, ct_ys = cts[:sum(nonzeros)], cts[sum(nonzeros):]
    sums, added, eqns = _running_sums(transposed.outvars[:len(consts)])
    body = transposed.replace(
        invars=[*known_c, *sums, *ct_carry, *ct_ys, *known_x],
        outvars=[*added, *transposed.outvars[len(consts):]], eqns=[*transposed.eqns, *eqns])
    return _Transposed(body, nonzeros, consts, carry, xs)


def _running_sums(terms: Sequence[Any]) -> tuple[list[Var], list[Var], list[JaxprEqn]]:
    """Variables of sums before and after terms are added to them, and the equations."""
    before = [Var(t.aval.strip_weak_type()) for t in terms]
    after = [Var(v.aval) for v in before]
    return before, after, [
        JaxprEqn(add_any_p, [b, t], [a], {}, no_effects, here())
        for b, t, a in zip(before, terms, after, strict=True)]


__all__ = ["scan_frame"]
