"""The chain: from the head, change by change, to each generation.

A generation is the head, seen through the changes that were made after it. Each change gives the
name that it is about from the names of the newer side; all other names pass through. So the object
behind a name of `v1` is the head's own, unless a change is about it. The engine knows none of this.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjax._engine.base.pages import page
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.tracing.primitive import Primitive
from mjax_ext._generations.aliases import Alias, program, with_applications
from mjax_ext._generations.change import Change, Lookup, Reparametrized
from mjax_ext._generations.changes import CHANGES
from mjax_ext._generations.facades import FACADES, facade
from mjax_ext._manifest import GENERATIONS, MODULES
from mjaxlib_shim import SUPPORT


def of_head(name: str) -> Any:
    """The object behind a dotted name of the head."""
    home, _, last = name.rpartition(".")
    return getattr(importlib.import_module(MODULES[home]), last)


class Chain:
    """Generations over a head.

    Args:
      changes: the changes, oldest first.
      generations: the generations, oldest first.
      head: gives the objects of the head.
    """

    def __init__(self, changes: Sequence[Change], generations: Sequence[str],
                 head: Lookup = of_head):
        self._changes, self._order, self._head = changes, [*generations, "head"], head
        self._found: dict[tuple[str, str], Any] = {}

    def all_changes(self) -> list[Change]:
        """The changes, oldest first."""
        return [*self._changes]

    def changes(self, generation: str) -> list[Change]:
        """The changes between a generation and the head, oldest first."""
        place = self._order.index
        return [c for c in self._changes if place(c.since) > place(generation)]

    def get(self, generation: str, name: str) -> Any:
        """The object behind a dotted name of a generation."""
        key = generation, name
        if key not in self._found:
            made = _OWN[name](self, generation) if name in _OWN else self._made(generation, name)
            self._found.setdefault(key, made)
        return self._found[key]

    def _made(self, generation: str, name: str) -> Any:
        value = self._through(self.changes(generation), name)
        if name in _METHODS and (aliases := self.aliases(generation)):
            return with_applications(value, _METHODS[name], aliases)
        return facade(name, value, generation) if name in FACADES else value

    def _through(self, changes: list[Change], name: str) -> Any:
        if not changes:
            return self._head(name)
        return changes[0].give(name, lambda other: self._through(changes[1:], other))

    def aliases(self, generation: str) -> Mapping[Primitive, Alias]:
        """The engine's primitives whose params a generation knows by other names -> its own."""
        names = dict.fromkeys(c.name for c in self.changes(generation)
                              if isinstance(c, Reparametrized))
        found: list[Alias] = [self.get(generation, name) for name in names]
        return {alias.root: alias for alias in found}


#: Classes whose subclasses interpret primitives, and the method that does.
_METHODS = {"core.Interpreter": "apply", "core.Trace": "process_primitive"}


def _program_of(chain: Chain, generation: str) -> Callable[[Jaxpr], Jaxpr]:
    aliases = chain.aliases(generation)

    def as_written(jaxpr: Jaxpr) -> Jaxpr:
        return program(jaxpr, aliases)

    as_written.__name__ = as_written.__qualname__ = "program"
    as_written.__module__ = f"mjax_ext.{generation}"
    as_written.__doc__ = f"""A program as {generation} writes it: with the params that it has.

    `mjax.make_jaxpr` gives programs as the head writes them. If no change since {generation} is
    about a primitive in the program, this is the program itself.

    Args:
      jaxpr: a program of `mjax`.

    Returns:
      A program that computes the same.

    Example:
      >>> from mjax_ext import {generation}
      >>> jaxpr = mjax.make_jaxpr(lax.sin)(1.0)
      >>> {generation}.program(jaxpr) is jaxpr
      True
    """
    return as_written


#: Names that generations have and the head does not.
_OWN: Mapping[str, Callable[[Chain, str], Any]] = {
    "program": _program_of,
    # The releases of jaxlib on which the tests of each generation run.
    "jaxlibs": lambda chain, generation: tuple(r.version for r in SUPPORT if r.matrix),
}

CHAIN = Chain(CHANGES, tuple(GENERATIONS))


def why_absent(module: str, name: str) -> str:
    """The message for a name that a module lacks: what became of it, if older generations have it.

    Args:
      module: a module of the head or of a generation.
      name: the name.
    """
    _, *path = module.split(".")
    generation = path.pop(0) if path and path[0] in GENERATIONS else "head"
    dotted = ".".join([*path, name])
    known = [] if generation == "head" else CHAIN.changes(generation)
    gone = [c for c in CHAIN.all_changes() if c.name == dotted and c not in known]
    text = f"module {module!r} has no attribute {name!r}"
    if gone:
        return f"{text}. {gone[-1].warning(generation)}"
    return text if generation == "head" else (
        f"{text}. mjax_ext/manifest.toml lists what generations have: see {page('policy.md')}.")
