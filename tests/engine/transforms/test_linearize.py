"""linearize of functions and of jaxprs, and the contract of linearize rules."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.pytree import tree_leaves
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_flat, linearize_jaxpr
from mjax.errors import UnexpectedTracerError
from tests.engine.transforms.programs import NAMES, PROGRAMS, X, Y, close, evaluate, staged, subsets


@pytest.mark.parametrize("name", NAMES)
def test_of_jaxprs(name):
    """Every subset of tangents against jvp of the same jaxpr."""
    jaxpr, inputs = staged(name)
    rng = np.random.default_rng(0)
    n = len(jaxpr.outvars)
    for nonzeros in subsets(len(inputs)):
        nonzeros = [nz and x.dtype.kind == "f" for nz, x in zip(nonzeros, inputs, strict=True)]
        ts = [rng.normal(size=x.shape).astype("float32")
              for x, nz in zip(inputs, nonzeros, strict=True) if nz]
        inexact = [a.dtype.kind == "f" for a in jaxpr.out_avals]
        for instantiate in (False, inexact):
            parts = linearize_jaxpr(jaxpr, nonzeros, instantiate)
            outs = evaluate(parts.known, *inputs)
            tangents = evaluate(parts.unknown, *parts.residuals(inputs, outs), *ts)
            derived, nonzero_outs = jvp_jaxpr(jaxpr, nonzeros, instantiate)
            assert parts.unknown_outs == nonzero_outs
            close([*outs[:n], *tangents], evaluate(derived, *inputs, *ts))
            # Nothing is a residual twice, and nothing is one in vain.
            assert len(set(parts.residual_forwarding)) == len(parts.residual_forwarding)
            read = {v for e in parts.unknown.eqns for v in e.invars}
            assert all(v in read for v in parts.unknown.invars[:len(parts.residual_forwarding)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_functions(name):
    f, inputs = PROGRAMS[name]
    rng = np.random.default_rng(1)
    floats = [i for i, x in enumerate(inputs) if x.dtype.kind == "f"]
    ts = [rng.normal(size=inputs[i].shape).astype("float32") for i in floats]

    def g(*args):
        given = list(inputs)
        for i, a in zip(floats, args, strict=True):
            given[i] = a
        return [o for o in f(*given) if typeof(o).dtype.kind == "f"]

    point = [inputs[i] for i in floats]
    with mjax.disable_jit():
        outs, tangents = mjax.jvp(g, point, ts)
        found, f_jvp = mjax.linearize(g, *point)
        close(found, outs)
        close(f_jvp(*ts), tangents)
        close(f_jvp(*[2 * t for t in ts]), [2 * np.asarray(t) for t in tangents])


def test_the_function_runs_once():
    runs = []

    def f(x):
        runs.append(1)
        return lax.sin(x)

    y, f_jvp = mjax.linearize(f, X)
    close([y, f_jvp(Y), f_jvp(X)], [np.sin(X), np.cos(X) * Y, np.cos(X) * X])
    assert runs == [1]


def test_what_it_keeps_is_what_is_needed():
    def f(x):
        lax.exp(lax.exp(x))  # not a result: its derivative is not kept
        return lax.mul(lax.sin(x), 2.0)

    _, f_jvp = mjax.linearize(f, X)
    (kept,) = tree_leaves(f_jvp)
    close([kept], [np.cos(X)])
    _, f_vjp = mjax.vjp(f, X)
    (kept,) = tree_leaves(f_vjp)
    close([kept], [np.cos(X)])


def test_linear_programs_hold_no_work_on_primals():
    @mjax.jit
    def f(x, y):
        return lax.mul(lax.sin(lax.exp(x)), lax.cos(y))

    jaxpr = stage(lambda x, y: [f(x, y)], [typeof(X), typeof(Y)])
    parts = linearize_jaxpr(jaxpr, [True, True])
    (eqn,) = parts.unknown.eqns
    assert {e.primitive.name for e in eqn.params["jaxpr"].eqns} == {"mul", "neg", "add_any"}


def test_zeros_are_made_where_they_are_used():
    """An instantiated zero is staged; computed ahead it would be a residual."""
    jaxpr = stage(lambda x, y: [lax.sin(x), lax.exp(y)], [typeof(X), typeof(Y)])
    parts = linearize_jaxpr(jaxpr, [True, False], [True, True])
    assert parts.unknown_outs == [True, True] and len(parts.residual_forwarding) == 1
    assert "broadcast_in_dim" in [e.primitive.name for e in parts.unknown.eqns]


def test_has_aux_and_trees():
    (y, f_jvp, aux) = mjax.linearize(lambda d: ({"s": lax.sin(d["a"])}, d["b"]),
                                     {"a": X, "b": Y}, has_aux=True)
    close([y["s"], aux, f_jvp({"a": Y, "b": X})["s"]], [np.sin(X), Y, np.cos(X) * Y])


def test_integers():
    def f(n, x):
        return lax.mul(x, lax.convert_element_type(n, np.float32)), lax.add(n, 1)

    n = np.int32(3)
    (y, m), f_jvp = mjax.linearize(f, n, np.float32(2))
    t, t0 = f_jvp(np.zeros((), mjax.dtypes.float0), np.float32(1))
    assert (float(y), int(m), float(t)) == (6, 4, 3) and t0.dtype == mjax.dtypes.float0


def test_results_that_are_inputs_or_constants():
    y, f_jvp = mjax.linearize(lambda x: (x, 1.0, X, x), Y)
    close(f_jvp(X), [X, 0.0, 0 * X, X])
    assert float(y[1]) == 1.0


# ---- linearize rules -------------------------------------------------------------------


def cube(rule):
    cube_p = Primitive("cube")
    cube_p.def_abstract_eval(lambda x: x)
    cube_p.def_impl(lambda x: lax.integer_pow(x, 3))
    cube_p.def_linearize(rule)
    return cube_p


def test_a_rule_for_one_result():
    given = []

    def rule(nonzeros, x):
        assert nonzeros == [True]

        def linear(residuals, t):
            given.append(t)
            return lax.mul(t, residuals[0])

        return cube_p.bind(x), True, [lax.mul(3.0, lax.mul(x, x))], linear

    cube_p = cube(rule)
    y, f_jvp = mjax.linearize(cube_p.bind, np.float32(2))
    assert float(y) == 8 and float(f_jvp(np.float32(1))) == 12
    assert float(mjax.grad(lambda x: lax.mul(cube_p.bind(x), x))(np.float32(2))) == 32
    (kept,) = tree_leaves(f_jvp)
    assert float(kept) == 12


def test_a_rule_for_several_results():
    pair_p = Primitive("pair", multiple_results=True)
    pair_p.def_abstract_eval(lambda x, y: [x, y, x])
    pair_p.def_impl(lambda x, y: [lax.sin(x), lax.mul(y, 2.0), x])

    def rule(nonzeros, x, y):
        def linear(residuals, tx, ty):
            assert type(tx) is Zero or nonzeros[0]
            return [lax.mul(tx, residuals[0]) if nonzeros[0] else None,
                    lax.mul(ty, 2.0) if nonzeros[1] else None, None]

        return pair_p.bind(x, y), [*nonzeros, False], [lax.cos(x)], linear

    pair_p.def_linearize(rule)
    outs, f_jvp = mjax.linearize(lambda x: pair_p.bind(x, Y), X)
    close(f_jvp(Y), [np.cos(X) * Y, 0 * Y, 0 * X])
    outs, f_jvp = mjax.linearize(lambda x, y: pair_p.bind(x, y), X, Y)
    close(outs, [np.sin(X), 2 * Y, X])
    close(f_jvp(Y, X), [np.cos(X) * Y, 2 * X, 0 * X])


def test_what_the_linear_function_does_is_staged():
    """Work on residuals in it is done when the derivative is applied: the author's choice."""
    def rule(nonzeros, x):
        return cube_p.bind(x), True, [x], lambda r, t: lax.mul(t, lax.mul(3.0, lax.mul(*r, *r)))

    cube_p = cube(rule)
    linear = linearize_flat(lambda x: [cube_p.bind(x)], [np.float32(2)], [True],
                            debug_info=DebugInfo()).jaxpr
    assert [e.primitive.name for e in linear.eqns] == ["mul", "mul", "mul"]
    assert float(mjax.grad(cube_p.bind)(np.float32(2))) == 12


def test_a_rule_of_the_wrong_form():
    cube_p = cube(lambda nonzeros, x: (x, x))
    with pytest.raises(TypeError, match=r"linearize rule of primitive 'cube'.*return results, "):
        mjax.linearize(cube_p.bind, X)


def test_a_jvp_rule_whose_result_depends_on_a_tangent():
    swapped_p = Primitive("swapped")
    swapped_p.def_abstract_eval(lambda x: x)
    swapped_p.def_jvp(lambda primals, tangents: (tangents[0], primals[0]))
    with pytest.raises(TypeError, match=r"computed from tangents\. Results must depend on"):
        mjax.linearize(swapped_p.bind, X)


def test_a_failed_linearization_ends_its_tracers():
    kept = []
    leaking_p = Primitive("leaking")
    leaking_p.def_abstract_eval(lambda x: x)

    @leaking_p.def_jvp
    def _jvp(primals, tangents):
        kept.extend(tangents)
        raise KeyError

    with pytest.raises(KeyError):
        mjax.linearize(leaking_p.bind, X)
    with pytest.raises(UnexpectedTracerError):
        lax.neg(kept[0])
