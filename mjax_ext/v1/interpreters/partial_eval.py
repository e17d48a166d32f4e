"""Generation v1 (candidate) of `mjax_ext.interpreters.partial_eval`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.interpreters.partial_eval import (
        Const,
        DCERule,
        DynamicJaxprTrace,
        DynamicJaxprTracer,
        JaxprTracer,
        ParamsUpdater,
        PartialEvalCustomResult,
        PartialEvalCustomRule,
        PartialVal,
        ResAvalUpdater,
        TracingEqn,
        Val,
        abstract_eval_fun,
        call_partial_eval_custom_rule,
        close_jaxpr,
        closed_call_partial_eval_custom_rule,
        compute_on,
        convert_constvars_jaxpr,
        convert_invars_to_constvars,
        custom_partial_eval_rules,
        custom_staging_rules,
        dce_jaxpr,
        dce_jaxpr_call_rule,
        dce_jaxpr_closed_call_rule,
        dce_jaxpr_consts,
        dce_rules,
        has_effects,
        infer_lambda_input_type,
        inline_jaxpr_into_trace,
        make_jaxpr_effects,
        partial_eval_jaxpr_custom,
        partial_eval_jaxpr_custom_rules,
        separate_consts,
        trace_to_jaxpr,
        trace_to_jaxpr_dynamic,
        trace_to_jaxpr_dynamic2,
        trace_to_jaxpr_nounits,
        xla_metadata_lib,
    )

__all__ = [
    "abstract_eval_fun", "call_partial_eval_custom_rule", "close_jaxpr",
    "closed_call_partial_eval_custom_rule", "compute_on", "Const", "convert_constvars_jaxpr",
    "convert_invars_to_constvars", "custom_partial_eval_rules", "custom_staging_rules",
    "dce_jaxpr", "dce_jaxpr_call_rule", "dce_jaxpr_closed_call_rule", "dce_jaxpr_consts",
    "dce_rules", "DCERule", "DynamicJaxprTrace", "DynamicJaxprTracer", "has_effects",
    "infer_lambda_input_type", "inline_jaxpr_into_trace", "JaxprTracer", "make_jaxpr_effects",
    "ParamsUpdater", "partial_eval_jaxpr_custom", "partial_eval_jaxpr_custom_rules",
    "PartialEvalCustomResult", "PartialEvalCustomRule", "PartialVal", "ResAvalUpdater",
    "separate_consts", "trace_to_jaxpr", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_dynamic2",
    "trace_to_jaxpr_nounits", "TracingEqn", "Val", "xla_metadata_lib",
]

namespace("mjax_ext.v1.interpreters.partial_eval")
