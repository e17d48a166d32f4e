"""Partial evaluation and dead-code elimination: their rules, and both applied to jaxprs.

Rules are entries of tables, by primitive:

- `dce_rules[p] = rule`: `rule(used_outputs, eqn) -> used_inputs, new_eqn`, where the new equation
  has the used inputs and outputs only, or is None to drop it. Without a rule, an equation is
  dropped if all its results are unused and no effect keeps it. `dce_jaxpr_call_rule` is one.
- `custom_partial_eval_rules[p] = rule`: `rule(interpreter, *args, **params)`, called where some
  operand is unknown (`interpreter.is_unknown(arg)`). Without a rule, the whole equation is
  unknown.
- `custom_staging_rules[p] = rule`: `rule(trace, source_info, *tracers, **params)` gives the results
  where a program with an application of `p` is staged. `trace.default_process_primitive(p, tracers,
  params, source_info)` records the equation that there is without a rule.
- `partial_eval_jaxpr_custom_rules[p] = rule`: `rule(saveable, unks_in, inst_in, eqn) -> known
  equation or None, staged equation or None, unks_out, inst_out, residuals`, for
  `partial_eval_jaxpr_custom` and `mjax.checkpoint`. `call_partial_eval_custom_rule` makes one.

The modules `compute_on` and `xla_metadata_lib` tell what `compute_on` and `set_xla_metadata` ask of
equations that are staged now.

`Const`, `Val`, `DCERule`, `PartialEvalCustomRule`, `PartialEvalCustomResult`, `ParamsUpdater` and
`ResAvalUpdater` are types of arguments.

A known value is available now; an unknown one is a variable of the program under construction.

Example:
  >>> from mjax_ext.interpreters import partial_eval
  >>> from mjax_ext.core.primitives import scan_p, sin_p
  >>> scan_p in partial_eval.dce_rules, sin_p in partial_eval.dce_rules
  (True, False)
"""

from __future__ import annotations

from mjax._engine.tracing.stage import TracingEqn
from mjax._engine.transforms.partial_eval import PartialEvaluated, partial_eval_jaxpr
from mjax_ext._tables import RuleTable
from mjax_ext.interpreters._traces import (
    DynamicJaxprTrace,
    DynamicJaxprTracer,
    JaxprTrace,
    JaxprTracer,
)
from mjax_ext.interpreters.partial_eval import _compute_on as compute_on
from mjax_ext.interpreters.partial_eval import _xla_metadata_lib as xla_metadata_lib
from mjax_ext.interpreters.partial_eval._jaxprs import (
    DCERule,
    close_jaxpr,
    convert_constvars_jaxpr,
    convert_envvars_to_constvars,
    convert_invars_to_constvars,
    dce_jaxpr,
    dce_jaxpr_call_rule,
    dce_jaxpr_closed_call_rule,
    dce_jaxpr_consts,
    has_effects,
    make_jaxpr_effects,
    move_binders_to_back,
    move_binders_to_front,
    separate_consts,
)
from mjax_ext.interpreters.partial_eval._saving import (
    ParamsUpdater,
    PartialEvalCustomResult,
    PartialEvalCustomRule,
    ResAvalUpdater,
    call_partial_eval_custom_rule,
    closed_call_partial_eval_custom_rule,
    partial_eval_jaxpr_custom,
    partial_eval_jaxpr_custom_rules,
)
from mjax_ext.interpreters.partial_eval._tracing import (
    Const,
    Val,
    abstract_eval_fun,
    infer_lambda_input_type,
    inline_jaxpr_into_trace,
    trace_to_jaxpr,
    trace_to_jaxpr_dynamic,
    trace_to_jaxpr_dynamic2,
)
from mjax_ext.interpreters.partial_eval._unknown import (
    PartialVal,
    instantiate_const_at,
    partial_eval_jaxpr_nounits,
    partition_pvals,
    trace_to_jaxpr_nounits,
    tracers_to_jaxpr,
)
from mjax_ext.interpreters.partial_eval._wrapped import (
    partial_eval_wrapper_nounits,
    trace_to_subjaxpr_nounits,
    trace_to_subjaxpr_nounits_fwd,
)

__all__ = [
    # tables
    "custom_partial_eval_rules", "custom_staging_rules", "dce_rules",
    "partial_eval_jaxpr_custom_rules",
    # traces and tracers
    "DynamicJaxprTrace", "DynamicJaxprTracer", "JaxprTrace", "JaxprTracer", "TracingEqn",
    # functions to jaxprs
    "abstract_eval_fun", "infer_lambda_input_type", "inline_jaxpr_into_trace", "trace_to_jaxpr",
    "trace_to_jaxpr_dynamic", "trace_to_jaxpr_dynamic2",
    # jaxprs to jaxprs
    "close_jaxpr", "convert_constvars_jaxpr", "convert_envvars_to_constvars",
    "convert_invars_to_constvars", "make_jaxpr_effects", "move_binders_to_back",
    "move_binders_to_front", "separate_consts",
    # dead code
    "DCERule", "dce_jaxpr", "dce_jaxpr_call_rule", "dce_jaxpr_closed_call_rule", "dce_jaxpr_consts",
    "has_effects",
    # known and unknown values
    "Const", "PartialEvaluated", "PartialVal", "Val", "instantiate_const_at", "partial_eval_jaxpr",
    "partial_eval_jaxpr_nounits", "partial_eval_wrapper_nounits", "partition_pvals",
    "trace_to_jaxpr_nounits", "trace_to_subjaxpr_nounits", "trace_to_subjaxpr_nounits_fwd",
    "tracers_to_jaxpr",
    # by a policy
    "ParamsUpdater", "PartialEvalCustomResult", "PartialEvalCustomRule", "ResAvalUpdater",
    "call_partial_eval_custom_rule", "closed_call_partial_eval_custom_rule",
    "partial_eval_jaxpr_custom",
    # modules: requests to XLA in force
    "compute_on", "xla_metadata_lib",
]

dce_rules: RuleTable = RuleTable("dce")
custom_partial_eval_rules: RuleTable = RuleTable("partial_eval")
custom_staging_rules: RuleTable = RuleTable("staging")


def __dir__() -> list[str]:
    return sorted(__all__)
