"""The current trace: it is known, set, and compared."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.core import primitives
from mjax_ext.interpreters import ad, batching, partial_eval
from tests.ext.test_trace import Noting, Tracer, X, bound, run


def test_the_current_trace_is_known():
    assert core.trace_state_clean() and core.trace_ctx.is_top_level()
    assert isinstance(core.find_top_trace(()), core.EvalTrace)
    seen = []

    def look(x):
        seen.append((core.find_top_trace(()), core.trace_state_clean(),
                     core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                     core.unsafe_am_i_under_a_vmap_DO_NOT_USE()))
        return x

    mjax.jit(look)(1.0)
    mjax.grad(look)(1.0)
    mjax.jvp(look, (1.0,), (1.0,))
    mjax.vmap(look)(X)
    mjax.jit(mjax.vmap(look))(X)
    assert [s[1:] for s in seen] == [(False, True, False), (False, False, False),
                                     (False, False, False), (False, False, True),
                                     (False, True, True)]
    classes = (partial_eval.DynamicJaxprTrace, ad.JVPTrace, ad.JVPTrace, batching.BatchTrace,
               batching.BatchTrace)
    for (trace, *_), cls in zip(seen, classes):
        assert isinstance(trace, cls) and isinstance(trace, core.Trace)
        assert issubclass(type(trace), core.Trace)
    assert not isinstance(seen[0][0], (ad.JVPTrace, batching.BatchTrace, Noting))
    assert not isinstance(1, core.Trace) and not issubclass(int, core.Trace)


def test_a_trace_below_may_be_made_current():
    def f(x):
        with core.take_current_trace() as trace:
            assert core.trace_ctx.trace is core.find_top_trace(())
            known = lax.add(1, 2)  # evaluated
        with core.set_current_trace(trace.parent_trace):
            outer = lax.sin(2.0)
        return x * outer, known

    out, known = mjax.jit(mjax.vmap(f, out_axes=(0, None)))(X)
    np.testing.assert_allclose(out, X * np.sin(2.0), rtol=1e-6)
    jaxpr = mjax.make_jaxpr(mjax.vmap(f, out_axes=(0, None)))(X)
    assert [e.primitive.name for e in jaxpr.eqns] == ["sin", "mul"]
    assert isinstance(jaxpr.outvars[1], core.Literal) or jaxpr.consts


def test_primitives_are_bound_by_a_given_trace():
    seen = []

    def f(x):
        trace = core.find_top_trace(())
        with core.eval_context():
            seen.append(bound(primitives.sin_p, (x,), trace))
            seen.append(trace.process_primitive(primitives.sin_p, [x], {}))
            seen.append(primitives.sin_p.bind_with_trace(trace, [x], {}))
        return seen[-1]

    assert len(mjax.make_jaxpr(f)(1.0).eqns) == 3
    assert all(isinstance(t, partial_eval.DynamicJaxprTracer) for t in seen)
    with pytest.raises(TypeError, match="sin"):
        bound(primitives.sin_p, (np.int32(1),), core.find_top_trace(()))
    with pytest.raises(TypeError, match="operand 0 of primitive 'sin' is not a valid array: 's'"):
        mjax.jit(lambda x: primitives.sin_p.bind_with_trace(core.find_top_trace(()), ("s",), {}))(X)


def test_traces_are_of_a_thread():
    found = []
    with core.set_current_trace(Noting(core.find_top_trace(()))):
        thread = threading.Thread(target=lambda: found.append(core.trace_state_clean()))
        thread.start()
        thread.join()
        assert not core.trace_state_clean()
    assert found == [True]


def test_the_state_of_tracing_is_compared():
    state = lambda: core.get_opaque_trace_state(convention="test")
    outside, inside = state(), []
    assert outside == state() != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(outside)

    def f(x):
        inside.append((state(), state()))
        return x

    mjax.jit(f)(1.0)
    mjax.jit(f)(2)
    (a, b), (c, _) = inside
    assert a == b != c and a != outside
    trace = Noting(core.find_top_trace(()))
    with core.set_current_trace(trace):
        inside.append(state())
    alive = weakref.ref(trace)
    del trace
    gc.collect()
    assert alive() is None  # a state does not keep its trace alive


def test_tags_are_equal_and_different_objects():
    a, b = core.TraceTag(), core.TraceTag()
    assert a == b and hash(a) == hash(b) and a is not b and a != 1


def test_named_axes_are_brought_into_scope():
    assert not core.nonempty_axis_env_DO_NOT_USE()
    with core.extend_axis_env_nd([("i", 3), ("j", 2)]):
        env = core.get_axis_env()
        assert core.unsafe_get_axis_names_DO_NOT_USE() == ["i", "j"] == list(env.axis_names())
        assert env.axis_exists("j") and not env.axis_exists("k")
        assert core.nonempty_axis_env_DO_NOT_USE() and not core.trace_state_clean()
        with pytest.raises(NameError, match="no axis 'k' is in scope; axes: 'i', 'j'"):
            env.axis_size("k")
    assert core.trace_ctx.axis_env.axis_sizes == {}


class Mapping(Noting):
    """Maps over a named axis by a loop: values are lists of elements."""

    def process_primitive(self, primitive, tracers, params):
        values = [self.value(t) for t in tracers]
        if primitive is primitives.psum_p:
            return Tracer(self, np.sum(values[0], axis=0))
        return super().process_primitive(primitive, tracers, params)


def test_a_trace_interprets_collectives_over_its_axis():
    with core.extend_axis_env_nd([("i", 3)]):
        out, _ = run(Mapping, lambda x: lax.psum(x, "i") * 2.0, X)
    np.testing.assert_allclose(out, 2 * np.sum(X))


def test_tracers_are_not_pickled():
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(Tracer(Noting(core.find_top_trace(())), X))
