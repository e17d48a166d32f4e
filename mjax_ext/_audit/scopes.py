"""Names in a module's scopes, resolved as far as they stand for modules and their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Path(NamedTuple):
    """Resolves an expression: to `jax.core.Primitive`, and the guard it was bound under."""

    name: str
    guard: str = ""

    def of(self, attribute: str) -> Path:
        """An attribute of it."""
        return Path(f"{self.name}.{attribute}", self.guard)


Paths = frozenset[Path]
NOTHING: Paths = frozenset()
#: Names bound to a condition on a release: `NEW = jax.__version_info__ >= (0, 6)`.
RELEASE = Path("?release")


class Scope:
    """Names of a module, a class or a function. A name may stand for several paths: one of each
    branch that binds it.

    Attributes:
      names: what is known of them by now; none for a name of the library's own.
      parent: the scope around it, in which functions look names up.
      is_class: functions in a class do not see its names.
      outer: names that are declared global or nonlocal, and their scopes.
      stars: modules of which all names were imported.
    """

    def __init__(self, parent: Scope | None = None, is_class: bool = False) -> None:
        self.names: dict[str, Paths] = {}
        self.parent = parent
        self.is_class = is_class
        self.outer: dict[str, Scope] = {}
        self.stars: list[str] = []

    def bind(self, name: str, paths: Iterable[Path] = ()) -> None:
        """Binds a name anew; in another scope it may be bound at any time, so there it is added."""
        if scope := self.outer.get(name):
            scope.names[name] = scope.names.get(name, NOTHING) | frozenset(paths)
        else:
            self.names[name] = frozenset(paths)

    def find(self, name: str) -> Paths | None:
        """Resolves a name; None if no scope binds it."""
        scope: Scope | None = self.outer.get(name, self)
        first = True
        while scope is not None:
            if name in scope.names and (first or not scope.is_class):
                return scope.names[name]
            scope, first = scope.parent, False
        return None

    def around(self) -> Scope:
        """The scope in which functions that are defined here look names up."""
        return self.parent.around() if self.is_class and self.parent else self

    def top(self) -> Scope:
        """The module's scope."""
        return self.parent.top() if self.parent else self

    def declare(self, names: Iterable[str], top: bool) -> None:
        """`global` or `nonlocal`."""
        for name in names:
            scope = self.top() if top else self.parent
            while scope and not top and name not in scope.names and scope.parent:
                scope = scope.parent
            if scope and scope is not self:
                self.outer[name] = scope


def join(*branches: dict[str, Paths]) -> dict[str, Paths]:
    """Resolves names behind branches of which one has run."""
    found: dict[str, Paths] = {}
    for branch in branches:
        for name, paths in branch.items():
            found[name] = found.get(name, NOTHING) | paths
    return found
