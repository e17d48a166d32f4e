"""v1: primitives of one's own. Frozen: `tests/generations/test_frozen.py` refuses edits."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext.v1 import core
from mjax_ext.v1.interpreters import mlir


def scale(name):
    """A primitive `factor * x` with an implementation, a type and a lowering."""
    p = core.Primitive(name)
    p.def_impl(lambda x, *, factor: np.asarray(x) * np.asarray(x).dtype.type(factor))
    p.def_abstract_eval(lambda x, *, factor: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, *, factor: x * factor,
                                             multiple_results=False))
    return p


def test_a_primitive_is_applied_by_its_rules():
    p = scale("v1_scale")
    x = np.arange(3.0, dtype=np.float32)
    np.testing.assert_array_equal(p.bind(x, factor=2.0), 2 * x)
    np.testing.assert_array_equal(mjax.jit(lambda x: p.bind(x, factor=2.0))(x), 2 * x)
    eqn, = mjax.make_jaxpr(lambda x: p.bind(x, factor=2.0))(x).eqns
    assert eqn.primitive is p and eqn.params == {"factor": 2.0} and p.name == str(p) == "v1_scale"
    assert isinstance(p, core.Primitive) and not isinstance(p, core.CallPrimitive)


def test_several_results_are_lists():
    p = core.Primitive("v1_both", multiple_results=True)
    p.def_impl(lambda x: [x, -x])
    p.def_abstract_eval(lambda x: [x, x])
    assert p.bind(2.0) == [2.0, -2.0]
    assert len(mjax.make_jaxpr(lambda x: p.bind(x))(1.0).eqns[0].outvars) == 2


@pytest.mark.parametrize(("transform", "rule"), [
    (lambda f: f(1.0), "implementation"),
    (lambda f: mjax.make_jaxpr(f)(1.0), "abstract evaluation"),
    (lambda f: mjax.jvp(f, (1.0,), (1.0,)), "jvp"), (lambda f: mjax.vmap(f)(jnp.ones(2)), "batch")])
def test_a_missing_rule_is_named(transform, rule):
    with pytest.raises(NotImplementedError, match=f"(?s){rule}.*v1_nothing"):
        transform(core.Primitive("v1_nothing").bind)


def test_a_schema_refuses_other_params():
    p = core.Primitive("v1_window", params={"size": int})
    p.def_impl(lambda x, *, size: x)
    p.def_abstract_eval(lambda x, *, size: x)
    assert mjax.make_jaxpr(lambda x: p.bind(x, size=2))(1.0) and list(p.schema.params) == ["size"]
    with pytest.raises(TypeError, match="width"):
        mjax.make_jaxpr(lambda x: p.bind(x, width=2))(1.0)


def test_results_are_compared_with_the_declared_type():
    p = core.Primitive("v1_wrong")
    p.def_impl(lambda x: np.zeros(3, np.float32))
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(TypeError, match="v1_wrong"):
        p.bind(np.zeros(2, np.float32))


def test_subclasses_are_primitives():
    class Named(core.Primitive):
        def bind(self, x):
            return super().bind(x, factor=3.0)

    p = Named("v1_named")
    p.def_impl(lambda x, *, factor: x * factor)
    assert p.bind(2.0) == 6.0 and isinstance(p, core.Primitive)
    assert issubclass(Named, core.Primitive)


def test_effects_are_kept_and_told():
    class Bell(core.Effect):
        policy = core.EffectPolicy(lowerable=True)

    p = core.Primitive("v1_bell")
    effects = {Bell()}
    p.def_effectful_abstract_eval(lambda x: (x, effects))
    p.def_impl(lambda x: x)
    jaxpr = mjax.make_jaxpr(lambda x: (p.bind(x), x)[1])(1.0)
    assert jaxpr.effects == effects and jaxpr.eqns[0].effects == effects


def test_calls_hold_programs():
    p = core.CallPrimitive("v1_call")
    from mjax_ext.v1 import linear_util as lu

    def f(x):
        g = lu.wrap_init(lambda y: [lax.sin(y)])
        return p.bind(x, subfuns=(g,), name="sine")[0]

    np.testing.assert_allclose(f(0.5), np.sin(0.5), rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(0.5), np.cos(0.5), rtol=1e-6)


def test_a_primitive_from_a_function():
    p = core.primitive_from_function("v1_logistic", lambda x: 1 / (1 + jnp.exp(-x)))
    s = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(mjax.jit(p.bind)(0.5), s, rtol=1e-6)
    np.testing.assert_allclose(mjax.grad(p.bind)(0.5), s * (1 - s), rtol=1e-6)
    assert mjax.vmap(p.bind)(jnp.ones(3)).shape == (3,)


def test_an_interpreter_sees_each_primitive():
    class Counting(core.Interpreter):
        seen = 0

        def apply(self, primitive, values, params):
            self.seen += 1
            return primitive.bind(*values, **params)

    counting = Counting()
    np.testing.assert_allclose(counting.run(lambda x: lax.sin(lax.neg(x)), 0.5), np.sin(-0.5),
                               rtol=1e-6)
    assert counting.seen == 2


def test_a_trace_and_its_tracers():
    class Tracer(core.Tracer):
        def __init__(self, trace, value):
            super().__init__(trace, core.get_aval(value))
            self.value = value

    class Doubling(core.Trace):
        def process_primitive(self, primitive, tracers, params):
            values = [t.value if isinstance(t, Tracer) else t for t in tracers]
            with core.eval_context():
                return Tracer(self, 2.0 * primitive.bind(*values, **params))

    trace = Doubling()
    with core.set_current_trace(trace):
        out = lax.add(Tracer(trace, 1.0), 2.0)
    assert float(out.value) == 6.0


def test_primitives_hold_a_frame():
    p = core.Primitive("v1_twice", multiple_results=True)
    core.Frame(p, "body")
    mlir.register_lowering(p, lambda ctx, *xs, body: ctx.inline(body, *xs))
    body = mjax.make_jaxpr(lambda x: x * x)(1.0)
    np.testing.assert_allclose(mjax.grad(lambda x: p.bind(x, body=body)[0])(3.0), 6.0)
