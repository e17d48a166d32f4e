"""Where names are defined, and the sentences beside the definitions of constants."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

from docs.site.surface import PACKAGES, Name, origins
from mjaxlib_shim import Gate

ROOT = Path(__file__).resolve().parent.parent.parent


@cache
def _assignments(module: str) -> dict[str, str]:
    """Name -> the comment `#:` in front of its assignment in a module, or ""."""
    file = importlib.import_module(module).__file__
    if file is None or not Path(file).is_relative_to(ROOT):
        return {}
    lines = Path(file).read_text().splitlines()
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse("\n".join(lines))):
        targets = (node.targets if isinstance(node, ast.Assign)
                   else [node.target] if isinstance(node, ast.AnnAssign) else [])
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    found[name.id] = _comment(lines, node.lineno - 1)
    return found


def _comment(lines: list[str], at: int) -> str:
    """The lines `#:` that end above a line; or the one behind it."""
    if "  #: " in lines[at]:
        return lines[at].partition("  #: ")[2]
    while at and re.match(r"\w[\w, ]*(: .*)? = |    .*\)$", lines[at - 1]):
        at -= 1  # a comment belongs to all lines below it
    start = at
    while start and lines[start - 1].lstrip().startswith("#:"):
        start -= 1
    return "\n".join(line.strip().removeprefix("#:").strip() for line in lines[start:at])


def sentence(name: Name) -> str:
    """Describes a constant or a primitive: by the comment at its definition, or a docstring."""
    if name.kind == "primitive":
        schema = str(name.value.schema) if name.value.schema is not None else ""
        return (f"The primitive `{name.value.name}`, "
                + (f"of the params `{schema}`." if schema else "without params."))
    if isinstance(name.value, Gate):
        return name.value.changed
    module, own = name.source, name.source_name
    for _ in range(6):
        if comment := _assignments(module).get(own):
            return comment
        if own in _assignments(module) or own not in _imported(module):
            break
        module, own = _imported(module)[own]
    doc = inspect.getdoc(name.value) if _has_own_doc(name.value) else ""
    return " ".join((doc or "").split("\n\n")[0].split())


def _imported(module: str) -> dict[str, tuple[str, str]]:
    return origins(module) if module.startswith(PACKAGES) else {}


def _has_own_doc(value: Any) -> bool:
    """Whether its docstring is about it: not one of Python's or NumPy's for all such objects."""
    if hasattr(value, "__origin__"):
        return False
    return (isinstance(value, type) or type(value).__module__.startswith(PACKAGES)
            or inspect.getdoc(value) != inspect.getdoc(type(value)))


def source_line(value: Any) -> str | None:
    """`path#Lnumber` of a function or class of ours; None for others."""
    try:
        code = inspect.unwrap(value) if inspect.isroutine(value) else value
        file = Path(inspect.getsourcefile(code) or "").resolve()
        line = inspect.getsourcelines(code)[1]
    except (TypeError, OSError):
        return None
    if not file.is_relative_to(ROOT):
        return None
    return f"{file.relative_to(ROOT).as_posix()}#L{line}"
