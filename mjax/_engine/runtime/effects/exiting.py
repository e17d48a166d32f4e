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

#: Seconds; a thread that stays in C++ for longer will not return before the process ends.
_PATIENCE = 1.0
#: Seconds for which the exiting thread keeps the lock, once no thread is in C++.
_TO_THE_END = 60.0


def end_daemons() -> None:
    """Raises `SystemExit` in daemon threads that are inside of mjax, until none is.

    mjax's own threads end in another way.
    """
    if sys.version_info >= (3, 14):
        return
    deadline, interval = time.monotonic() + _PATIENCE, sys.getswitchinterval()
    while True:
        sys.setswitchinterval(_TO_THE_END)
        inside = _daemons_inside()
        if not inside or time.monotonic() > deadline:
            return
        for thread in inside:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
        sys.setswitchinterval(interval)
        time.sleep(0.005)


def _daemons_inside() -> list[int]:
    """The daemon threads inside of mjax, except for this one and mjax's own."""
    spared = {thread.ident for thread in threading.enumerate()
              if not thread.daemon or thread.name.startswith("mjax ")}
    spared.add(threading.get_ident())
    return [thread for thread, frame in sys._current_frames().items()
            if thread not in spared and _is_inside(frame)]


def _is_inside(frame: FrameType | None) -> bool:
    while frame is not None:
        if is_engine_file(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False
