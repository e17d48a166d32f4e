from mjax.errors import InconclusiveDimensionOperation
from mjax_ext.v1.core import (
    AbstractToken, AbstractValue, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Primitive,
    ShapedArray, Tracer, Var, concrete_or_error, definitely_equal_shape, dim_constant,
    new_jaxpr_eqn)
from mjax_ext.v1.interpreters import ad, batching
from mjax_ext.v1.interpreters.batching import not_mapped as NOT_MAPPED


def scan_arity(params, operands):
    consts, carry = params["num_consts"], params["num_carry"]
    return consts, carry, operands - consts - carry


def fresh_var_like(var):
    return Var(var.aval)
