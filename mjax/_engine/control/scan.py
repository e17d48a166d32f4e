"""The primitive `scan`: a loop of known length over the leading axes of arrays.

    scan[jaxpr, length, ...] (consts, carry, xs) -> (carry, ys)
    jaxpr: (consts, carry, x) -> (carry, y)

Its rules transform the body and sort what that needs into consts (the same in each
iteration), carry (handed from one to the next) and xs (one slice each). What they derive is
kept on the body, so that the same scan finds the same programs again.

Source: the scan of functional programming (Bird 1987) with XLA's While below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mjax._engine.base.context import ctx
from mjax._engine.base.util import split_list
from mjax._engine.control.carries import fixpoint
from mjax._engine.control.jit import call
from mjax._engine.control.while_loop import Parts
from mjax._engine.control.while_loop import bind as bind_while
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import keeps_equation, no_effects
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Var
from mjax._engine.ir.types import ShapedArray, physical_aval, same_type_but_weak, typeof
from mjax._engine.primitives.arithmetic import add_p, lt_p, sub_p
from mjax._engine.primitives.keys import wrap
from mjax._engine.primitives.shapes import reshape_p, zeros_of
from mjax._engine.primitives.slicing import dynamic_slice_p, dynamic_update_slice_p, slice_p
from mjax._engine.primitives.tangents import add_any_p, instantiate
from mjax._engine.tracing.primitive import Primitive, traced
from mjax._engine.tracing.stage import StageInterpreter, stage_under_evaluation
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, batch_jaxpr, to_dim
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax._engine.transforms.recompute import Policy, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

scan_p = Primitive("scan", multiple_results=True, types_cacheable=False, own_varying=True)


class Loop(NamedTuple):
    """What stays of a scan's params when its body is replaced."""

    length: int
    reverse: bool
    unroll: int


def bind(jaxpr: Jaxpr, num_consts: int, num_carry: int, args: Sequence[Any], loop: Loop
         ) -> list[Any]:
    """Applies `scan`."""
    return scan_p.bind(*args, **scan_params(jaxpr, num_consts, num_carry, loop))


def scan_params(jaxpr: Jaxpr, num_consts: int, num_carry: int, loop: Loop) -> dict[str, Any]:
    """The params of an equation."""
    return {"jaxpr": jaxpr, "num_consts": num_consts, "num_carry": num_carry, **loop._asdict()}


def stacked(aval: ShapedArray, length: int) -> ShapedArray:
    """The type of one value per iteration."""
    return aval.update(shape=(length, *aval.shape))


def rearranged(jaxpr: Jaxpr, ins: Sequence[int], outs: Sequence[int] | None = None) -> Jaxpr:
    """The same program with inputs and results in another order; results may be left out."""
    return jaxpr.replace(
        invars=[jaxpr.invars[i] for i in ins],
        outvars=jaxpr.outvars if outs is None else [jaxpr.outvars[i] for i in outs])


@scan_p.def_effectful_abstract_eval
def _scan_type(*avals: Any, jaxpr: Jaxpr, num_carry: int, length: int, **params: Any) -> Any:
    outs = jaxpr.out_avals
    return outs[:num_carry] + [stacked(y, length) for y in outs[num_carry:]], jaxpr.effects


def _scan_typecheck(*avals: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int,
                    **params: Any) -> None:
    n = num_consts + num_carry
    wanted = [*jaxpr.in_avals[:n], *(stacked(a, length) for a in jaxpr.in_avals[n:])]
    if len(avals) != len(wanted) or not all(map(same_type_but_weak, avals, wanted)):
        msg = (f"scan of a body over operands {', '.join(map(str, wanted))} applied to "
               f"{', '.join(map(str, avals))}")
        raise TypeError(msg)
    before, after = jaxpr.in_avals[num_consts:n], jaxpr.out_avals[:num_carry]
    if len(after) < num_carry or not all(map(same_type_but_weak, before, after)):
        msg = (f"scan: the carry {', '.join(map(str, before))} becomes "
               f"{', '.join(map(str, after))}")
        raise TypeError(msg)


scan_p.typecheck = _scan_typecheck

