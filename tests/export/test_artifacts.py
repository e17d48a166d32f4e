"""Artifacts in tests/data/artifacts, written on the oldest jaxlib, stay readable."""

from __future__ import annotations

import pathlib

import pytest

from tests.export import programs

ARTIFACTS = pathlib.Path(__file__).parent.parent / "data" / "artifacts"


def test_each_artifact_has_its_program():
    assert {path.stem for path in ARTIFACTS.iterdir()} == set(programs.PROGRAMS)


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_artifacts_stay_readable(name):
    programs.check(name, (ARTIFACTS / f"{name}.mjax1").read_bytes())


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_artifacts_written_here_are_readable(name):
    programs.check(name, programs.artifact(name))
