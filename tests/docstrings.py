"""Which docstrings of public names lack a section; `python -m tests.docstrings` writes the list.

Functions and classes need `Args` that names every parameter, and an example. Functions that take
something need `Returns`, unless they give None, and `Raises`. Exceptions, constants, properties
and other methods need a sentence.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.site.definitions import sentence
from docs.site.docstring import entries, parse
from docs.site.surface import PACKAGES, Name, methods, surface
from mjax.numpy import ufunc

#: Docstrings of classes that users do not call say where instances come from.
_MADE = re.compile(r"\b(made|given|returned) by\b|\b(make|give|return)s? (it|them|one)\b|"
                   r"\bfrom `jit\b|The first argument of|The result of", re.IGNORECASE)

FILE = Path(__file__).parent / "data" / "docstrings.txt"
#: Functions that cannot raise, whatever they are given; they need no `Raises`.
CANNOT_RAISE = frozenset((FILE.parent / "cannot_raise.txt").read_text().split())


def missing() -> list[str]:
    """A line `section name` for each section that is missing."""
    return sorted(f"{section} {name.full}" for names in surface().values() for name in names
                  for section in lacks(name))


def lacks(name: Name) -> Iterator[str]:
    """The sections that the docstring of a name lacks; those of NumPy's and jaxlib's are theirs."""
    if name.kind in ("function", "class", "exception") and not str(getattr(
            name.value, "__module__", "")).startswith(PACKAGES):
        return
    if name.kind in ("constant", "primitive", "exception"):
        if not (sentence(name) if name.kind != "exception" else parse(name.value).summary):
            yield "Sentence"
        return
    doc = parse(name.value)
    if not doc.summary or (name.kind == "class" and any(
            not parse(value).summary for _, value in methods(name.value))):
        yield "Sentence"
    if ">>>" not in (inspect.getdoc(name.value) or ""):
        yield "Example"
    parameters = _parameters(name.value)
    if parameters and not parameters <= _described(doc.sections):
        yield "Args"
    if name.kind == "function" and parameters:
        if not {"Returns", "Yields"} & doc.sections.keys() and not _gives_none(name.value):
            yield "Returns"
        if "Raises" not in doc.sections and name.full not in CANNOT_RAISE:
            yield "Raises"


def _signature(value: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def _parameters(value: Any) -> set[str]:
    """The parameters that users may give."""
    if isinstance(value, type) and (
            issubclass(value, enum.Enum) or getattr(value, "_is_protocol", False)
            or _MADE.search(inspect.getdoc(value) or "")):
        return set()
    found = _signature(value)
    names = {name for name in (found.parameters if found else ()) if not name.startswith("_")}
    # The class of ufuncs describes the parameters of all of them.
    return names - {"args", "out", "where"} if isinstance(value, ufunc) else names


def _gives_none(value: Any) -> bool:
    found = _signature(value)
    return found is not None and found.return_annotation in (None, "None", "NoReturn", "Never")


def _described(sections: dict[str, str]) -> set[str]:
    """The parameters that `Args`, or the attributes of a record, describe."""
    return {word for section in ("Args", "Attributes") for name, _ in entries(
        sections.get(section, "")) for word in re.findall(r"\w+", name)}


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in missing()))
