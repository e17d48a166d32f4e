"""The line on terminals that says what is compiled, once that takes long."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

#: Seconds after which there is a line, and after which it is written anew.
_DELAY, _STEP = 2.0, 1.0
_ERASE = "\r\033[K"


class progress:
    """Context manager: shows on stderr, if that is a terminal, for how long the body runs.

    Args:
      text: says what it does.
    """

    __slots__ = ("done", "start", "stream", "text", "thread")
    thread: threading.Thread | None

    def __init__(self, text: str):
        self.text = text
        self.stream: Any = sys.stderr

    def __enter__(self) -> None:
        self.thread = None
        if _is_terminal(self.stream):
            self.done, self.start = threading.Event(), time.perf_counter()
            thread = threading.Thread(target=self._show, daemon=True)
            with suppress(RuntimeError):  # too many threads, or the interpreter ends
                thread.start()
                self.thread = thread

    def __exit__(self, *error: object) -> None:
        if self.thread is not None:
            self.done.set()
            self.thread.join()

    def _show(self) -> None:
        wait, shown = _DELAY, False
        while not self.done.wait(wait):
            seconds = time.perf_counter() - self.start
            self.stream.write(f"{_ERASE}{self.text}: {seconds:.0f} s")
            self.stream.flush()
            wait, shown = _STEP, True
        if shown:
            self.stream.write(_ERASE)
            self.stream.flush()


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return False
