"""Jaxprs at wider types: for operands that vary along more mesh axes than at staging.

The jaxpr is staged again at the wider types, so casts appear where they are needed. For inner
jaxprs, the staging interpreter calls the `cast_varying` rule of the primitives that hold them. This
way carries of loops reach their fixpoint, and results of a cond vary as its predicate does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, jaxprs_in_params
from mjax._engine.ir.source import summarize
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.operands import no_axes
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_results import cast_varying, collective_axes
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.variance import casts_are_written, pvary_p, sorted_axes

Axes = frozenset[Any]


def widened(jaxpr: Jaxpr, varying: Sequence[Axes], outs: Sequence[Axes] | None = None) -> Jaxpr:
    """The jaxpr for inputs that vary along these axes; cached on it.

    Args:
      jaxpr: the program.
      varying: the axes of each input, at least those of its type.
      outs: the axes along which each result has to vary, beyond its own.
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

    key = ("widened", thread.settings, thread.axis_env, *avals, *(outs or ()))
    return jaxpr.cached(key, lambda: trace_to_jaxpr(run, avals, jaxpr.debug_info))


def _at(aval: Any, varying: Axes) -> Any:
    return aval if varying <= aval.varying else aval.with_varying(aval.varying | varying)


def vary_over(axes: Axes, x: Any) -> Any:
    """A value that varies along these axes at least."""
    missing = axes - typeof(x).varying
    return pvary_p.bind(x, axes=sorted_axes(missing)) if missing else x


def varying_of(jaxpr: Jaxpr) -> list[Axes]:
    """The axes along which the inputs vary."""
    return [a.varying for a in jaxpr.in_avals]


def joined(*varying: Sequence[Axes]) -> list[Axes]:
    """The unions of axes, item by item."""
    return [functools.reduce(frozenset.union, same) for same in zip(*varying, strict=True)]


def only_cast(jaxpr: Jaxpr, var: Any) -> Axes:
    """The axes to which a program casts a variable, if that is its only use."""
    uses = [eqn for eqn in jaxpr.eqns if var in eqn.invars]
    if len(uses) != 1 or uses[0].primitive is not pvary_p or var in jaxpr.outvars:
        return no_axes
    return frozenset(uses[0].params["axes"])


# ---- waiting for each other --------------------------------------------------------------


def communication(jaxpr: Jaxpr) -> Axes:
    """The named axes over which a program communicates; cached on it."""
    return jaxpr.cached("communication", lambda: no_axes.union(*map(_communication, jaxpr.eqns)))


def _communication(eqn: JaxprEqn) -> Axes:
    return no_axes.union(collective_axes(eqn), *map(communication, jaxprs_in_params(eqn.params)))


def refuse_alone(who: str, decides: str, varying: Axes, jaxprs: Iterable[Jaxpr]) -> None:
    """Refuses communication in which some devices would not take part: the others would wait for
    them forever.

    Args:
      who: the primitive.
      decides: the name, for messages, of the value that decides which devices run the jaxprs.
      varying: the axes along which that varies.
      jaxprs: the programs that only some devices may run.

    Raises:
      ValueError: one communicates over one of these axes.
    """
    for jaxpr in jaxprs:
        axes = communication(jaxpr) & varying
        if axes:
            raise LazyValueError(lambda jaxpr=jaxpr, axes=axes: (  # type: ignore[misc]
                f"{who}: {_culprit(jaxpr, axes)} communicates over the mesh axis "
                f"{sorted_axes(axes)[0]!r}, along which {decides} may differ between devices: some "
                f"would wait for others that do not take part. Communicate outside of the {who}, "
                "or make what decides the same on all devices (lax.psum, lax.pmax of it)."))


def _culprit(jaxpr: Jaxpr, axes: Axes) -> str:
    eqn = next(eqn for eqn in jaxpr.eqns if _communication(eqn) & axes)
    for inner in jaxprs_in_params(eqn.params):
        if communication(inner) & axes:
            return _culprit(inner, axes)
    return f"{eqn.primitive.name} at {summarize(eqn.source)}"


# ---- calls -------------------------------------------------------------------------------


def bind_cast(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Applies a primitive that holds jaxprs to values that vary along other axes than its inputs.

    Public functions use it, so that interpreters which transform the jaxprs get fitting ones.
    """
    if primitive.cast_varying is not None and thread.axis_env and not casts_are_written():
        wanted, params = cast_varying(primitive, [typeof(x).varying for x in args], params)
        args = list(map(vary_over, wanted, args))
    found: list[Any] = primitive.bind(*args, **params)
    return found
