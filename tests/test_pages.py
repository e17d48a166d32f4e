"""The files and names that the pages refer to exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
FILES = [path for folder in ("mjax", "mjax_ext", "mjaxlib_shim", "tests", "benchmarks", "examples",
                              "docs") for path in (ROOT / folder).rglob("*.py")]
#: Pages that name files of the past, or files that their reader is to write.
PAST = ("CHANGELOG.md", "0001-spikes.md", "0002-where-we-left-the-plan.md",
        "0011-files-to-touch.md")


def _file(path):
    """The file of a reference, which may leave out the first folders; or None."""
    return next((file for file in FILES if file.as_posix().endswith(f"/{path}")), None)


@cache
def _names(file):
    """Names that a module defines or imports, and those of its classes behind a dot."""
    def of(body, prefix=""):
        for node in body:
            match node:
                case ast.FunctionDef(name=name):
                    yield prefix + name
                case ast.ClassDef(name=name):
                    yield prefix + name
                    yield from of(node.body, f"{prefix}{name}.")
                case ast.Assign(targets=targets):
                    yield from (prefix + n.id for t in targets for n in ast.walk(t)
                                if isinstance(n, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield prefix + name

    return set(of(ast.parse(file.read_text()).body))


def _missing(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for path, name in re.findall(r"`([\w/.]+\.py)(?:::([\w.]+))?`", text):
        file = _file(path)
        if file is None:
            yield path
        elif name and name not in _names(file):
            yield f"{path}::{name}"


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in PAST], ids=lambda p: p.name)
def test_what_pages_refer_to_exists(page):
    assert not [*_missing(page)], f"{page.relative_to(ROOT)} refers to what does not exist"


def test_missing_references_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`control/frame.py::Frame.jvp`, `control/frame.py::Nothing`, `control/gone.py`")
    assert [*_missing(page)] == ["control/frame.py::Nothing", "control/gone.py"]
