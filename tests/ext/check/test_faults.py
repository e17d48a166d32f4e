"""The checker finds the mistakes that authors make, and reports each of them once."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

import mjax
from mjax import lax
from mjax.experimental import hijax
from mjax_ext import core
from mjax_ext.check import Finding, WrongRulesError, check_primitive
from mjax_ext.interpreters import ad, mlir, partial_eval
from tests.ext.check.faults import SILENT, TRIED, X, Y, product

FAULTS = TRIED | SILENT


def test_there_are_21_and_the_silent_ones():
    assert len(TRIED) == 21 and len(SILENT) == 3


def test_the_correct_primitive():
    report = check_primitive(product(), X, Y)
    assert report.ok, report
    report.raise_for_findings()
    assert report.not_checked.keys() == {"partial_eval"}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name):
    fault = FAULTS[name]
    p = fault.make()
    report = check_primitive(p, *fault.operands, **fault.params)
    found = [f for f in report.findings if f.rule in fault.rules]
    assert found, report
    assert re.search(fault.says, found[0].verdict), report
    assert len({f.rule for f in report.findings}) == len(report.findings), report
    for finding in report.findings:
        assert isinstance(finding, Finding) and finding.primitive is p
        assert finding.verdict and finding.consequence and finding.remedy
        assert re.match(r".*faults\.py:\d+$", finding.where), finding
        assert finding.rule in str(report)
    with pytest.raises(WrongRulesError, match=f"primitive '{p.name}'.*{found[0].rule}"):
        report.raise_for_findings()


def test_the_remedy_for_a_missing_rule_is_its_template():
    report = check_primitive(product(without=("batch",)), X, Y)
    assert report.findings[0].remedy.startswith(
        "Write one, as in:\n    from mjax_ext.interpreters import batching\n")
    assert "\n                   def product_batch(args, dims):\n" in str(report)


def test_the_remedy_for_a_primitive_that_holds_a_program_is_a_frame():
    p = core.Primitive("held product", multiple_results=True)
    p.def_abstract_eval(lambda *avals, program: program.out_avals)
    p.def_impl(lambda *args, program: core.eval_jaxpr(program, program.consts, *args))
    report = check_primitive(p, X, program=mjax.make_jaxpr(lax.sin)(X))
    (remedy,) = {f.remedy for f in report.findings if f.rule == "batch"}
    assert remedy.startswith("Its param 'program' holds a program. A frame derives this rule")
    assert "core.Frame(held_product_p, 'program')" in remedy


@pytest.mark.parametrize("rule", ["jvp", "transpose", "batch"])
def test_a_rule_that_was_left_out_is_not_a_finding(rule):
    p = product()
    p.without(rule, "Products are left as they are.")
    report = check_primitive(p, X, Y)
    assert report.ok, report
    assert report.declared == {rule: "Products are left as they are."}
    assert f"{rule:<15}declared: Products are left as they are." in str(report)


def test_params_that_the_schema_does_not_have():
    p = core.primitive_from_function("times_of_params", lambda x, *, n: x * n, params={"n": int})
    for params, says in (({}, "'n' is missing"), ({"m": 3}, "'m' is unknown")):
        (finding,) = check_primitive(p, X, **params).findings
        assert finding.rule == "params" and says in finding.verdict
    with mjax.enable_checks(False):
        (finding,) = check_primitive(p, X, n=3.0).findings
    assert finding.rule == "params" and "3.0 of type float" in finding.verdict


def test_the_transpose_of_a_function_that_is_not_linear_is_not_a_finding():
    p = core.primitive_from_function("cube_from_function", lambda x: x ** 3)
    report = check_primitive(p, X)
    assert report.ok, report


def test_checks_after_one_of_jvp_that_did_not_end():
    p = core.Primitive("dropped wrongly", multiple_results=True, params={})
    p.def_abstract_eval(lambda x: [x, x])
    p.def_lowering(lambda ctx, x: [x, x])
    partial_eval.dce_rules[p] = lambda used, eqn: ([True], None)
    report = check_primitive(p, X)
    assert [f.rule for f in report.findings] == ["dce"], report


def test_overflow_in_another_order_is_not_a_finding():
    """`inf - inf` is NaN, `inf * x` is not; sums with fused multiply-adds differ so, too."""
    p = core.Primitive("difference_of_squares")
    p.def_abstract_eval(lambda x, y: x)
    p.def_impl(lambda x, y: (x - y) * (x + y))
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: x * x - y * y, multiple_results=False))
    report = check_primitive(p, X, Y)
    assert "impl" in report.checked and "impl" not in {f.rule for f in report.findings}, report
    p.def_impl(lambda x, y: lax.min((x - y) * (x + y), 1e30))
    report = check_primitive(p, X, Y)
    (verdict,) = (f.verdict for f in report.findings if f.rule == "impl")
    assert "for very large values" in verdict


def test_a_rule_that_applies_the_primitive_to_what_it_does_not_take():
    """The abstract evaluation is right to refuse it."""
    def same_shapes(p):
        def type_of(x, y):
            if x.shape != y.shape:
                msg = f"the shapes {x.shape} and {y.shape} differ."
                raise TypeError(msg)
            return core.ShapedArray(x.shape, x.dtype, x.weak_type and y.weak_type)
        return type_of

    report = check_primitive(product(
        abstract_eval=same_shapes, batch=lambda p: lambda args, dims: (p.bind(*args), 0)), X, Y)
    (finding,) = report.findings
    assert finding.rule == "batch", report
    assert "raises, in the abstract evaluation, TypeError: the shapes" in finding.verdict
    assert "to operands that it takes" in finding.remedy


def test_a_wrong_dce_rule_is_not_a_fault_of_the_lowering():
    p = product()
    p.def_dce(lambda used, eqn: ([True], eqn))
    report = check_primitive(p, X, Y)
    assert [finding.rule for finding in report.findings] == ["dce"], report
    assert report.not_checked["lowering"] == (
        "it needs the removal of unused results, which is wrong.")


def test_the_table_has_each_rule_whose_check_a_fault_of_another_ended():
    p = product()

    def partial_eval_rule(trace, x, y):
        with core.eval_context():
            return p.bind(x, y)

    p.def_partial_eval(partial_eval_rule)
    report = check_primitive(p, X, Y)
    (finding,) = report.findings
    assert finding.rule == "partial_eval" and "raises, in the implementation," in finding.verdict
    assert finding.rule in report.rules and str(report).count("\npartial_eval ") == 1


def test_an_error_without_a_text_is_told_by_its_line():
    def transpose(ct, x, y):
        if ad.is_undefined_primal(x):
            raise ValueError
        return [None, lax.mul(x, ct)]

    p = product(transpose=lambda p: transpose)
    verdict = check_primitive(p, X, Y).findings[0].verdict
    assert re.search(r"raises ValueError by `raise ValueError` at .*faults\.py:\d+", verdict)


def test_a_wrong_tangent_of_linearization_is_named():
    def linearize(nonzeros, x, y):
        return p.bind(x, y), True, (x, y), lambda residuals, *ts: lax.mul(
            ad.instantiate_zeros(ts[0]), residuals[0])

    p = product()
    p.def_linearize(linearize)
    (finding,) = check_primitive(p, X, Y).findings
    assert finding.rule == "linearize" and "gives the tangent of the result as " in finding.verdict


def test_a_changed_operand_is_named():
    def impl(x, y):
        y *= 2
        return x * y

    (finding,) = check_primitive(product(impl=lambda p: impl), X, Y).findings
    assert "it leaves operand 1 as " in finding.verdict


def test_operands_that_are_objects_of_a_class():
    @dataclass(frozen=True)
    class Pair:
        low: mjax.Array
        high: mjax.Array

    @dataclass(frozen=True)
    class PairType(hijax.HiType):
        shape: tuple[int, ...]

        def lo_ty(self):
            return [core.ShapedArray(self.shape, X.dtype)] * 2

        def lower_val(self, pair):
            return [pair.low, pair.high]

        def raise_val(self, low, high):
            return Pair(low, high)

        def to_tangent_aval(self):
            return core.ShapedArray(self.shape, X.dtype)

    class Scaled(hijax.HiPrimitive):
        def abstract_eval(self, pair, x):
            return core.ShapedArray(x.shape, x.dtype), set()

        def to_lojax(self, pair, x):
            return (pair.high - pair.low) * x

        def jvp(self, primals, tangents):
            (pair, _), (_, dx) = primals, tangents
            return self.bind(*primals), self.bind(pair, dx)

        def transpose(self, ct, pair, x):
            return [None, self.bind(pair, ct) * self.factor]

    hijax.register_hitype(Pair, lambda pair: PairType(pair.low.shape))
    for factor, wrong in ((1, []), (2, ["transpose"])):
        p = Scaled(f"scaled by a pair {factor}")
        p.factor = factor
        p.without("batch", "Pairs are alone.")
        report = check_primitive(p, Pair(X, Y), X)
        assert [finding.rule for finding in report.findings] == wrong, str(report)
        assert {"lowering", "jvp", "determinism"} <= set(report.checked)
