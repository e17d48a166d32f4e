"""`python -m mjaxlib_shim`."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import mjaxlib_shim
from mjaxlib_shim import GATES, SUPPORT, facts
from mjaxlib_shim.__main__ import table, verdict, wrong_gates


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "mjaxlib_shim", *arguments],
        cwd=pathlib.Path(mjaxlib_shim.__path__[0]).parent,
        capture_output=True,
        text=True,
        check=True,
    )


def test_table():
    result = _run()
    assert result.stderr == ""
    first, window, *rest = result.stdout.splitlines()
    assert first.startswith(f"jaxlib    {mjaxlib_shim.jaxlib_version} (extension version ")
    assert window == "window    0.4.36 to 0.12.0.1"
    assert "MISMATCH" not in result.stdout and rest[-1] == "mjax can run here."
    table = {line.split()[0]: line.split(maxsplit=4) for line in rest[4:-2]}
    for gate in GATES:
        state, words = ("open", gate.changed) if gate.open else ("closed", gate.why)
        assert table[gate.name][1:] == [
            gate.since_release,
            str(gate.since_extension_version),
            state,
            words,
        ]


def test_json():
    data = json.loads(_run("--json").stdout)
    assert data["jaxlib"] == mjaxlib_shim.jaxlib_version
    assert data["extension_version"] == mjaxlib_shim.extension_version
    assert data["window"] == [mjaxlib_shim.FLOOR, mjaxlib_shim.NEWEST]
    assert [gate["name"] for gate in data["gates"]] == [gate.name for gate in GATES]
    assert all(gate["declared"] == gate["probed"] for gate in data["gates"])
    assert [row["version"] for row in data["support"]] == [row.version for row in SUPPORT]


def test_a_wrong_declaration_shows():
    gates = facts.gates()["gates"]
    assert wrong_gates(gates) == []
    gates[0]["probed"] = not gates[0]["declared"]
    (finding,) = wrong_gates(gates)
    assert finding.fatal and gates[0]["name"] in finding.text
    data = {"gates": gates, **verdict([finding])}
    assert "\n".join(table(data)).count("<-- MISMATCH") == 1 and data["usable"] is False


@pytest.fixture
def other_jaxlib(tmp_path):
    """Makes `import jaxlib` find a package that says to be of a version; None: that fails."""
    def make(version):
        package = tmp_path / "jaxlib"
        package.mkdir()
        if version is None:
            (package / "__init__.py").write_text("raise ImportError('No module named jaxlib')")
        else:
            (package / "__init__.py").write_text("")
            (package / "version.py").write_text(f"__version__ = {version!r}")
        root = str(pathlib.Path(mjaxlib_shim.__path__[0]).parent)
        return {"env": {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])},
                "cwd": tmp_path, "capture_output": True, "text": True}
    return make


@pytest.mark.parametrize("version, text", [
    (None, "mjax needs jaxlib (and only jaxlib, not jax), which cannot be imported"),
    ("0.4.30", "jaxlib 0.4.30 is too old for mjax, which runs on jaxlib 0.4.36 to 0.12.0.1")])
def test_where_mjax_cannot_run(other_jaxlib, version, text):
    options = other_jaxlib(version)
    table = subprocess.run([sys.executable, "-m", "mjaxlib_shim"], **options)
    assert table.returncode == 1 and table.stderr == ""
    assert "window    0.4.36 to 0.12.0.1" in table.stdout and "numpy" in table.stdout
    assert text in table.stdout and "here, which hides " in table.stdout  # the installed one
    data = json.loads(subprocess.run(
        [sys.executable, "-m", "mjaxlib_shim", "--json"], **options).stdout)
    assert text in data["problem"] and data["gates"] == []
    assert data["remedy"] == "unset PYTHONPATH"
    assert [row["version"] for row in data["support"]] == [row.version for row in SUPPORT]
    # For everybody else it stays an error.
    plain = subprocess.run([sys.executable, "-c", "import mjaxlib_shim"], **options)
    assert plain.returncode == 1 and text in plain.stderr
