"""Recomputation: cuts a jaxpr so that some of its results can be computed a second time from
its inputs and from few saved values.

It is dead-code elimination that stops at saveable values. It walks backwards from the results
wanted again. If the policy calls an equation's results saveable, the walk ends there. Otherwise
the equation is repeated, and its operands are needed in turn. The policy decides about equations
inside of jits and loops, not about these themselves. Remat is built on it.

Source: Griewank and Walther 2000 (checkpointing); the policies' form is that of JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes

from mjax._engine.base.errors import LazyNotImplementedError
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import describe, forbidden, join_effects, no_effects
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Var, used_variables
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.convert import reduce_precision_p
from mjax._engine.tracing.rule_errors import applied_at, refuse
from mjax._engine.tracing.rule_results import recomputed
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.discharge import without_references
from mjax._engine.transforms.partial_eval import PartialEvaluated

#: (primitive, *types of operands, **params) -> whether the results may be saved.
Policy = Callable[..., bool]


def recompute_jaxpr(jaxpr: Jaxpr, keep: Sequence[bool], wanted: Sequence[bool],
                    saveable: Policy) -> PartialEvaluated:
    """Cuts a jaxpr for recomputation; cached on it.

    Args:
      jaxpr: the program.
      keep: which results the first computation gives.
      wanted: which results the second computation gives.
      saveable: the policy; a function that compares by identity.

    Returns:
      A program that gives the results kept and the saved values, and one that gives those wanted
      again from inputs and saved values.

    Raises:
      NotImplementedError: an equation that would be repeated has an effect whose policy forbids it.
    """
    if jaxpr.effects:
        jaxpr = without_references(jaxpr)
    keep, wanted = tuple(keep), tuple(wanted)
    return jaxpr.cached(("recompute", keep, wanted, saveable),
                        lambda: _recompute_jaxpr(jaxpr, keep, wanted, saveable))


def _recompute_jaxpr(jaxpr: Jaxpr, keep: Sequence[bool], wanted: Sequence[bool],
                     saveable: Policy) -> PartialEvaluated:
    again_outs = [v for v, w in zip(jaxpr.outvars, wanted, strict=True) if w]
    known, again, needed, saved = _walk(jaxpr, again_outs, saveable)
    inputs = [v for v in jaxpr.invars if v in needed]
    consts = [(v, c) for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True) if v in needed]
    # Results saved inside of an equation may have made its operands unnecessary.
    second, used = dce_jaxpr(Jaxpr(
        [v for v, _ in consts], inputs + saved, again_outs, again,
        join_effects(eqn.effects for eqn in again),
        jaxpr.debug_info._replace(arg_names=None), consts=[c for _, c in consts]),
        [True] * len(again_outs))
    kept = [v for v, k in zip(jaxpr.outvars, keep, strict=True) if k]
    given = used_variables(kept)
    extra = [v for v, u in zip(saved, used[len(inputs):], strict=True) if u and v not in given]
    first, _ = dce_jaxpr(round_saved(jaxpr.replace(eqns=known, outvars=kept + extra), saved),
                         [True] * (len(kept) + len(extra)), True)
    places: dict[Any, int] = {}
    for i, v in enumerate([*jaxpr.invars, *kept, *extra]):
        places.setdefault(v, i)
    return PartialEvaluated(first, second, [places[v] for v in second.invars],
                            [True] * len(again_outs))


def _walk(jaxpr: Jaxpr, again_outs: Sequence[Any], saveable: Policy
          ) -> tuple[list[JaxprEqn], list[JaxprEqn], set[Any], list[Any]]:
    """The equations of both runs, the variables that the second reads, and the saved ones."""
    needed = used_variables(again_outs)
    withheld = _withheld(jaxpr, saveable)
    saved: list[Any] = []
    known: list[JaxprEqn] = []
    again: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in needed for v in eqn.outvars]
        if any(used):
            whole = any(v in withheld for v in eqn.outvars)
            if not whole and eqn.primitive.recompute is None and saveable(
                    eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params):
                saved += [v for v, u in zip(eqn.outvars, used, strict=True) if u]
            else:
                wanted = [v for v, u in zip(eqn.outvars, used, strict=True) if u]
                eqn, repeated = _repeat(_nothing if whole else saveable, used, eqn)
                if repeated is None:
                    saved += wanted
                else:
                    # Values saved inside of the equation are its results; they are not recomputed.
                    results, remade = set(eqn.outvars), set(repeated.outvars)
                    inside = dict.fromkeys([v for v in repeated.invars if v in results]
                                           + [v for v in wanted if v not in remade])
                    saved += inside
                    again.append(repeated.replace(outvars=[
                        DropVar(v.aval) if v in inside else v for v in repeated.outvars]))
                    needed |= used_variables(repeated.invars)
        known.append(eqn)
    return known[::-1], again[::-1], needed, saved


def _withheld(jaxpr: Jaxpr, saveable: Policy) -> set[Any]:
    """The variables that a policy never saves, by a method that it may have."""
    withholds = getattr(saveable, "withholds", None)
    if withholds is None:
        return set()
    return {v for eqn in jaxpr.eqns if withholds(eqn.primitive, **eqn.params)
            for v in eqn.invars}


def _nothing(*_: Any, **__: Any) -> bool:
    return False


def _repeat(saveable: Policy, used: Sequence[bool], eqn: JaxprEqn
            ) -> tuple[JaxprEqn, JaxprEqn | None]:
    """The equation in the first run, perhaps with more results, and in the second."""
    rule = eqn.primitive.recompute
    known, repeated = (eqn, eqn) if rule is None else recomputed(eqn, saveable, used)
    refused = repeated and forbidden(repeated.effects, "remat")
    if refused:
        refuse(LazyNotImplementedError(lambda: (
            f"{eqn.primitive.name} has the effects {describe(refused)}, whose policy says "
            "remat=False: it cannot run a second time. Move it out of the rematerialized "
            f"function, or save its results with a policy.\n{applied_at(eqn.source)}")))
    return known, repeated


def round_saved(jaxpr: Jaxpr, saved: Sequence[Var]) -> Jaxpr:
    """Makes a program read the saved values of narrow floats.

    The compiler may compute with more digits than the type has, and round only the saved value.
    A choice made from the value, such as a branch or an argmax, could then differ in the second
    run, which starts from the rounded one.

    Args:
      jaxpr: the program.
      saved: inputs or results of its equations.
    """
    narrow = [v for v in saved if isinstance(v.aval, ShapedArray)
              and dtypes.is_float(v.aval.dtype) and v.aval.dtype.itemsize < 4]
    if not narrow:
        return jaxpr
    rounded = {v for eqn in jaxpr.eqns if eqn.primitive is reduce_precision_p
               for v in eqn.outvars}
    read = {v for eqn in jaxpr.eqns if eqn.primitive is not reduce_precision_p
            for v in eqn.invars}
    exact = {v: Var(v.aval) for v in narrow if v in read and v not in rounded}
    eqns = [_round(exact[v], v, None) for v in jaxpr.invars if v in exact]
    for eqn in jaxpr.eqns:
        made = [v for v in eqn.outvars if v in exact]
        eqns.append(eqn.replace(outvars=[exact.get(v, v) for v in eqn.outvars]) if made else eqn)
        eqns += [_round(exact[v], v, eqn.source) for v in made]
    return jaxpr.replace(invars=[exact.get(v, v) for v in jaxpr.invars], eqns=eqns)


def _round(exact: Var, var: Var, source: Any) -> JaxprEqn:
    info = ml_dtypes.finfo(var.aval.dtype)
    params = {"exponent_bits": int(info.nexp), "mantissa_bits": int(info.nmant)}
    return JaxprEqn([exact], [var], reduce_precision_p, params, no_effects, source)
