"""Which names of jax's extension surface which release of jax has: reads `jax_names.txt`."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("jax_names.txt")

Spans = tuple[tuple[str, str], ...]


class Module(NamedTuple):
    """A module of jax, and its names.

    Attributes:
      name: the dotted path.
      spans: the releases that have it: first and last; an empty last is the newest.
      names: name -> spans; "*" stands for the names of a module of jaxlib.
      deprecated: name -> the release that deprecates it, and the one in which jax says it goes.
    """

    name: str
    spans: Spans
    names: dict[str, Spans]
    deprecated: dict[str, tuple[str, str]]


class Table:
    """The table: `releases`, and modules by name."""

    def __init__(self, text: str) -> None:
        head, *sections = re.split(r"^\[", text, flags=re.MULTILINE)
        self.releases: list[str] = head.rpartition("releases ")[2].split()
        self._texts = dict(section.split("] ", 1) for section in sections)
        self._modules: dict[str, Module] = {}

    def module(self, name: str) -> Module | None:
        """A module of jax that is in the table."""
        if name not in self._modules and name in self._texts:
            self._modules[name] = _module(name, self._texts[name].splitlines())
        return self._modules.get(name)

    def find(self, path: str) -> tuple[Module | None, str]:
        """The longest module that a dotted path begins with, and what comes behind it."""
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            if found := self.module(".".join(parts[:end])):
                return found, ".".join(parts[end:])
        return None, path

    def after(self, release: str) -> str:
        """The release after one; empty after the newest."""
        later = self.releases[self.releases.index(release) + 1:]
        return later[0] if later else ""

    def newer(self, release: str) -> bool:
        """Whether a release is newer than all of the table."""
        return _key(release) > _key(self.releases[-1])


def _module(name: str, lines: list[str]) -> Module:
    names: dict[str, Spans] = {}
    deprecated: dict[str, tuple[str, str]] = {}
    for line in lines[1:]:
        span, *words = line.lstrip("!").split()
        spans = _spans(span)
        for word in words:
            known, _, goes = word.partition(">")
            if line.startswith("!"):
                deprecated[known] = spans[-1][0], goes
            else:
                names[known] = spans
    return Module(name, _spans(lines[0]), names, deprecated)


@functools.cache
def _spans(text: str) -> Spans:
    runs = (run.partition("-") for run in text.split(","))
    return tuple((first, last) for first, _, last in runs)


def _key(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


@functools.cache
def table() -> Table:
    """The table of the releases that were read."""
    return Table(TABLE.read_text(encoding="utf-8"))
