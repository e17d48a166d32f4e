"""The rules of `scan` that make two loops of one: linearization, partial evaluation,
recomputation; and transposition, which takes the second of them backwards.

What the first loop leaves for the second are residuals. Of what the body reads or gives, consts
and xs are read again where they are, and ys are results already; only of carries, and of values
that are nothing else, the first loop gives one more result per iteration. What the consts alone
determine is computed once, before the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.context import ctx
from mjax._engine.base.records import Record
from mjax._engine.base.util import partition_list, split_list
from mjax._engine.control.calls.jit import call
from mjax._engine.control.loops.carries import fixpoint
from mjax._engine.control.loops.scan import Loop, bind, rearranged, scan_p, scan_params, stacked
from mjax._engine.ir.effects import no_effects
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Var
from mjax._engine.ir.source import here
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import add_any_p, instantiate
from mjax._engine.tracing.stage import StageInterpreter
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.linearize import LinearizedJaxpr, linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, Recomputable, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

# ---- two loops -------------------------------------------------------------------------


class _First(Record):
    """The first of two loops.

    `once` computes what the consts determine, from them. The loop's consts are the entries
    `consts` of `[*consts, *results of once]`.
    """

    once: Jaxpr
    num_operand_consts: int
    consts: list[int]
    body: Jaxpr
    num_carry: int

    def run(self, args: Sequence[Any], loop: Loop) -> tuple[list[Any], list[Any]]:
        """Runs it.

        Returns:
          The results of the loop, and all values there are: operands, results of `once`,
          results of the loop.
        """
        consts = list(args[:self.num_operand_consts])
        once = call(self.once, "invariants", consts) if self.once.outvars else []
        both = [*consts, *once]
        outs = bind(self.body, len(self.consts), self.num_carry, [
            *(both[i] for i in self.consts), *args[len(consts):]], loop) if (
                self.body.outvars or self.body.effects) else []
        return outs, [*args, *once, *outs]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to compute."""
        return not (self.once.eqns or self.body.eqns)


