"""Derivatives that users write: rules, closures for them, linear functions."""

from mjax._engine.base.faces import face
from mjax._engine.control.calls.closure_convert import closure_convert
from mjax._engine.control.custom.custom_gradient import custom_gradient
from mjax._engine.control.custom.custom_jvp import custom_jvp, custom_jvp_call_p
from mjax._engine.control.custom.custom_vjp import custom_vjp, custom_vjp_call_p
from mjax._engine.control.custom.linear_call import linear_call
from mjax._engine.control.custom.symbolic_zeros import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from mjax._engine.control.remat.remat_opt import remat_opt_p

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp",
    "custom_jvp_call_p", "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values",
    "linear_call", "remat_opt_p", "zero_from_primal",
]

face("mjax.custom_derivatives")
