"""One run of the checker: its findings so far, and what they keep it from checking."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyNoDerivativeError, LazyNoForwardModeError
from mjax._engine.base.records import Record
from mjax._engine.tracing import rule_errors
from mjax._engine.tracing.exceptions import has_rule
from mjax._engine.tracing.rule_errors import where
from mjax_ext.check._application import Application
from mjax_ext.check._report import RULES, Finding, Report

#: The consequence for users of a fault in each rule.
CONSEQUENCES = {
    "params": "Caches and programs that hold the params go wrong.",
    "abstract_eval": "Programs (jit, grad, vmap) are typed by it: they fail, or give other types "
                     "than evaluation does.",
    "impl": "Evaluation outside of jit fails, or gives other results than programs do.",
    "lowering": "jit fails, or gives other results than evaluation does.",
    "effects": "The compiler may drop, repeat or reorder the effect.",
    "determinism": "Results differ between runs, and programs are compiled again.",
    "batch": "vmap fails, or gives other results than a loop does.",
    "jvp": "jvp and grad fail, or give wrong derivatives.",
    "linearize": "linearize, vjp and grad fail, or give wrong derivatives.",
    "transpose": "grad, vjp and linear_transpose fail, or give wrong derivatives.",
    "partial_eval": "Programs of which some inputs are known, as grad makes them, go wrong.",
    "dce": "Programs whose results are not all used go wrong.",
    "recompute": "grad of a function under mjax.checkpoint goes wrong.",
    "varying": "shard_map gives the values of one device for those of all, or wrong gradients.",
}


class Stop(Exception):
    """A fault has been reported; the step that found it ends. Its argument is the rule at fault."""


class Refusal(Exception):
    """A rule says that there is no derivative; the step that met it ends."""


class Step(Record):
    """A part of the check.

    Attributes:
      rule: the rule that it is about.
      needs: rules that must not have been found wrong, besides the rule itself; "evaluation" is
        the implementation, or the lowering if there is none.
      check: the function of the run. It returns None, or why it could not check.
    """

    rule: str
    needs: tuple[str, ...]
    check: Callable[[Run], str | None]


class Run:
    """The state of a check.

    Attributes:
      application: what is checked.
      random: the source of values. It is the same in each run.
      findings: the faults so far.
      unusable: the rules without which checks that need them mean nothing -> what they are.
      checked: the rules that steps have checked to their end.
      not_checked: rule -> why not.
      declared: rule -> why it deviates on purpose, for those that were found to.
      facts: what steps leave to later ones.
      active: how many checks are running.
    """

    active: ClassVar[int] = 0

    def __init__(self, application: Application):
        self.application = application
        self.primitive = application.primitive
        self.random = np.random.default_rng(0)
        self.findings: list[Finding] = []
        self.unusable: dict[str, str] = {}
        self.checked: dict[str, None] = {}
        self.not_checked: dict[str, str] = {}
        self.declared: dict[str, str] = {}
        self.facts: dict[str, Any] = {}

    # -- steps --

    def take(self, steps: Sequence[Step]) -> Report:
        """Takes the steps in order, and reports.

        Rules may warn of values that are not finite, and of empty ones.
        """
        Run.active += 1
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._take(steps)
        finally:
            Run.active -= 1
        declared = dict(self.declared)
        for rule, why in self.primitive.exceptions.items():
            if not has_rule(self.primitive, rule):
                declared[rule] = why
            elif rule in self.checked and rule not in declared:
                self.not_checked[rule] = (
                    f"it is declared to deviate, which these examples do not show: {why}")
        other = {*self.wrong(), *declared}
        return Report(self.primitive, str(self.application), self.findings,
                      [rule for rule in self.checked if rule not in declared],
                      {rule: why for rule, why in self.not_checked.items() if rule not in other},
                      declared)

    def _take(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.rule in self.unusable:
                continue
            lost = next(filter(None, map(self.lost, step.needs)), None)
            if lost is not None:
                self.not_checked.setdefault(step.rule, self._lacks(lost))
                continue
            try:
                with self.blaming(step.rule, "the check"):
                    reason = step.check(self)
            except Stop as stop:
                (rule,) = stop.args
                if rule != step.rule:
                    self.not_checked.setdefault(step.rule, self._lacks(rule))
                continue
            except Refusal as refusal:
                reason = str(refusal)
            if reason is None:
                self.checked[step.rule] = None
            else:
                self.not_checked.setdefault(step.rule, reason)

    def _lacks(self, rule: str) -> str:
        """Why a step did not end, for a rule that it needs."""
        return f"it needs {RULES[rule]}, which {self.unusable[rule]}."

    def lost(self, need: str) -> str | None:
        """The wrong rule that keeps a step from what it needs, if there is one."""
        if need == "evaluation":
            if self.application.given.forward is not None:
                return None
            need = "impl" if self.primitive.impl is not None else "lowering"
        return need if need in self.unusable else None

    def wrong(self) -> set[str]:
        """The rules that were found wrong."""
        return {finding.rule for finding in self.findings}

    # -- findings --

    def deviates(self, rule: str) -> bool:
        """Whether the author declared that a rule deviates, as it was found to."""
        reason = self.primitive.exceptions.get(rule)
        if reason is None:
            return False
        self.declared[rule] = reason
        return True

    def forget(self, rule: str) -> None:
        """Takes the finding back that a rule got last."""
        if self.findings and self.findings[-1].rule == rule:
            self.findings.pop()
            self.unusable.pop(rule, None)

    def _said(self, rule: str) -> str:
        """What a rule is that others cannot rely on."""
        return "deviates on purpose" if rule in self.declared else "is wrong"

    def report(self, rule: str, verdict: str, remedy: str, consequence: str = "",
               usable: bool = False) -> None:
        """Adds a finding, unless the author declared that the rule deviates.

        Args:
          rule: the rule.
          verdict, remedy, consequence: see `Finding`.
          usable: whether checks that need the rule may go on.
        """
        if not self.deviates(rule):
            self.findings.append(Finding(
                self.primitive, rule, verdict, consequence or CONSEQUENCES[rule], remedy,
                self.place(rule)))
        if not usable:
            self.unusable[rule] = self._said(rule)

    def fault(self, rule: str, verdict: str, remedy: str, consequence: str = "") -> NoReturn:
        """Adds a finding, and ends the step."""
        self.report(rule, verdict, remedy, consequence)
        raise Stop(rule)

    def require_same(self, rule: str, what: str, found: str | None, remedy: str) -> None:
        """Reports a difference between two computations, if there is one.

        Args:
          rule: the rule to report.
          what: the computation, as a subject: "vmap with in_axes=(0, None)".
          found: how it differs (`_compare.difference`).
          remedy: what to do.
        """
        if found:
            self.fault(rule, f"{what} gives {found}.", remedy)

    @contextmanager
    def blaming(self, rule: str, what: str) -> Iterator[None]:
        """Reports exceptions as faults of the rule that they name, or else of this one.

        Args:
          rule: the rule that runs.
          what: the computation, as a subject.
        """
        try:
            yield
        except (Stop, Refusal):
            raise
        except LazyNoDerivativeError as error:
            if isinstance(error, LazyNoForwardModeError):
                self.facts["reverse alone"] = True
            if self.deviates(at_fault := self.rules_named(error, rule)[-1]):
                self.unusable[at_fault] = self._said(at_fault)
            raise Refusal(f"{what} is refused: {first_lines(error)}") from None
        except Exception as error:
            *inner, at_fault = self.rules_named(error, rule)
            if at_fault in self.unusable:
                raise Stop(at_fault) from None
            if isinstance(error, NotImplementedError) and _MISSING.match(str(error)):
                if (reason := self.primitive.exceptions.get(at_fault)) is not None:
                    raise Refusal(f"its author left it out: {reason}") from None
                self.report_missing(at_fault, error)
                raise Stop(at_fault) from None
            if inner:
                self.fault(at_fault, f"{what} raises, in {RULES[inner[0]]}, {shown(error)}",
                           _REMEDY_OF_APPLICATIONS)
            remedy = (_REMEDY_OF_RECURSION if isinstance(error, RecursionError) else
                      _REMEDY_OF_ERRORS)
            self.fault(at_fault, f"{what} raises {shown(error)}", remedy)

    def report_missing(self, rule: str, error: Exception) -> None:
        """Adds the finding of a rule that does not exist, from the engine's error."""
        first, _, rest = str(error).partition("\n")
        head, _, template = rest.partition("\n\n")
        advice = [line for line in head.splitlines()
                  if line != "It was applied at" and not line.startswith("  ")]
        needed = first.rpartition(", which ")[2].removesuffix(" needs.")
        self.report(rule, "there is none.", "\n".join([*advice, template.rstrip()]),
                    f"It is needed by {needed}.")

    def rules_named(self, error: Exception, running: str) -> list[str]:
        """The rule of this primitive that raised an error, and the one at fault, the last.

        It is one rule, unless another one applied the primitive to what it does not take: then the
        abstract evaluation or the implementation, which is right for the examples, refused that.

        Args:
          error: the error, whose text or notes name rules from the inside out.
          running: the rule that runs; it is at fault if none is named.
        """
        found: list[str] = []
        for text in (str(error), *getattr(error, "__notes__", ())):
            missing = _MISSING.match(text)
            named = [missing.groups()] if missing else [
                (name, rule) for rule, name in _NAMED.findall(text)]
            for name, rule in named:
                if name == self.primitive.name and (field := _field_of(rule)):
                    if missing:
                        return [field]
                    if field not in found:
                        found.append(field)
                    if field not in ("abstract_eval", "impl") or field not in self.checked:
                        return [found[0], field] if len(found) > 1 else found
        return found[:1] or [running]

    def place(self, rule: str) -> str:
        """`file:line` of a rule; of the abstract evaluation if it does not exist."""
        p = self.primitive
        found = {"lowering": next(iter(p.lowerings.values()), None),
                 "batch": p.batch or p.axis_batch}.get(rule, getattr(p, rule, None))
        for function in (found, p.abstract_eval, p.impl):
            if callable(function):
                place = where(function)
                return place if ":" in place else ""
        return ""


