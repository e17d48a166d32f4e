"""Jaxprs: the checker refuses what is ill typed, the printer prints the grammar."""

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir import check
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var
from mjax._engine.ir.types import ShapedArray, typeof
from mjax.errors import JaxprTypeError

F3 = ShapedArray((3,), "float32")
X = np.ones(3, np.float32)


def sine(var_in, var_out):
    return JaxprEqn([var_in], [var_out], lax.sin_p, {}, frozenset(), None)


def test_printer_prints_the_grammar():
    jaxpr = mjax.make_jaxpr(lambda x: lax.mul(lax.sin(x), 2.0))(X)
    assert str(jaxpr) == ("{ lambda  ; a:f32[3]. let\n    b:f32[3] = sin a\n"
                          "    c:f32[3] = mul b 2.0:~f32[]\n  in (c,) }")


def test_printer_shows_the_users_line():
    jaxpr = mjax.make_jaxpr(lax.sin)(X)
    jaxpr_here = mjax.make_jaxpr(lambda x: lax.sin(x))(X)
    assert "test_jaxpr.py" in jaxpr_here.pretty_print(source_info=True)
    assert "\033[" in jaxpr.pretty_print(use_color=True)


def test_printer_names_beyond_z():
    def f(x):
        for _ in range(30):
            x = lax.sin(x)
        return x
    assert "ab:f32[3] = sin aa" in str(mjax.make_jaxpr(f)(X))


def test_unused_results_are_dropped_in_print():
    def f(x):
        lax.sin(x)
        return x
    assert "_:f32[3] = sin a" in str(mjax.make_jaxpr(f)(X))


def test_closed_jaxpr_is_the_same_class():
    jaxpr = mjax.make_jaxpr(lambda x: lax.add(x, mjax.device_put(X)))(X)
    assert ClosedJaxpr is Jaxpr and jaxpr.jaxpr is jaxpr
    other = ClosedJaxpr(jaxpr, [2 * X])
    np.testing.assert_array_equal(other.consts[0], 2 * X)
    check_jaxpr(other)


def test_checker_accepts_what_tracing_builds():
    check_jaxpr(mjax.make_jaxpr(mjax.grad(lambda x: lax.reduce_sum(lax.exp(x), (0,))))(X))


def test_checker_refuses_unbound_variables():
    a, b, c = Var(F3), Var(F3), Var(F3)
    with pytest.raises(JaxprTypeError, match="used but not bound(.|\n)*sin"):
        check_jaxpr(Jaxpr([], [a], [c], [sine(b, c)]))
    with pytest.raises(JaxprTypeError, match="used but not bound"):
        check_jaxpr(Jaxpr([], [a], [b], []))


def test_checker_refuses_variables_bound_twice():
    a, b = Var(F3), Var(F3)
    with pytest.raises(JaxprTypeError, match="bound twice"):
        check_jaxpr(Jaxpr([], [a], [b], [sine(a, b), sine(a, b)]))


def test_checker_refuses_wrong_result_types():
    a, b = Var(F3), Var(ShapedArray((4,), "float32"))
    with pytest.raises(JaxprTypeError, match=r"bound at type float32\[4\], inferred float32\[3\]"):
        check_jaxpr(Jaxpr([], [a], [b], [sine(a, b)]))


def test_checker_refuses_wrong_literals_and_consts():
    a, b = Var(F3), Var(F3)
    literal = Literal(2, F3)
    eqn = JaxprEqn([a, literal], [b], lax.add_p, {}, frozenset(), None)
    with pytest.raises(JaxprTypeError, match="literal"):
        check_jaxpr(Jaxpr([], [a], [b], [eqn]))
    with pytest.raises(JaxprTypeError, match="constant of type"):
        check_jaxpr(Jaxpr([a], [], [a], [], consts=[np.int32(1)]))


def test_checker_looks_into_params():
    inner_in, inner_out = Var(F3), Var(F3)
    bad = Jaxpr([], [inner_in], [inner_out], [])
    a, b = Var(F3), Var(F3)
    good = mjax.make_jaxpr(mjax.jit(lax.sin))(X)
    eqn = good.eqns[0].replace(invars=[a], outvars=[b],
                               params={**good.eqns[0].params, "jaxpr": bad})
    with pytest.raises(JaxprTypeError, match="not bound"):
        check_jaxpr(Jaxpr([], [a], [b], [eqn]))


def test_equations_have_jaxs_order():
    with mjax.experimental.compute_on.compute_on("device_host"):
        old, = mjax.make_jaxpr(lax.sin)(X).eqns
    assert old[:5] == (old.invars, old.outvars, old.primitive, old.params, old.effects)
    args = (old.invars, old.outvars, lax.cos_p, old.params, old.effects)
    assert JaxprEqn(*args) == (*args, None)
    for new in JaxprEqn(*args, old.source_info), JaxprEqn(*args, None, old.ctx):
        assert new.ctx == old.ctx and new.ctx.compute_type == "device_host"
    assert JaxprEqn(*args, old.source_info).source_info.traceback is old.source_info.traceback


def test_another_program_with_the_same_constants():
    jaxpr = mjax.make_jaxpr(lambda x: (x + X, x))(X)
    other = jaxpr.map_jaxpr(lambda jaxpr: jaxpr.replace(outvars=jaxpr.outvars[:1]))
    assert other.consts == jaxpr.consts and len(other.out_avals) == 1
    with pytest.raises(ValueError, match="a jaxpr of 1 constant is given 2 values for them"):
        ClosedJaxpr(jaxpr, [X, X])


def test_names_of_arguments_and_results():
    info = mjax.make_jaxpr(lambda x, y: x)(X, X).debug_info
    assert info.safe_arg_names(2) == ("x", "y") and info.filter_arg_names([False, True]) == ("y",)
    assert info.safe_result_paths(2) == ("", "") and info.filter_result_paths([True]) is None
    assert info.func_filename == __file__ and info.func_lineno > 1
    assert info.replace_func_name("f").func_src_info.startswith("f at ")
    unknown = DebugInfo()
    assert unknown.safe_arg_names(1) == ("",) and unknown.filter_arg_names([True]) is None
    assert unknown.func_filename is unknown.func_lineno is None
    resolved = info._replace(result_paths=lambda: ["a", "b"]).resolve_result_paths()
    assert resolved.filter_result_paths([True, False]) == ("a",)
    assert resolved.resolve_result_paths() is resolved
    with pytest.raises(ValueError, match=r"DebugInfo.arg_names has 2 names \(.*\), not 3"):
        info.safe_arg_names(3)
    with pytest.raises(ValueError, match="DebugInfo.result_paths has 2 names"):
        resolved.safe_result_paths(1)


def test_replace_keeps_the_rest():
    jaxpr = mjax.make_jaxpr(lax.sin)(X)
    other = jaxpr.replace(outvars=jaxpr.invars)
    assert other.eqns == jaxpr.eqns and other.out_avals == [typeof(X)]


def test_checker_looks_at_a_shared_jaxpr_once(monkeypatch):
    f = lambda x: lax.neg(x)
    for _ in range(6):
        f = (lambda g: mjax.jit(lambda x: lax.add(g(x), g(x))))(f)
    with mjax.enable_checks(False):
        jaxpr, checked = mjax.make_jaxpr(f)(1.0), []
    monkeypatch.setattr(check, "check_jaxpr", lambda j: (checked.append(j), check_jaxpr(j)))
    check_jaxpr(jaxpr)
    assert len(checked) == len(set(checked)) == 6
