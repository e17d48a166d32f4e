"""Dead-code elimination: drops equations with unused results.

Equations with an effect whose policy says `kept_by_dce` stay.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.util import per_item, selected
from mjax._engine.ir.effects import join_effects, keeps_equation
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from mjax._engine.tracing.rule_results import pruned


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool],
              keep_inputs: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that determines some of its results; cached on it.

    Args:
      jaxpr: the program.
      used_outputs: which results are wanted.
      keep_inputs: which inputs stay even if unused.

    Returns:
      The smaller program, with the wanted results and the inputs it uses, and which those
      inputs are.
    """
    kept = per_item(keep_inputs, len(jaxpr.invars))
    used_outputs, live = tuple(used_outputs), jaxpr.recall(_LIVE)
    if live is not None and all(used_outputs):
        read = list(map(operator.or_, live, kept))
        return (jaxpr, read) if all(read) else jaxpr.cached(("dce", kept), lambda: (
            with_inputs(jaxpr, selected(read, jaxpr.invars)), read))
    key = ("dce", used_outputs, kept)
    found: tuple[Jaxpr, list[bool]] = jaxpr.recall(key) or _dce(jaxpr, used_outputs, kept)
    return found if found[0] is jaxpr else jaxpr.keep(key, found)


def live_inputs(jaxpr: Jaxpr) -> list[bool]:
    """Which inputs a program reads that `dce_jaxpr` has given."""
    live: list[bool] = jaxpr.recall(_LIVE)
    return live


def with_inputs(jaxpr: Jaxpr, invars: Sequence[Var], outvars: Sequence[Any] | None = None
                ) -> Jaxpr:
    """The same program with its inputs in another order, with more of them, or with fewer.

    It keeps the record that none of its equations is dead. It loses the names of its arguments.

    Args:
      jaxpr: the program.
      invars: its inputs.
      outvars: its results; None: unchanged. They may leave out only inputs.
    """
    info = jaxpr.debug_info
    moved = Jaxpr(jaxpr.constvars, invars, jaxpr.outvars if outvars is None else outvars,
                  jaxpr.eqns, jaxpr.effects,
                  info if info.arg_names is None else info._replace(arg_names=None),
                  consts=jaxpr.consts)
    live = jaxpr.recall(_LIVE)
    if live is not None:
        read = set(selected(live, jaxpr.invars))
        moved.keep(_LIVE, [v in read for v in invars])
    return moved


#: The key of a record in programs made here: which of their inputs are used. None of their
#: equations is dead, so nested programs are not searched again at each level.
_LIVE = "live inputs"


def _dce(jaxpr: Jaxpr, used_outputs: Sequence[bool], kept: Sequence[bool]
         ) -> tuple[Jaxpr, list[bool]]:
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Any] = {v for v in outvars if type(v) is not Literal}
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in live for v in eqn.outvars]
        if eqn.primitive.dce is not None:
            used_ins, new = pruned(eqn, used)
            if new is None:
                continue
            for v, u in zip(eqn.invars, used_ins, strict=True):
                if u and type(v) is not Literal:
                    live.add(v)
        elif any(used) or keeps_equation(eqn.effects):
            new = eqn
            for v in eqn.invars:
                if type(v) is not Literal:
                    live.add(v)
        else:
            continue
        eqns.append(new)
    eqns.reverse()
    reads = [v in live for v in jaxpr.invars]
    used_inputs = list(map(operator.or_, reads, kept))
    consts = [(v, c) for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True) if v in live]
    if not jaxpr.effects and all(used_outputs) and all(used_inputs) and (
            len(consts) == len(jaxpr.consts)) and len(eqns) == len(jaxpr.eqns) and all(
            map(operator.is_, eqns, jaxpr.eqns)):
        jaxpr.keep(_LIVE, reads)
        return jaxpr, used_inputs
    smaller = Jaxpr([v for v, _ in consts], selected(used_inputs, jaxpr.invars), outvars,
                    eqns, join_effects(eqn.effects for eqn in eqns), jaxpr.debug_info,
                    consts=[c for _, c in consts])
    smaller.keep(_LIVE, selected(used_inputs, reads))
    return smaller, used_inputs
