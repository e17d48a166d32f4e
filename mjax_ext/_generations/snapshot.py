"""`python -m mjax_ext manifest [--write]`: the manifest, and the modules of generations.

Without `--write` it prints how they differ; the exit status is 1 if they do. The code decides what
a name is: kind, signature, attributes, params. People decide the rest: tier, generations, when a
name was added or deprecated, what replaces it. `--write` keeps that, and
refuses to write what breaks the promise of a generation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mjax._engine.base.version import __version_info__
from mjax_ext._arguments import parser_of
from mjax_ext._generations import chain
from mjax_ext._generations.breaking import REMEDY, Shape, breaks
from mjax_ext._generations.module_text import modules_of
from mjax_ext._generations.surface import observe_all
from mjax_ext._manifest import GENERATIONS, PATH, Row, of, rows

COMMAND = "python -m mjax_ext manifest --write"
Seen = Mapping[str | None, Mapping[str, Shape]]


def main(arguments: list[str]) -> int:
    """Compares, or writes; gives the exit status."""
    parser = parser_of(
        "manifest", "Compares the manifest of mjax_ext, and the modules of its generations, with "
        "the code.", "Exit status: 1 if they differ, or break a promise; 2 for bad arguments; else "
        "0.")
    parser.add_argument("--write", action="store_true", help="write them")
    options = parser.parse_args(arguments)
    if options.write:
        write_modules(rows())
    seen = observe_all()
    broken = broken_promises(seen, rows())
    text = text_of(renewed(seen, rows()))
    if broken:
        print("\n".join([*broken, "", REMEDY]), file=sys.stderr)
        return 1
    if text == PATH.read_text(encoding="utf-8"):
        return 0
    if not options.write:
        print("\n".join(differences(seen, rows())), file=sys.stderr)
        print(f"mjax_ext/manifest.toml is not what the code has by now; {COMMAND}",
              file=sys.stderr)
        return 1
    PATH.write_text(text, encoding="utf-8")
    return 0


def write_modules(table: Iterable[Row]) -> None:
    """Writes the modules of all generations, for the rows of a manifest."""
    table = list(table)
    for generation in GENERATIONS:
        for path, text in modules_of(generation, table).items():
            file = PATH.parent / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def broken_promises(seen: Seen, table: Iterable[Row], changelog: str | None = None) -> list[str]:
    """How the code breaks what the generations of a manifest have promised; one line each.

    A provisional name may change if the changelog tells it. A frozen one may not: a change has to
    adapt it, so that its generation has it as it was.

    Args:
      seen: generation (None: the head) -> name -> shape.
      table: the rows before.
      changelog: the text of the changelog; None: that of the repository, if there is one.
    """
    table = list(table)
    told = _changelog() if changelog is None else changelog
    return [f"{generation}.{name}: {what}" for generation in GENERATIONS
            for name, row in of(generation, table).items()
            for what in breaks((row.kind, row.shape), seen[generation].get(name))
            if row.tier == "frozen" or f"`{name}`" not in told]


def _changelog() -> str:
    file = PATH.parents[1] / "CHANGELOG.md"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def differences(seen: Seen, table: Iterable[Row]) -> list[str]:
    """Names whose rows differ from the code, each with the generation, or `head`."""
    table = list(table)
    found = []
    for generation, names in seen.items():
        known = {name: (row.kind, row.shape) for name, row in of(generation, table).items()}
        found += [f"{generation or 'head'}.{name}" for name in sorted({*known, *names})
                  if known.get(name) != names.get(name)]
    return found


def renewed(seen: Seen, table: Iterable[Row]) -> list[Row]:
    """The rows that the code has by now, with the decisions of the rows before.

    Args:
      seen: generation (None: the head) -> name -> shape.
      table: the rows before.

    Returns:
      Rows by name: one for the head and the generations that agree with it, then one for each other
      meaning of the name.
    """
    table = list(table)
    found = []
    for name in sorted({name for names in seen.values() for name in names}, key=_order):
        shapes: list[tuple[Shape, list[str | None]]] = []
        for generation, names in seen.items():
            if name in names:
                same = next((who for shape, who in shapes if shape == names[name]), None)
                if same is None:
                    shapes.append((names[name], [generation]))
                else:
                    same.append(generation)
        before = [row for row in table if row.name == name]
        found += [_row(name, shape, who, before) for shape, who in shapes]
    return found


def _row(name: str, shape: Shape, who: list[str | None], before: list[Row]) -> Row:
    generations = tuple(g for g in who if g is not None)
    known = next((row for row in before if set(row.generations) & set(generations)), None) or next(
        (row for row in before if row.head == (None in who)), None)
    tier = known.tier if known and known.tier != "head" else "provisional"
    return Row(
        name=name, kind=shape[0], tier=tier if generations else "head", generations=generations,
        head=None in who, added=known.added if known else "{}.{}".format(*__version_info__),
        deprecated=known.deprecated if known else "",
        replacement=known.replacement if known else "",
        adapter=_adapter(name, generations), shape=shape[1])


def _adapter(name: str, generations: Sequence[str]) -> str:
    """The change by which generations have a name, as `kind in generation`; empty if none is."""
    return next((f"{change.kind} in {change.since}" for generation in generations
                 for change in chain.CHAIN.changes(generation) if change.name == name), "")


def _order(name: str) -> tuple[str, str, str]:
    home, _, last = name.rpartition(".")
    return home, last.lower(), last


# ---- text ------------------------------------------------------------------------------

_HEAD = f"""\
# Every exported name of mjax_ext: of the head, and of each generation.
# `{COMMAND}` writes this file. It keeps what people decide:
# tier, generations, added, deprecated, replacement.
"""


def text_of(table: Iterable[Row]) -> str:
    """The text of the file."""
    return _HEAD + "".join(f"\n{''.join(_lines(row))}" for row in table)


def _lines(row: Row) -> Iterator[str]:
    yield "[[name]]\n"
    fields = {**row._asdict(), **row.shape}
    del fields["shape"]
    tables = {field: value for field, value in fields.items() if isinstance(value, Mapping)}
    for field, value in fields.items():
        if field not in tables and value not in ("", ()) and not (field == "head" and value):
            yield f"{field} = {_value(value)}\n"
    for field, value in tables.items():
        yield f"[name.{field}]\n"
        yield from (f"{key} = {_value(text)}\n" for key, text in value.items())


def _value(value: Any) -> str:
    if not isinstance(value, (tuple, list)):
        return json.dumps(value, ensure_ascii=False)
    items = [*map(_value, value)]
    if sum(map(len, items)) < 80:
        return f"[{', '.join(items)}]"
    lines = ["   "]
    for item in items:
        if len(lines[-1]) + len(item) > 97:
            lines.append("   ")
        lines[-1] += f" {item},"
    return "\n".join(["[", *lines, "]"])
