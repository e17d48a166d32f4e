"""The engine's own traces, made by hand: forward mode, batching, staging, unknown values."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import UnexpectedTracerError
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, partial_eval

X = np.array([0.5, 1.0, 2.0], np.float32)


def test_forward_mode_by_hand():
    with core.take_current_trace() as parent:
        trace = ad.JVPTrace(parent, tag := core.TraceTag())
        with core.set_current_trace(trace):
            out = lax.sin(ad.JVPTracer(trace, X, X)) * 2.0
    primal, tangent = trace.to_primal_tangent_pair(out)
    np.testing.assert_allclose(tangent, 2 * np.cos(X) * X, rtol=1e-6)
    assert trace.tag is tag and isinstance(trace.to_primal_tangent_pair(1.0)[1], ad.Zero)
    assert isinstance(out, ad.JVPTracer) and core.get_referent(out) is primal


def test_batching_by_hand():
    with core.take_current_trace() as parent:
        trace = batching.BatchTrace(parent, core.TraceTag(), batching.AxisData("i", 3))
        tracer = batching.BatchTracer(trace, X, 0)
        with core.set_current_trace(trace), core.extend_axis_env_nd([("i", 3)]):
            out, total = tracer * 2.0, lax.psum(tracer, "i")
    assert isinstance(out, batching.BatchTracer) and (out.batch_dim, out.shape) == (0, ())
    np.testing.assert_array_equal(out.val, 2 * X)
    np.testing.assert_allclose(trace.to_batch_info(total)[0], np.sum(X))
    assert trace.to_batch_info(1.0) == (1.0, None) and trace.axis_data.size == 3
    for dim in (1, None, "i"):
        with pytest.raises(ValueError, match=rf"type float32\[3\] has no axis {dim!r}"):
            batching.BatchTracer(trace, X, dim)


def test_staging_by_hand():
    info = mjax.api_util.debug_info("test", lambda a: a, (X,), {})
    trace = partial_eval.DynamicJaxprTrace(info)
    x = trace.new_arg(mjax.typeof(X), None)
    constant = trace.to_jaxpr_tracer(mjax.device_put(X))
    with core.set_current_trace(trace):
        y = lax.sin(x) + constant
    assert isinstance(y, partial_eval.DynamicJaxprTracer) and trace.to_jaxpr_tracer(y) is y
    assert not isinstance(y, partial_eval.JaxprTracer) and isinstance(y.val, core.Var)
    jaxpr, consts = trace.to_jaxpr([y])
    core.check_jaxpr(jaxpr)
    assert jaxpr.debug_info.arg_names == ("a",) and len(consts) == 1
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, consts, X)[0], np.sin(X) + X, rtol=1e-6)
    with pytest.raises(UnexpectedTracerError):
        lax.sin(y)


def test_unknown_values_are_jaxpr_tracers():
    seen = []
    mjax.linearize(lambda x: seen.append(x) or x, 1.0)
    (tracer,) = seen
    assert isinstance(tracer.tangent, partial_eval.JaxprTracer)
    assert not isinstance(tracer.tangent, partial_eval.DynamicJaxprTracer)
    with pytest.raises(TypeError, match="only a partial evaluation makes unknown values"):
        partial_eval.JaxprTracer(None, None, None)
