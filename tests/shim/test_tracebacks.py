"""C++ tracebacks."""

from __future__ import annotations

import gc
import sys
import weakref

from mjaxlib_shim import tracebacks
from mjaxlib_shim.tracebacks import current_traceback, frames, raw_frames


def _take():
    return current_traceback()


def test_frames():
    line = sys._getframe().f_lineno + 1
    traceback = _take()
    inner, outer, *_ = frames(traceback)
    assert inner.file == outer.file == __file__
    assert inner.function == "_take" and outer.function == "test_frames"
    assert outer.line == line
    assert inner.column == len("    return ") and outer.column == len("    traceback = ")
    assert isinstance(traceback, tracebacks.Traceback)


def test_raw_frames():
    codes, offsets = raw_frames(_take())
    assert codes[0] is _take.__code__ and codes[1] is test_raw_frames.__code__
    assert len(codes) == len(offsets) == len(frames(_take()))


def test_no_columns(run_python):
    def body():
        from mjaxlib_shim import tracebacks

        frames = tracebacks.frames(tracebacks.current_traceback())
        (frame,) = (frame for frame in frames if frame.function == "body")
        assert frame.line > 0 and frame.column is None

    run_python(body, PYTHONNODEBUGRANGES="1")


def test_no_frame_is_pinned():
    class Thing:
        pass

    def take():
        thing = Thing()
        return current_traceback(), weakref.ref(thing)

    traceback, thing = take()
    gc.collect()
    assert thing() is None
    assert frames(traceback)[0].function.endswith("take")


def test_none():
    assert frames(None) == []


def test_it_is_the_bare_builtin():
    assert type(current_traceback).__module__ == "nanobind"


def test_equal_stacks_are_equal():
    first, second = (_take() for _ in range(2))
    assert first == second and hash(first) == hash(second)
