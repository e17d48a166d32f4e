"""The tables of `docs/compatibility.md` are those of the last runs, with the samples of today."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(HERE)  # as for `python tests/clients/run.py`
    return importlib.import_module("page")


def test_the_page_has_the_results(page):
    results = json.loads(page.RESULTS.read_text())
    text, _, written = page.PAGE.read_text().partition(page.MARK)
    assert text and written == "\n" + page.tables(results)
    assert {*results} == {*page.GOALS, *page.ALSO, *(suite.client for suite in page.SUITES)}
    for suite in page.SUITES:
        names, digits = page.sample_of(suite.client)
        assert (results[suite.client]["of"], results[suite.client]["sample"]) == (
            len(names), digits), f"run `nox -s clients -- {suite.client}`"
    values = json.loads((page.SAMPLES / "programs.json").read_text())
    for name in (*page.GOALS, *page.ALSO):
        assert results[name]["of"] == len(values[name])
        assert (HERE / "programs" / f"use_{name}.py").exists()


def test_the_ledger_has_tests_of_the_samples(page):
    for (suite, name), reason in page.ledger().items():
        assert name in page.sample_of(suite)[0], name
        assert re.fullmatch(r"[A-Z].*\.", reason)


def test_the_session_installs_the_releases_of_the_table(page):
    session = (HERE.parents[1] / "noxfile.py").read_text()
    for suite in page.SUITES:
        package = {"haiku": "dm-haiku"}.get(suite.client, suite.client)
        assert f'"{package}=={suite.version}"' in session
