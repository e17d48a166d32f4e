"""The pytest plugin, in sessions of its own."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from mjax_ext import core
from mjax_ext.check.pytest_plugin import Baseline, pytest_configure

SUITE = '''
import numpy as np
import mjax
from tests.ext.check.faults import X, Y, product

right = product("right")
wrong = product("wrong", jvp=lambda p: lambda primals, tangents: (
    p.bind(*primals), mjax.lax.add(*[p.bind(tangents[0], primals[1])] * 2)))


def test_right(check_primitive):
    assert check_primitive(right, X, Y).ok
    right.bind(X, Y)


def test_wrong():
    wrong.bind(X, Y)


def test_again_in_jit():
    mjax.jit(wrong.bind)(X, Y)


def test_fixture(check_primitive):
    check_primitive(wrong, X, Y)
'''


class Outcomes:
    """The outcome of each test of a session."""

    def __init__(self):
        self.by_name = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.by_name[report.nodeid.rpartition("::")[2]] = report.outcome


@pytest.fixture
def session(tmp_path, capsys):
    """Runs the suite with some options; gives its outcomes by test, and its output."""
    file = tmp_path / f"test_{tmp_path.name}.py"  # another module each time
    file.write_text(SUITE)

    def run(*options: str) -> tuple[dict[str, str], str]:
        outcomes = Outcomes()
        pytest.main(["-p", "mjax_ext.check.pytest_plugin", "-p", "no:cacheprovider", "-p",
                     "no:faulthandler", "-c", "/dev/null", "--rootdir", str(tmp_path),
                     str(file), *options], plugins=[outcomes])
        return outcomes.by_name, capsys.readouterr().out

    return run


@pytest.mark.slow
def test_baseline(session, tmp_path):
    """Findings fail the test that makes the application first, unless the file has them."""
    file = tmp_path / "rules.json"
    outcomes, said = session("--mjax-check", str(file))
    assert outcomes == {"test_right": "passed", "test_wrong": "failed",
                        "test_again_in_jit": "passed", "test_fixture": "failed"}, said
    assert "primitive 'wrong', 1 finding (jvp)" in said and "accept them by" in said
    assert not file.exists()

    outcomes, said = session("--mjax-check", str(file), "--mjax-check-accept", "-n", "2")
    assert outcomes["test_wrong"] == "passed", said
    (application, rules), = json.loads(file.read_text())["findings"].items()
    assert application == "wrong(float32[2,3], float32[2,3])" and [*rules] == ["jvp"]

    outcomes, said = session("--mjax-check", str(file))
    assert outcomes["test_wrong"] == "passed", said
    known = json.loads(file.read_text())
    known["findings"][application]["batch"] = "gone"
    file.write_text(json.dumps(known))
    outcomes, said = session("--mjax-check", str(file))
    assert outcomes["test_wrong"] == "passed" and f"{application}: batch" in said


def test_fixture(session):
    outcomes, said = session()
    assert outcomes == {"test_right": "passed", "test_wrong": "passed",
                        "test_again_in_jit": "passed", "test_fixture": "failed"}, said
    assert "WrongRulesError: primitive 'wrong', 1 finding (jvp)" in said


# ---- the mode, without a session ---------------------------------------------------------


def applying(**params):
    p = core.Primitive("applied in a test")
    p.def_impl(lambda x, **params: x)
    p.def_abstract_eval(lambda x, **params: x)
    return p, lambda x: p.bind(x, **params)


def test_operands_that_bind_refuses(tmp_path):
    baseline, (p, _) = Baseline(tmp_path / "rules.json", False), applying()
    baseline.note(p, ([1.0],), {})
    assert not baseline.waiting


def test_applications_have_the_same_name_in_each_session(tmp_path):
    baseline, (p, _) = Baseline(tmp_path / "rules.json", False), applying()
    baseline.note(p, (1.0,), {"f": applying})
    assert [*baseline.waiting] == [
        "applied in a test(~float32[], f=<function applying>)"]


@pytest.mark.parametrize("error", [pytest.skip.Exception("later"), ValueError("broken")])
def test_a_test_that_ends_early_leaves_nothing_to_the_next(tmp_path, error):
    baseline, (_, apply) = Baseline(tmp_path / "rules.json", False), applying()
    bind, running = core.Primitive.bind, baseline.pytest_runtest_call(None)
    next(running)
    apply(1.0)
    assert len(baseline.waiting) == 1
    with pytest.raises(type(error)):
        running.throw(error)
    assert not baseline.waiting and core.Primitive.bind is bind


@pytest.mark.parametrize("text", ["", "[]", "{}", "{"])
def test_a_file_of_something_else(tmp_path, text):
    file = tmp_path / "rules.json"
    file.write_text(text)
    with pytest.raises(pytest.UsageError, match="rules.json does not hold findings of --mjax-chec"):
        Baseline(file, False)


def test_accepting_without_a_file():
    options = {"--mjax-check": None, "--mjax-check-accept": True}
    with pytest.raises(pytest.UsageError, match="--mjax-check=FILE, which is not given"):
        pytest_configure(SimpleNamespace(getoption=options.get))
