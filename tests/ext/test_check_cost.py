"""The checks that are always on cost at most three percent of a trace, in instructions.

Bytecodes take little time to count, but leave out C code: they may be more.
"""

from __future__ import annotations

import pytest

import mjax
from benchmarks.checks import (
    CHECKS,
    DEFINITION,
    GOAL,
    compared,
    instructions,
    programs,
    real_programs,
    shares,
    without,
)

BYTECODES = 0.07
BYTECODES_OF_PROGRAMS = 0.04


@pytest.fixture(autouse=True)
def as_users_run(monkeypatch):
    """Without the checks of tests, which type all programs that are traced."""
    monkeypatch.setenv("MJAX_ENABLE_CHECKS", "0")
    with mjax.enable_checks(False):
        yield


ROWS = ["engine's", "helpers'", "own rules, one", "own rules, two", "own rules, a", "own linearize",
        "own partial_eval"]


@pytest.mark.slow
@pytest.mark.parametrize("start", [*dict.fromkeys(name.split(",")[0] for name in real_programs()),
                                   *ROWS])
def test_instructions(start):
    found = instructions(start, seeds=[0])
    if not found:
        pytest.skip("Valgrind is not installed, or Python does not have the names of functions")
    assert len(found) >= 2
    for name, (checked, bare) in found.items():
        assert 1 - bare / checked <= GOAL, (name, checked, bare)


@pytest.mark.parametrize("start", ROWS)
def test_checks_are_cheap(start):
    found = list(shares(start, 40))
    assert len(found) >= 2
    for name, checked, bare in found:
        assert bare <= checked, name
        assert 1 - bare / checked <= BYTECODES, (name, checked, bare)
    assert found[1][1] > found[1][2]  # they were taken out


@pytest.mark.parametrize("name", [
    name if name.startswith(("RNN", "Newton")) else pytest.param(name, marks=pytest.mark.slow)
    for name in real_programs()])
def test_checks_of_real_programs_are_cheap(name):
    call = real_programs()[name]
    ((_, checked, bare),) = compared({name: call})
    assert bare < checked and 1 - bare / checked <= BYTECODES_OF_PROGRAMS, (checked, bare)
    with without(CHECKS):
        bare = str(call())
    assert str(call()) == bare


def test_definitions():
    ((_, checked, bare),) = shares(DEFINITION)
    assert bare < checked < 9000
    assert all(check.without is not getattr(check.owner, check.name) for check in CHECKS)


def test_the_unchecked_engine_traces_the_same_programs():
    for name, call in programs(4).items():
        if "new type" not in name and name != DEFINITION:
            with without(CHECKS):
                bare = str(call())
            assert str(call()) == bare, name
