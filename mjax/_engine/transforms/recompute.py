"""Recomputation: cuts a jaxpr so that some of its results can be computed a second time from
its inputs and from few saved values.

It is dead-code elimination that stops at what may be saved: walking backwards from the
results wanted again, an equation whose results a policy calls saveable ends the walk, any
other is repeated, and its operands are needed in turn. Remat is made of it.

Source: Griewank and Walther 2000 (checkpointing); the policies' form is that of JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mjax._engine.base.errors import LazyText
from mjax._engine.ir.effects import describe, forbidden, join_effects
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, used_variables
from mjax._engine.transforms.dce import dce_jaxpr

#: (primitive, *types of operands, **params) -> whether the results may be saved.
Policy = Callable[..., bool]


class Recomputable(NamedTuple):
    """A jaxpr that saves what is needed to compute some of its results again.

    `known` goes from the inputs to the results kept and the saved values that are no results;
    `again` goes from inputs and saved values to the results wanted again. `sources[i]` is the
    index of input `i` of `again` among the inputs and results of `known`.
    """

    known: Jaxpr
    again: Jaxpr
    sources: list[int]

    def residuals(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The inputs of `again`, from the inputs and results of `known`."""
        both = [*ins, *outs]
        return [both[i] for i in self.sources]


def recompute_jaxpr(jaxpr: Jaxpr, keep: Sequence[bool], wanted: Sequence[bool],
                    saveable: Policy) -> Recomputable:
    """Cuts a jaxpr for recomputation; cached on it.

    Args:
      jaxpr: the program.
      keep: which results the first computation gives.
      wanted: which results the second computation gives.
      saveable: the policy; a function that compares by identity.

    Raises:
      LazyText: an equation that would be repeated has an effect whose policy forbids it.
    """
    keep, wanted = tuple(keep), tuple(wanted)
    return jaxpr.cached(("recompute", keep, wanted, saveable),
                        lambda: _recompute_jaxpr(jaxpr, keep, wanted, saveable))


def _recompute_jaxpr(jaxpr: Jaxpr, keep: Sequence[bool], wanted: Sequence[bool],
                     saveable: Policy) -> Recomputable:
    again_outs = [v for v, w in zip(jaxpr.outvars, wanted, strict=True) if w]
    needed = used_variables(again_outs)
    saved: list[Any] = []
    known: list[JaxprEqn] = []
    again: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in needed for v in eqn.outvars]
        if any(used):
            if saveable(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params):
                saved += [v for v, u in zip(eqn.outvars, used, strict=True) if u]
            else:
                eqn, repeated = _repeat(saveable, used, eqn)
                again.append(repeated)
                needed |= used_variables(repeated.invars)
                # What is saved inside of the equation are results of it in both senses.
                results = set(eqn.outvars)
                saved += [v for v in dict.fromkeys(repeated.invars) if v in results]
        known.append(eqn)
    inputs = [v for v in jaxpr.invars if v in needed]
    kept = [v for v, k in zip(jaxpr.outvars, keep, strict=True) if k]
    consts = [(v, c) for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True) if v in needed]
    given = used_variables(kept)
    first = jaxpr.replace(eqns=known[::-1], outvars=[
        *kept, *[v for v in saved if v not in given]])
    second = Jaxpr([v for v, _ in consts], inputs + saved, again_outs, again[::-1],
                   join_effects(eqn.effects for eqn in again), jaxpr.debug_info,
                   consts=[c for _, c in consts])
    places: dict[Any, int] = {}
    for i, v in enumerate([*first.invars, *first.outvars]):
        places.setdefault(v, i)
    smaller, _ = dce_jaxpr(first, [True] * len(first.outvars), True)
    return Recomputable(smaller, second, [places[v] for v in second.invars])


def _repeat(saveable: Policy, used: Sequence[bool], eqn: JaxprEqn) -> tuple[JaxprEqn, JaxprEqn]:
    """The equation for the first time, perhaps with more results, and for the second."""
    refused = forbidden(eqn.effects, "remat")
    if refused:
        raise LazyText(lambda: (
            f"{eqn.primitive.name} has the effects {describe(refused)}, whose policy says "
            "remat=False: it cannot run a second time. Move it out of the rematerialized "
            "function, or save its results with a policy."))
    if eqn.primitive.recompute is None:
        return eqn, eqn
    return eqn.primitive.recompute(saveable, used, eqn)
