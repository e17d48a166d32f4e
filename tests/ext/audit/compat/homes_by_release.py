"""As brainstate has it: each name from the home that the installed release gives it."""

import jax
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, Var, jaxpr_as_fun

OLD = jax.__version_info__ < (0, 10, 0)

if OLD:
    from jax.core import DebugInfo, DropVar, gensym, get_opaque_trace_state, trace_ctx
else:
    from jax._src.core import trace_ctx
    from jax.extend.core import DebugInfo, DropVar, gensym, get_opaque_trace_state

try:
    from jax.extend.core import CallPrimitive
except ImportError:
    from jax.extend.core import register_call_primitive_rules

    class CallPrimitive(Primitive):
        call_primitive = True

        def __init__(self, name):
            super().__init__(name)
            register_call_primitive_rules(self, name=name)

try:
    from jax.interpreters.batching import not_mapped
except ImportError:
    not_mapped = None


def safe_map(f, *args):
    assert len({len(arg) for arg in args}) == 1
    return list(map(f, *args))


def concrete(x):
    return x if isinstance(x, Tracer) else jax.core.get_aval(x) if OLD else jax.typeof(x)
