"""Jaxprs at other types: for operands that vary along more mesh axes than they did when the
jaxpr was staged.

It is staged once more, at the wider types, so that casts appear where they are needed, in the
jaxprs inside of it too: the staging interpreter asks the `retype` rule of each primitive that
holds some. Carries of loops reach their fixpoint so, and what a cond gives joins its predicate.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.context import ctx
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.tracing.primitive import Primitive, Rule, no_axes
from mjax._engine.tracing.stage import eval_jaxpr, stage_under_evaluation
from mjax._engine.tracing.variance import casts_are_written, pvary_p, sorted_axes

Axes = frozenset[Any]


def widened(jaxpr: Jaxpr, varying: Sequence[Axes], outs: Sequence[Axes] | None = None) -> Jaxpr:
    """The jaxpr for inputs that vary along these axes; cached on it.

    Args:
      jaxpr: the program.
      varying: of each input, at least what its type says.
      outs: axes along which results have to vary, of each; more than they do by themselves.
    """
    avals = [_at(a, axes) for a, axes in zip(jaxpr.in_avals, varying, strict=True)]
    same = all(a is b for a, b in zip(avals, jaxpr.in_avals, strict=True))
    if same and (outs is None or all(
            _at(a, axes) is a for a, axes in zip(jaxpr.out_avals, outs, strict=True))):
        return jaxpr

    def run(*args: Any) -> list[Any]:
        found = eval_jaxpr(jaxpr, jaxpr.consts, *args)
        return found if outs is None else [
            vary_over(axes, x) for x, axes in zip(found, outs, strict=True)]

    key = ("widened", ctx.settings, ctx.axis_env, *avals, *(outs or ()))
    return jaxpr.cached(key, lambda: stage_under_evaluation(run, avals, jaxpr.debug_info))


def _at(aval: Any, varying: Axes) -> Any:
    if not isinstance(aval, ShapedArray) or varying <= aval.varying:
        return aval
    return aval.update(varying=aval.varying | varying)


def vary_over(axes: Axes, x: Any) -> Any:
    """A value that varies along these axes at least."""
    missing = axes - typeof(x).varying
    return pvary_p.bind(x, axes=sorted_axes(missing)) if missing else x


def varying_of(jaxpr: Jaxpr) -> list[Axes]:
    """Along which axes the inputs vary."""
    return [a.varying for a in jaxpr.in_avals]


def joined(*varying: Sequence[Axes]) -> list[Axes]:
    """Item by item, along which axes one of them varies."""
    return [functools.reduce(frozenset.union, same) for same in zip(*varying, strict=True)]


def only_cast(jaxpr: Jaxpr, var: Any) -> Axes:
    """The axes to which a program casts a variable, if it does nothing else with it."""
    uses = [eqn for eqn in jaxpr.eqns if var in eqn.invars]
    if len(uses) != 1 or uses[0].primitive is not pvary_p or var in jaxpr.outvars:
        return no_axes
    return frozenset(uses[0].params["axes"])


def retypes_as_call(primitive: Primitive, param: str) -> None:
    """Gives a primitive that calls the jaxpr in a param, on its last operands, the rule."""

    def retype(varying: Sequence[Axes], **params: Any) -> Any:
        jaxpr = params[param]
        n = len(varying) - len(jaxpr.invars)
        wanted = joined(varying[n:], varying_of(jaxpr))
        return [*varying[:n], *wanted], {**params, param: widened(jaxpr, wanted)}

    primitive.define("retype", retype)


def bind_retyped(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Applies a primitive that holds jaxprs to values that vary otherwise than its inputs say.

    For what users call: an interpreter that transforms the jaxprs is given those that fit.
    """
    rule: Rule | None = primitive.retype
    if rule is not None and ctx.axis_env and not casts_are_written():
        wanted, params = rule([typeof(x).varying for x in args], **params)
        args = list(map(vary_over, wanted, args))
    found: list[Any] = primitive.bind(*args, **params)
    return found
