"""As pennylane has it: privates, imported when they are needed and if they are there."""

import importlib.util

has_jax = importlib.util.find_spec("jax") is not None
if has_jax:
    import jax

    jax_version = jax.__version__


def parts():
    if not has_jax or jax_version != "0.7.1":
        raise ImportError("this needs jax 0.7.1")
    from jax._src import config, source_info_util
    from jax._src.core import JaxprEqnContext, Var
    from jax._src.interpreters import partial_eval as pe
    from jax._src.interpreters.partial_eval import DynamicJaxprTracer, TracingEqn

    return config.dynamic_shapes, source_info_util.current, JaxprEqnContext, Var, [
        pe.DynamicJaxprTrace, DynamicJaxprTracer, TracingEqn]


def make_tracer(aval: "jax.core.AbstractValue"):
    module = importlib.import_module("jax._src.interpreters.partial_eval")
    return module.DynamicJaxprTracer(aval)