# ---- lowering: a while loop ------------------------------------------------------------


def _as_while(*args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int,
              reverse: bool, unroll: int) -> list[Any]:
    consts, carry, xs = split_list(args, [num_consts, num_carry])
    y_avals = jaxpr.out_avals[num_carry:]
    step = _Step(jaxpr, len(consts), num_carry, length, reverse)
    trips = length // unroll if length > unroll else 0
    ys = [_empty(stacked(a, length)) for a in y_avals]
    if trips:
        cond, body = jaxpr.cached(("scan_as_while", step[1:], unroll, trips),
                                  lambda: step.loop(trips * unroll, unroll))
        start: list[Any] = [np.int32(0), *carry, *ys]
        _, *outs = bind_while(cond, body, Parts([], [*consts, *xs], start))
        carry, ys = outs[:num_carry], outs[num_carry:]
    for i in range(trips * unroll, length):
        carry, ys = step.take(np.int32(i), consts, carry, xs, ys)
    return [*carry, *ys]


class _Step(NamedTuple):
    """One iteration, on whole arrays."""

    jaxpr: Jaxpr
    num_consts: int
    num_carry: int
    length: int
    reverse: bool

    def take(self, i: Any, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any],
             ys: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Carry and ys after iteration `i`."""
        last = np.int32(self.length - 1)
        if self.reverse:
            i = last - i if isinstance(i, np.int32) else sub_p.bind(last, i)
        rows = [_row(x, i) for x in xs]
        outs = call(self.jaxpr, "body", [*consts, *carry, *rows])
        return outs[:self.num_carry], [
            _with_row(y, out, i) for y, out in zip(ys, outs[self.num_carry:], strict=True)]

    def loop(self, stop: int, unroll: int) -> tuple[Jaxpr, Jaxpr]:
        """Condition and body of the while loop that makes `unroll` iterations at a time."""
        n = self.num_consts + self.num_carry
        in_avals, y_avals = self.jaxpr.in_avals, self.jaxpr.out_avals[self.num_carry:]
        counter = typeof(np.int32(0))
        xs = [stacked(a, self.length) for a in in_avals[n:]]
        carry = [counter, *in_avals[self.num_consts:n], *(stacked(a, self.length) for a in y_avals)]

        def more(i: Any, *rest: Any) -> list[Any]:
            return [lt_p.bind(i, np.int32(stop))]

        def body(*args: Any) -> list[Any]:
            consts, xs, (i,), carry, ys = split_list(
                args, [self.num_consts, len(in_avals) - n, 1, self.num_carry])
            for k in range(unroll):
                at = add_p.bind(i, np.int32(k)) if k else i
                carry, ys = self.take(at, consts, carry, xs, ys)
            return [add_p.bind(i, np.int32(unroll)), *carry, *ys]

        return (stage_under_evaluation(more, carry, self.jaxpr.debug_info),
                stage_under_evaluation(body, [*in_avals[:self.num_consts], *xs, *carry],
                                       self.jaxpr.debug_info))


def _row(x: Any, i: Any) -> Any:
    aval = typeof(x)
    shape = aval.shape[1:]
    if isinstance(i, np.int32):
        row = slice_p.bind(x, start_indices=(int(i), *(0 for _ in shape)),
                           limit_indices=(int(i) + 1, *shape), strides=None)
    else:
        row = dynamic_slice_p.bind(x, i, *(np.int32(0) for _ in shape), slice_sizes=(1, *shape))
    return reshape_p.bind(row, new_sizes=shape, dimensions=None)


def _with_row(y: Any, row: Any, i: Any) -> Any:
    shape = typeof(row).shape
    row = reshape_p.bind(row, new_sizes=(1, *shape), dimensions=None)
    return dynamic_update_slice_p.bind(y, row, i, *(np.int32(0) for _ in shape))


def _empty(aval: ShapedArray) -> Any:
    """An array to be filled."""
    if dtypes.is_extended(aval.dtype):
        return wrap(zeros_of(physical_aval(aval)), aval.dtype.impl)
    return zeros_of(aval)


scan_p.def_lowering(traced(_as_while, multiple_results=True))

# ---- forward mode ----------------------------------------------------------------------


class _Tangents(NamedTuple):
    """The scan that carries tangents too; places of operands and results in its own."""

    jaxpr: Jaxpr
    num_consts: int
    num_carry: int
    nonzeros: list[bool]
    operands: list[int]
    results: list[int]
    nonzero_outs: list[bool]


def tangent_flags(jaxpr: Jaxpr, nonzeros: Sequence[bool], nc: int, nk: int) -> list[bool]:
    """Which operands have a tangent, counting carries that get one in a later iteration."""
    ys = [False] * (len(jaxpr.outvars) - nk)
    return fixpoint(nonzeros, slice(nc, nc + nk),
                    lambda nz: jvp_jaxpr(jaxpr, nz, [*nz[nc:nc + nk], *ys])[1])


def _with_tangents(jaxpr: Jaxpr, nonzeros: Sequence[bool], nc: int, nk: int) -> _Tangents:
    n, m = len(jaxpr.invars), len(jaxpr.outvars)
    nonzeros = tangent_flags(jaxpr, nonzeros, nc, nk)
    jvp, nonzero_outs = jvp_jaxpr(jaxpr, nonzeros, [*nonzeros[nc:nc + nk], *[False] * (m - nk)])
    groups = [slice(nc), slice(nc, nc + nk), slice(nc + nk, n)]
    operands, sizes = _interleaved(n, nonzeros, groups)
    results, _ = _interleaved(m, nonzero_outs, [slice(nk), slice(nk, m)])
    return _Tangents(rearranged(jvp, operands, results), sizes[0], sizes[1], nonzeros, operands,
                     results, nonzero_outs)


def _interleaved(n: int, nonzeros: Sequence[bool], groups: Sequence[slice]
                 ) -> tuple[list[int], list[int]]:
    """From `(values, tangents of some)` to `(values, tangents)` for each group of values.

    Returns:
      The places of the elements before, and the sizes of the groups after.
    """
    places = iter(range(n, n + sum(nonzeros)))
    tangent_at = [next(places) if nz else None for nz in nonzeros]
    cut = [[*range(n)[g], *(t for t in tangent_at[g] if t is not None)] for g in groups]
    return [i for group in cut for i in group], list(map(len, cut))


@scan_p.def_jvp
def _scan_jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, num_consts: int, num_carry: int,
              **loop: Any) -> Any:
    key = ("scan_jvp", tuple(type(t) is not Zero for t in tangents), num_consts, num_carry,
           ctx.settings)
    plan = jaxpr.cached(key, lambda: _with_tangents(jaxpr, key[1], num_consts, num_carry))
    given = [*primals, *(instantiate(t) for t, nz in zip(tangents, plan.nonzeros, strict=True)
                         if nz)]
    found = dict(zip(plan.results, bind(
        plan.jaxpr, plan.num_consts, plan.num_carry, [given[i] for i in plan.operands],
        Loop(**loop)), strict=True))
    outs = [found[i] for i in range(len(jaxpr.outvars))]
    places = iter(range(len(outs), len(found)))
    return outs, [found[next(places)] if nz else Zero(typeof(out).to_tangent())
                  for out, nz in zip(outs, plan.nonzero_outs, strict=True)]


# ---- batching and dead code ------------------------------------------------------------


class _Batched(NamedTuple):
    jaxpr: Jaxpr
    flags: list[bool]
    out_dims: list[int | None]


def _batched_body(jaxpr: Jaxpr, axis: AxisData, flags: Sequence[bool], nc: int, nk: int
                  ) -> _Batched:
    ys = [False] * (len(jaxpr.outvars) - nk)

    def batch(b: Sequence[bool]) -> tuple[Jaxpr, list[int | None]]:
        return batch_jaxpr(jaxpr, axis, [0 if f else None for f in b], [*b[nc:nc + nk], *ys])

    flags = fixpoint(flags, slice(nc, nc + nk), lambda b: [d is not None for d in batch(b)[1]])
    batched, dims = batch(flags)
    return _Batched(batched, flags, [
        None if d is None else int(i >= nk) for i, d in enumerate(dims)])


def _scan_batch(axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, num_consts: int,
                num_carry: int, **loop: Any) -> Any:
    n = num_consts + num_carry
    key = ("scan_batch", axis, tuple(d is not None for d in dims), num_consts, num_carry,
           ctx.settings)
    plan = jaxpr.cached(key, lambda: _batched_body(jaxpr, axis, key[2], num_consts, num_carry))
    args = [to_dim(a, d, int(i >= n), axis.size) if b else a
            for i, (a, d, b) in enumerate(zip(args, dims, plan.flags, strict=True))]
    return bind(plan.jaxpr, num_consts, num_carry, args, Loop(**loop)), plan.out_dims


scan_p.axis_batch = _scan_batch


def _scan_dce(used: Sequence[bool], eqn: Any) -> Any:
    if not any(used) and not keeps_equation(eqn.effects):
        return [False] * len(eqn.invars), None
    jaxpr, nc, nk = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    # A carry is used if its result is, or if a later iteration reads it.
    used = fixpoint(used, slice(nk), lambda u: dce_jaxpr(jaxpr, u)[1][nc:nc + nk])
    n_xs = len(jaxpr.invars) - nc - nk
    body, used_ins = dce_jaxpr(jaxpr, used, [False] * nc + used[:nk] + [False] * n_xs)
    params = {**eqn.params, "jaxpr": body, "num_consts": sum(used_ins[:nc]),
              "num_carry": sum(used[:nk])}
    return used_ins, eqn.replace(
        params=params, effects=body.effects,
        invars=[v for v, u in zip(eqn.invars, used_ins, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u])


scan_p.dce = _scan_dce

# ---- reverse mode: linearization -------------------------------------------------------


class _Linearized(NamedTuple):
    """The scan that keeps residuals, and the linear one.

    `hoisted` computes once what the consts determine; its operands are the consts, and
    `hoisted_ins` are the places among its operands and results of what `primal` reads.
    Residual `i` is entry `places[i]` of `[*operands, *results of hoisted, *results of primal]`.
    The linear scan's operands are `[*residuals, *tangents]` in the order of `linear_ins`.
    """

    hoisted: Jaxpr
    hoisted_ins: list[int]
    primal: Jaxpr
    places: list[int]
    linear: Jaxpr
    linear_ins: list[int]
    num_linear_consts: int
    num_linear_carry: int
    nonzeros: list[bool]
    nonzero_outs: list[bool]


def _linearized_body(jaxpr: Jaxpr, nonzeros: Sequence[bool], nc: int, nk: int) -> _Linearized:
    n, m = len(jaxpr.invars), len(jaxpr.outvars)
    nonzeros = tangent_flags(jaxpr, nonzeros, nc, nk)
    parts = linearize_jaxpr(jaxpr, nonzeros, [*nonzeros[nc:nc + nk], *[False] * (m - nk)])
    # What the consts alone determine need not be computed, nor kept, once per iteration.
    extras = len(parts.primal.outvars) - m
    cut = partial_eval_jaxpr(parts.primal, [i >= nc for i in range(n)],
                             [True] * m + [False] * extras, effects_known=False)
    kept = [i for i, u in enumerate(cut.unknown_outs) if u]
    once = [i for i, u in enumerate(cut.unknown_outs) if not u]
    primal, first_out = cut.unknown, n + len(cut.known.outvars)
    n_hoisted = len(cut.sources)

    def place(source: int) -> int:
        """Where the residual at a place of the body is found outside."""
        nonlocal primal
        if source < nc or nc + nk <= source < n:
            return source
        if source - n in once:
            return n + once.index(source - n)
        # Of a carry, which is a result once, its values in all iterations are needed.
        if source >= n + nk:
            return first_out + kept.index(source - n)
        atom = (primal.invars[n_hoisted + source - nc] if source < n
                else primal.outvars[kept.index(source - n)])
        primal = primal.replace(outvars=[*primal.outvars, atom])
        return first_out + len(primal.outvars) - 1

    places = [place(s) for s in parts.sources]
    per_step = [p >= first_out or nc + nk <= p < n for p in places]
    ins, (num_consts, num_carry) = _linear_order(per_step, nonzeros, nc, nk)
    return _Linearized(cut.known, cut.sources, primal, places, rearranged(parts.linear, ins), ins,
                       num_consts, num_carry, nonzeros, parts.nonzero_outs)


def _linear_order(per_step: Sequence[bool], nonzeros: Sequence[bool], nc: int, nk: int
                  ) -> tuple[list[int], tuple[int, int]]:
    """From `(residuals, tangents)` to `(residuals that stay, tangents of consts, of the carry, of
    the xs, residuals per iteration)`, and the numbers of consts and carries."""
    r, c, k = len(per_step), sum(nonzeros[:nc]), sum(nonzeros[nc:nc + nk])
    stay = [i for i, p in enumerate(per_step) if not p]
    step = [i for i, p in enumerate(per_step) if p]
    return [*stay, *range(r, r + sum(nonzeros)), *step], (len(stay) + c, k)


def _scan_linearize(nonzeros: Any, *primals: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int,
                    **params: Any) -> Any:
    key = ("scan_linearize", tuple(nonzeros), num_consts, num_carry, ctx.settings)
    plan = jaxpr.cached(key, lambda: _linearized_body(jaxpr, key[1], num_consts, num_carry))
    loop, consts = Loop(**params), list(primals[:num_consts])
    once = call(plan.hoisted, "invariants", consts) if plan.hoisted.outvars else []
    both = [*consts, *once]
    hoisted = [both[i] for i in plan.hoisted_ins]
    outs = bind(plan.primal, len(hoisted), num_carry, [*hoisted, *primals[num_consts:]], loop)
    all_values = [*primals, *once, *outs]

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = [*residuals, *(instantiate(t) for t, nz in zip(
            tangents, plan.nonzeros, strict=True) if nz)]
        results = iter(bind(plan.linear, plan.num_linear_consts, plan.num_linear_carry,
                            [given[i] for i in plan.linear_ins], loop)
                       if plan.linear.outvars else ())
        return [next(results) if nz else Zero(a.to_tangent())
                for a, nz in zip(out_avals, plan.nonzero_outs, strict=True)]

    out_avals = [typeof(out) for out in outs[:len(jaxpr.outvars)]]
    return (outs[:len(jaxpr.outvars)], plan.nonzero_outs, [all_values[i] for i in plan.places],
            linear)


scan_p.linearize = _scan_linearize

# ---- reverse mode: transposition -------------------------------------------------------


class _Transposed(NamedTuple):
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


def _transposed_body(jaxpr: Jaxpr, linear: Sequence[bool], nonzero_cts: Sequence[bool], nc: int,
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
    res_c = sum(not u for u in linear[:nc])
    known_c, known_x, cts = split_list(transposed.invars, [res_c, sum(not u for u in linear[n:])])
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
        JaxprEqn(add_any_p, [b, t], [a], {}, no_effects, ctx.source)
        for b, t, a in zip(before, terms, after, strict=True)]


@scan_p.def_transpose
def _scan_transpose(cts: Any, *args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int,
                    **params: Any) -> Any:
    nc, n, loop = num_consts, num_consts + num_carry, Loop(**params)
    linear = [type(a) is UndefinedPrimal for a in args]
    if not all(linear[nc:n]):
        reached = unknown_flags(jaxpr, linear, nc, num_carry)
        if not all(reached[nc:n]):
            return _transpose_rest(reached, cts, args, jaxpr, nc, num_carry, loop)
    # A carry may start at a known zero, a tangent before the first step: it is linear as well.
    linear[nc:n] = [True] * num_carry
    key = ("scan_transpose", tuple(linear), tuple(type(ct) is not Zero for ct in cts), nc,
           num_carry, ctx.settings)
    plan = jaxpr.cached(key, lambda: _transposed_body(jaxpr, key[1], key[2], nc, num_carry))
    known_c, known_x = ([a for a, u in zip(part, flags, strict=True) if not u] for part, flags in (
        (args[:nc], linear[:nc]), (args[n:], linear[n:])))
    sums = [zeros_of(jaxpr.in_avals[i].to_tangent().strip_weak_type()) for i in plan.consts]
    ct_carry = [instantiate(ct) for ct, nz in zip(cts, plan.nonzero_carry, strict=False) if nz]
    ct_ys = [ct for ct in cts[num_carry:] if type(ct) is not Zero]
    outs = bind(plan.jaxpr, len(known_c), len(sums) + len(ct_carry),
                [*known_c, *sums, *ct_carry, *ct_ys, *known_x],
                loop._replace(reverse=not loop.reverse))
    found = dict(zip([*plan.consts, *plan.carry, *plan.xs], outs, strict=True))
    return [None if type(a) is not UndefinedPrimal else found.get(i, Zero(a.aval.to_tangent()))
            for i, a in enumerate(args)]


def _transpose_rest(reached: Sequence[bool], cts: Any, args: Sequence[Any], jaxpr: Jaxpr, nc: int,
                    nk: int, loop: Loop) -> list[Any]:
    """Runs what no linear operand reaches (a counter), and transposes the rest."""
    cut = _cut(reached, args, jaxpr, nc, nk)
    known = cut.run(bind, args, loop)
    given = cut.rest_operands(args, known)
    results = _scan_transpose(
        [ct for ct, u in zip(cts, cut.unknown_outs, strict=True) if u], *given,
        **scan_params(cut.rest, cut.rest_consts, cut.rest_carry, loop))
    found = dict(zip(cut.rest_ins, results, strict=True))
    # Operands of the rest are known first as places in `[*residuals, *unknown operands]`.
    unknown = [i for i, u in enumerate(reached) if u]
    place = {i: len(cut.sources) + k for k, i in enumerate(unknown)}
    return [found[place[i]] if type(a) is UndefinedPrimal else None for i, a in enumerate(args)]


# ---- partial evaluation ----------------------------------------------------------------


class _Cut(NamedTuple):
    """A scan in two: one over what is known, and the rest.

    `sources[i]` is the place of residual `i` of the rest among the known operands and the
    results of the known scan. The rest's operands are `[*residuals, *unknown operands]` in
    the order of `rest_ins`.
    """

    unknown: list[bool]
    known: Jaxpr
    known_consts: int
    known_carry: int
    sources: list[int]
    rest: Jaxpr
    rest_ins: list[int]
    rest_consts: int
    rest_carry: int
    unknown_outs: list[bool]

    def run(self, bind: Any, args: Sequence[Any], loop: Loop) -> list[Any]:
        """The results of the known scan."""
        ins = [a for a, u in zip(args, self.unknown, strict=True) if not u]
        return bind(self.known, self.known_consts, self.known_carry, ins, loop)

    def rest_operands(self, args: Sequence[Any], known: Sequence[Any]) -> list[Any]:
        """The operands of the rest, in its order."""
        both = [*(a for a, u in zip(args, self.unknown, strict=True) if not u), *known]
        given = [*(both[s] for s in self.sources),
                 *(a for a, u in zip(args, self.unknown, strict=True) if u)]
        return [given[i] for i in self.rest_ins]


def unknown_flags(jaxpr: Jaxpr, unknown: Sequence[bool], nc: int, nk: int) -> list[bool]:
    """Which operands are unknown, counting carries that become so in a later iteration."""
    ys = [False] * (len(jaxpr.outvars) - nk)
    return fixpoint(unknown, slice(nc, nc + nk), lambda u: partial_eval_jaxpr(
        jaxpr, u, [*u[nc:nc + nk], *ys]).unknown_outs)


def _cut(unknown: Sequence[bool], args: Sequence[Any], jaxpr: Jaxpr, nc: int, nk: int) -> _Cut:
    key = ("scan_cut", tuple(unknown), nc, nk, ctx.settings)
    return jaxpr.cached(key, lambda: _cut_body(jaxpr, key[1], nc, nk))


def _cut_body(jaxpr: Jaxpr, unknown: Sequence[bool], nc: int, nk: int) -> _Cut:
    parts = partial_eval_jaxpr(jaxpr, unknown, [
        *unknown[nc:nc + nk], *[False] * (len(jaxpr.outvars) - nk)])
    known_c, known_k = (part.count(False) for part in (
        list(unknown[:nc]), list(unknown[nc:nc + nk])))
    n_ins = len(parts.known.invars)
    known = parts.known

    def place(source: int) -> int:
        """Where a residual of the body is found outside: a carry's history is a new result."""
        nonlocal known
        if source < known_c or known_c + known_k <= source < n_ins or source >= n_ins + known_k:
            return source
        atom = (known.invars[source] if source < n_ins else known.outvars[source - n_ins])
        known = known.replace(outvars=[*known.outvars, atom])
        return n_ins + len(known.outvars) - 1

    places = [place(s) for s in parts.sources]
    ins, (consts, carry) = _linear_order([s >= known_c for s in places], unknown, nc, nk)
    return _Cut(list(unknown), known, known_c, known_k, places,
                rearranged(parts.unknown, ins), ins, consts, carry, parts.unknown_outs)


