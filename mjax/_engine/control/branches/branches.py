"""Branches: jaxprs of one type, of which one runs, transformed as if they were one.

Every transformation transforms each branch, and makes them alike again: a result that is non-zero,
batched or unknown in one branch is so in all. Results for all branches together are kept with the
first, so that the same equation finds the same programs again.

Source: Radul et al. 2022, arXiv:2204.10923, for linearizing.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.control.cast_varying import widened
from mjax._engine.control.held import Transforms
from mjax._engine.control.programs import Programs
from mjax._engine.ir.jaxpr import Jaxpr, Var
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._engine.transforms.batching import batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvaluated, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr


class Branches(Programs):
    """Jaxprs of one type, of which one runs."""

    __slots__ = ()


# ---- making branches alike -------------------------------------------------------------


def _alike(branches: Branches, transform: Callable[[Jaxpr, Any], Any],
           flags: Callable[[Any], Sequence[bool]]) -> list[Any]:
    """Transforms each branch so that the same results are marked in all.

    Args:
      branches: the branches.
      transform: from a branch and what has to be marked (or False) to a transformed one.
      flags: which results of a transformed branch are marked.
    """
    found = [transform(b, False) for b in branches]
    marked = [any(same) for same in zip(*map(flags, found), strict=True)]
    return [f if list(flags(f)) == marked else transform(b, marked)
            for b, f in zip(branches, found, strict=True)]


def _join(parts: Sequence[PartialEvaluated], n_outs: int) -> PartialEvaluated:
    """Gives the halves of all branches the same types.

    An operand or a result that one branch has to hand on is handed on for all, once. Residuals
    of different branches share a place if they have the same type; a branch that has none for
    a place leaves zeros there.

    Args:
      parts: the branches, each cut in two.
      n_outs: how many results the first halves have besides residuals.
    """
    n_ins = len(parts[0].known.invars)
    base = n_ins + n_outs
    shared = sorted({s for part in parts for s in part.residual_forwarding if s < base})
    extra: list[Any] = []
    places: dict[Any, list[int]] = {}
    placed = [_place(part, n_ins, base, places, extra) for part in parts]
    sources = [*shared, *range(base, base + len(extra))]
    first, second = [], []
    for part, at in zip(parts, placed, strict=True):
        first.append(_with_extra(part.known, n_ins, n_outs, extra, {
            place: source for source, place in at.items() if source >= base}))
        own = {at.get(s, s): v for s, v in zip(
            part.residual_forwarding, part.unknown.invars, strict=False)}
        types = [*part.known.in_avals, *part.known.out_avals[:n_outs], *extra]
        second.append(part.unknown.replace(
            invars=[*(own.get(s) or Var(types[s]) for s in sources),
                    *part.unknown.invars[len(part.residual_forwarding):]],
            debug_info=part.unknown.debug_info._replace(arg_names=None)))
    return PartialEvaluated(Branches(first), Branches(second), sources, parts[0].unknown_outs)


def _place(part: PartialEvaluated, n_ins: int, base: int, places: dict[Any, list[int]],
           extra: list[Any]) -> dict[int, int]:
    """Where each residual that is nothing else goes; grows `places`, by type, and `extra`."""
    taken: Counter[Any] = Counter()
    found = {}
    for source in part.residual_forwarding:
        if source >= base:
            aval = part.known.outvars[source - n_ins].aval.strip_weak_type()
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
    zeros = trace_to_jaxpr(lambda: list(map(zeros_of, blank)), [])
    zero_of = dict(zip(blank, zeros.outvars, strict=True))
    return jaxpr.replace(
        eqns=[*jaxpr.eqns, *zeros.eqns], constvars=[*jaxpr.constvars, *zeros.constvars],
        consts=[*jaxpr.consts, *zeros.consts],
        outvars=[*jaxpr.outvars[:n_outs], *(
            jaxpr.outvars[source_of[base + i] - n_ins] if base + i in source_of else zero_of[aval]
            for i, aval in enumerate(extra))])


# ---- transformations -------------------------------------------------------------------


def _to_marks(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Lifts a transformation to branches that gives a program and marks of its results."""

    def of_branches(branches: Branches, *args: Any) -> Any:
        found = _alike(branches, lambda b, wanted: transform(b, *args[:-1], wanted),
                       lambda one: [mark is not None and mark is not False for mark in one[1]])
        return Branches(program for program, _ in found), found[0][1]

    return of_branches


def _to_halves(transform: Callable[..., PartialEvaluated], all_known: bool
               ) -> Callable[..., PartialEvaluated]:
    """Lifts a transformation to branches that splits a program in two.

    Args:
      transform: splits one program.
      all_known: whether the first half gives all results.
    """

    def of_branches(branches: Branches, *args: Any, **options: Any) -> PartialEvaluated:
        parts = _alike(branches, lambda b, wanted: transform(b, *args[:-1], wanted, **options),
                       operator.attrgetter("unknown_outs"))
        unknown_outs = parts[0].unknown_outs
        return _join(parts, len(unknown_outs) - (0 if all_known else sum(unknown_outs)))

    return of_branches


def _dce(branches: Branches, used: Sequence[bool], kept: Sequence[bool]) -> Any:
    read = [dce_jaxpr(b, used, kept)[1] for b in branches]
    used_ins = [any(same) for same in zip(*read, strict=True)]
    return Branches(dce_jaxpr(b, used, used_ins)[0] for b in branches), used_ins


def _recompute(branches: Branches, keep: Sequence[bool], used: Sequence[bool], saveable: Policy
               ) -> PartialEvaluated:
    return branches.cached(("recompute", tuple(keep), tuple(used), saveable), lambda: _join(
        [recompute_jaxpr(b, keep, used, saveable) for b in branches], sum(keep)))


OF_BRANCHES = Transforms(
    _to_marks(jvp_jaxpr), _to_halves(linearize_jaxpr, True), _to_marks(transpose_jaxpr),
    _to_halves(partial_eval_jaxpr, False), _to_marks(batch_jaxpr), _dce, _recompute,
    widened)
