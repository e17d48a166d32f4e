"""Tracebacks as C++ objects: 0.1 to 0.5 us each, and they pin no frame.

A traceback holds code objects and instruction offsets only, so the locals of the
user's frames stay collectable. Importing this module turns tracebacks on for the
whole process, as jax does (each Buffer then records where it was made).
"""

from __future__ import annotations

from types import CodeType
from typing import Any, NamedTuple

from . import gates
from .native import ext, xc

__all__ = ["Frame", "Traceback", "current_traceback", "frames", "raw_frames"]

if gates.TRACEBACK_SWITCH.open:
    ext.set_tracebacks_enabled(True)
else:
    xc.Traceback.enabled = True

Traceback: Any = xc.Traceback

#: `current_traceback()`: the Python stack, innermost frame (the caller) first. The bare
#: C++ function, because this runs once per equation.
current_traceback: Any = xc.Traceback.get_traceback

_location = xc.Traceback.code_addr2location


class Frame(NamedTuple):
    """A line of a traceback; `column` counts from 0, and is None if Python does not know it.

    Args:
      file: the file.
      function: the name of the function.
      line: the line.
      column: the column, or None.

    Example:
      >>> from mjaxlib_shim.tracebacks import Frame
      >>> Frame("a.py", "f", 3, None).line
      3
    """

    file: str
    function: str
    line: int
    column: int | None


def frames(traceback: Any) -> list[Frame]:
    """The frames of a traceback, innermost first; `[]` for None.

    Args:
      traceback: a traceback of jaxlib, or None.

    Returns:
      A list of `Frame`s.

    Raises:
      AttributeError: `traceback` is neither a traceback of jaxlib nor None.

    Example:
      >>> from mjaxlib_shim.tracebacks import frames
      >>> frames(None)
      []
    """
    if traceback is None:
        return []
    result = []
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        line, column, _, _ = _location(code, offset)
        name = code.co_qualname
        result.append(Frame(code.co_filename, name, line, column if column >= 0 else None))
    return result


def raw_frames(traceback: Any) -> tuple[list[CodeType], list[int]]:
    """(code objects, instruction offsets), innermost first.

    For filters that read only file names: it does not decode. `frames` decodes.

    Args:
      traceback: a traceback of jaxlib.

    Returns:
      Two lists.

    Raises:
      AttributeError: `traceback` is not a traceback of jaxlib.

    Example:
      >>> from mjaxlib_shim.tracebacks import current_traceback, raw_frames
      >>> codes, offsets = raw_frames(current_traceback())
      >>> len(codes) == len(offsets)
      True
    """
    codes, offsets = traceback.raw_frames()
    return codes, offsets
