"""The checks that are always on cost at most three percent of a trace, in bytecodes."""

from __future__ import annotations

from benchmarks.checks import CHECKS, DEFINITION, GOAL, shares


def test_checks_are_cheap():
    found = {name: (checked, bare) for name, checked, bare, _ in shares()}
    checked, bare = found.pop(DEFINITION)
    assert bare < checked < 8000
    assert len(found) == 8
    for name, (checked, bare) in found.items():
        assert 1 - bare / checked <= GOAL, (name, checked, bare)
    assert sum(checked > bare for checked, bare in found.values()) >= 4  # they were taken out
    assert all(check.without is not getattr(check.owner, check.name) for check in CHECKS)
