"""Findings about the rules of a primitive, and their table."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.records import Record

#: The rules that are checked, and what each of them is.
RULES = {
    "params": "the params",
    "abstract_eval": "the abstract evaluation",
    "impl": "the implementation",
    "lowering": "the lowering",
    "effects": "the effects",
    "determinism": "whether rules give the same each time",
    "batch": "the batching rule",
    "jvp": "the jvp rule",
    "linearize": "the linearize rule, or linearization by the jvp rule",
    "transpose": "the transpose rule",
    "partial_eval": "the rule for operands of which some are known",
    "dce": "the removal of unused results",
    "recompute": "rematerialization",
    "varying": "the mesh axes along which results vary",
}


class Finding(Record):
    """A fault of a rule.

    Attributes:
      primitive: the primitive.
      rule: the rule, a key of `RULES`. Where two rules disagree, it is one of them.
      verdict: what is wrong.
      consequence: what users will see.
      remedy: what to do.
      where: `file:line` of the rule; empty if that is not known.
    """

    primitive: Any
    rule: str
    verdict: str
    consequence: str
    remedy: str
    where: str

    def __str__(self) -> str:
        return (f"primitive {self.primitive.name!r}, rule {self.rule}: {self.verdict} "
                f"{self.consequence} {self.remedy}" + (f" ({self.where})" if self.where else ""))


class WrongRulesError(AssertionError):
    """A check found faults in the rules of a primitive.

    Attributes:
      report: the report.
    """

    __module__ = "mjax_ext.check"

    def __init__(self, report: Report):
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> Any:
        return AssertionError, self.args


class Report:
    """The result of `check_primitive`; prints as a table.

    Attributes:
      primitive: the primitive.
      application: the primitive with its operands' types and its params, as text.
      findings: the faults.
      checked: the rules that were checked and found right.
      not_checked: rule -> why it was not checked, or not to the end.
    """

    def __init__(self, primitive: Any, application: str, findings: Sequence[Finding],
                 checked: Sequence[str], not_checked: dict[str, str]):
        self.primitive = primitive
        self.application = application
        self.findings = list(findings)
        self.checked = list(checked)
        self.not_checked = dict(not_checked)

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def raise_for_findings(self) -> None:
        """Raises an error that names the primitive and its wrong rules, if there are some.

        Raises:
          WrongRulesError: an `AssertionError`; there are findings.
        """
        if self.findings:
            raise WrongRulesError(self)

    def __repr__(self) -> str:
        return f"<Report: {self._headline()}>"

    def __str__(self) -> str:
        lines = [f"{self._headline()}: {self.application}", ""]
        for rule in RULES:
            found = [finding for finding in self.findings if finding.rule == rule]
            for finding in found:
                place = [f"at {finding.where}"] if finding.where else []
                lines += _row(rule, f"WRONG: {finding.verdict}", finding.consequence,
                              finding.remedy, *place)
            reason = self.not_checked.get(rule)
            if not found and rule in self.checked:
                lines += _row(rule, f"right as far as it was checked: {reason}" if reason else
                              "right")
            elif not found and reason:
                lines += _row(rule, f"not checked: {reason}")
        return "\n".join(lines)

    def _headline(self) -> str:
        count = len(self.findings)
        wrong = ", ".join(dict.fromkeys(finding.rule for finding in self.findings))
        return f"primitive {self.primitive.name!r}, " + (
            "no findings" if not count else
            f"{count} finding{'s' if count > 1 else ''} ({wrong})")


def _row(rule: str, *sentences: str) -> list[str]:
    """The lines of a rule in the table."""
    lines = []
    for sentence in sentences:
        lines += textwrap.wrap(sentence, 82, break_long_words=False, break_on_hyphens=False)
    return [f"{name:<15}{line}" for name, line in zip([rule] + [""] * len(lines), lines)]
