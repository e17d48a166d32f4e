"""The line on terminals for compilations that take long."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.runtime.dispatch import progress as module
from mjax._engine.runtime.dispatch.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "_DELAY", 0.05)
    monkeypatch.setattr(module, "_STEP", 0.02)
    monkeypatch.setenv("TERM", "xterm")


def test_what_takes_long_has_a_line_that_is_erased(quick, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress("compiling f"):
        time.sleep(0.3)
    first, *_, last = sys.stderr.getvalue().split("\r\033[K")[1:]
    assert first == "compiling f: 0 s" and last == ""


def test_what_is_short_has_none(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    before = threading.active_count()
    with progress("compiling f"):
        assert threading.active_count() == before + 1
    assert sys.stderr.getvalue() == "" and threading.active_count() == before


@pytest.mark.parametrize("stream, term", [(io.StringIO(), "xterm"), (Terminal(), "dumb"),
                                          (None, "xterm")])
def test_only_terminals_have_one(quick, monkeypatch, stream, term):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", stream)
    before = threading.active_count()
    with progress("compiling f"):
        assert threading.active_count() == before
        time.sleep(0.1)
    assert stream is None or stream.getvalue() == ""


def test_no_thread_no_line(quick, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with progress("compiling f"):
        time.sleep(0.1)
    assert sys.stderr.getvalue() == ""


def test_a_closed_stream_has_none(monkeypatch):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("compiling f"):
        pass


def test_compilations_have_it(quick, monkeypatch):
    monkeypatch.setattr(module, "_DELAY", 0.001)
    monkeypatch.setattr(sys, "stderr", Terminal())

    def large(x):
        for _ in range(60):
            x = jnp.sin(x) * x
        return x

    mjax.jit(large)(jnp.ones(5))
    assert "compiling jit(large): 0 s" in sys.stderr.getvalue()
