"""`python -m mjax_ext audit PATH|DIST`: what a library uses of the surface, and what will break."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from typing import NamedTuple

from mjax._engine.base.pages import page
from mjax._engine.base.util import counted
from mjax_ext._arguments import parser_of
from mjax_ext._audit.files import files
from mjax_ext._audit.findings import Finding, find, star_exports
from mjax_ext._audit.jax_names import table
from mjax_ext._audit.surface import SURFACE, Surface
from mjax_ext._audit.uses import uses
from mjaxlib_shim.starting import show


class Audit(NamedTuple):
    """The findings of an audit.

    Attributes:
      findings: the uses of the surface.
      unread: files that do not parse, or cannot be read: `file:line: reason`.
      files: the number of files that were read.
    """

    findings: list[Finding]
    unread: list[str]
    files: int

    @property
    def status(self) -> int:
        """The exit status: 1 if something breaks, is private, or does not parse."""
        return int(bool(self.unread) or any(finding.fails for finding in self.findings))


def audit(name: str, surface: Surface = SURFACE) -> Audit:
    """Audits the files of a path or a distribution. None of them is imported.

    Raises:
      FileNotFoundError: there is no such path and no such distribution.
    """
    found: list[Finding] = []
    unread = []
    paths = files(name)
    for path in paths:
        try:
            found += audit_source(path.read_bytes(), str(path), surface)
        except SyntaxError as error:
            unread.append(f"{path}:{error.lineno or 1}: {error.msg}")
        except OSError as error:
            unread.append(f"{path}:1: {error.strerror}")
    return Audit(_mixed(found), unread, len(paths))


def audit_source(source: bytes, file: str, surface: Surface = SURFACE) -> list[Finding]:
    """The findings in one file.

    Raises:
      SyntaxError: it does not parse.
    """
    found: dict[tuple[str, int], Finding] = {}
    for use in uses(source, functools.partial(star_exports, surface=surface)):
        if finding := find(use, file, surface):
            other = found.get((finding.name, finding.line))
            if other and other.note != finding.note:
                notes = dict.fromkeys([*other.note.split("; "), *finding.note.split("; ")])
                finding = finding._replace(note="; ".join(filter(None, notes)))
            found[finding.name, finding.line] = finding
    return list(found.values())


def _mixed(found: list[Finding]) -> list[Finding]:
    """Findings of the head say so where the library uses a generation as well."""
    generations = sorted({f.generation for f in found if f.generation})
    if not generations:
        return found
    note = f"the library uses {' and '.join(generations)} too: it mixes them with the head"
    return [f._replace(note="; ".join(filter(None, (f.note, note)))) if f.kind == "head" else f
            for f in found]


# ---- the text --------------------------------------------------------------------------

_KINDS = {
    "generation": "of a generation", "head": "of the head, which promises nothing",
    "private": "of mjax's privates", "jax": "of jax's extension modules",
    "jax-private": "of jax's privates"}


def text(done: Audit) -> str:
    """The table of an audit, file by file, and its summary."""
    return "\n".join([*_tables(done), *_summary(done)])


def _tables(done: Audit) -> Iterator[str]:
    by_file: dict[str, list[Finding]] = {}
    for finding in done.findings:
        by_file.setdefault(finding.file, []).append(finding)
    for file, found in by_file.items():
        yield file
        rows = [(str(f.line), f.name, _verdict(f), f.replacement or "", f.note) for f in found]
        widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:4]]
        for *cells, note in rows:
            shown = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            yield f"  {shown}  {note}".rstrip()
        yield ""
    if done.unread:
        yield "Files that do not parse, or cannot be read:"
        yield from (f"  {file}" for file in done.unread)
        yield ""


def _verdict(finding: Finding) -> str:
    if finding.breaks_in:
        return f"breaks in {'jax' if 'jax' in finding.kind else 'mjax'} {finding.breaks_in}"
    if "private" in finding.kind:
        return "private"
    if finding.kind == "generation":
        return ", ".join(filter(None, (finding.generation, finding.tier)))
    return {"head": "head"}.get(finding.kind, "public in jax")


def _summary(done: Audit) -> Iterator[str]:
    found = done.findings
    where = len({finding.file for finding in found})
    yield (f"{counted(len(found), 'use')} in {where} of {counted(done.files, 'file')}. "
           f"Releases of jax: {table().releases[0]} to {table().releases[-1]}.")
    for kind, words in _KINDS.items():
        if count := sum(finding.kind == kind for finding in found):
            yield f"  {count} {words}"
    if breaking := sum(finding.breaks_in is not None for finding in found):
        yield f"  {counted(breaking, 'use')} of names that a release does not have"
    jax = [finding for finding in found if finding.kind.startswith("jax")]
    if jax:
        named = sum(finding.replacement is not None for finding in jax)
        why = f"; {page('extension_names.md')} says why others do not" * (named < len(jax))
        yield f"  {named} of the {counted(len(jax), 'use')} of jax's names have a replacement{why}"
    if {"generation", "head"} <= {finding.kind for finding in found}:
        yield "  The library mixes a generation with the head: what the former promises is lost."
    if done.unread:
        yield f"  {counted(len(done.unread), 'file')} could not be read"


def main(arguments: list[str]) -> int:
    """The command; gives its exit status."""
    parser = parser_of(
        "audit", "Lists each use of mjax's extension surface, of mjax's privates, and of jax's "
        "extension modules and privates. Files are read, not imported.",
        "Exit status: 1 if a use is private, if a release does not have a name, or if a file does "
        "not parse; 2 for bad arguments; else 0.")
    parser.add_argument("path", metavar="PATH|DIST", help="a file, a folder or a distribution")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        done = audit(options.path)
    except FileNotFoundError as error:
        print(f"python -m mjax_ext audit: {error}", file=sys.stderr)
        return 2
    if options.json:
        show(json.dumps({"findings": [finding._asdict() for finding in done.findings]}, indent=1))
        for file in done.unread:
            print(file, file=sys.stderr)
    else:
        show(text(done))
    return done.status
