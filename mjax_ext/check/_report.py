"""Findings about the rules of a primitive, and their table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from mjax._engine.base.records import Record
from mjax_ext._reports import BaseReport, sentence

#: The rules that are checked, and what each of them is.
RULES = {
    "params": "the params",
    "abstract_eval": "the abstract evaluation",
    "impl": "the implementation",
    "lowering": "the lowering",
    "effects": "the effects",
    "determinism": "the determinism of the rules",
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
      rule: the rule, a key of `RULES`. If two rules disagree, it is one of them.
      verdict: what is wrong.
      consequence: what users will see.
      remedy: what to do.
      where: `file:line` of the rule; empty if that is not known.

    Example:
      >>> from mjax_ext.check import check_primitive
      >>> from mjax_ext.core import Primitive
      >>> finding = check_primitive(Primitive("without a type"), 1.0).findings[0]
      >>> finding.rule, finding.verdict
      ('abstract_eval', 'there is none.')
    """

    primitive: Any
    rule: str
    verdict: str
    consequence: str
    remedy: str
    where: str

    def __str__(self) -> str:
        return sentence(f"primitive {self.primitive.name!r}", self)


class Report(BaseReport[Finding]):
    """The result of `check_primitive`; prints as a table.

    Attributes:
      primitive: the primitive.
      application: the primitive with its operands' types and its params, as text.
      findings: the faults.
      checked: the rules that were checked and found right.
      not_checked: rule -> why it was not checked, or not to the end.
      declared: rule -> the author's reason why it is not there (`p.without`), or deviates and was
        found to (`p.deviates`). `findings` does not have these.

    Example:
      >>> from mjax_ext.check import check_primitive
      >>> from mjax_ext.core.primitives import neg_p
      >>> report = check_primitive(neg_p, 1.0)
      >>> report.ok, "jvp" in report.checked
      (True, True)
    """

    rules: ClassVar[Iterable[str]] = RULES
    primitive: Any
    declared: dict[str, str]

    def __init__(self, primitive: Any, application: str, findings: Sequence[Finding],
                 checked: Sequence[str], not_checked: dict[str, str],
                 declared: Mapping[str, str] = MappingProxyType({})):
        super().__init__(findings, checked, not_checked)
        self.declared = dict(declared)
        self.primitive = primitive
        self.application = application

    def _declared(self, rule: str) -> str | None:
        return self.declared.get(rule)

    def _subject(self) -> str:
        return f"primitive {self.primitive.name!r}"
