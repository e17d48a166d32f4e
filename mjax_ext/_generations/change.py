"""Kinds of changes. A change makes the names of an older generation from those of a newer one.

Each has an adapter (`give`), and texts that are made of its fields: the line of the changelog, the
paragraph of the documentation, the warning for those who use the old form where it is gone, and the
rule of the codemod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from mjax._engine.base.pages import page
from mjax._engine.ir.schema import Schema, schema_of
from mjax_ext._generations.aliases import Alias
from mjax_ext._generations.tables import AdaptedTable

#: Gives the object behind a dotted name.
Lookup = Callable[[str], Any]
#: How the codemod rewrites a use: kind and details, strings alone.
Codemod = dict[str, Any]


class Change:
    """A change of the surface.

    Args:
      name: the dotted name that older generations have.
      since: the generation that has the new form first.
      why: the reason, a sentence.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, *, since: str, why: str):
        self.name, self.since, self.why = name, since, why

    def give(self, name: str, newer: Lookup) -> Any:
        """The object behind a name in older generations.

        Args:
          name: the dotted name.
          newer: gives the objects of the newer side.
        """
        return self.adapt(newer) if name == self.name else newer(name)

    def adapt(self, newer: Lookup) -> Any:
        """The object behind the old name."""
        raise NotImplementedError

    # -- texts --

    def what(self) -> str:
        """The change as a clause whose subject is the old name."""
        raise NotImplementedError

    def changelog(self) -> str:
        """The line of the changelog."""
        return f"- {self.since}: `{self.name}` {self.what()}."

    def paragraph(self) -> str:
        """The paragraph of the documentation."""
        return (f"**`{self.name}`** {self.what()}. {self.why} Older generations have it as it was; "
                f"`python -m mjax_ext migrate PATH --to {self.since}` rewrites its uses.")

    def warning(self, generation: str) -> str:
        """The text for those who use the old form in a generation that does not have it.

        Args:
          generation: the generation, or `head`.
        """
        return f"{self.name} {self.what()}, in {generation}. See {page('policy.md')}."

    def codemod(self) -> Codemod:
        """The rule by which the codemod rewrites uses; `kind` is `none` where people have to."""
        raise NotImplementedError


class Renamed(Change):
    """A name that is another one now.

    Args:
      new: the new dotted name.
    """

    kind = "renamed"

    def __init__(self, name: str, new: str, *, since: str, why: str):
        super().__init__(name, since=since, why=why)
        self.new = new

    def adapt(self, newer: Lookup) -> Any:
        return newer(self.new)

    def what(self) -> str:
        return f"is `{self.new}` now"

    def codemod(self) -> Codemod:
        return {"kind": "rename", "old": self.name, "new": self.new}


class Removed(Change):
    """A name that is gone.

    Args:
      adapter: makes the object from those of the newer side.
      instead: what to write, a clause; empty: nothing takes its place.
    """

    kind = "removed"

    def __init__(self, name: str, adapter: Callable[[Lookup], Any], *, since: str, why: str,
                 instead: str = ""):
        super().__init__(name, since=since, why=why)
        self.adapter, self.instead = adapter, instead

    def adapt(self, newer: Lookup) -> Any:
        return self.adapter(newer)

    def what(self) -> str:
        return "is gone" + (f": {self.instead}" if self.instead else "")

    def codemod(self) -> Codemod:
        return {"kind": "none", "old": self.name, "note": self.what()}


class Resigned(Change):
    """A function whose arguments changed.

    Args:
      adapter: makes the function of the old arguments from that of the new ones.
      arguments: old names of arguments -> new ones, for the codemod; places are numbers, as "0".
      told: what changed, a clause.
    """

    kind = "arguments"

    def __init__(self, name: str, adapter: Callable[[Any], Any], *, since: str, why: str,
                 told: str, arguments: Mapping[str, str] | None = None):
        super().__init__(name, since=since, why=why)
        self.adapter, self.told, self.arguments = adapter, told, dict(arguments or {})

    def adapt(self, newer: Lookup) -> Any:
        return self.adapter(newer(self.name))

    def what(self) -> str:
        return self.told

    def codemod(self) -> Codemod:
        return {"kind": "arguments", "old": self.name, "arguments": self.arguments}


class Reparametrized(Change):
    """A primitive whose params changed.

    Args:
      params: name -> type of the old params, as a schema takes them.
      to_new: the new params from the old ones: param -> expression of those, as text. Params that
        are the same in both are left out.
      to_old: the old params from the new ones, likewise.
      told: what changed, a clause.
      scope: what expressions may use beside params.
    """

    kind = "params"

    def __init__(self, name: str, params: Mapping[str, Any] | Schema,
                 to_new: Mapping[str, str], to_old: Mapping[str, str], *, since: str, why: str,
                 told: str, scope: Mapping[str, Any] | None = None):
        super().__init__(name, since=since, why=why)
        self.schema, self.told, self.scope = schema_of(params), told, dict(scope or {})
        self.to_new, self.to_old = to_new, to_old

    def adapt(self, newer: Lookup) -> Any:
        return Alias(newer(self.name), self.schema, self.to_new, self.to_old, self.scope,
                     before=self.since)

    def what(self) -> str:
        return self.told

    def codemod(self) -> Codemod:
        return {"kind": "none", "old": self.name, "note": self.told}


class Recalled(Change):
    """A table whose rules are called in another way.

    Args:
      field: the field of the record that holds the rules of the new form.
      leading: the names of the old first arguments.
      to_new: a rule of the new form from one of the old form.
      to_old: a rule of the old form from one of the new form.
      told: what changed, a clause.
    """

    kind = "convention"

    def __init__(self, name: str, field: str, leading: tuple[str, ...],
                 to_new: Callable[[Any], Any], to_old: Callable[[Any], Any], *, since: str,
                 why: str, told: str):
        super().__init__(name, since=since, why=why)
        self.field, self.leading, self.told = field, leading, told
        self.to_new, self.to_old = to_new, to_old

    def adapt(self, newer: Lookup) -> Any:
        return AdaptedTable(newer(self.name), self.name, self.field, self.leading, self.to_new,
                            self.to_old, self.since)

    def what(self) -> str:
        return self.told

    def codemod(self) -> Codemod:
        return {"kind": "none", "old": self.name, "note": self.told}
