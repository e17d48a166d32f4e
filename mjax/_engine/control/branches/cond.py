"""The primitive `cond`: applies one of several jaxprs, the branches, to its operands.

    cond[branches] index *operands -> results

The index is an int32 in range. Every transformation transforms each branch, and makes them
alike again: a result that is non-zero, batched or unknown in one branch is so in all. What is
derived of all branches together is kept with the first, so that the same equation finds the
same programs again.

Under vmap a batched index becomes a choice between the results of all branches.

Source: XLA's Conditional operation; Radul et al. 2022, arXiv:2204.10923, for linearizing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.context import ctx
from mjax._engine.base.errors import LazyTypeError, MissingRuleError
from mjax._engine.base.records import Record
from mjax._engine.base.util import BoundedCache
from mjax._engine.control.calls.jit import call
from mjax._engine.control.cast_varying import Axes, bind_retyped, refuse_alone, varying_of, widened
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import describe, forbidden, join_effects, keeps_equation
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Var
from mjax._engine.ir.types import (
    ShapedArray,
    physical_aval,
    same_array_type,
    same_type_but_weak,
    typeof,
)
from mjax._engine.primitives.arithmetic import eq_p
from mjax._engine.primitives.emit import constant, hlo, ir
from mjax._engine.primitives.select import select_n_p
from mjax._engine.primitives.shapes import batch_to_front, broadcast_in_dim_p, zeros_of
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.tracing.primitive import OperandsVaryError, Primitive
from mjax._engine.tracing.rule_errors import applied_at, carriers, refuse_masked_effects
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import casts_are_written
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

cond_p = Primitive("cond", multiple_results=True, types_cacheable=False, own_varying=True)

Branches = tuple[Jaxpr, ...]
#: Per branch the platforms it is for; None, in the last place: all others.
Platforms = tuple[tuple[str, ...] | None, ...]


def plan(branches: Branches, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What is derived of all branches together, made once and kept with the first of them."""
    known = branches[0].cached("plans of cond", lambda: BoundedCache(64))
    key = (branches[1:], *key)
    found = known.get(key)
    return known.put(key, make()) if found is None else found


# ---- types -----------------------------------------------------------------------------


@cond_p.def_effectful_abstract_eval
def _cond_type(index: Any, *operands: Any, branches: Branches, **params: Any) -> Any:
    outs = [_joined(index, same) for same in zip(*[b.out_avals for b in branches], strict=True)]
    return outs, join_effects(b.effects for b in branches)


def _joined(index: Any, avals: Sequence[Any]) -> Any:
    """The type of a result that has these in the branches; weak if the first is, as in JAX."""
    varying = index.varying.union(*(a.varying for a in avals))
    return avals[0] if avals[0].varying == varying else avals[0].update(varying=varying)


def _cond_typecheck(index: Any, *operands: Any, branches: Branches, **params: Any) -> None:
    if not same_array_type(index, ShapedArray((), np.int32)):
        msg = f"cond: the index has type {index}, not int32[]"
        raise TypeError(msg)
    first = branches[0]
    for i, branch in enumerate(branches):
        for what, given, wanted in (
                ("the operands", operands, branch.in_avals),
                ("the results of branch 0", first.out_avals, branch.out_avals)):
            if len(given) != len(wanted) or not all(map(same_type_but_weak, given, wanted)):
                msg = (f"cond: {what} have types {', '.join(map(str, given))} where branch {i} "
                       f"has {', '.join(map(str, wanted))}")
                raise TypeError(msg)


cond_p.typecheck = _cond_typecheck


def bind(index: Any, operands: Sequence[Any], branches: Branches, **params: Any) -> list[Any]:
    """Applies `cond`."""
    return bind_retyped(cond_p, [index, *operands], {"branches": branches, **params})


