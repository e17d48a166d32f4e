"""Partial evaluation and dead-code elimination: their rules, and both applied to jaxprs.

- `dce_rules[p] = rule`: `rule(used_outputs, eqn) -> used_inputs, new_eqn`, where the new equation
  has the used inputs and outputs only, or is None to drop it. Without a rule, an equation is
  dropped if all its results are unused and no effect keeps it.
- `custom_partial_eval_rules[p] = rule`: `rule(interpreter, *args, **params)`, called where some
  operand is unknown (`interpreter.is_unknown(arg)`). Without a rule, the whole equation is
  unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, no_debug_info
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms import dce
from mjax._engine.transforms.partial_eval import PartialEvaluated, partial_eval_jaxpr
from mjax_ext._tables import RuleTable

__all__ = [
    "custom_partial_eval_rules", "dce_rules",
    "PartialEvaluated", "dce_jaxpr", "partial_eval_jaxpr", "trace_to_jaxpr_dynamic",
]

dce_rules = RuleTable("dce")
custom_partial_eval_rules = RuleTable("partial_eval")


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool],
              instantiate: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that determines some of its results.

    Args:
      jaxpr: the program.
      used_outputs: which results are wanted.
      instantiate: which inputs stay even if unused.

    Returns:
      The smaller program, of the wanted results and the inputs it uses, and which inputs of
      `jaxpr` these are.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lambda x: (lax.sin(x), lax.cos(x)))(1.0)
      >>> smaller, used = partial_eval.dce_jaxpr(jaxpr.jaxpr, [True, False])
      >>> len(smaller.eqns), used
      (1, [True])
    """
    return dce.dce_jaxpr(jaxpr, used_outputs, instantiate)


def trace_to_jaxpr_dynamic(fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any], *,
                           debug_info: DebugInfo = no_debug_info
                           ) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Traces a function of flat values; `mjax.make_jaxpr` does it for functions of pytrees.

    Args:
      fun: takes one value per type and gives a sequence of values.
      in_avals: the types of its inputs.
      debug_info: names for messages.

    Returns:
      The jaxpr, the types of its results, and its constants: the values `fun` closed over.
    """
    jaxpr = stage(fun, in_avals, debug_info)
    return jaxpr, jaxpr.out_avals, jaxpr.consts


def __dir__() -> list[str]:
    return sorted(__all__)
