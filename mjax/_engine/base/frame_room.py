"""Room for the frames of deep calls.

CPython keeps frames in chunks of 16 KiB. As a call needs the first frame of a chunk, CPython maps
the chunk, and unmaps it as that call returns. Tracing and lowering call many small functions at a
depth of some hundred frames, so that often a chunk ends there: page faults then made a step take
up to 1.6 times as long (`docs/design/0021-room-for-frames.md`). CPython gives a frame that does not
fit in a chunk a larger one, whose rest serves the calls from that frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mjax._engine.base.thread import thread

T = TypeVar("T")

#: Values that the large frame could hold. They take more than half of a chunk of 256 KiB.
_ROOM = 16_400


def with_room(f: Callable[..., T], *args: Any) -> T:
    """Calls a function so that about 128 KiB of frames under it are in one chunk.

    The outermost such call of a thread maps the chunk, which takes about 10 microseconds.
    """
    if thread.has_room:
        return f(*args)
    thread.has_room = True
    try:
        return _call(f, args)
    finally:
        thread.has_room = False


def _call(f: Callable[..., T], args: tuple[Any, ...]) -> T:
    return f(*args)


_call.__code__ = _call.__code__.replace(co_stacksize=_ROOM)