def _cond_cast_varying(varying: Sequence[Axes], *, branches: Branches, **params: Any) -> Any:
    """Results vary along what they vary along in one of the branches, and all along what decides
    which is taken. So does all that goes in: there is no cast in a branch, whose transpose
    would wait for devices that take another one."""
    least, operands = varying[0], varying[1:]
    wanted = [least.union(*same) for same in zip(operands, *map(varying_of, branches), strict=True)]
    if not any(wanted) and not least and not any(a.varying for b in branches for a in b.out_avals):
        return varying, {"branches": branches, **params}  # outside of shard_map

    def make() -> Branches:
        found = [widened(b, wanted) for b in branches]
        refuse_alone("cond", "the predicate", least, found)
        results = list(zip(*[b.out_avals for b in found], strict=True))
        if casts_are_written():
            _refuse_unlike(results)
        outs = [least.union(*(a.varying for a in same)) for same in results]
        return tuple(widened(b, wanted, outs) for b in branches)

    key = ("vary", least, *wanted, ctx.settings, ctx.axis_env)
    return [least, *wanted], {"branches": plan(branches, key, make), **params}


cond_p.cast_varying = _cond_cast_varying


def _refuse_unlike(results: Sequence[Sequence[Any]]) -> None:
    for i, same in enumerate(results):
        if len({a.varying for a in same}) > 1:
            raise OperandsVaryError(lambda i=i, same=same: (  # type: ignore[misc]
                f"result {i} of the branches of cond varies along different mesh axes: it has the "
                f"types {', '.join(map(str, same))}. Cast those that vary less with "
                "mjax.lax.pcast(x, axes, to='varying')."))

# ---- lowering --------------------------------------------------------------------------


