"""Branches: jaxprs of one type, of which one runs, transformed as if they were one.

Every transformation transforms each branch, and makes them alike again: a result that is non-zero,
batched or unknown in one branch is so in all. Results for all branches together are kept with the
first, so that the same equation finds the same programs again.

Source: Radul et al. 2022, arXiv:2204.10923, for linearizing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.util import BoundedCache
from mjax._engine.control.frame import Transforms
from mjax._engine.ir.effects import Effects, join_effects
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Var
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import LinearizedJaxpr, linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvaluated, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, Recomputable, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr


class Branches(tuple[Jaxpr, ...]):
    """Jaxprs of one type; what they have in common has the names that a jaxpr has for it."""

    __slots__ = ()

    @property
    def invars(self) -> list[Var]:
        """Those of the first."""
        return self[0].invars

    @property
    def outvars(self) -> list[Any]:
        """Those of the first."""
        return self[0].outvars

    @property
    def effects(self) -> Effects:
        """Those of any."""
        return join_effects(branch.effects for branch in self)

    @property
    def eqns(self) -> list[JaxprEqn]:
        """Those of one that has some."""
        return next((branch.eqns for branch in self if branch.eqns), [])

    def recall(self, key: Any) -> Any:
        """The value kept under a key, or None."""
        return self._known().get((self[1:], key))

    def keep(self, key: Any, value: Any) -> Any:
        """Keeps and gives a value."""
        return self._known().put((self[1:], key), value)

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value kept under a key; made if there is none."""
        known = self.recall(key)
        return self.keep(key, make()) if known is None else known

    def _known(self) -> Any:
        return self[0].cached("of branches", lambda: BoundedCache(64))


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


def _join(parts: Sequence[_Part], n_ins: int, n_outs: int) -> tuple[Any, Any, list[int]]:
    """Gives the halves of all branches the same types.

    An operand or a result that one branch has to hand on is handed on for all, once. Residuals
    of different branches share a place if they have the same type; a branch that has none for
    a place leaves zeros there.

    Args:
      parts: the branches, each cut in two.
      n_ins: how many operands the first halves have.
      n_outs: how many results they have besides residuals.

    Returns:
      The first halves, the second ones, and where residuals are among operands and results of the
      first.
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
    return Branches(first), Branches(second), sources


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
    zeros = trace_to_jaxpr(lambda: list(map(zeros_of, blank)), [])
    zero_of = dict(zip(blank, zeros.outvars, strict=True))
    return jaxpr.replace(
        eqns=[*jaxpr.eqns, *zeros.eqns], constvars=[*jaxpr.constvars, *zeros.constvars],
        consts=[*jaxpr.consts, *zeros.consts],
        outvars=[*jaxpr.outvars[:n_outs], *(
            jaxpr.outvars[source_of[base + i] - n_ins] if base + i in source_of else zero_of[aval]
            for i, aval in enumerate(extra))])


# ---- transformations -------------------------------------------------------------------


def _jvp(branches: Branches, nonzeros: Sequence[bool], wanted: Any) -> Any:
    found, nonzero_outs = _alike(
        branches, lambda b, wanted: jvp_jaxpr(b, nonzeros, wanted), lambda jvp: jvp[1])
    return Branches(jvp for jvp, _ in found), nonzero_outs


def _linearize(branches: Branches, nonzeros: Sequence[bool], wanted: Any) -> LinearizedJaxpr:
    parts, nonzero_outs = _alike(
        branches, lambda b, wanted: linearize_jaxpr(b, nonzeros, wanted),
        lambda part: part.nonzero_outs)
    return LinearizedJaxpr(*_join([_Part(p.primal, p.linear, p.sources) for p in parts],
                                  len(nonzeros), len(nonzero_outs)), nonzero_outs)


def _transpose(branches: Branches, undefined: Sequence[bool], nonzero_cts: Sequence[bool]) -> Any:
    found, nonzeros = _alike(
        branches, lambda b, wanted: transpose_jaxpr(b, undefined, nonzero_cts, wanted),
        lambda transposed: transposed[1])
    return Branches(transposed for transposed, _ in found), nonzeros


def _partial_eval(branches: Branches, unknown: Sequence[bool], wanted: Any, effects_known: bool
                  ) -> PartialEvaluated:
    parts, unknown_outs = _alike(
        branches, lambda b, wanted: partial_eval_jaxpr(b, unknown, wanted, effects_known),
        lambda part: part.unknown_outs)
    return PartialEvaluated(
        *_join([_Part(p.known, p.unknown, p.sources) for p in parts],
               len(unknown) - sum(unknown), len(unknown_outs) - sum(unknown_outs)), unknown_outs)


def _batch(branches: Branches, axis: AxisData, dims: Sequence[int | None], wanted: Any) -> Any:
    found, batched = _alike(
        branches, lambda b, wanted: batch_jaxpr(b, axis, dims, wanted),
        lambda batch: [d is not None for d in batch[1]])
    return Branches(b for b, _ in found), [0 if b else None for b in batched]


def _dce(branches: Branches, used: Sequence[bool], kept: Sequence[bool]) -> Any:
    read = [dce_jaxpr(b, used, kept)[1] for b in branches]
    used_ins = [any(same) for same in zip(*read, strict=True)]
    return Branches(dce_jaxpr(b, used, used_ins)[0] for b in branches), used_ins


def _recompute(branches: Branches, keep: Sequence[bool], used: Sequence[bool], saveable: Policy
               ) -> Recomputable:
    def make() -> Recomputable:
        parts = [recompute_jaxpr(b, keep, used, saveable) for b in branches]
        return Recomputable(*_join([_Part(p.known, p.again, p.sources) for p in parts],
                                   len(branches.invars), len(keep)))

    found: Recomputable = branches.cached(("recompute", tuple(used), saveable), make)
    return found


OF_BRANCHES = Transforms(_jvp, _linearize, _transpose, _partial_eval, _batch, _dce, _recompute)
