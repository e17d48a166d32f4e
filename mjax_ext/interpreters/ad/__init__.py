"""Differentiation: jvp, linearize and transpose rules, symbolic zeros, derivatives of programs.

- `primitive_jvps[p] = rule`: `rule(primals, tangents, **params) -> primal_out, tangent_out`,
  lists of them with multiple results. A tangent is of its primal's tangent type or a `Zero`.
- `primitive_linearizations[p] = rule`, seldom needed: `rule(nonzeros, *primals, **params)
  -> primal_out, nonzero_out, residuals, linear`, where `linear(residuals, *tangents)` gives the
  tangent. It is for primitives whose derivative a jvp rule cannot express.
- `primitive_transposes[p] = rule`: `rule(cotangent, *args, **params)` gives one cotangent or None
  per operand. Operands to be differentiated are `UndefinedPrimal`. It is called only where a
  cotangent is not zero; with multiple results the others are `Zero`.
- `call_transpose_param_updaters[p] = f`: `f(params, which operands are linear, which results have a
  cotangent)` gives the params of the call that `call_transpose` binds.
- `add_jaxvals_p`: the sum of two tangents; `custom_lin_p`: the derivative of a custom_vjp function.

Example:
  >>> from mjax_ext import core
  >>> from mjax_ext.interpreters import ad
  >>> p = core.Primitive("square")
  >>> _ = p.def_impl(lambda x: x * x)
  >>> _ = p.def_abstract_eval(lambda x: x)
  >>> ad.primitive_jvps[p] = lambda primals, tangents: (
  ...     p.bind(*primals), tangents[0] * 2.0 * primals[0])
  >>> float(mjax.grad(p.bind)(3.0))
  6.0
"""

from __future__ import annotations

from mjax._engine.control.custom.custom_lin import custom_lin_p
from mjax._engine.control.custom.symbolic_zeros import (
    from_rule as replace_rule_output_symbolic_zeros,
)
from mjax._engine.primitives.shapes import zeros_of as zeros_like_aval
from mjax._engine.primitives.tangents import add_any_p as add_jaxvals_p
from mjax._engine.primitives.tangents import add_tangents
from mjax._engine.primitives.tangents import define_bilinear as defbilinear
from mjax._engine.primitives.tangents import define_jvp as defjvp
from mjax._engine.primitives.tangents import define_jvp_from_result as defjvp2
from mjax._engine.primitives.tangents import instantiate as instantiate_zeros
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, is_undefined_primal
from mjax._engine.transforms.jvp import JVPTracer, jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr
from mjax_ext._tables import RuleTable
from mjax_ext.interpreters._traces import JVPTrace
from mjax_ext.interpreters.ad._functions import jvp, linearize, vjp
from mjax_ext.interpreters.ad._jaxprs import (
    backward_pass,
    call_transpose,
    call_transpose_param_updaters,
    closed_backward_pass,
    rearrange_binders,
)
from mjax_ext.interpreters.ad._rules import (
    add_jaxvals,
    bilinear_transpose,
    defjvp_zero,
    deflinear,
    deflinear2,
    get_primitive_transpose,
    linear_jvp,
    linear_transpose,
    linear_transpose2,
    replace_internal_symbolic_zeros,
    standard_jvp,
    standard_jvp2,
    zero_jvp,
    zeros_like_jaxval,
)
from mjax_ext.interpreters.ad._wrapped import (
    f_jvp_traceable,
    jvp_subtrace,
    jvp_subtrace_aux,
    jvpfun,
    nonzero_outputs,
    nonzero_tangent_outputs,
    traceable,
)

__all__ = [
    # tables
    "call_transpose_param_updaters", "primitive_jvps", "primitive_linearizations",
    "primitive_transposes", "get_primitive_transpose",
    # symbolic values, sums
    "UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents", "instantiate_zeros",
    "is_undefined_primal", "replace_internal_symbolic_zeros", "replace_rule_output_symbolic_zeros",
    "zeros_like_aval", "zeros_like_jaxval",
    # makers of rules, and the rules
    "bilinear_transpose", "defbilinear", "defjvp", "defjvp2", "defjvp_zero", "deflinear",
    "deflinear2", "linear_jvp", "linear_transpose", "linear_transpose2", "standard_jvp",
    "standard_jvp2", "zero_jvp",
    # programs
    "JVPTrace", "JVPTracer", "backward_pass", "call_transpose", "closed_backward_pass",
    "custom_lin_p", "jvp_jaxpr", "linearize_jaxpr", "rearrange_binders", "transpose_jaxpr",
    # functions
    "f_jvp_traceable", "jvp", "jvp_subtrace", "jvp_subtrace_aux", "jvpfun", "linearize",
    "nonzero_outputs", "nonzero_tangent_outputs", "traceable", "vjp",
]

primitive_jvps: RuleTable = RuleTable("jvp")
primitive_linearizations: RuleTable = RuleTable("linearize")
primitive_transposes: RuleTable = RuleTable("transpose")


def __dir__() -> list[str]:
    return sorted(__all__)
