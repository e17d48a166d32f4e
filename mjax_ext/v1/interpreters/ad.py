"""Generation v1 (candidate) of `mjax_ext.interpreters.ad`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.interpreters.ad import (
        JVPTrace,
        JVPTracer,
        UndefinedPrimal,
        Zero,
        add_jaxvals,
        add_jaxvals_p,
        add_tangents,
        backward_pass,
        call_transpose,
        call_transpose_param_updaters,
        defbilinear,
        defjvp,
        defjvp2,
        deflinear,
        deflinear2,
        get_primitive_transpose,
        instantiate_zeros,
        is_undefined_primal,
        jvp,
        jvp_jaxpr,
        linearize,
        linearize_jaxpr,
        primitive_jvps,
        primitive_linearizations,
        primitive_transposes,
        vjp,
        zeros_like_aval,
        zeros_like_jaxval,
    )

__all__ = [
    "add_jaxvals", "add_jaxvals_p", "add_tangents", "backward_pass", "call_transpose",
    "call_transpose_param_updaters", "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2",
    "get_primitive_transpose", "instantiate_zeros", "is_undefined_primal", "jvp", "jvp_jaxpr",
    "JVPTrace", "JVPTracer", "linearize", "linearize_jaxpr", "primitive_jvps",
    "primitive_linearizations", "primitive_transposes", "UndefinedPrimal", "vjp", "Zero",
    "zeros_like_aval", "zeros_like_jaxval",
]

namespace("mjax_ext.v1.interpreters.ad")
