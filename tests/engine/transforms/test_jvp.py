"""jvp of functions and of jaxprs."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.thread import thread
from mjax._engine.ir.source import user_frame
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import tangents as tangents_module
from mjax._engine.tracing import stage as stage_module
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.jvp import JVPInterpreter, JVPTracer, jvp_flat, jvp_jaxpr
from mjax_ext.interpreters import ad
from tests.engine.transforms.programs import NAMES, PROGRAMS, X, Y, close, evaluate, staged, subsets

FLOAT0 = mjax.dtypes.float0


@pytest.mark.parametrize("name", NAMES)
def test_of_jaxprs(name):
    """Every subset of tangents, against jvp of the function, zeros in place of the others."""
    jaxpr, inputs = staged(name)
    f = PROGRAMS[name][0]
    rng = np.random.default_rng(0)
    n = len(jaxpr.outvars)
    for nonzeros in subsets(len(inputs)):
        nonzeros = [nz and x.dtype.kind == "f" for nz, x in zip(nonzeros, inputs, strict=True)]
        tangents = [rng.normal(size=x.shape).astype("float32") if nz else None
                    for x, nz in zip(inputs, nonzeros, strict=True)]
        given = [t for t in tangents if t is not None]
        for instantiate in (False, True):
            derived, nonzero_outs = jvp_jaxpr(jaxpr, nonzeros, instantiate)
            results = evaluate(derived, *inputs, *given)
            close(results[:n], evaluate(jaxpr, *inputs))
            assert len(results) == n + sum(nonzero_outs)
            with mjax.disable_jit():
                _, expected = jvp_flat(lambda *a: f(*a), inputs, [
                    Zero(typeof(x).to_tangent()) if t is None else t
                    for x, t in zip(inputs, tangents, strict=True)])
            found = iter(results[n:])
            for nz, e in zip(nonzero_outs, expected, strict=True):
                if not nz:
                    assert type(e) is Zero
                elif type(e) is Zero:
                    # A result without a tangent in the taken branch may have one in another.
                    assert instantiate or "cond" in {e.primitive.name for e in jaxpr.eqns}
                    assert not np.any(np.asarray(next(found)))
                else:
                    close([next(found)], [e])


@pytest.mark.parametrize("name", ["straight", "passing", "calls", *[
    n for n in PROGRAMS if n.startswith("random")]])
def test_against_differences(name):
    f, inputs = PROGRAMS[name]
    rng = np.random.default_rng(1)
    with mjax.enable_x64(), mjax.disable_jit():
        point = [np.asarray(x, "f8") for x in inputs]
        tangents = [rng.normal(size=x.shape) for x in point]
        _, found = mjax.jvp(lambda *a: f(*a), point, tangents)
        h = 1e-6
        plus, minus = (f(*[x + s * t for x, t in zip(point, tangents, strict=True)])
                       for s in (h, -h))
        for t, p, m in zip(found, plus, minus, strict=True):
            np.testing.assert_allclose(t, (np.asarray(p, "f8") - np.asarray(m, "f8")) / (2 * h),
                                       1e-6, 1e-6)


def test_integers_have_float0_tangents():
    def f(x, n):
        return lax.mul(x, lax.convert_element_type(n, np.float32)), lax.add(n, 1), lax.gt(x, 0.0)

    n = np.int32(3)
    primals, tangents = mjax.jvp(f, (np.float32(2), n), (np.float32(1), np.zeros((), FLOAT0)))
    assert [np.asarray(p).item() for p in primals] == [6, 4, True]
    assert [t.dtype for t in tangents] == [np.float32, FLOAT0, FLOAT0]
    assert float(tangents[0]) == 3
    with pytest.raises(TypeError, match=r"float0: numpy\.zeros\(shape"):
        mjax.jvp(f, (np.float32(2), n), (np.float32(1), np.int32(1)))


def test_results_that_need_no_tracing():
    """Inputs, literals, NumPy arrays, None."""
    table = np.arange(2.0, dtype="float32")
    primals, tangents = mjax.jvp(lambda x, y: (x, 2.0, table, None, x, y), (X, Y), (Y, X))
    assert primals[1] == 2.0 and primals[2] is table and primals[3] is None
    close([t for t in tangents if t is not None], [Y, 0.0, np.zeros(2), Y, X])


def test_symbolic_zeros_reach_rules_and_may_be_given_back():
    seen = []
    probe_p = Primitive("probe")
    probe_p.def_abstract_eval(lambda x, y: x)
    probe_p.def_impl(lambda x, y: x)

    @probe_p.def_jvp
    def rule(primals, tangents):
        seen.append([type(t) is Zero for t in tangents])
        out = probe_p.bind(*primals)
        return out, tangents[0]

    def f(x, y):
        return probe_p.bind(x, y), probe_p.bind(lax.mul(y, 2.0), x)

    mjax.jvp(lambda y: f(X, y), (Y,), (Y,))
    assert seen == [[True, False], [False, True]]
    # A result whose tangent is zero is a constant: no rule is asked afterwards.
    seen.clear()
    mjax.jvp(lambda y: probe_p.bind(lax.sin(probe_p.bind(X, y)), X), (Y,), (Y,))
    assert seen == [[True, False]]


def test_tangents_are_checked():
    bad_p = Primitive("bad")
    bad_p.def_abstract_eval(lambda x: x)
    bad_p.def_impl(lambda x: x)
    bad_p.def_jvp(lambda primals, tangents: (primals[0], lax.broadcast(tangents[0], (3,))))
    with pytest.raises(TypeError,
                       match=r"jvp rule of primitive 'bad'.*tangent of type float32\[3,"):
        mjax.jvp(bad_p.bind, (X,), (Y,))


def test_values_are_concrete_without_staging():
    taken = []

    def f(x):
        taken.append(bool(lax.gt(lax.reduce_sum(x, (0,)), 0.0)))
        return lax.mul(x, float(lax.reduce_sum(x, (0,))))

    primal, tangent = mjax.jvp(f, (X,), (Y,))
    close([primal, tangent], [X * X.sum(), Y * X.sum()])
    assert taken == [bool(X.sum() > 0)]
    _, nested = mjax.jvp(lambda x: mjax.jvp(f, (x,), (Y,))[1], (X,), (Y,))
    assert not np.any(np.asarray(nested))  # float() took the value out of the derivative


def test_tracers_know_their_interpreter():
    outer = []

    def f(x):
        outer.append(x)
        assert isinstance(thread.interpreter, JVPInterpreter) and type(x) is JVPTracer
        return mjax.jvp(lambda y: lax.mul(x, y), (Y,), (Y,))[1]

    close([mjax.jvp(f, (X,), (X,))[1]], [X * Y])
    with pytest.raises(Exception, match="used after the jvp trace that made it had ended"):
        lax.sin(outer[0])


def test_weak_types_are_those_of_the_function():
    primal, tangent = mjax.jvp(lambda x: lax.mul(x, 2.0), (3.0,), (1.0,))
    assert primal.weak_type and tangent.weak_type
    primal, tangent = mjax.jvp(lambda x: lax.mul(x, X), (Y,), (X,))
    assert not primal.weak_type and not tangent.weak_type


def test_rules_may_give_float0():
    """For an integer result: as an array of float0, or as a Zero."""
    pair_p = Primitive("pair", multiple_results=True)
    pair_p.def_abstract_eval(lambda x: [x, ShapedArray((2,), np.int32)])
    pair_p.def_impl(lambda x: [lax.sin(x), lax.convert_element_type(x, np.int32)])
    pair_p.def_jvp(lambda primals, tangents: (
        pair_p.bind(*primals),
        [lax.mul(tangents[0], lax.cos(primals[0])), np.zeros(2, FLOAT0)]))

    def f(x):
        y, n = pair_p.bind(x)
        return lax.mul(y, lax.convert_element_type(lax.mul(n, n), np.float32))

    x = np.array([1.2, 3.5], "float32")
    close([mjax.jvp(f, (x,), (np.ones_like(x),))[1]], [np.cos(x) * [1, 9]])
    close([mjax.vjp(f, x)[1](np.ones_like(x))[0]], [np.cos(x) * [1, 9]])


def lines(jaxpr):
    return {user_frame(eqn.source).line for eqn in jaxpr.eqns}


def test_equations_of_the_engines_rules_come_from_the_users_line(monkeypatch):
    taken = []
    for module in (stage_module, tangents_module):
        monkeypatch.setattr(module, "current_traceback",
                            lambda take=module.current_traceback: taken.append(1) or take())

    def f(x, y):
        return lax.mul(x, y)

    traced = mjax.make_jaxpr(lambda x, y: mjax.jvp(f, (x, y), (y, x)))
    assert len(traced(X, Y).eqns) == 4 and len(taken) == 1  # however many equations a rule makes
    monkeypatch.undo()
    assert lines(traced(X, Y)) == {f.__code__.co_firstlineno + 1}


def test_equations_of_users_rules_come_from_their_lines():
    p = Primitive("triple")
    p.def_abstract_eval(lambda x: x)

    def rule(t, x):
        return lax.mul(t, np.float32(3))

    ad.defjvp(p, rule)
    jaxpr = mjax.make_jaxpr(lambda x: mjax.jvp(p.bind, (x,), (x,)))(X)
    assert rule.__code__.co_firstlineno + 1 in lines(jaxpr) and len(lines(jaxpr)) == 2
