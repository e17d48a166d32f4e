"""Dead-code elimination: drops equations whose results nobody uses.

Equations with an effect whose policy says `kept_by_dce` stay.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.util import per_item
from mjax._engine.ir.effects import join_effects, keeps_equation
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal
from mjax._engine.tracing.rule_errors import as_pair, bad_rule_result, describe_value


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool],
              keep_inputs: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that determines some of its results; cached on it.

    Args:
      jaxpr: the program.
      used_outputs: which results are wanted.
      keep_inputs: which inputs stay although nothing uses them.

    Returns:
      The smaller program, with the wanted results and the inputs it uses, and which those
      inputs are.
    """
    kept = per_item(keep_inputs, len(jaxpr.invars))
    used_outputs = tuple(used_outputs)
    live = jaxpr.cached(_LIVE, lambda: False)
    if live is not False and all(used_outputs) and all(map(operator.or_, live, kept)):
        return jaxpr, [True] * len(kept)
    return jaxpr.cached(("dce", used_outputs, kept), lambda: _dce(jaxpr, used_outputs, kept))


#: What a program made here knows of itself: which of its inputs are used. No equation of it
#: is dead, so that programs in programs are not looked through again at each level. False:
#: the program was made elsewhere.
_LIVE = "live inputs"


def _dce(jaxpr: Jaxpr, used_outputs: Sequence[bool], kept: Sequence[bool]
         ) -> tuple[Jaxpr, list[bool]]:
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Any] = {v for v in outvars if type(v) is not Literal}
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in live for v in eqn.outvars]
        if eqn.primitive.dce is not None:
            used_ins, new = _apply_rule(eqn, used)
            if new is None:
                continue
            live.update(v for v, u in zip(eqn.invars, used_ins, strict=True)
                        if u and type(v) is not Literal)
        elif any(used) or keeps_equation(eqn.effects):
            new = eqn
            live.update(v for v in eqn.invars if type(v) is not Literal)
        else:
            continue
        eqns.append(new)
    eqns.reverse()
    used_inputs = [k or v in live for v, k in zip(jaxpr.invars, kept, strict=True)]
    consts = [(v, c) for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True) if v in live]
    smaller = Jaxpr([v for v, _ in consts],
                    [v for v, u in zip(jaxpr.invars, used_inputs, strict=True) if u], outvars,
                    eqns, join_effects(eqn.effects for eqn in eqns), jaxpr.debug_info,
                    consts=[c for _, c in consts])
    smaller.cached(_LIVE, lambda: [v in live for v in smaller.invars])
    return smaller, used_inputs


def _apply_rule(eqn: JaxprEqn, used: list[bool]) -> tuple[Sequence[bool], JaxprEqn | None]:
    """What the primitive's own rule says: which operands are used, and the new equation."""
    used_ins, new = as_pair(eqn.primitive, "dce", eqn.primitive.dce(used, eqn),
                            "which operands are used, and the new equation or None")
    if new is not None and (not isinstance(used_ins, (list, tuple))
                            or len(used_ins) != len(eqn.invars)):
        bad_rule_result(eqn.primitive, "dce", lambda: (
            f"gave {describe_value(used_ins)} to say which operands are used; it must give a list "
            f"of {len(eqn.invars)} booleans, one per operand."), eqn.source)
    return used_ins, new
