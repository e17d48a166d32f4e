"""Ranges and sessions."""

from __future__ import annotations

from mjaxlib_shim import profiler


def test_session_records_a_range():
    session = profiler.ProfilerSession()
    with profiler.TraceMe("a-name-of-ours", size=3):
        pass
    assert b"a-name-of-ours" in session.stop()
