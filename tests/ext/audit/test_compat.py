"""The audit of modules as libraries write them by hand, to work with several releases of jax."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import mjax
from mjax import lax
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
    found, expected = rows(audit_source(source, module)), EXPECTED[module]
    without_home = {line.removesuffix(" -") for line in expected if line.endswith(" -")}
    # Generations grow: v1 may have more homes by now.
    assert {line.rpartition(" ")[0] if line.rpartition(" ")[0] in without_home else line
            for line in found} == {line.removesuffix(" -") for line in expected}


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
        "under the `if` of line 7", "`getattr` with a default at line 6", "the library sets it"]


# ---- with v1 ---------------------------------------------------------------------------

WITH_V1 = sorted((FOLDER.parent / "compat_v1").glob("*.py"))


def lines(path):
    return len([line for line in path.read_text().splitlines() if line.strip()])


@pytest.mark.parametrize("path", WITH_V1, ids=lambda path: path.stem)
def test_with_v1_they_are_imports_that_work(path):
    found = audit_source(path.read_bytes(), path.name)
    assert found and all(f.kind == "generation" and not f.fails for f in found)
    assert runpy.run_path(str(path))


def test_the_page_counts_the_lines():
    page = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
    counted = dict(re.findall(r"^\| \w+ \| \d+ \| `(\w+)` \| (\d+) \|", page, re.MULTILINE))
    assert counted == {**{path.stem: str(lines(path)) for path in WITH_V1},
                       "imported_on_demand": "0"}


def test_params_of_scan_are_those_that_v1_freezes():
    module = runpy.run_path(str(FOLDER.parent / "compat_v1" / "params_by_release.py"))
    eqn, = mjax.make_jaxpr(lambda x, c, y: lax.scan(lambda c, z: (c * x + z, c), c, y))(
        2.0, 1.0, np.ones(3, np.float32)).eqns
    assert module["scan_arity"](eqn.params, len(eqn.invars)) == (1, 1, 1)
    assert module["fresh_var_like"](eqn.invars[0]).aval == eqn.invars[0].aval
