"""Rules that deviate on purpose, operands that belong together, and what is not evaluated."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.check import Operands, check_primitive
from mjax_ext.interpreters import ad, batching
from mjax_ext.interpreters.mlir import hlo
from tests.ext.check.faults import X, Y, changed, on_square, product, twice, without_second

WRONG = {"jvp": twice, "batch": on_square, "transpose": without_second}


# ---- rules that deviate ------------------------------------------------------------------


@pytest.mark.parametrize("declared", WRONG)
def test_a_declaration_exempts_one_rule(declared):
    p = product("wrong in three ways")
    for rule, change in WRONG.items():
        made = getattr(changed(rule, change)(), rule)
        getattr(p, f"def_{rule}")(made)
    p.deviates(declared, "It is meant.")
    report = check_primitive(p, X, Y)
    assert {f.rule for f in report.findings} == WRONG.keys() - {declared}, report
    assert report.declared == {declared: "It is meant."}
    assert f"{declared:<15}declared: It is meant." in str(report)
    assert declared not in report.checked and declared not in report.not_checked


def test_rules_that_need_one_that_deviates():
    """Linearization and transposes are those of the derivative, whatever that is."""
    p = changed("jvp", twice)()
    p.deviates("jvp", "It is meant.")
    report = check_primitive(p, X, Y)
    assert report.ok and {"linearize", "transpose", "recompute"} <= {*report.checked}, report
    p = changed("jvp", twice)()
    p.def_linearize(lambda nonzeros, x, y: (p.bind(x, y), True, [x, y], lambda xy, dx, dy: lax.mul(
        dx, xy[1])))
    p.deviates("jvp", "It is meant.")
    report = check_primitive(p, X, Y)
    assert [f.rule for f in report.findings] == ["linearize"], report


def test_a_lowering_that_refuses():
    p = product("refusing", lowering=lambda p: lambda ctx, x, y: [][0])
    p.deviates("lowering", "It is evaluated alone.")
    report = check_primitive(p, X, Y)
    assert report.ok and report.declared.keys() == {"lowering"}, report
    assert {"batch", "jvp", "transpose", "dce"} <= {*report.checked}
    assert report.not_checked["varying"] == "it needs the lowering, which deviates on purpose."


def test_results_that_vary():
    numbers = np.random.default_rng(0)
    p = product("noisy", without=("lowering",), impl=lambda p: (
        lambda x, y: x * y + numbers.standard_normal(np.shape(x)).astype("float32")))
    assert [f.rule for f in check_primitive(p, X, Y).findings] == ["lowering", "determinism"]
    p.deviates("determinism", "It is noise.")
    report = check_primitive(p, X, Y)
    assert [f.rule for f in report.findings] == ["lowering"], report
    assert report.declared == {"determinism": "It is noise."}


def test_a_declaration_that_examples_do_not_show():
    p = product()
    p.deviates("batch", "Once it did.")
    report = check_primitive(p, X, Y)
    assert report.ok and not report.declared and "batch" in report.checked
    assert "right as far as it was checked: it is declared to deviate, which these" in str(report)


# ---- operands that belong together -------------------------------------------------------


N = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], np.float32)


def times(name="times", factor=1.0):
    """`x * y`, given `2 * y` too: the lowering computes `x * (2y - y)`."""
    p = core.Primitive(name)
    p.def_impl(lambda x, y, twice: np.asarray(x) * np.asarray(y))
    p.def_abstract_eval(lambda x, y, twice: core.ShapedArray(x.shape, x.dtype))
    p.def_lowering(lambda ctx, x, y, twice: hlo.MulOp(x, hlo.subtract(twice, y)).results)
    p.def_jvp(lambda xs, dots: (p.bind(*xs), lax.add(
        lax.mul(ad.instantiate_zeros(dots[0]), lax.mul(lax.full_like(xs[1], factor), xs[1])),
        lax.mul(ad.instantiate_zeros(dots[1]), xs[0]))))
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(*[
        batching.bdim_at_front(x, d, batch_size(args, dims)) for x, d in zip(args, dims)]), 0)
    return p


def batch_size(args, dims):
    return next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)


def test_operands_that_belong_together():
    fit = lambda x, y, twice: (x, y, lax.add(y, y))
    report = check_primitive(times(), X, N, 2 * N)
    assert {f.rule for f in report.findings} == {"impl"}, report
    report = check_primitive(times(), Operands((X, N, 2 * N), fit))
    assert report.ok and {"batch", "jvp", "lowering", "varying"} <= {*report.checked}, report
    report = check_primitive(times(factor=2.0), Operands((X, N, 2 * N), fit))
    assert [f.rule for f in report.findings] == ["jvp"], report


def test_they_are_a_tuple():
    operands = Operands([X, Y])
    assert operands == (X, Y) and operands.fit is None
    assert isinstance(product().bind(*operands), np.ndarray)
    with pytest.raises(TypeError, match="example 0 must be an array"):
        check_primitive(product(), operands, X)
    assert check_primitive(core.primitives.mul_p, Operands((2.0, 3.0))).ok


# ---- backward passes ---------------------------------------------------------------------


def backward(**changes):
    """`cos(x) * dx`, as a rule leaves it in linear programs: it is only transposed."""
    p = core.Primitive("backward pass")
    rules = {
        "abstract_eval": lambda x, dx: core.ShapedArray(dx.shape, dx.dtype),
        "transpose": lambda ct, x, dx: [None, lax.mul(ct, lax.cos(x))],
        "batch": lambda args, dims: (p.bind(*[
            batching.bdim_at_front(x, d, batch_size(args, dims))
            for x, d in zip(args, dims)]), 0)}
    for rule, function in (rules | changes).items():
        getattr(p, f"def_{rule}")(function)
    for rule in ("impl", "lowering", "jvp"):
        p.without(rule, "It is only transposed.")
    return p


SINE = Operands((X, Y), forward=lambda x, dx: [lax.mul(lax.cos(x), dx)], linear=(1,))


def test_a_backward_pass():
    report = check_primitive(backward(), SINE)
    assert report.ok and {"abstract_eval", "batch", "transpose", "dce"} <= {*report.checked}, report
    assert report.declared.keys() == {"impl", "lowering", "jvp"}
    assert backward().rules()["lowering"] == "left out: It is only transposed."


@pytest.mark.parametrize(("rule", "function"), [
    ("abstract_eval", lambda x, dx: core.ShapedArray((9,), dx.dtype)),
    ("transpose", lambda ct, x, dx: [None, lax.mul(ct, lax.sin(x))]),
    ("transpose", lambda ct, x, dx: [None, None]),
    ("batch", lambda args, dims: (lax.mul(*[batching.bdim_at_front(
        x, d, batch_size(args, dims)) for x, d in zip(args, dims)]), 0))])
def test_a_wrong_rule_of_a_backward_pass(rule, function):
    report = check_primitive(backward(**{rule: function}), SINE)
    assert [f.rule for f in report.findings] == [rule], report


@pytest.mark.parametrize("factor", [1, 2])
def test_reverse_mode_alone(factor):
    """It is compared with differences, where there is no jvp."""
    f = mjax.custom_vjp(lambda x: x * x * x)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * x * x * 3 * factor,))
    (eqn,) = mjax.make_jaxpr(f)(X).eqns
    report = check_primitive(core.primitives.custom_vjp_call_p, X, **eqn.params)
    assert report.declared.keys() == {"jvp"}
    assert [f.rule for f in report.findings] == ["linearize"] * (factor - 1), report
    assert ("linearize" in report.checked) == (factor == 1)
    if factor == 2:
        assert "2 times what it should be" in report.findings[0].verdict


def test_reverse_mode_alone_of_a_small_result():
    """It is compared by itself: beside a large result it would not be seen."""
    f = mjax.custom_vjp(lambda x: (x * 1e3, lax.sin(x)))
    f.defvjp(lambda x: (f(x), x), lambda x, cts: (cts[0] * 1e3 + cts[1] * lax.cos(x) * 2,))
    (eqn,) = mjax.make_jaxpr(f)(X).eqns
    report = check_primitive(core.primitives.custom_vjp_call_p, X, **eqn.params)
    assert [f.rule for f in report.findings] == ["linearize"], report
    assert "differences of result 1" in report.findings[0].verdict
    assert "2 times what it should be" in report.findings[0].verdict


def test_operands_that_are_given_wrongly():
    add = core.primitives.add_p
    for given, error, text in [
            ({"fit": 3}, TypeError, "fit must be a function of operands, got 3"),
            ({"forward": 3, "linear": (1,)}, TypeError, "forward must be a function"),
            ({"linear": 1}, TypeError, "linear must hold numbers"),
            ({"linear": (1,)}, ValueError, "not given without it"),
            ({"forward": lax.add}, ValueError, "not given without it"),
            ({"forward": lax.add, "linear": (2,)}, ValueError, "for 2 operands"),
            ({"fit": lambda x, y: [x]}, TypeError, "fit must give operands of the types"),
            ({"fit": lambda x, y: x}, TypeError, "fit must give operands of the types"),
            ({"fit": lambda x, y: (x, y[:1])}, TypeError, "fit must give operands of the types"),
            ({"fit": lambda x: x}, TypeError, "positional argument")]:
        with pytest.raises(error, match=text):
            check_primitive(add, Operands((X, Y), **given))


# ---- other platforms ---------------------------------------------------------------------


@pytest.mark.parametrize("results", [1, 2])
def test_a_lowering_for_another_platform(results):
    other = "tpu" if mjax.default_backend() == "cpu" else "cpu"
    p = product("elsewhere", without=("impl", "lowering"))
    p.def_lowering(lambda ctx, x, y: [hlo.multiply(x, y)] * results, platform=other)
    report = check_primitive(p, X, Y)
    assert [f.rule for f in report.findings] == ["lowering"] * (results - 1), report
    if results == 1:
        assert report.not_checked["lowering"] == (
            f"it is for {other} alone. It lowers there; its values were not compared.")
        assert report.not_checked["batch"] == f"it needs the lowering, which is for {other} alone."
