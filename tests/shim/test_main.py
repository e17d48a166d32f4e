"""`python -m mjaxlib_shim`."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import mjaxlib_shim
from mjaxlib_shim import GATES, SUPPORT
from mjaxlib_shim.__main__ import main


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
    assert "MISMATCH" not in result.stdout
    table = {line.split()[0]: line.split() for line in rest[3:]}
    for gate in GATES:
        state = "open" if gate.open else "closed"
        assert table[gate.name][1:] == [
            gate.since_release,
            str(gate.since_extension_version),
            state,
            state,
        ]


def test_json():
    data = json.loads(_run("--json").stdout)
    assert data["jaxlib"] == mjaxlib_shim.jaxlib_version
    assert data["extension_version"] == mjaxlib_shim.extension_version
    assert data["window"] == [mjaxlib_shim.FLOOR, mjaxlib_shim.NEWEST]
    assert [gate["name"] for gate in data["gates"]] == [gate.name for gate in GATES]
    assert all(gate["declared"] == gate["probed"] for gate in data["gates"])
    assert [row["version"] for row in data["support"]] == [row.version for row in SUPPORT]


def test_a_wrong_declaration_shows(monkeypatch, capsys):
    wrong = GATES[0]._replace(probe=lambda: not GATES[0].open)
    monkeypatch.setattr("mjaxlib_shim.__main__.GATES", (wrong, *GATES[1:]))
    assert main([]) == 1
    assert capsys.readouterr().out.count("<-- MISMATCH") == 1
