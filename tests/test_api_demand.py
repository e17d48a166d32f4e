"""The names that libraries ask of JAX: none that mjax has may vanish."""

from __future__ import annotations

import pytest

from tests import api_demand


def test_no_demanded_name_has_vanished():
    lacking = {name for name in api_demand.demand() if not api_demand.is_present(name)}
    known = set(api_demand.absent())
    assert not lacking - known, f"vanished: {sorted(lacking - known)}"
    assert not known - lacking, f"take out of api_absent.txt, they are there: {known - lacking}"


@pytest.mark.parametrize("name, there", [
    ("numpy.linalg.norm", True), ("numpy.foo", False), ("foo.bar", False), ("jit", True)])
def test_presence(name, there):
    assert api_demand.is_present(name) is there


def test_the_table_prints(capsys):
    api_demand.main(["--absent"])
    *rows, last = capsys.readouterr().out.splitlines()
    assert len(rows) == len(api_demand.absent()) and all("absent" in row for row in rows)
    assert last == f"{len(api_demand.demand()) - len(rows)} of {len(api_demand.demand())} " \
                   "names are present"
