"""Where an equation came from: jaxlib's C++ traceback, read only when somebody asks.

A traceback object costs 0.1 to 0.5 µs to take and pins no frame, so it never keeps a
user's locals alive. Decoding it is slow and happens in error texts, locations and prints.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from mjax._engine.base import folding
from mjaxlib_shim import tracebacks
from mjaxlib_shim.tracebacks import current_traceback

__all__ = ["Frame", "SourceInfo", "current_traceback", "is_engine_file", "register_exclusion",
           "source_info_of", "summarize", "user_frame", "user_frames"]

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Files below these paths are ours: folded out of tracebacks, skipped in search of the user.
_EXCLUDED = [os.path.join(os.path.dirname(_ROOT), package) + os.sep
             for package in ("mjax", "mjax_ext", "mjaxlib_shim")]


class Frame(NamedTuple):
    """A place in the user's program."""

    file: str
    function: str
    line: int


class SourceInfo(NamedTuple):
    """What `eqn.source_info` gives: the traceback and the stack of `named_scope` names."""

    traceback: Any
    name_stack: tuple[str, ...] = ()


def register_exclusion(path: str) -> None:
    """Counts a file, or all files below a folder, as engine code in tracebacks."""
    _EXCLUDED.append(os.path.abspath(path) + os.sep)
    _is_engine.clear()


_is_engine: dict[str, bool] = {}


def is_engine_file(file: str) -> bool:
    """Whether frames of this file are folded out of what users see."""
    known = _is_engine.get(file)
    if known is None:
        known = _is_engine[file] = (file + os.sep).startswith((*_EXCLUDED, "<frozen"))
    return known


def source_info_of(source: Any) -> SourceInfo:
    """The `SourceInfo` behind what an equation stores (a bare traceback in most cases)."""
    return source if type(source) is SourceInfo else SourceInfo(source)


def user_frames(source: Any) -> list[Frame]:
    """The user's frames, innermost first."""
    traceback = source_info_of(source).traceback
    if traceback is None:
        return []
    return [Frame(f[0], f[1], f[2]) for f in tracebacks.frames(traceback)
            if not is_engine_file(f[0])]


def user_frame(source: Any) -> Frame | None:
    """The innermost frame of the user's own code, if there is one."""
    frames = user_frames(source)
    return frames[0] if frames else None


def summarize(source: Any) -> str:
    """`file:line (function)` of the innermost user frame."""
    frame = user_frame(source)
    return f"{frame.file}:{frame.line} ({frame.function})" if frame else "<unknown source>"


folding.is_engine_file[0] = is_engine_file
