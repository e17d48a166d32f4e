"""Ends daemon threads at exit, so that none is left inside of a computation.

Python ends a daemon thread at exit when the thread asks for the lock of the interpreter. A thread
that returns from C++ does so while it is still in C++ code, which aborts the process. (From Python
3.14 on, such a thread waits forever.)
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from types import FrameType

from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.thread import user_idents

#: Seconds; a thread that stays in C++ for longer will not return before the process ends.
_PATIENCE = 1.0
#: Seconds for threads outside of mjax: they may be idle, or in C++ that frees an array.
_PATIENCE_OUTSIDE = 0.05
#: Seconds for which the exiting thread keeps the lock, once no thread is in C++.
_TO_THE_END = 60.0


def end_daemons() -> None:
    """Raises `SystemExit` in daemon threads that have used mjax, until they have ended.

    Idle ones are left. mjax's own threads end in another way.
    """
    if sys.version_info >= (3, 14):
        return
    start, interval = time.monotonic(), sys.getswitchinterval()
    while True:
        sys.setswitchinterval(_TO_THE_END)
        daemons = _daemons()
        for ident in daemons:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(ident), ctypes.py_object(SystemExit))
        inside = any(map(_is_inside, daemons.values()))
        if not daemons or time.monotonic() - start > (_PATIENCE if inside else _PATIENCE_OUTSIDE):
            return
        sys.setswitchinterval(interval)
        time.sleep(0.005)


def _daemons() -> dict[int, FrameType]:
    """The daemon threads that have used mjax, with their frames; not this one and mjax's own."""
    spared = {thread.ident for thread in threading.enumerate()
              if not thread.daemon or thread.name.startswith("mjax ")}
    spared.add(threading.get_ident())
    return {ident: frame for ident, frame in sys._current_frames().items()
            if ident in user_idents and ident not in spared}


def _is_inside(frame: FrameType | None) -> bool:
    while frame is not None:
        if is_engine_file(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False
