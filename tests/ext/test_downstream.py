"""`examples/downstream`, which pins v1, in place; `nox -s downstream` tests it installed."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

import mjax_ext.check.pytest_plugin
from mjax_ext._audit.command import audit
from mjaxlib_shim import FLOOR, SUPPORT
from mjaxlib_shim.versions import installable

EXAMPLE = Path(__file__).parents[2] / "examples" / "downstream"
sys.path.insert(0, str(EXAMPLE / "src"))
check_primitive = mjax_ext.check.pytest_plugin.check_primitive


def _its_tests():
    """Its own tests; those that run the checker or a process are slow."""
    for file in sorted((EXAMPLE / "tests").glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"downstream_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, test in vars(module).items():
            if name.startswith("test_"):
                slow = "subprocess" in vars(module) or "check_primitive" in (
                    inspect.signature(test).parameters)
                yield name, pytest.mark.slow(test) if slow else test


globals().update(_its_tests())


def test_its_tests_are_here():
    assert {"test_sums", "test_the_rules_are_right", "test_it_composes",
            "test_we_use_names_of_v1_alone"} <= globals().keys()


def test_it_uses_names_of_v1_alone():
    done = audit(str(EXAMPLE / "src"))
    assert done.status == 0 and done.files == 3
    assert {(f.kind, f.generation) for f in done.findings} == {("generation", "v1")}
    assert {"mjax_ext.v1.core.Primitive", "mjax_ext.v1.core.Interpreter"} <= {
        f.name for f in done.findings}


def test_its_page_does_what_it_shows():
    page = EXAMPLE / "README.md"
    block, = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), 0)
    assert test.examples and doctest.DocTestRunner(verbose=False).run(test).failed == 0
    for path in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        assert (EXAMPLE / path).exists(), path


def test_its_cells_are_of_the_window():
    """The oldest jaxlib, one between, and the newest for the Python of its CI."""
    ci = (EXAMPLE / ".github" / "workflows" / "tests.yml").read_text()
    (python,), (cells,) = (re.findall(pattern, ci) for pattern in (
        r'python-version: "(\d+\.\d+)"', r"jaxlib: \[(.*?)\]"))
    oldest, between, newest = re.findall(r'"([\d.]+)"', cells)
    assert f'"{oldest} {between} {newest}"' in (EXAMPLE / "noxfile.py").read_text()
    assert oldest == FLOOR and between in [release.version for release in SUPPORT]
    assert newest == installable(tuple(map(int, python.split(".")))).version
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={python}"
    assert f'jaxlib=">={FLOOR}"' in (EXAMPLE / "src" / "leaky_sums" / "__init__.py").read_text()
