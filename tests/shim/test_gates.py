"""The gate table: true on the running jaxlib, alive on the window, complete."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re

import pytest

import mjaxlib_shim
from mjaxlib_shim import (
    GATES,
    SUPPORT,
    Gate,
    artifact_gates,
    foreign_gates,
    gates,
    lapack_gates,
    open_gates,
    xla_gates,
)

PACKAGE = pathlib.Path(mjaxlib_shim.__path__[0])
every_gate = pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)


@every_gate
def test_declaration_agrees_with_the_library(gate):
    assert gate.probe() is gate.open


@every_gate
def test_gate_is_alive(gate):
    """When the floor rises: delete the old branch of the gates named here, then the gate."""
    floor, newest = SUPPORT[0], SUPPORT[-1]
    assert not gate.open_on(floor.extension_version), "open on the whole window: dead"
    assert gate.open_on(newest.extension_version), "closed on the whole window"


@every_gate
def test_release_and_extension_version_agree(gate):
    first = next(row for row in SUPPORT if gate.open_on(row.extension_version))
    assert first.version == gate.since_release
    assert first.extension_version == gate.since_extension_version


def test_table_holds_every_gate_once_in_order():
    modules = {name: value for module in (artifact_gates, foreign_gates, lapack_gates, xla_gates,
                                          gates) for name, value in vars(module).items()}
    defined = [value for value in modules.values() if isinstance(value, Gate)]
    assert len({gate.name for gate in GATES}) == len(GATES)
    assert {gate.name for gate in defined} == {gate.name for gate in GATES}
    openings = [gate.since_extension_version for gate in GATES]
    assert openings == sorted(openings)
    for name, gate in modules.items():
        if isinstance(gate, Gate):
            assert name == gate.name.upper()


@every_gate
def test_gate_is_used(gate):
    sources = "".join(file.read_text() for file in PACKAGE.glob("*.py"))
    assert re.search(rf"gates\.{gate.name.upper()}\.open\b", sources)


def test_only_the_table_compares_versions():
    """A branch on jaxlib's version anywhere else is an undeclared gate."""
    for file in PACKAGE.glob("*.py"):
        # `facts` and `__main__` only report.
        if file.name in ("gate.py", "versions.py", "facts.py", "__main__.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare):
                assert "version" not in ast.unparse(node), file.name


def test_open_gates():
    assert set(open_gates()) == {gate.name for gate in GATES if gate.probe()}


def test_who_uses_the_shim_asks_it_what_to_do():
    """Only the shim knows the features of releases: it offers functions, not flags."""
    asked = []
    for package in ("mjax", "mjax_ext"):
        for path in (PACKAGE.parent / package).rglob("*.py"):
            text = path.read_text()
            # The doctor reports gates; it does nothing by them.
            if "mjaxlib_shim" not in text or path.name == "doctor.py":
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("mjaxlib_shim"):
                    home = importlib.import_module(node.module)
                    asked += [f"{path}: {alias.name}" for alias in node.names
                              if isinstance(getattr(home, alias.name, None), bool)
                              or "gate" in f"{node.module}.{alias.name}"]
    assert asked == []
