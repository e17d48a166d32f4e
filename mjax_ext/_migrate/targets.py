"""Where uses go: from jax's names and the head to a generation, and from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mjax_ext._audit.findings import Finding
from mjax_ext._audit.homes import HOMES, module_home, why_absent
from mjax_ext._audit.jax_names import table
from mjax_ext._audit.surface import Surface


class Target(NamedTuple):
    """Where a use goes.

    Attributes:
      path: the new dotted path; empty: there is none, and `why` says why.
      why: the reason.
      arguments: names of keyword arguments -> new ones, of calls.
    """

    path: str
    why: str = ""
    arguments: dict[str, str] | None = None


class ToGeneration:
    """From jax's extension modules and the head to a generation.

    Attributes:
      surface: the generations, up to the one that uses go to.
      keeps_imports: code that is valid in both keeps the imports of jax beside the new ones.
    """

    keeps_imports = True

    def __init__(self, to: str, surface: Surface) -> None:
        self.to, self.surface = to, surface

    def touches(self, finding: Finding) -> bool:
        """Whether uses like it go elsewhere."""
        return finding.kind != "generation"

    def of(self, finding: Finding) -> Target:
        """Where a use goes."""
        if finding.replacement:
            return Target(finding.replacement)
        reason = why_absent(*finding.name.rsplit(".", 1))
        return Target("", f"{self.to} does not have {finding.name}{reason and f': {reason}'}")

    def module(self, path: str) -> str:
        """Where a module goes; empty if there is none."""
        if path.startswith("jax"):
            is_module = path in HOMES or table().module(path) is not None
            return module_home(path, self.to) if is_module else ""
        below = path.partition(".")[2]
        moved = path.startswith("mjax_ext.") and self.surface.is_module(self.to, below)
        return f"mjax_ext.{self.to}.{below}" if moved else ""

    def both(self) -> ToGeneration:
        """Where uses go in code that is valid in both: there, too."""
        return self


class ToNext:
    """From a generation to the next, by the rules of its changes.

    Args:
      since: the older generation.
      to: the newer one.
      rules: those of the changes between the two, as `Change.codemod` gives them.
      whole: whether names that did not change go too.
    """

    keeps_imports = False

    def __init__(self, since: str, to: str, surface: Surface, rules: Sequence[dict[str, Any]],
                 whole: bool = True) -> None:
        self.since, self.to, self.surface, self.whole = since, to, surface, whole
        self.rules = {rule["old"]: rule for rule in rules}

    def touches(self, finding: Finding) -> bool:
        """Whether uses like it go elsewhere."""
        return finding.kind == "generation" and finding.generation == self.since

    def of(self, finding: Finding) -> Target:
        """Where a use goes."""
        name = finding.name.removeprefix(f"mjax_ext.{self.since}").lstrip(".")
        rule = self.rules.get(name)
        if rule is None:
            return Target(self.module(finding.name) if self.whole else finding.name)
        if rule["kind"] == "rename":
            return Target(f"mjax_ext.{self.to}.{rule['new']}")
        if rule["kind"] == "arguments" and rule["arguments"]:
            return Target(f"mjax_ext.{self.to}.{name}", arguments=rule["arguments"])
        return Target("", f"{finding.name} {rule.get('note', 'takes other arguments')}")

    def module(self, path: str) -> str:
        """Where a module goes."""
        old = f"mjax_ext.{self.since}"
        if path != old and not path.startswith(f"{old}."):
            return ""
        return path.replace(old, f"mjax_ext.{self.to}", 1) if self.whole else path

    def both(self) -> ToNext:
        """Where uses go in code that is valid in both: names that changed are the newer ones."""
        return ToNext(self.since, self.to, self.surface, [*self.rules.values()], whole=False)


Targets = ToGeneration | ToNext
