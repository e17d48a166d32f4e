"""The audit of modules as libraries write them by hand, to work with several releases of jax."""

from __future__ import annotations

from pathlib import Path

import pytest

from mjax_ext._audit.command import audit_source

FOLDER = Path(__file__).parent / "compat"
EXPECTED: dict[str, set[str]] = {}
for _line in (Path(__file__).parents[2] / "data" / "audit_compat.txt").read_text().splitlines():
    if _line.startswith("["):
        _module = EXPECTED.setdefault(_line.strip("[]"), set())
    elif _line and not _line.startswith("#"):
        _module.add(_line)


def rows(found):
    """Name -> lines, release, home."""
    by_name = {}
    for f in found:
        home = (f.replacement or "-").removeprefix("mjax_ext.v1.")
        by_name.setdefault((f.name, f.breaks_in or "-", home), []).append(str(f.line))
    return {" ".join([name, *lines, release, home])
            for (name, release, home), lines in by_name.items()}


@pytest.mark.parametrize("module", EXPECTED)
def test_each_use_is_found(module):
    source = (FOLDER / f"{module}.py").read_bytes()
    assert rows(audit_source(source, module)) == EXPECTED[module]


def test_every_module_is_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXPECTED)


def test_notes():
    notes = {}
    for module in EXPECTED:
        for f in audit_source((FOLDER / f"{module}.py").read_bytes(), module):
            notes[module, f.name, f.line] = f.note
    said = lambda module, name, line: notes[module, name, line].split("; ")[1:]
    assert said("homes_by_release", "jax.core.gensym", 10) == ["under the `if` of line 9"]
    assert said("homes_by_release", "jax.extend.core.CallPrimitive", 16) == [
        "under the `try` of line 15"]
    assert said("patched_rules", "jax._src.core.new_jaxpr_eqn", 25) == ["the library sets it"]
    assert said("restored_table", "jax.interpreters.xla.pytype_aval_mappings", 6) == [
        "`hasattr` at line 6"]
    assert said("params_by_release", "jax.interpreters.batching.not_mapped", 8) == [
        "the library sets it", "under the `if` of line 7",
        "`getattr` with a default at line 6"]
