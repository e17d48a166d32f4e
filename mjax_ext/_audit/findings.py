"""Kinds of uses: of a generation, of the head, of privates, or of jax, and until when."""

from __future__ import annotations

import re
from typing import NamedTuple

from mjax.version import __version__ as VERSION
from mjax_ext._audit.homes import exports_of_face, home, module_home, name_of, why_absent
from mjax_ext._audit.jax_names import Module, Spans, table
from mjax_ext._audit.surface import SURFACE, Surface
from mjax_ext._audit.uses import Use
from mjax_ext._manifest import RETIRED, Row

_GENERATION = re.compile(r"v\d+$")
#: Public modules of jax for authors, those of past releases included.
_AREAS = re.compile(r"jax\.(extend|core|interpreters|ffi|lib|util|api_util|linear_util)(\.|$)")
_PRIVATE = re.compile(r"(^|\.)_(?!_)")
#: Names that pin libraries to generations; they belong to none themselves.
_DOOR = ("mjax_ext", "mjax_ext.require", "mjax_ext.GenerationError",
         "mjax_ext.MixedGenerationsWarning")


class Finding(NamedTuple):
    """A use of the surface.

    Attributes:
      name: the dotted path, aliases resolved.
      file: the file as it was asked for.
      line: the line of the use.
      kind: `generation`, `head`, `private`, `jax` or `jax-private`.
      generation: the generation that is used; else None.
      tier: `frozen` or `provisional`, of names of generations; `head` of the head's; else None.
      replacement: the path to use in its place; None if nothing has to be done, or nothing has it.
      breaks_in: the release that does not have the name; None: all that are known have it. It is
        a release of jax for names of jax, else of mjax.
      note: the rest, in words.
    """

    name: str
    file: str
    line: int
    kind: str
    generation: str | None
    tier: str | None
    replacement: str | None
    breaks_in: str | None
    note: str

    @property
    def fails(self) -> bool:
        """Whether it makes the exit status 1."""
        return "private" in self.kind or self.breaks_in is not None


def find(use: Use, file: str, surface: Surface = SURFACE) -> Finding | None:
    """The finding for a use; None if it is not one of the surface."""
    top, _, below = use.path.partition(".")
    if top == "jax":
        return _of_jax(use, file, surface)
    if top == "mjaxlib_shim" or _PRIVATE.search(below):
        return Finding(use.path, file, use.line, "private", None, None,
                       _namesake(use.path, surface), None,
                       _said("mjax promises nothing about it", use.note))
    if top == "mjax" or use.path in _DOOR:
        return None
    generation, _, name = below.partition(".")
    if _GENERATION.match(generation):
        return _of_generation(use, file, surface, generation, name)
    return _of_head(use, file, surface, below)


def star_exports(module: str, surface: Surface = SURFACE) -> frozenset[str]:
    """The names that `from module import *` gives, as far as they are known."""
    package = module.split(".", 1)[0]
    if package == "jax":
        found = table().module(module)
        return frozenset(found.names if found else ())
    return surface.exports(module) if package == "mjax_ext" else exports_of_face(module)


# ---- mjax ------------------------------------------------------------------------------


def _of_generation(use: Use, file: str, surface: Surface, generation: str, name: str,
                   ) -> Finding | None:
    def finding(tier: str | None, note: str, breaks_in: str | None = VERSION,
                path: str = use.path, replacement: str | None = None) -> Finding:
        return Finding(path, file, use.line, "generation", generation, tier, replacement, breaks_in,
                       _said(note, use.note))

    if generation not in surface.generations:
        last = f"; mjax {RETIRED[generation]} had it last" if generation in RETIRED else ""
        return finding(None, f"mjax {VERSION} does not have this generation{last}. It has "
                             f"{', '.join(surface.generations)}")
    if surface.is_module(generation, name.removesuffix("*").rstrip(".")):
        return finding(None, "", None)
    if "()" in name:
        return _of_object(use, file, surface, generation, *name.split("().", 1))
    row = surface.row(generation, name)
    if row is not None and (unlisted := _of_object(
            use, file, surface, generation, row.name, name[len(row.name) + 1:])):
        return unlisted
    if row is None:
        return finding(None, f"{generation} does not have this name")
    full = f"mjax_ext.{generation}"
    return finding(
        row.tier, f"deprecated since mjax {row.deprecated}" if row.deprecated else "", None,
        f"{full}.{row.name}", f"{full}.{row.replacement}" if row.replacement else None)


