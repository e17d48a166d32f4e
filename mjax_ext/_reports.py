"""Reports of checkers: what was found about an object, and a table of it.

`mjax_ext.check` and `mjax_ext.random` have checkers of primitives and of generators.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from mjax._engine.base.faces import rehome
from mjax._engine.base.util import counted

FindingT = TypeVar("FindingT")


class WrongRulesError(AssertionError):
    """A check found faults in the rules of a primitive or the functions of a generator.

    Attributes:
      report: the report.

    Example:
      >>> from mjax_ext.check import WrongRulesError, check_primitive
      >>> from mjax_ext.core import Primitive
      >>> try:
      ...     check_primitive(Primitive("without rules"), 1.0).raise_for_findings()
      ... except WrongRulesError as error:
      ...     print(error.report.ok)
      False
    """

    report: BaseReport[Any]

    def __init__(self, report: BaseReport[Any]):
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> Any:
        return AssertionError, self.args


rehome(WrongRulesError, "mjax_ext.check")


class BaseReport(Generic[FindingT]):
    """The result of a checker; prints as a table.

    Attributes:
      rules: what the checker looks at, in the order of the table.
      application: what the headline ends with; may be empty.
      findings: the faults: records with `rule`, `verdict`, `consequence`, `remedy` and `where`.
      checked: the rules that were checked and found right.
      not_checked: rule -> why it was not checked, or not to the end.
    """

    rules: ClassVar[Iterable[str]]
    application: str = ""
    findings: list[FindingT]
    checked: list[str]
    not_checked: dict[str, str]

    def __init__(self, findings: Sequence[FindingT], checked: Sequence[str],
                 not_checked: Mapping[str, str]):
        self.findings = list(findings)
        self.checked = list(checked)
        self.not_checked = dict(not_checked)

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def raise_for_findings(self) -> None:
        """Raises an error that names the object and its wrong rules, if there are some.

        Raises:
          WrongRulesError: an `AssertionError`; there are findings.
        """
        if self.findings:
            raise WrongRulesError(self)

    def _subject(self) -> str:
        """The object that was checked, as text."""
        raise NotImplementedError

    def _declared(self, rule: str) -> str | None:
        """Why a rule is an exception, as the author of the object declared."""
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._headline()}>"

    def __str__(self) -> str:
        lines = [f"{self._headline()}: {self.application}" if self.application else
                 self._headline(), ""]
        for rule in self.rules:
            found = self._found(rule)
            for finding in found:
                place = [f"at {finding.where}"] if finding.where else []
                lines += _row(rule, f"WRONG: {finding.verdict}", finding.consequence,
                              finding.remedy, *place)
            reason = self.not_checked.get(rule)
            declared = self._declared(rule)
            if not found and declared:
                lines += _row(rule, f"declared: {declared}")
            elif not found and rule in self.checked:
                lines += _row(rule, f"right as far as it was checked: {reason}" if reason else
                              "right")
            elif not found and reason:
                lines += _row(rule, f"not checked: {reason}")
        return "\n".join(lines)

    def _found(self, rule: str) -> list[Any]:
        findings: list[Any] = self.findings
        return [finding for finding in findings if finding.rule == rule]

    def _headline(self) -> str:
        count = len(self.findings)
        wrong = ", ".join(rule for rule in self.rules if self._found(rule))
        return f"{self._subject()}, " + (
            "no findings" if not count else
            f"{counted(count, 'finding')} ({wrong})")


def sentence(subject: str, finding: Any) -> str:
    """A finding in one line.

    Args:
      subject: the object that was checked.
      finding: a record with `rule`, `verdict`, `consequence`, `remedy` and `where`.
    """
    return (f"{subject}, rule {finding.rule}: {finding.verdict} {finding.consequence} "
            f"{finding.remedy}" + (f" ({finding.where})" if finding.where else ""))


def _row(rule: str, *sentences: str) -> list[str]:
    """The lines of a rule in the table."""
    lines = []
    for text in sentences:
        for line in text.splitlines():
            lines += [line] if line.startswith("    ") else textwrap.wrap(  # code stays as it is
                line, 82, break_long_words=False, break_on_hyphens=False)
    return [f"{name:<15}{line}" for name, line in zip([rule] + [""] * len(lines), lines)]
