"""Branches: jaxprs of one type, of which one runs, transformed as if they were one.

Every transformation transforms each branch, and then aligns them: a result that is non-zero,
batched or unknown in one branch is so in all. The first branch caches results for all, so that an
equation finds the same programs again.

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
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvaluated, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr


class Branches(Programs):
    """Jaxprs of one type, of which one runs."""

    __slots__ = ()


# ---- aligning branches -----------------------------------------------------------------


def _alike(branches: Branches, transform: Callable[[Jaxpr, Any], Any], wanted: Any,
           flags: Callable[[Any], Sequence[bool]]) -> list[Any]:
    """Transforms each branch so that the same results, or inputs, are marked in all.

    Args:
      branches: the branches.
      transform: from a branch and the required marks to a transformed branch.
      wanted: the marks required in any case.
      flags: the marks of a transformed branch.
    """
    found = [transform(b, wanted) for b in branches]
    marked = [any(same) for same in zip(*map(flags, found), strict=True)]
    return [f if list(flags(f)) == marked else transform(b, marked)
            for b, f in zip(branches, found, strict=True)]


def _join(parts: Sequence[PartialEvaluated], n_outs: int) -> PartialEvaluated:
    """Gives the halves of all branches the same types.

    An operand or a result that is a residual of one branch is forwarded once for all. Residuals of
    different branches share a place if they have the same type. A branch without a residual for a
    place puts zeros there.

    Args:
      parts: the branches, each cut in two.
      n_outs: the number of results of the first halves, without residuals.
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
    """The place of each residual; extends `places`, by type, and `extra`."""
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
    """A first half with a result for each place; places without a residual of its own get zeros.

    Nested branches have places for the residuals of inner ones. Zeros of one type are made once:
    otherwise their number would be quadratic in the depth.
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
    """Lifts a transformation to branches that gives a program and marks of its results, or of its
    inputs. The last argument says what has to be marked."""

    def of_branches(branches: Branches, *args: Any) -> Any:
        found = _alike(branches, lambda b, wanted: transform(b, *args[:-1], wanted), args[-1],
                       lambda one: [mark is not None and mark is not False for mark in one[1]])
        return Branches(program for program, _ in found), found[0][1]

    return of_branches


def _to_halves(transform: Callable[..., PartialEvaluated], all_known: bool
               ) -> Callable[..., PartialEvaluated]:
    """Lifts a transformation to branches that splits a program in two. The last argument says
    which results the second half has to give.

    Args:
      transform: splits one program.
      all_known: whether the first half gives all results.
    """

    def of_branches(branches: Branches, *args: Any, **options: Any) -> PartialEvaluated:
        parts = _alike(branches, lambda b, wanted: transform(b, *args[:-1], wanted, **options),
                       args[-1], operator.attrgetter("unknown_outs"))
        return _join(parts, len(branches.outvars) - (
            0 if all_known else sum(parts[0].unknown_outs)))

    return of_branches


OF_BRANCHES = Transforms(
    _to_marks, _to_halves(linearize_jaxpr, True), _to_marks(transpose_jaxpr),
    _to_halves(partial_eval_jaxpr, False), _to_marks(batch_jaxpr), _to_marks(dce_jaxpr),
    _to_halves(recompute_jaxpr, True), widened)
