"""The manifest: every exported name of the head and of the generations, in `manifest.toml`.

`python -m mjax_ext manifest` compares the file with the code, and with `--write` writes it
(`mjax_ext/_generations/snapshot.py`). This module reads it, loads little else.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mjax._engine.base.records import Record

PATH = Path(__file__).parent / "manifest.toml"
#: Generations that exist, and what each of them is; the last is the newest.
GENERATIONS = {"v1": "candidate"}
#: Generations that were; name -> the last release of mjax that has it. None has been.
RETIRED: dict[str, str] = {}
TIERS = ("frozen", "provisional", "head")
#: Module below the namespace -> its home in the head. A generation has all of them.
MODULES = {
    "": "mjax_ext",
    **{name: f"mjax_ext.{name}" for name in (
        "api_util", "backend", "check", "core", "core.primitives", "ffi", "ifrt_programs",
        "interpreters.ad", "interpreters.batching", "interpreters.mlir",
        "interpreters.partial_eval", "interpreters.pxla", "interpreters.xla", "linear_util",
        "lowering", "random", "sharding", "source_info_util", "state.discharge",
        "traceback_util", "util")},
    "ref": "mjax.ref",
}
#: Modules that hold modules alone.
PACKAGES = {name.rpartition(".")[0] for name in MODULES} - MODULES.keys()


class Row(Record):
    """A name of the surface.

    Attributes:
      name: the dotted path below `mjax_ext` or `mjax_ext.v1`, such as `core.Primitive`.
      kind: `class`, `function`, `primitive`, `rules` (a table of rules), `value`, `type` (for
        annotations), `module`, `foreign` (of jaxlib), or `facade` (a class of which a generation
        shows a part).
      tier: `frozen`, `provisional` (still to be settled) or `head` (in no generation).
      generations: those that have the name with this meaning.
      head: whether the head has it with this meaning.
      added: the release of mjax that has it first.
      deprecated: the release in which it warns first; empty if it does not.
      replacement: the name to use in its place; empty if there is none.
      adapter: the change by which a generation has what the head has no longer, such as `renamed in
        v2`; empty if none.
      shape: what the code says, as far as the kind has it: `signature`, `attributes`, `methods`,
        `params`, `operands`, `multiple_results`, `applied`, `convention`, `called`, `identity`,
        `type`.
    """

    name: str
    kind: str
    tier: str
    generations: tuple[str, ...]
    head: bool
    added: str
    deprecated: str
    replacement: str
    adapter: str
    shape: Mapping[str, Any]


@functools.cache
def rows(path: Path = PATH) -> tuple[Row, ...]:
    """All rows of the manifest."""
    # Imported here: otherwise every import of a generation would pay for it.
    reader = importlib.import_module("tomllib")
    return tuple(map(_row, reader.loads(path.read_text(encoding="utf-8"))["name"]))


def of(generation: str | None, table: Iterable[Row] | None = None) -> dict[str, Row]:
    """The rows of a generation (None: of the head) by name."""
    return {row.name: row for row in (rows() if table is None else table)
            if (row.head if generation is None else generation in row.generations)}


def _row(entry: dict[str, Any]) -> Row:
    return Row(
        name=entry.pop("name"), kind=entry.pop("kind"), tier=entry.pop("tier"),
        generations=tuple(entry.pop("generations", ())), head=entry.pop("head", True),
        added=entry.pop("added"), deprecated=entry.pop("deprecated", ""),
        replacement=entry.pop("replacement", ""), adapter=entry.pop("adapter", ""), shape=entry)