#: `Primitive 'scale' has no jvp rule, which ...` and `the jvp rule of primitive 'scale' (...)`.
_MISSING = re.compile(r"Primitive '(.*?)' has no (.*?), which ")
_NAMED = re.compile(r"the ([\w ]+?) of primitive '(.*?)' \(")

_REMEDY_OF_ERRORS = "Mend what the error names; it is raised for the examples of this check."
_REMEDY_OF_RECURSION = (
    "A rule that applies its own primitive to such values is called again, without end. One of "
    "partial evaluation records the equation: interpreter.default_process_primitive(primitive, "
    "operands, params).")
_REMEDY_OF_APPLICATIONS = ("Let the rule apply the primitive to operands that it takes; the error "
                           "is raised for the examples of this check.")


def _field_of(name: str) -> str | None:
    """The field of the record for the name of a rule in messages."""
    for field, row in rule_errors.RULES.items():
        if name.startswith(row.name.split(" for ")[0]):
            return field
    field = name.removesuffix(" rule")
    return field if field in RULES else "batch" if field == "axis_batch" else None


def shown(error: Exception) -> str:
    """Class and text of an error."""
    text = first_lines(error)
    if text:
        return f"{type(error).__name__}: {text}"
    frame = traceback.extract_tb(error.__traceback__)[-1:]
    line = f" by `{frame[0].line}` at {frame[0].filename}:{frame[0].lineno}" if frame else ""
    return f"{type(error).__name__}{line}."


def first_lines(error: Exception) -> str:
    """The text of an error, without the place where the primitive was applied: here."""
    text = " ".join(str(error).split("\nIt was applied at")[0].split())
    return text if len(text) <= 400 else f"{text[:397]}..."
