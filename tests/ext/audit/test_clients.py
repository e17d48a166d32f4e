"""The audit of two distributions is what people read in them; where they are installed."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from mjax_ext._audit.command import audit

EXPECTED: dict[tuple[str, str], set[str]] = {}
for _line in (Path(__file__).parents[2] / "data" / "audit_clients.txt").read_text().splitlines():
    if _line.startswith("["):
        _name, _version = _line.strip("[]").split()
        _rows = EXPECTED.setdefault((_name, _version), set())
    elif _line and not _line.startswith("#"):
        _rows.add(_line)


@pytest.mark.parametrize(("name", "version"), EXPECTED, ids=[name for name, _ in EXPECTED])
def test_the_audit_is_the_list_of_a_reader(name, version):
    try:
        installed = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed; the session `clients` has it")
    if installed.version != version:
        pytest.skip(f"the list is of {name} {version}, and {installed.version} is installed")
    done = audit(name)
    site = Path(str(installed.locate_file("")))
    assert not done.unread and done.status == 1
    assert {f"{Path(f.file).relative_to(site).as_posix()} {f.line} {f.name} {f.kind} "
            f"{f.breaks_in or '-'}" for f in done.findings} == EXPECTED[name, version]