def _scan_partial_eval(interp: PartialEvalInterpreter, *args: Any, jaxpr: Jaxpr, num_consts: int,
                       num_carry: int, **params: Any) -> Any:
    nc, loop = num_consts, Loop(**params)
    unknown = unknown_flags(jaxpr, [interp.is_unknown(a) for a in args], nc, num_carry)
    if all(unknown[nc:]) or jaxpr.effects:
        return StageInterpreter.process(interp, scan_p, args,
                                        scan_params(jaxpr, nc, num_carry, loop))
    cut = _cut(unknown, args, jaxpr, nc, num_carry)
    outs = cut.run(lambda *a: interp.call_known(bind, *a), args, loop)
    staged = iter(StageInterpreter.process(
        interp, scan_p, tuple(cut.rest_operands(args, outs)),
        scan_params(cut.rest, cut.rest_consts, cut.rest_carry, loop)))
    known = iter(outs)
    return [next(staged) if u else next(known) for u in cut.unknown_outs]


scan_p.partial_eval = _scan_partial_eval


def _scan_recompute(saveable: Policy, used: Sequence[bool], eqn: Any) -> Any:
    jaxpr, nc, nk = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    n, m, length = len(jaxpr.invars), len(jaxpr.outvars), eqn.params["length"]

    def needed_carries(wanted: Sequence[bool]) -> list[bool]:
        sources = recompute_jaxpr(jaxpr, [True] * m, wanted, saveable).sources
        return [nc + i in sources for i in range(nk)]

    wanted = fixpoint(used, slice(nk), needed_carries)
    parts = recompute_jaxpr(jaxpr, [True] * m, wanted, saveable)
    # The first scan gives all it gave and, per iteration, what is saved.
    saved = [s - n for s in dict.fromkeys(parts.sources) if n <= s < n + nk]
    first = parts.known.replace(outvars=[
        *parts.known.outvars, *(parts.known.outvars[i] for i in saved)])
    outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
    outvars += [Var(stacked(a, length)) for a in first.out_avals[m:]]
    known = eqn.replace(outvars=outvars, params={**eqn.params, "jaxpr": first})
    place = {n + i: outvars[len(parts.known.outvars) + k] for k, i in enumerate(saved)}
    place |= {n + i: v for i, v in enumerate(outvars[:len(parts.known.outvars)]) if i >= nk}
    place |= dict(enumerate(eqn.invars))
    # The second has as consts and xs what it reads of the first's, and the carries it needs.
    reads = dict(zip(parts.sources, parts.again.invars, strict=True))
    consts = [s for s in reads if s < nc]
    carry = [nc + i for i, w in enumerate(wanted[:nk]) if w]
    xs = [s for s in reads if s >= nc + nk]
    again = parts.again.replace(invars=[
        reads[s] if s in reads else Var(jaxpr.in_avals[s]) for s in [*consts, *carry, *xs]])
    return known, eqn.replace(
        invars=[place[s] for s in [*consts, *carry, *xs]], effects=again.effects,
        outvars=[v if u else DropVar(v.aval)
                 for v, u, w in zip(eqn.outvars, used, wanted, strict=True) if w],
        params={**eqn.params, "jaxpr": again, "num_consts": len(consts),
                "num_carry": len(carry)})


scan_p.recompute = _scan_recompute

__all__ = ["Loop", "bind", "rearranged", "scan_p", "scan_params", "stacked", "tangent_flags"]
