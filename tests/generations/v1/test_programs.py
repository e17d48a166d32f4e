"""v1: programs and their parts. Frozen: `tests/generations/test_frozen.py` refuses edits."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext import v1
from mjax_ext.v1 import core
from mjax_ext.v1.core import primitives as prims


def test_a_program_is_variables_equations_and_results():
    jaxpr = mjax.make_jaxpr(lambda x, y: lax.add(lax.sin(x), y))(1.0, 2.0)
    assert isinstance(jaxpr, core.Jaxpr) and isinstance(jaxpr, core.ClosedJaxpr)
    assert jaxpr.jaxpr.eqns == jaxpr.eqns and len(jaxpr.invars) == 2 and not jaxpr.consts
    sin, add = jaxpr.eqns
    assert sin.primitive is prims.sin_p and add.primitive is prims.add_p
    assert sin.invars == [jaxpr.invars[0]] and add.invars == [sin.outvars[0], jaxpr.invars[1]]
    assert jaxpr.outvars == add.outvars and isinstance(sin.outvars[0], core.Var)
    assert [a.dtype for a in jaxpr.in_avals] == [np.float32] * 2
    assert [a.shape for a in jaxpr.out_avals] == [()]


def test_programs_of_mjax_are_programs_of_the_generation():
    jaxpr = mjax.make_jaxpr(lax.sin)(1.0)
    out, = core.eval_jaxpr(v1.program(jaxpr), jaxpr.consts, 0.5)
    np.testing.assert_allclose(out, np.sin(0.5), rtol=1e-6)


def test_literals_have_a_value_and_a_type():
    eqn, = mjax.make_jaxpr(lambda x: lax.mul(x, 2.0))(1.0).eqns
    variable, literal = eqn.invars
    assert type(literal) is core.Literal and literal.val == 2.0 and literal.aval.shape == ()
    assert type(variable) is core.Var and not hasattr(variable, "val")
    assert isinstance(literal, core.Atom) and isinstance(variable, core.Atom)


def test_constants_have_variables_and_values():
    c = np.arange(3.0, dtype=np.float32)
    jaxpr = mjax.make_jaxpr(lambda x: x + c)(c)
    np.testing.assert_array_equal(jaxpr.consts[0], c)
    assert len(jaxpr.constvars) == 1 and jaxpr.literals is jaxpr.consts
    out, = core.eval_jaxpr(jaxpr, [c + 1], c)
    np.testing.assert_array_equal(out, 2 * c + 1)


def test_equations_can_be_replaced_and_made():
    jaxpr = mjax.make_jaxpr(lax.sin)(1.0)
    eqn, = jaxpr.eqns
    cosine = eqn.replace(primitive=prims.cos_p)
    assert cosine.primitive is prims.cos_p and cosine.invars == eqn.invars
    made = core.new_jaxpr_eqn(eqn.invars, eqn.outvars, prims.neg_p, {}, core.no_effects)
    for other, f in ((cosine, np.cos), (made, np.negative)):
        out, = core.eval_jaxpr(jaxpr.replace(eqns=[other]), [], 0.5)
        np.testing.assert_allclose(out, f(0.5), rtol=1e-6)


def test_a_program_is_made_of_its_parts():
    x = core.Var(core.ShapedArray((), np.dtype("float32")))
    y = core.Var(x.aval)
    eqn = core.new_jaxpr_eqn([x, core.Literal(3.0, x.aval)], [y], prims.mul_p, {}, core.no_effects)
    jaxpr = core.Jaxpr([], [x], [y], [eqn])
    core.check_jaxpr(jaxpr)
    assert core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, []))(2.0) == [6.0]
    assert jaxpr.effects == core.no_effects == frozenset()


def test_ill_typed_programs_are_refused():
    jaxpr = mjax.make_jaxpr(lax.sin)(1.0)
    with pytest.raises(core.JaxprTypeError):
        core.check_jaxpr(jaxpr.replace(eqns=[]))  # a result that no equation makes


def test_inner_programs_are_found():
    jaxpr = mjax.make_jaxpr(lambda x: lax.cond(x > 0, lax.sin, mjax.jit(lax.cos), x))(1.0)
    cond = jaxpr.eqns[-1]
    assert len([*core.jaxprs_in_params(cond.params)]) == 2
    inner = [*core.subjaxprs(jaxpr)]
    assert [eqn.primitive for j in inner for eqn in j.eqns if eqn.primitive is not prims.jit_p
            ] in ([prims.sin_p], [prims.cos_p], [prims.sin_p, prims.cos_p])


def test_variables_can_be_made_and_dropped():
    new = core.gensym()
    aval = core.ShapedArray((2,), np.dtype("int32"))
    assert new(aval) is not new(aval) and new(aval).aval == aval
    assert issubclass(core.DropVar, core.Var) and str(core.DropVar(aval)) == "_"


def test_types_of_arrays():
    aval = core.ShapedArray((2, 3), np.dtype("float32"))
    assert (aval.shape, aval.dtype, aval.ndim, aval.size, aval.weak_type) == (
        (2, 3), np.float32, 2, 6, False)
    same = core.ShapedArray((2, 3), np.dtype("float32"))
    assert aval == same == core.get_aval(np.ones((2, 3), np.float32)) and hash(aval) == hash(same)
    assert core.get_aval(1.0).weak_type and core.mapped_aval(2, 0, aval).shape == (3,)
    assert core.unmapped_aval(5, 1, aval).shape == (2, 5, 3)
    assert core.primal_dtype_to_tangent_dtype(np.dtype("int32")) == mjax.dtypes.float0


def test_names_of_arguments():
    info = mjax.make_jaxpr(lambda x, y: x)(1.0, 2.0).debug_info
    assert isinstance(info, core.DebugInfo) and info.arg_names == ("x", "y")


def test_tracers_are_told_from_values():
    seen = []

    def f(x):
        seen.append((isinstance(x, core.Tracer), isinstance(x, mjax.Array), core.is_concrete(x)))
        return x

    mjax.jit(f)(1.0)
    assert seen == [(True, True, False)] and not isinstance(jnp.ones(2), core.Tracer)
    assert core.is_concrete(1.0) and core.concrete_or_error(None, 2.0) == 2.0
    with pytest.raises(mjax.errors.ConcretizationTypeError):
        mjax.jit(lambda x: core.concrete_or_error(float, x))(1.0)


def test_the_current_trace():
    outer = core.get_opaque_trace_state()
    states = []
    mjax.jit(lambda x: (states.append(core.get_opaque_trace_state()), x)[1])(1.0)
    assert outer == core.get_opaque_trace_state() != states[0]
    assert core.trace_state_clean()

    def f(x):
        with core.take_current_trace() as trace:
            assert trace is not None
            with core.eval_context():
                assert float(jnp.sin(0.0)) == 0.0  # not staged
            with core.set_current_trace(trace):
                return lax.sin(x)

    assert mjax.make_jaxpr(f)(1.0).eqns[-1].primitive is prims.sin_p