@cond_p.def_lowering
def _cond_lowering(ctx: Any, index: Any, *operands: Any, branches: Branches,
                   branches_platforms: Platforms | None = None) -> Any:
    if branches_platforms is not None:
        outs = ctx.inline(branches[platform_position(ctx, branches_platforms)], *operands)
        # Another branch may have ordered effects that this one lacks.
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(ctx.tokens))
        return outs
    tokens = ctx.tokens_in.values()
    types = [*(t.type for t in tokens), *ctx.out_types]
    # In a shard_map XLA cannot place branches without results (0.4.36): they give a number.
    more = [constant(np.int32(0))] if not types and ctx.module_context.partitioned else []
    case = hlo.CaseOp([*types, *(n.type for n in more)], index=index, num_branches=len(branches))
    for region, branch in zip(case.regions, branches, strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            inner = ctx.replace()
            outs = inner.inline(branch, *operands)
            hlo.return_([*inner.tokens.values(), *outs, *more])
    results = list(case.results)[:len(types)]
    if tokens:
        ctx.set_tokens_out(ctx.tokens_in.replaced(results[:len(tokens)]))
    return results[len(tokens):]


platform_index_p = Primitive("platform_index")


@platform_index_p.def_abstract_eval
def _platform_index_type(*, platforms: Platforms) -> ShapedArray:
    return ShapedArray((), np.int32)


@platform_index_p.def_lowering
def _platform_index_lowering(ctx: Any, *, platforms: Platforms) -> Any:
    return [constant(np.int32(platform_position(ctx, platforms)))]


def platform_position(ctx: Any, platforms: Platforms) -> int:
    """The first branch for the platform that is lowered for; jaxlib calls CUDA and ROCm gpu."""
    names = {ctx.platform} | ({"cuda", "rocm"} if ctx.platform == "gpu" else set())
    for i, group in enumerate(platforms):
        if group is None or not names.isdisjoint(group):
            return i
    known = ", ".join(name for group in platforms for name in group or ()) or "no platform"
    raise MissingRuleError(lambda: (
        f"platform_dependent has no branch for the platform {ctx.platform!r}, only for {known}. "
        f"Give one, or a default.\n{applied_at(ctx.source)}"))


# ---- making branches alike -------------------------------------------------------------


def _alike(branches: Branches, transform: Callable[[Jaxpr, Any], Any],
           flags: Callable[[Any], Sequence[bool]]) -> tuple[list[Any], list[bool]]:
    """Transforms each branch so that the same results are marked in all.

    Args:
      branches: the branches.
      transform: from a branch and what has to be marked (or False) to a transformed one.
      flags: which results of a transformed branch are marked.

    Returns:
      The transformed branches, and what is marked.
    """
    found = [transform(b, False) for b in branches]
    marked = [any(same) for same in zip(*map(flags, found), strict=True)]
    return [f if list(flags(f)) == marked else transform(b, marked)
            for b, f in zip(branches, found, strict=True)], marked


class _Part(Record):
    """A branch cut in two; see `find_residuals` for `sources`."""

    first: Jaxpr
    second: Jaxpr
    sources: Sequence[int]


class _Cut(Record):
    """Branches cut in two: `first` gives what is left for `second`.

    Residual `i` of `second` is value `sources[i]` of the operands and results of `first`.
    `extra` are the types of the results of `first` that are nothing but residuals.
    """

    first: Branches
    second: Branches
    sources: list[int]
    extra: list[Any]

    def residuals(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The residuals in order, from the operands and results of `first`."""
        both = [*ins, *outs]
        return [both[i] for i in self.sources]


def _join(parts: Sequence[_Part], n_ins: int, n_outs: int) -> _Cut:
    """Gives the halves of all branches the same types.

    An operand or a result that one branch has to hand on is handed on for all, once. Residuals
    of different branches share a place if they have the same type; a branch that has none for
    a place leaves zeros there.

    Args:
      parts: the branches, each cut in two.
      n_ins: how many operands the first halves have.
      n_outs: how many results they have besides residuals.
    """
    base = n_ins + n_outs
    shared = sorted({s for part in parts for s in part.sources if s < base})
    extra: list[Any] = []
    places: dict[Any, list[int]] = {}
    placed = [_place(part, n_ins, base, places, extra) for part in parts]
    sources = [*shared, *range(base, base + len(extra))]
    first, second = [], []
    for part, at in zip(parts, placed, strict=True):
        first.append(_with_extra(part.first, n_ins, n_outs, extra, {
            place: source for source, place in at.items() if source >= base}))
        own = {at.get(s, s): v for s, v in zip(part.sources, part.second.invars, strict=False)}
        types = [*part.first.in_avals, *part.first.out_avals[:n_outs], *extra]
        second.append(part.second.replace(
            invars=[*(own.get(s) or Var(types[s]) for s in sources),
                    *part.second.invars[len(part.sources):]],
            debug_info=part.second.debug_info._replace(arg_names=None)))
    return _Cut(tuple(first), tuple(second), sources, extra)


def _place(part: _Part, n_ins: int, base: int, places: dict[Any, list[int]], extra: list[Any]
           ) -> dict[int, int]:
    """Where each residual that is nothing else goes; grows `places`, by type, and `extra`."""
    taken: Counter[Any] = Counter()
    found = {}
    for source in part.sources:
        if source >= base:
            aval = part.first.outvars[source - n_ins].aval.strip_weak_type()
            same = places.setdefault(aval, [])
            if taken[aval] == len(same):
                same.append(base + len(extra))
                extra.append(aval)
            found[source] = same[taken[aval]]
            taken[aval] += 1
    return found


def _with_extra(jaxpr: Jaxpr, n_ins: int, n_outs: int, extra: Sequence[Any],
                source_of: dict[int, int]) -> Jaxpr:
    """A first half with a result for each place, zeros where it has nothing to leave.

    Nested branches leave places for what is inside of each other: zeros of one type are made
    once, or their number would be quadratic in the depth.
    """
    base = n_ins + n_outs
    blank = list(dict.fromkeys(a for i, a in enumerate(extra) if base + i not in source_of))
    if not extra:
        return jaxpr
    zeros = trace_to_jaxpr(lambda: list(map(_blank, blank)), [])
    zero_of = dict(zip(blank, zeros.outvars, strict=True))
    return jaxpr.replace(
        eqns=[*jaxpr.eqns, *zeros.eqns], constvars=[*jaxpr.constvars, *zeros.constvars],
        consts=[*jaxpr.consts, *zeros.consts],
        outvars=[*jaxpr.outvars[:n_outs], *(
            jaxpr.outvars[source_of[base + i] - n_ins] if base + i in source_of else zero_of[aval]
            for i, aval in enumerate(extra))])


def _blank(aval: ShapedArray) -> Any:
    """A value that nobody reads."""
    if dtypes.is_extended(aval.dtype):
        return aval.dtype.wrap(zeros_of(physical_aval(aval)))
    return zeros_of(aval)


# ---- derivatives -----------------------------------------------------------------------


def _nonzero(tangents: Sequence[Any]) -> list[Any]:
    return [t for t in tangents if type(t) is not Zero]


@cond_p.def_jvp
def _cond_jvp(primals: Any, tangents: Any, *, branches: Branches, **params: Any) -> Any:
    index, *operands = primals
    nonzeros = [type(t) is not Zero for t in tangents[1:]]
    found, nonzero_outs = _alike(
        branches, lambda b, wanted: jvp_jaxpr(b, nonzeros, wanted), lambda jvp: jvp[1])
    outs = bind(index, [*operands, *_nonzero(tangents[1:])], tuple(jvp for jvp, _ in found),
                **params)
    n = len(nonzero_outs)
    given = iter(outs[n:])
    return outs[:n], [next(given) if nz else Zero(typeof(out).to_tangent())
                      for out, nz in zip(outs, nonzero_outs, strict=False)]


class _Linearized(Record):
    cut: _Cut
    nonzero_outs: list[bool]


def _linearized(branches: Branches, nonzeros: Sequence[bool]) -> _Linearized:
    parts, nonzero_outs = _alike(
        branches, lambda b, wanted: linearize_jaxpr(b, nonzeros, wanted),
        lambda part: part.nonzero_outs)
    return _Linearized(_join([_Part(p.primal, p.linear, p.sources) for p in parts],
                             len(nonzeros), len(nonzero_outs)), nonzero_outs)


def _cond_linearize(nonzeros: Any, index: Any, *operands: Any, branches: Branches, **params: Any
                    ) -> Any:
    key = ("linearize", *nonzeros[1:], ctx.settings)
    cut, nonzero_outs = plan(branches, key, lambda: _linearized(branches, nonzeros[1:]))
    outs = bind(index, operands, cut.first, **params)
    n = len(nonzero_outs)
    tangent_avals = [typeof(out).to_tangent() for out in outs[:n]]

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        index, *rest = residuals
        given = iter(bind(index, [*rest, *_nonzero(tangents[1:])], cut.second, **params)
                     if any(nonzero_outs) else ())
        return [next(given) if nz else Zero(a)
                for a, nz in zip(tangent_avals, nonzero_outs, strict=True)]

    return outs[:n], nonzero_outs, [index, *cut.residuals(operands, outs)], linear


cond_p.linearize = _cond_linearize


@cond_p.def_transpose
def _cond_transpose(cts: Any, index: Any, *operands: Any, branches: Branches, **params: Any
                    ) -> Any:
    undefined = [type(x) is UndefinedPrimal for x in operands]
    nonzero_cts = [type(ct) is not Zero for ct in cts]
    found, nonzeros = _alike(
        branches, lambda b, wanted: transpose_jaxpr(b, undefined, nonzero_cts, wanted),
        lambda transposed: transposed[1])
    known = [x for x, u in zip(operands, undefined, strict=True) if not u]
    outs = iter(bind(index, [*known, *_nonzero(cts)], tuple(t for t, _ in found), **params)
                if any(nonzeros) else ())
    flags = iter(nonzeros)
    return [None, *((next(outs) if next(flags) else Zero(x.aval.to_tangent())) if u else None
                    for x, u in zip(operands, undefined, strict=True))]


# ---- partial evaluation ----------------------------------------------------------------


class _PartiallyEvaluated(Record):
    cut: _Cut
    unknown_outs: list[bool]


def _partially_evaluated(branches: Branches, unknown: Sequence[bool], effects_known: bool
                         ) -> _PartiallyEvaluated:
    parts, unknown_outs = _alike(
        branches, lambda b, wanted: partial_eval_jaxpr(b, unknown, wanted, effects_known),
        lambda part: part.unknown_outs)
    return _PartiallyEvaluated(
        _join([_Part(p.known, p.unknown, p.sources) for p in parts],
              len(unknown) - sum(unknown), len(unknown_outs) - sum(unknown_outs)), unknown_outs)


def _cond_partial_eval(interp: PartialEvalInterpreter, index: Any, *operands: Any,
                       branches: Branches, **params: Any) -> Any:
    """Where the index is known the known part of the branch is run, and the rest is staged."""
    unknown = tuple(interp.is_unknown(x) for x in operands)
    whole = {"branches": branches, **params}
    if interp.is_unknown(index):
        return StageInterpreter.process(interp, cond_p, (index, *operands), whole)
    cut, unknown_outs = plan(
        branches, ("partial_eval", unknown, interp.effects_known, ctx.settings),
        lambda: _partially_evaluated(branches, unknown, interp.effects_known))
    if not any(b.eqns for b in cut.first):
        # Nothing can be done ahead: one equation says the same as two.
        return StageInterpreter.process(interp, cond_p, (index, *operands), whole)
    known_ins = [x for x, u in zip(operands, unknown, strict=True) if not u]
    known = interp.call_known(bind, index, known_ins, cut.first, **params)
    rest = [*cut.residuals(known_ins, known),
            *(x for x, u in zip(operands, unknown, strict=True) if u)]
    staged = iter(interp.call_staged(bind, index, rest, cut.second, **params))
    given = iter(known)
    return [next(staged) if u else next(given) for u in unknown_outs]


cond_p.partial_eval = _cond_partial_eval


def _cond_dce(used: Sequence[bool], eqn: JaxprEqn) -> Any:
    branches = eqn.params["branches"]
    if not any(used) and not keeps_equation(eqn.effects):
        return [False] * len(eqn.invars), None
    read = [dce_jaxpr(b, used)[1] for b in branches]
    used_ins = [any(same) for same in zip(*read, strict=True)]
    smaller = tuple(dce_jaxpr(b, used, used_ins)[0] for b in branches)
    used_ins.insert(0, True)
    return used_ins, _with_branches(
        eqn, smaller, [v for v, u in zip(eqn.invars, used_ins, strict=True) if u]).replace(
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u])


cond_p.dce = _cond_dce


def _cond_recompute(saveable: Policy, used: Sequence[bool], eqn: JaxprEqn) -> Any:
    branches, (index, *operands), n = eqn.params["branches"], eqn.invars, len(used)

    def make() -> _Cut:
        parts = [recompute_jaxpr(b, [True] * n, used, saveable) for b in branches]
        return _join([_Part(p.known, p.again, p.sources) for p in parts], len(operands), n)

    cut = plan(branches, ("recompute", tuple(used), saveable), make)
    outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
    known = _with_branches(eqn, cut.first, eqn.invars)
    outvars += [Var(a) for a in cond_p.infer([v.aval for v in eqn.invars], known.params)[0][n:]]
    again = _with_branches(eqn, cut.second, [index, *cut.residuals(operands, outvars)])
    return known.replace(outvars=outvars), again.replace(
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u])


def _with_branches(eqn: JaxprEqn, branches: Branches, invars: Sequence[Any]) -> JaxprEqn:
    _, params = _cond_cast_varying([v.aval.varying for v in invars],
                             **{**eqn.params, "branches": branches})
    return eqn.replace(invars=list(invars), params=params,
                       effects=join_effects(b.effects for b in branches))


cond_p.recompute = _cond_recompute

# ---- batching --------------------------------------------------------------------------


def _cond_batch(axis: AxisData, args: Any, dims: Any, *, branches: Branches, **params: Any
                ) -> Any:
    (index, *operands), (index_dim, *op_dims) = args, dims
    if index_dim is not None and "branches_platforms" in params:
        # Which platform it is is the same for all; the index went through something that
        # batches all it is given.
        index, index_dim = platform_index_p.bind(platforms=params["branches_platforms"]), None
    if index_dim is not None:
        _refuse_effects(branches)
        refuse_masked_effects("cond", branches)
        key = ("select", axis, *dims, *map(typeof, args), ctx.settings)
        chosen = plan(branches, key, lambda: _selecting(branches, axis, args, op_dims))
        outs = call(chosen, "cond", args)
        return outs, [0] * len(outs)
    found, batched = _alike(
        branches, lambda b, wanted: batch_jaxpr(b, axis, op_dims, wanted),
        lambda batch: [d is not None for d in batch[1]])
    outs = bind(index, operands, tuple(b for b, _ in found), **params)
    return outs, [0 if b else None for b in batched]


cond_p.axis_batch = _cond_batch


def _refuse_effects(branches: Branches) -> None:
    refused = forbidden(join_effects(b.effects for b in branches), "batchable")
    if refused:
        raise LazyTypeError(lambda: (
            f"vmap of cond over its predicate: the branches have the effects {describe(refused)}, "
            "whose policy says batchable=False. All branches would run for all batch elements. "
            "Move the effects out of the branches, or do not map over the predicate.\n"
            + "\n".join(carriers(b, found) for b in branches
                        if (found := forbidden(b.effects, "batchable")))))


def _selecting(branches: Branches, axis: AxisData, args: Sequence[Any],
               dims: Sequence[int | None]) -> Jaxpr:
    """The program that runs all branches for the whole batch, and takes from each what is its.

    An operand is held constant where another branch is taken: otherwise a derivative that is
    not finite there would spoil the sum, though it is multiplied by zero.
    """
    inexact = [dtypes.is_inexact(typeof(x).dtype) for x in args[1:]]
    in_dims = [0 if f else d for d, f in zip(dims, inexact, strict=True)]
    batched = [batch_jaxpr(b, axis, in_dims, True)[0] for b in branches]
    read = [dce_jaxpr(b, [True] * len(b.outvars))[1] for b in branches]

    def run(index: Any, *operands: Any) -> list[Any]:
        fronted = [batch_to_front(x, d, axis.size) if f else x
                   for x, d, f in zip(operands, dims, inexact, strict=True)]
        cases = []
        for i, branch in enumerate(batched):
            taken = eq_p.bind(index, _batch_of(np.int32(i), axis))
            cases.append(eval_jaxpr(branch, branch.consts, *(
                _select(taken, stop_gradient_p.bind(x), x) if f and r else x
                for x, f, r in zip(fronted, inexact, read[i], strict=True))))
        return [_select(index, *same) for same in zip(*cases, strict=True)]

    return trace_to_jaxpr(run, list(map(typeof, args)), branches[0].debug_info)


def _batch_of(scalar: Any, axis: AxisData) -> Any:
    return broadcast_in_dim_p.bind(scalar, shape=(axis.size,), broadcast_dimensions=())


def _select(which: Any, *cases: Any) -> Any:
    """Chooses along the leading axis."""
    shape = typeof(cases[0]).shape
    if len(shape) > 1:
        which = broadcast_in_dim_p.bind(which, shape=shape, broadcast_dimensions=(0,))
    return select_n_p.bind(which, *cases)


__all__ = ["Branches", "Platforms", "bind", "cond_p", "plan", "platform_index_p"]
