"""The text of the modules of a generation: `python -m mjax_ext manifest --write` writes them.

People decide in the manifest which names a generation has. Type checkers read the imports in these
modules; at run time names come through the chain (`namespace`), so that `import mjax_ext.v1` loads
nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from mjax_ext._manifest import GENERATIONS, MODULES, PACKAGES, Row, of

_TEXT = '''\
"""{title}
{told}
Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING{Any}

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
{imports}

__all__ = [
{names}
]

namespace("{module}")
'''
_TOLD = """
`mjax_ext.require("{generation}")` gives it, or says what it needs; `docs/policy.md` tells what it
promises. `program` gives a program of `mjax` as this generation writes it; `jaxlibs`
are the releases that its tests run on.
"""
#: The comment behind constants that the head does not have.
_SAID = {"jaxlibs": "  #: The releases of jaxlib on which the tests of this generation run."}


def modules_of(generation: str, table: Iterable[Row]) -> dict[Path, str]:
    """Path below `mjax_ext` -> text, for all modules of a generation."""
    table = list(table)
    rows, head = of(generation, table), of(None, table)
    found = {}
    for dotted in (*MODULES, *PACKAGES):
        module = ".".join(filter(None, ["mjax_ext", generation, dotted]))
        below = f"{dotted}." if dotted else ""
        is_package = not dotted or any(
            other.startswith(below) for other in (*MODULES, *PACKAGES))
        place = Path(generation, *dotted.split(".")) if dotted else Path(generation)
        place = place / "__init__.py" if is_package else place.with_suffix(".py")
        inner = sorted({other.removeprefix(below).partition(".")[0] for other in (
            *MODULES, *PACKAGES) if other.startswith(below)} - {""})
        names = [name.removeprefix(below) for name in rows
                 if name.startswith(below) and "." not in name.removeprefix(below)]
        found[place] = _text(generation, dotted, module, names, inner, head)
    return found


def _text(generation: str, dotted: str, module: str, names: list[str], inner: list[str],
          head: Mapping[str, Row]) -> str:
    status = GENERATIONS.get(generation, "stable")
    home = MODULES.get(dotted, f"mjax_ext.{dotted}")
    below = f"{dotted}." if dotted else ""
    known = [name for name in names if below + name in head]
    others = [name for name in names if below + name not in head]
    lines = [*_imports(home, known), *_imports(module, inner)]
    lines += [*[""] * bool(known and others)]
    lines += [f"    {name}: Any{_SAID.get(below + name, '')}" for name in others]
    title = f"Generation {generation}{f' ({status})' if status != 'stable' else ''} of `{home}`."
    return _TEXT.format(
        title=title, told=_TOLD.format(generation=generation) if not dotted else "",
        Any=", Any" if others else "", imports="\n".join(lines), module=module,
        names="\n".join(_wrapped(names, 4, '"{}"') + _wrapped(inner, 4, '"{}"')))


def _imports(home: str, names: list[str]) -> list[str]:
    """The lines that import some names, as the linter sorts them."""
    names = sorted(names, key=lambda n: (not n.isupper(), not n[0].isupper(), n.lower()))
    line = f"    from {home} import {', '.join(names)}"
    if len(line) <= 88:
        return [line] if names else []
    return [f"    from {home} import (", *(f"        {name}," for name in names), "    )"]


def _wrapped(names: list[str], indent: int, form: str) -> list[str]:
    if not names:
        return []
    text = ", ".join(form.format(name) for name in names) + ","
    return textwrap.wrap(text, 99, initial_indent=" " * indent, subsequent_indent=" " * indent,
                         break_long_words=False)
