import mjax
from mjax_ext.v1.backend import get_backend
from mjax_ext.v1.core import (
    CallPrimitive, ClosedJaxpr, DebugInfo, DropVar, Effect, Effects, Jaxpr, JaxprEqn,
    JaxprTypeError, Literal, Primitive, Tracer, Var, check_jaxpr, concrete_or_error,
    find_top_trace, gensym, get_aval, get_opaque_trace_state, jaxpr_as_fun, jaxprs_in_params,
    mapped_aval, new_jaxpr_eqn, no_effects, trace_ctx, valid_jaxtype)
from mjax_ext.v1.core.primitives import jit_p
from mjax_ext.v1.interpreters.batching import (
    BatchTrace, BatchTracer, make_iota, not_mapped, to_elt)
from mjax_ext.v1.linear_util import wrap_init
from mjax_ext.v1.util import safe_map, safe_zip, unzip2, wraps


def make_debug_info(traced_for, name="<unknown>"):
    return DebugInfo(traced_for, name, None, None)


def scan_num_consts_carry(params):
    return params["num_consts"], params["num_carry"]


def to_concrete_aval(x):
    return x if isinstance(x, Tracer) else mjax.typeof(x)
