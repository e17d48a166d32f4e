"""Files that ordinary runs do not import find what they import from mjax and the tests."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("benchmarks", "examples", "tests/differential", "tests/distributed")
         for path in sorted((ROOT / folder).rglob("*.py"))]
OURS = ("mjax", "mjax_ext", "mjaxlib_shim", "tests")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_are_there(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in OURS:
                    importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            if node.module.partition(".")[0] in OURS and not node.module.startswith(
                    "tests.differential"):  # which needs jax
                home = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(home, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")
