"""The manifest is what the code has, and the code keeps what generations promise."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import mjax_ext
from mjax.experimental import hijax
from mjax_ext import _manifest, core
from mjax_ext._generations import snapshot, surface
from mjax_ext._generations.module_text import modules_of
from tests.ext.test_names import HOMES, groups
from tests.generations.test_breaking import SEEN

ROWS = _manifest.rows()


def test_the_code_keeps_what_generations_promise():
    broken = snapshot.broken_promises(SEEN, ROWS)
    assert not broken, "\n".join([*broken, snapshot.REMEDY])


def test_the_manifest_is_what_the_code_has():
    differ = snapshot.differences(SEEN, ROWS)
    assert not differ, f"{', '.join(differ)}: run `{snapshot.COMMAND}`"
    text = _manifest.PATH.read_text(encoding="utf-8")
    assert text == snapshot.text_of(snapshot.renewed(SEEN, ROWS)), f"run `{snapshot.COMMAND}`"


@pytest.mark.parametrize("generation", _manifest.GENERATIONS)
def test_modules_of_generations_are_what_the_manifest_says(generation):
    for path, text in modules_of(generation, ROWS).items():
        file = _manifest.PATH.parent / path
        assert file.read_text(encoding="utf-8") == text, f"{path}: run `{snapshot.COMMAND}`"
    written = {f for f in (_manifest.PATH.parent / generation).rglob("*.py")}
    assert written == {_manifest.PATH.parent / path for path in modules_of(generation, ROWS)}


def test_rows_say_what_they_have_to():
    for row in ROWS:
        assert row.tier in _manifest.TIERS and row.added, row.name
        assert bool(row.generations) == (row.tier != "head"), row.name
        assert row.head or row.generations, row.name
        assert not set(row.generations) - set(_manifest.GENERATIONS), row.name
    for who in (None, *_manifest.GENERATIONS):
        names = [r.name for r in ROWS if (r.head if who is None else who in r.generations)]
        assert len(names) == len(set(names))


def test_replacements_are_names_of_the_surface():
    names = {row.name for row in ROWS}
    assert not [row.name for row in ROWS if row.replacement and row.replacement not in names]


def test_all_modules_of_the_head_are_in_the_manifest():
    """A new public module of `mjax_ext` has to be listed, or its names are in nobody's sight."""
    found = {m.name for m in pkgutil.walk_packages(mjax_ext.__path__, "mjax_ext.")
             if "._" not in m.name and not m.name.startswith("mjax_ext.v")}
    listed = {*_manifest.MODULES.values(), *(f"mjax_ext.{p}" for p in _manifest.PACKAGES)}
    missing = found - listed - {"mjax_ext.check.pytest_plugin"}
    assert not missing, f"put {missing} into MODULES of mjax_ext/_manifest.py; {snapshot.COMMAND}"


def test_the_command_compares_and_writes(capsys, tmp_path, monkeypatch):
    assert snapshot.main([]) == 0
    with pytest.raises(SystemExit, match="2"):
        snapshot.main(["--what"])
    copy = tmp_path / "manifest.toml"
    copy.write_text(_manifest.PATH.read_text().replace('name = "explain"', 'name = "explained"'))
    monkeypatch.setattr(snapshot, "PATH", copy)
    monkeypatch.setattr(snapshot, "rows", lambda: _manifest.rows(copy))
    monkeypatch.setattr(snapshot, "write_modules", lambda table: None)
    capsys.readouterr()
    assert snapshot.main([]) == 1
    assert "v1.explained: it is gone" in capsys.readouterr().err
    copy.write_text(_manifest.PATH.read_text().replace('name = "core.EvalTrace"',
                                                       'name = "core.EvalTracer"'))
    _manifest.rows.cache_clear()
    assert snapshot.main([]) == 1 and snapshot.COMMAND in capsys.readouterr().err
    assert snapshot.main(["--write"]) == 0
    assert copy.read_text() == _manifest.PATH.read_text()


def test_shapes_do_not_depend_on_what_was_used_before():
    """Methods of arrays are put into their class when they are first used."""
    class Late:
        def __get__(self, instance, owner):
            owner.total = lambda self, axis=None: None
            return owner.total

    cls = type("Rows", (), {"__module__": "mjax.rows", "total": Late()})
    first = surface.shape_of(cls)
    assert first == surface.shape_of(cls) and first[1]["methods"] == {"total": "(self, axis=None)"}


def test_shapes_do_not_depend_on_types_of_users():
    hijax.aval_property(len)  # since then tracers look for attributes in types
    assert "tolist" in surface.shape_of(core.Tracer)[1]["methods"]


@pytest.mark.slow
def test_the_command_agrees_where_nothing_was_used_before():
    subprocess.run([sys.executable, "-m", "mjax_ext", "manifest"], check=True)


def test_modules_of_a_generation_load_nothing():
    code = ("import sys, mjax_ext; early = 'mjax_ext.v1' in sys.modules; "
            "import mjax_ext.v1.interpreters.ad; "
            "late = {'mjax_ext._generations.chain', 'mjax_ext.core'} & set(sys.modules); "
            "sys.exit(early or len(late))")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_v1_has_the_names_that_libraries_use():
    """At least 97 % of the names of the coverage table that the head has."""
    names, lacking, asked = {*_manifest.of("v1"), *_manifest.MODULES}, [], 0
    for title, used in groups("downstream_names.txt").items():
        for module in [home.removeprefix("mjax_ext.") for home in HOMES.get(title, ())]:
            if module in _manifest.MODULES:
                home = importlib.import_module(_manifest.MODULES[module])
                here = [f"{module}.{name}" for name in (n.partition(":")[0] for n in used)
                        if name in home.__all__]
                asked += len(here)
                lacking += [name for name in here if name not in names]
    assert len(lacking) <= 0.03 * asked and asked > 150, (
        f"in manifest.toml, give {lacking} the generations v1 and the tier provisional; "
        f"{snapshot.COMMAND}")