class _Second(Record):
    """The second loop; its operands are `[*residuals, *others]` in the order of `ins`."""

    body: Jaxpr
    ins: list[int]
    num_consts: int
    num_carry: int

    def operands(self, residuals: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        given = [*residuals, *others]
        return [given[i] for i in self.ins]


class _Cut(Record):
    """Two loops. Residual `i` of the second is entry `places[i]` of the values of the first."""

    first: _First
    places: list[int]
    second: _Second
    #: Which operands the second loop is about: those with a tangent, or those unknown.
    flags: list[bool]
    #: Which results come from the second loop.
    out_flags: list[bool]

    def residuals(self, values: Sequence[Any]) -> list[Any]:
        return [values[i] for i in self.places]


def _cut(body: Jaxpr, nc: int, nk: int, results: int, sources: Sequence[int], second: Jaxpr,
         flags: Sequence[bool], sizes: tuple[int, int], out_flags: list[bool]) -> _Cut:
    """Makes loops of a body that is cut in two.

    Args:
      body: the first half, from consts, carry and xs to results and residuals.
      nc: its number of consts.
      nk: its number of carries.
      results: how many of its results are not residuals.
      sources: where the residuals are among its inputs and results.
      second: the second half, from residuals and others.
      flags: which operands of the whole these others are.
      sizes: how many of them are consts, and how many carries.
      out_flags: which results of the whole `second` gives.
    """
    n = len(body.invars)
    cut = partial_eval_jaxpr(
        body, [i >= nc for i in range(n)],
        [i < results for i in range(len(body.outvars))], effects_known=False)
    once = [i for i, u in enumerate(cut.unknown_outs) if not u]
    kept = [i for i, u in enumerate(cut.unknown_outs) if u]
    first_out = n + len(cut.known.outvars)
    loop, history = cut.unknown, list(cut.unknown.outvars)

    def place(source: int) -> int:
        """Where a residual of the body is found outside."""
        if source < nc or nc + nk <= source < n:
            return source
        if source - n in once:
            return n + once.index(source - n)
        if source >= n + nk:
            return first_out + kept.index(source - n)
        # Of a carry, which is a result once, its values in all iterations are needed.
        atom = loop.invars[len(cut.sources) + source - nc] if source < n else history[source - n]
        for i in range(nk, len(history)):
            if history[i] is atom:
                return first_out + i
        history.append(atom)
        return first_out + len(history) - 1

    places = [place(s) for s in sources]
    per_step = [p >= first_out or nc + nk <= p < n for p in places]
    return _Cut(
        _First(cut.known, nc, cut.sources, loop.replace(outvars=history), nk), places,
        _second(second, per_step, sum(flags), *sizes), list(flags), out_flags)


def _second(body: Jaxpr, per_step: Sequence[bool], others: int, nc: int, nk: int) -> _Second:
    """From `(residuals, others)` to `(residuals that stay, others, residuals per iteration)`."""
    stay, step = partition_list(per_step, range(len(per_step)))
    ins = [*stay, *range(len(per_step), len(per_step) + others), *step]
    return _Second(rearranged(body, ins), ins, len(stay) + nc, nk)


# ---- linearization ---------------------------------------------------------------------


def _linearized(jaxpr: Jaxpr, nonzeros: Sequence[bool], nc: int, nk: int) -> _Cut:
    carry, ys = slice(nc, nc + nk), [False] * (len(jaxpr.outvars) - nk)

    def linearize(nz: Sequence[bool]) -> LinearizedJaxpr:
        return linearize_jaxpr(jaxpr, nz, [*nz[carry], *ys])

    # Not by jvp, which bodies with custom reverse rules refuse.
    nonzeros = fixpoint(nonzeros, carry, lambda nz: linearize(nz).nonzero_outs)
    parts = linearize(nonzeros)
    return _cut(parts.primal, nc, nk, len(jaxpr.outvars), parts.sources, parts.linear, nonzeros,
                (sum(nonzeros[:nc]), sum(nonzeros[carry])), parts.nonzero_outs)


def _scan_linearize(nonzeros: Any, *primals: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int,
                    **params: Any) -> Any:
    key = ("scan_linearize", tuple(nonzeros), num_consts, num_carry, ctx.settings)
    cut = jaxpr.cached(key, lambda: _linearized(jaxpr, key[1], num_consts, num_carry))
    loop = Loop(**params)
    outs, values = cut.first.run(primals, loop)
    outs = outs[:len(jaxpr.outvars)]
    out_avals = [typeof(out) for out in outs]

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        body, _, nc, nk = cut.second
        given = [instantiate(t) for t, nz in zip(tangents, cut.flags, strict=True) if nz]
        results = iter(bind(body, nc, nk, cut.second.operands(residuals, given), loop)
                       if body.outvars else ())
        return [next(results) if nz else Zero(a.to_tangent())
                for a, nz in zip(out_avals, cut.out_flags, strict=True)]

    return outs, cut.out_flags, cut.residuals(values), linear


scan_p.linearize = _scan_linearize

# ---- partial evaluation ----------------------------------------------------------------


def _unknown_flags(jaxpr: Jaxpr, unknown: Sequence[bool], nc: int, nk: int) -> list[bool]:
    """Which operands are unknown, counting carries that become so in a later iteration."""
    ys = [False] * (len(jaxpr.outvars) - nk)
    return fixpoint(unknown, slice(nc, nc + nk), lambda u: partial_eval_jaxpr(
        jaxpr, u, [*u[nc:nc + nk], *ys]).unknown_outs)


def _cut_where_unknown(jaxpr: Jaxpr, unknown: Sequence[bool], nc: int, nk: int) -> _Cut:
    """The loop over what is known, and the rest.

    Args:
      jaxpr: the body.
      unknown: which operands are unknown, complete.
      nc: the number of consts.
      nk: the number of carries.
    """
    key = ("scan_cut", tuple(unknown), nc, nk, ctx.settings)
    return jaxpr.cached(key, lambda: _make_cut(jaxpr, key[1], nc, nk))


def _make_cut(jaxpr: Jaxpr, unknown: Sequence[bool], nc: int, nk: int) -> _Cut:
    carry = unknown[nc:nc + nk]
    parts = partial_eval_jaxpr(jaxpr, unknown, [
        *carry, *[False] * (len(jaxpr.outvars) - nk)])
    unknown_sizes = sum(unknown[:nc]), sum(carry)
    return _cut(parts.known, nc - unknown_sizes[0], nk - unknown_sizes[1],
                parts.unknown_outs.count(False), parts.sources, parts.unknown, unknown,
                unknown_sizes, parts.unknown_outs)


def _scan_partial_eval(interp: PartialEvalInterpreter, *args: Any, jaxpr: Jaxpr, num_consts: int,
                       num_carry: int, **params: Any) -> Any:
    loop = Loop(**params)
    unknown = _unknown_flags(jaxpr, [interp.is_unknown(a) for a in args], num_consts, num_carry)
    cut = _cut_where_unknown(jaxpr, unknown, num_consts, num_carry)
    if (cut.first.empty and all(cut.out_flags)) or (jaxpr.effects and not interp.effects_known):
        # One equation says the same as two.
        return StageInterpreter.process(interp, scan_p, args,
                                        scan_params(jaxpr, num_consts, num_carry, loop))
    known_args, unknown_args = partition_list(unknown, args)
    outs, values = interp.call_known(cut.first.run, known_args, loop)
    body, _, nc, nk = cut.second
    staged = iter(StageInterpreter.process(
        interp, scan_p, tuple(cut.second.operands(cut.residuals(values), unknown_args)),
        scan_params(body, nc, nk, loop)) if body.outvars or body.effects else ())
    known = iter(outs)
    return [next(staged) if u else next(known) for u in cut.out_flags]


scan_p.partial_eval = _scan_partial_eval

# ---- recomputation ---------------------------------------------------------------------


def _scan_recompute(saveable: Policy, used: Sequence[bool], eqn: Any) -> Any:
    jaxpr, nc, nk = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    n, m, length = len(jaxpr.invars), len(jaxpr.outvars), eqn.params["length"]

    def recompute(wanted: Sequence[bool]) -> Recomputable:
        return recompute_jaxpr(jaxpr, [True] * m, wanted, saveable)

    # A carry is wanted again if its result is, or if a later iteration reads it.
    wanted = fixpoint(used, slice(nk), lambda w: [
        nc + i in recompute(w).sources for i in range(nk)])
    parts = recompute(wanted)
    # The first loop gives all it gave and, per iteration, what is saved.
    carries = [s - n for s in dict.fromkeys(parts.sources) if n <= s < n + nk]
    first = parts.known.replace(outvars=[
        *parts.known.outvars, *(parts.known.outvars[i] for i in carries)])
    outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
    outvars += [Var(stacked(a, length)) for a in first.out_avals[m:]]
    known = eqn.replace(outvars=outvars, params={**eqn.params, "jaxpr": first})
    place = dict(enumerate([*eqn.invars, *outvars[:len(parts.known.outvars)]]))
    place |= {n + i: outvars[len(parts.known.outvars) + k] for k, i in enumerate(carries)}
    # The second reads consts and xs of the first and what is saved, and has the carries wanted.
    reads = dict(zip(parts.sources, parts.again.invars, strict=True))
    groups = [[s for s in reads if s < nc], [nc + i for i, w in enumerate(wanted[:nk]) if w],
              [s for s in reads if s >= nc + nk]]
    ins = [s for group in groups for s in group]
    again = parts.again.replace(invars=[
        reads[s] if s in reads else Var(jaxpr.in_avals[s]) for s in ins])
    return known, eqn.replace(
        invars=[place[s] for s in ins], effects=again.effects,
        outvars=[v if u else DropVar(v.aval)
                 for v, u, w in zip(eqn.outvars, used, wanted, strict=True) if w],
        params={**eqn.params, "jaxpr": again, "num_consts": len(groups[0]),
                "num_carry": len(groups[1])})


scan_p.recompute = _scan_recompute

# ---- transposition ---------------------------------------------------------------------


class _Transposed(Record):
    """The scan backwards.

    Its consts are those known; its carry the sums of cotangents of linear consts, then the
    cotangents of the carry; its xs the cotangents of the ys, then the known xs.
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


@scan_p.def_transpose
def _scan_transpose(cts: Any, *args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int,
                    **params: Any) -> Any:
    nc, n, loop = num_consts, num_consts + num_carry, Loop(**params)
    linear = [type(a) is UndefinedPrimal for a in args]
    if not all(linear[nc:n]):
        reached = _unknown_flags(jaxpr, linear, nc, num_carry)
        if not all(reached[nc:n]):
            return _transpose_rest(reached, cts, args, jaxpr, nc, num_carry, loop)
    # A carry may start at a known zero, a tangent before the first step: it is linear as well.
    linear[nc:n] = [True] * num_carry
    key = ("scan_transpose", tuple(linear), tuple(type(ct) is not Zero for ct in cts), nc,
           num_carry, ctx.settings)
    plan = jaxpr.cached(key, lambda: _transposed(jaxpr, key[1], key[2], nc, num_carry))
    known_c, _ = partition_list(linear[:nc], args[:nc])
    known_x, _ = partition_list(linear[n:], args[n:])
    sums = [zeros_of(jaxpr.in_avals[i].to_tangent().strip_weak_type()) for i in plan.consts]
    ct_carry = [instantiate(ct) for ct, nz in zip(cts, plan.nonzero_carry, strict=False) if nz]
    ct_ys = [ct for ct in cts[num_carry:] if type(ct) is not Zero]
    outs = bind(plan.jaxpr, len(known_c), len(sums) + len(ct_carry),
                [*known_c, *sums, *ct_carry, *ct_ys, *known_x],
                loop._replace(reverse=not loop.reverse)) if plan.jaxpr.outvars else []
    found = dict(zip([*plan.consts, *plan.carry, *plan.xs], outs, strict=True))
    return [None if type(a) is not UndefinedPrimal else found.get(i, Zero(a.aval.to_tangent()))
            for i, a in enumerate(args)]


def _transpose_rest(reached: Sequence[bool], cts: Any, args: Sequence[Any], jaxpr: Jaxpr, nc: int,
                    nk: int, loop: Loop) -> list[Any]:
    """Runs what no linear operand reaches (a counter), and transposes the rest."""
    cut = _cut_where_unknown(jaxpr, reached, nc, nk)
    known_args, rest_args = partition_list(reached, args)
    _, values = cut.first.run(known_args, loop)
    residuals = cut.residuals(values)
    results = _scan_transpose(
        [ct for ct, u in zip(cts, cut.out_flags, strict=True) if u],
        *cut.second.operands(residuals, rest_args),
        **scan_params(cut.second.body, cut.second.num_consts, cut.second.num_carry, loop))
    found = dict(zip(cut.second.ins, results, strict=True))
    places = iter(range(len(residuals), len(residuals) + len(rest_args)))
    return [found[next(places)] if u else None for u in reached]


__all__: list[str] = []
