"""A pytest plugin: `pytest -p mjax_ext.check.pytest_plugin`.

- The fixture `check_primitive` checks a primitive and fails the test for findings.
- `--mjax-check=FILE` checks every application of primitives with rules of your own that the tests
  make, once for each combination of types and params. A finding that the file does not have fails
  the test that made the application first. `--mjax-check-accept` rewrites the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax_ext._drawn import drawn
from mjax_ext.check import _check
from mjax_ext.check._report import Report
from mjax_ext.check._run import Run

__all__ = ["Baseline", "check_primitive", "pytest_addoption", "pytest_configure"]

#: The address of an object in its text.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

#: application -> rule -> verdict.
Findings = dict[str, dict[str, str]]


@pytest.fixture
def check_primitive() -> Callable[..., Report]:
    """A function that checks a primitive for one application, and fails for findings.

    It takes the arguments of `mjax_ext.check.check_primitive`, and returns its report.

    Returns:
      The function.

    Example:
      >>> from mjax_ext.core.primitives import mul_p
      >>> def test_rules_of_mul(check_primitive):
      ...   x = np.array([0.5, -1.0], "float32")
      ...   check_primitive(mul_p, x, x)
    """

    def check(primitive: Primitive, /, *examples: Any, **params: Any) -> Report:
        report: Report = _check.check_primitive(primitive, *examples, **params)
        report.raise_for_findings()
        return report

    return check


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the mode.

    Args:
      parser: pytest's.

    Raises:
      ValueError: it has the options already.

    Example:
      >>> from mjax_ext.check import pytest_plugin
      >>> class Parser:
      ...   def getgroup(self, *args):
      ...     return self
      ...   def addoption(self, name, **options):
      ...     print(name)
      >>> pytest_plugin.pytest_addoption(Parser())
      --mjax-check
      --mjax-check-accept
    """
    group = parser.getgroup("mjax_ext.check", "rules of primitives")
    group.addoption("--mjax-check", metavar="FILE", default=None, help=(
        "check the rules of every primitive that the tests apply; the file holds known findings"))
    group.addoption("--mjax-check-accept", action="store_true", help=(
        "with --mjax-check: write the findings into the file instead of failing"))


def pytest_configure(config: pytest.Config) -> None:
    """Starts the mode, if it is asked for.

    Args:
      config: pytest's.

    Raises:
      pytest.UsageError: `--mjax-check-accept` is given without `--mjax-check`.

    Example:
      >>> import pytest
      >>> from mjax_ext.check import pytest_plugin
      >>> class Config:
      ...   def getoption(self, name):
      ...     return {"--mjax-check": None, "--mjax-check-accept": True}[name]
      >>> try:
      ...   pytest_plugin.pytest_configure(Config())
      ... except pytest.UsageError as error:
      ...   print(error)
      --mjax-check-accept rewrites the file of --mjax-check=FILE, which is not given.
    """
    file, accept = config.getoption("--mjax-check"), config.getoption("--mjax-check-accept")
    if accept and file is None:
        msg = "--mjax-check-accept rewrites the file of --mjax-check=FILE, which is not given."
        raise pytest.UsageError(msg)
    if file is not None:
        path = Path(file)
        config.pluginmanager.register(Baseline(
            path if path.is_absolute() else config.rootpath / path, bool(accept)),
            "mjax_ext.check.baseline")


class Baseline:
    """The mode that checks each application of a test suite.

    Args:
      path: the file with the known findings. It need not exist.
      accept: whether to write the file.

    Raises:
      pytest.UsageError: the file is not one that the mode wrote.

    Example:
      >>> from pathlib import Path
      >>> from mjax_ext.check.pytest_plugin import Baseline
      >>> Baseline(Path("rules.json"), accept=False).found
      {}
    """

    path: Path
    accept: bool

    def __init__(self, path: Path, accept: bool):
        self.path, self.accept = path, accept
        self.known: Findings = {}
        if path.exists():
            try:
                self.known = json.loads(path.read_text(encoding="utf-8"))["findings"]
            except (ValueError, TypeError, KeyError) as error:
                msg = (f"{path} does not hold findings of --mjax-check ({type(error).__name__}: "
                       f"{error}). Remove it, and write it anew by --mjax-check-accept.")
                raise pytest.UsageError(msg) from None
        #: The findings of this session, for every application that was checked.
        self.found: Findings = {}
        self.waiting: dict[str, tuple[Primitive, list[Any], dict[str, Any]]] = {}
        self.random: np.random.Generator = np.random.default_rng(0)

    def note(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        """Remembers an application of an author's primitive."""
        if not primitive.foreign or Run.active:
            return
        try:
            avals = [typeof(arg) for arg in args]
        except TypeError:
            return  # bind refuses it
        shown = "".join(f", {name}={value}" for name, value in params.items())
        # Functions among the params have the same name in each session.
        name = _ADDRESS.sub("", f"{primitive.name}({', '.join(map(str, avals))}{shown})")
        if name in self.found or name in self.waiting:
            return
        if all(isinstance(aval, ShapedArray) for aval in avals):
            self.waiting[name] = primitive, [
                drawn(self.random, aval.with_varying(frozenset())) if isinstance(arg, Tracer)
                else arg for arg, aval in zip(args, avals, strict=True)], params

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Watches a test, then checks the applications that it was the first to make."""
        bind, baseline = Primitive.bind, self

        def watched(primitive: Primitive, /, *args: Any, **params: Any) -> Any:
            baseline.note(primitive, args, params)
            return bind(primitive, *args, **params)

        type.__setattr__(Primitive, "bind", watched)
        try:
            yield
        except BaseException:
            self.waiting.clear()  # a later test that makes the same applications has them checked
            raise
        finally:
            type.__setattr__(Primitive, "bind", bind)
        new = [str(report) for report in map(self.check, list(self.waiting)) if report is not None]
        if new:
            pytest.fail("\n\n".join([
                *new, f"{self.path.name} does not have these findings. Mend the rules, or accept "
                "them by --mjax-check-accept."]), pytrace=False)

    def check(self, name: str) -> Report | None:
        """Checks a waiting application; its report, if there are new findings."""
        primitive, operands, params = self.waiting.pop(name)
        report: Report = _check.check_primitive(primitive, *operands, **params)
        self.found[name] = {finding.rule: finding.verdict for finding in report.findings}
        new = self.found[name].keys() - self.known.get(name, {}).keys()
        return report if new and not self.accept else None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the file; a worker of pytest-xdist hands its findings on."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["mjax_ext.check"] = self.found
        elif self.accept:
            findings = {name: rules for name, rules in sorted((self.known | self.found).items())
                        if rules}
            self.path.write_text(json.dumps({"format": 1, "findings": findings}, indent=2) + "\n",
                                 encoding="utf-8")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes the findings of a worker of pytest-xdist."""
        self.found |= getattr(node, "workeroutput", {}).get("mjax_ext.check", {})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Says what was checked, and which known findings are gone."""
        terminalreporter.section("rules of primitives")
        n = len(self.found)
        terminalreporter.line(f"{n} application{' was' if n == 1 else 's were'} checked.")
        gone = [f"{name}: {rule}" for name, rules in self.known.items() if name in self.found
                for rule in rules if rule not in self.found[name]]
        if self.accept:
            terminalreporter.line(f"{self.path} holds the findings now.")
        elif gone:
            terminalreporter.line("These findings are gone; --mjax-check-accept removes them from "
                                  f"{self.path}:")
            for line in gone:
                terminalreporter.line(f"  {line}")


def __dir__() -> list[str]:
    return sorted(__all__)
