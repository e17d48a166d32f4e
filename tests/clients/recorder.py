"""A pytest plugin: chooses the tests of a client's suite, and writes how each one ended.

It is loaded as `recorder`, with this folder on the path: clients have packages `tests`, too.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path

import pytest


def in_sample(name: str, one_in: int) -> bool:
    """Whether a test is in the sample: by a hash of its name, so everywhere the same."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) % one_in == 0


def pytest_addoption(parser):
    parser.addoption("--suite-root", type=Path, help="names of tests are relative to this folder")
    parser.addoption("--only", type=Path, help="a file of names: these tests")
    parser.addoption("--one-in", type=int, default=1, help="the share of the sample")
    parser.addoption("--today", type=datetime.date.fromisoformat, help="what `date.today()` says")
    parser.addoption("--endings", type=Path, help="a file to append to: name, ending, seconds")


def _name(item):
    path = item.path.resolve().relative_to(item.config.getoption("--suite-root").resolve())
    # pytest.Class and TestCase functions have no brackets of their own; parameters have.
    return f"{path.as_posix()}::{item.nodeid.split('::', 1)[1]}"


def pytest_collection_modifyitems(config, items):
    if only := config.getoption("--only"):
        names = set(only.read_text().splitlines())
        items[:] = [item for item in items if _name(item) in names]
    else:
        items[:] = [item for item in items if in_sample(_name(item), config.getoption("--one-in"))]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" or report.outcome != "passed":
        report.user_properties.append(("name", _name(item)))
    return report


def pytest_configure(config):
    if today := config.getoption("--today"):
        datetime.date = _always(today)
    if hasattr(config, "workerinput") or not config.getoption("--endings"):
        return
    config.pluginmanager.register(_Writer(config.getoption("--endings")))


def _always(today):
    """`datetime.date` on a day that does not pass."""
    return type("date", (datetime.date,), {"today": classmethod(lambda cls: today)})


class _Writer:
    """In the process that gets all reports."""

    def __init__(self, path):
        self.path = path

    def pytest_runtest_logreport(self, report):
        name = dict(report.user_properties).get("name")
        if name and type(report).__name__ == "TestReport":
            with self.path.open("a") as file:
                row = [name, report.outcome, round(report.duration, 2)]
                file.write(json.dumps(row) + "\n")
