"""Which processes write a report, and the options of their interpreters."""

from __future__ import annotations

import sys

import pytest

from mjaxlib_shim.examination import interpreter_options
from mjaxlib_shim.starting import reporting


@pytest.mark.parametrize("words, arguments, expected", [
    (["-m", "mjax"], [], True), (["-mmjax"], [], True), (["-Im", "mjax"], ["--json"], True),
    (["-W", "error", "-m", "mjax"], ["--json"], True), (["-m", "mjax"], ["trace", "x.py"], False),
    (["-m", "mjax.numpy"], [], False), (["-m", "pytest"], ["-q"], False),
    (["-m", "notmjax"], [], False), (["-m", "mjaxlib_shim"], [], False)])
def test_reports(monkeypatch, words, arguments, expected):
    monkeypatch.setattr(sys, "orig_argv", ["python", *words, *arguments])
    monkeypatch.setattr(sys, "argv", ["-m", *arguments])
    assert reporting("mjax") == expected
    assert reporting("mjax", "mjaxlib_shim") == (expected or words[-1] == "mjaxlib_shim")


def test_scripts_do_not_report(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "mjax"])
    monkeypatch.setattr(sys, "argv", ["mjax"])
    assert not reporting("mjax")
    monkeypatch.delattr(sys, "argv")  # an embedded interpreter
    assert not reporting("mjax")


@pytest.mark.parametrize("words, arguments, expected", [
    (["-m", "mjax"], [], []), (["-mmjax"], ["--json"], []), (["-Im", "mjax"], [], ["-I"]),
    (["-S", "-I", "-m", "mjax"], ["--json"], ["-S", "-I"]),
    (["-X", "dev", "-W", "error", "-Bm", "mjax"], [], ["-X", "dev", "-W", "error", "-B"]),
    (["script.py"], ["-m"], [])])
def test_options_of_the_interpreter(monkeypatch, words, arguments, expected):
    monkeypatch.setattr(sys, "orig_argv", ["python", *words, *arguments])
    monkeypatch.setattr(sys, "argv", ["any", *arguments])
    assert interpreter_options() == expected