def _of_object(use: Use, file: str, surface: Surface, generation: str, name: str,
               attribute: str = "") -> Finding | None:
    """The finding for an attribute of a class or its objects that only the head's row lists."""
    attribute = attribute.split(".", 1)[0]
    promised, all_of_it = (surface.rows(of).get(name) for of in (generation, None))
    if not promised or not all_of_it or attribute in _members(promised) or (
            attribute not in _members(all_of_it)):
        return None
    return Finding(f"mjax_ext.{name}.{attribute}", file, use.line, "head", None, "head", None, None,
                   _said(f"{generation} does not promise this attribute", use.note))


def _members(row: Row) -> set[str]:
    return {*row.shape.get("attributes", ()), *row.shape.get("methods", ())}


def _of_head(use: Use, file: str, surface: Surface, name: str) -> Finding:
    def finding(note: str, breaks_in: str | None, replacement: str | None = None) -> Finding:
        return Finding(f"mjax_ext.{path}", file, use.line, "head", None, "head", replacement,
                       breaks_in, _said(note, use.note))

    row = surface.row(None, name)
    path = row.name if row else name
    module = name.removesuffix("*").rstrip(".")
    if row is None and not surface.is_module(None, module):
        return finding(f"mjax {VERSION} does not have this name", VERSION)
    newest = surface.newest
    if path in surface.rows(newest) or surface.is_module(newest, module if row is None else path):
        return finding("", None, f"mjax_ext.{newest}.{path}")
    return finding(f"{newest} does not have it", None)


def _namesake(path: str, surface: Surface) -> str | None:
    """The one name of the newest generation that is called as a private one is."""
    found = [name for name in surface.rows(surface.newest) if name_of(name) == name_of(path)]
    return f"mjax_ext.{surface.newest}.{found[0]}" if len(found) == 1 else None


# ---- jax -------------------------------------------------------------------------------


def _of_jax(use: Use, file: str, surface: Surface) -> Finding | None:
    module, rest = table().find(use.path)
    hidden = use.path.startswith("jax._src")
    if module is None:
        if not hidden and not _AREAS.match(use.path):
            return None
        area = ".".join(use.path.split(".")[:2])
        module, rest = Module(area, (), {}, {}), use.path[len(area) + 1:]
    name = rest.split(".", 1)[0]
    path = f"{module.name}.{name}" if name else module.name
    private = hidden or _PRIVATE.search(f".{name}") is not None
    breaks_in, there = _until(module, name)
    newest = surface.newest
    replacement = (home(module.name, name, surface, newest) if name and name != "*"
                   else module_home(module.name, newest))
    absent = "" if replacement else _absent(module.name, name, surface)
    return Finding(path, file, use.line, "jax-private" if private else "jax", None, None,
                   replacement or None, breaks_in, _said(there, absent, use.note))


def _absent(module: str, name: str, surface: Surface) -> str:
    """That the newest generation does not have a name, and whether the head has, or why not."""
    head, why = home(module, name, surface, None), why_absent(module, name)
    text = f"{surface.newest} does not have it"
    return f"{text}, the head has {head}" if head else f"{text}: {why}" if why else text


_NEVER = "no release of jax from {} on has it"


def _until(module: Module, name: str) -> tuple[str | None, str]:
    """The release that does not have a name any more, and where it lives, in words."""
    first = table().releases[0]
    if not module.spans:
        return (None, "") if module.name == "jax._src" and not name else (
            first, _NEVER.format(first))
    if not name or name == "*" or name.startswith("__"):
        spans = module.spans
    elif name in module.names:
        spans = module.names[name]
    elif "*" in module.names:
        spans = module.spans
    elif not module.names:
        return _end(module.spans), f"{_words(module.spans)}; its names are not in the table"
    else:
        return first, _NEVER.format(first)
    deprecated, goes = module.deprecated.get(name, ("", ""))
    words = _words(spans)
    if deprecated:
        words += f", deprecated since {deprecated}"
    end = _end(spans)
    if end is None and goes and table().newer(goes):
        return goes, f"{words}; jax says that {goes} removes it"
    return end, words


def _end(spans: Spans) -> str | None:
    return table().after(spans[-1][1]) if spans[-1][1] else None


def _words(spans: Spans) -> str:
    """`in jax 0.4.36 to 0.5.3 and from 0.7.0 on`."""
    first = table().releases[0]
    if spans == ((first, ""),):
        return f"in jax since {first} or earlier"
    return "in jax " + " and ".join(
        f"from {start} on" if not end else start if start == end else f"{start} to {end}"
        for start, end in spans)


def _said(*parts: str) -> str:
    return "; ".join(filter(None, parts))
