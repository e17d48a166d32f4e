"""The checker finds the mistakes that authors make, and reports each of them once."""

from __future__ import annotations

import re

import pytest

from mjax_ext.check import Finding, WrongRulesError, check_primitive
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
