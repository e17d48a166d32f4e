"""Watching the other processes, and waiting for them without hanging when one is gone.

Every process writes heartbeats to the key-value store. Process 0, which runs the store, reads all
of them and publishes the missing processes. The others read that, and watch process 0. So a
heartbeat costs each process two calls, however many there are. A process that ends with an
exception publishes that itself.

Calls that wait for other processes run in a thread. The caller waits for that thread, or for the
news that a process is missing. A caller blocked in C++ cannot get the news. If it has not moved for
a while afterwards, the process is ended with the same text.
"""

from __future__ import annotations

import itertools
import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from mjax._engine.base.errors import ProcessLostError

_SHARED = "mjax/watch/"
_BEATS = "mjax/beats/"
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
_ENGINE = tuple(os.path.join(_PACKAGES, name, "") for name in ("mjax", "mjaxlib_shim", "jaxlib"))
#: Heartbeats after the loss of a process before a caller blocked in C++ is ended.
_GRACE = 4


class Watch:
    """Watches the other processes of a client of the key-value store.

    Args:
      store: the client; `key_value_set` and `key_value_dir_get` are used.
      timeout: seconds after which a silent process is missing.
    """

    def __init__(self, store: Any, process_id: int, num_processes: int, timeout: float):
        self.process_id = process_id
        self.num_processes = num_processes
        self.timeout = timeout
        self.interval = min(timeout / 20, 2.0)
        # The rest is for publishing the news, and for giving up a caller blocked in C++.
        self._limit = timeout - 6 * self.interval
        self._store = store
        self._changed = threading.Condition()
        self._lost: dict[int, str] = {}
        self._stopped = threading.Event()
        self._reserve: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._answered = time.monotonic()
        others = range(1, num_processes) if process_id == 0 else [0]
        #: The last heartbeat of each process watched, and the time when it was first seen.
        self._seen = {other: ("", self._answered) for other in others}
        self._me = f"pid {os.getpid()} on {socket.gethostname()}"

    def start(self) -> None:
        """Starts the threads."""
        self._threads = [threading.Thread(target=function, name="mjax watch", daemon=True)
                         for function in (self._beat, self._guard)]
        threading.Thread(target=self._serve, name="mjax reserve", daemon=True).start()
        for thread in self._threads:
            thread.start()

    def introduce(self, meet: Callable[[], None]) -> None:
        """Gets the names of the others; `meet` waits until all processes have arrived."""
        self.call(lambda: self._write(0), "initialize()")
        meet()
        self.call(self._read, "initialize()")

    def stop(self, patience: float) -> None:
        """Ends the threads; does not wait longer than `patience` seconds for one in C++."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(patience)

    # -- who is missing --

    @property
    def lost(self) -> bool:
        """Whether a process is missing."""
        return bool(self._lost)

    def mark(self, process: int, reason: str) -> None:
        """Records that a process is missing, and wakes all waiting callers."""
        with self._changed:
            if not self._stopped.is_set():
                self._lost.setdefault(process, reason)
                self._changed.notify_all()

    def service_lost(self) -> None:
        """Records that the connection to process 0 broke."""
        self.mark(0, f"{self._named(0)}: its connection broke, which happens when it ends")

    def leave(self, reason: str) -> None:
        """Tells the others that this process ends now."""
        self._store.key_value_set(f"{_SHARED}lost/{self.process_id}", reason, True)
        if self.process_id == 0:  # the store ends with this process
            time.sleep(2 * self.interval)

    def error(self, what: str) -> ProcessLostError:
        """The error for a missing process; `what` names the call that cannot go on."""
        with self._changed:
            lost = dict(self._lost)

        def text() -> str:
            lines = "\n".join(f"  {reason}" for _, reason in sorted(lost.items()))
            return (f"{what} cannot go on, because not all {self.num_processes} processes are "
                    f"there:\n{lines}\nThis is process {self.process_id}. The output of the "
                    "missing ones says why they ended. Start all processes again, from the last "
                    "checkpoint.")

        return ProcessLostError(text, tuple(sorted(lost)))

    def _named(self, process: int) -> str:
        beat = self._seen.get(process, ("",))[0]
        where = f" ({beat.partition('|')[2]})" if beat else ""
        return f"process {process}{where}"

    # -- waiting --

    def call(self, function: Callable[[], Any], what: str) -> Any:
        """`function()`, which waits for other processes, in C++ without the GIL.

        Raises:
          ProcessLostError: one is missing.
        """
        outcome: list[Any] = []

        def run() -> None:
            try:
                result = (True, function())
            except BaseException as error:
                result = (False, error)
            with self._changed:
                outcome.append(result)
                self._changed.notify_all()

        if self._lost:
            raise self.error(what)
        try:
            threading.Thread(target=run, name=f"mjax: {what}", daemon=True).start()
        except RuntimeError:  # Python is exiting, and does not start threads any more
            self._reserve.put(run)
        with self._changed:
            self._changed.wait_for(lambda: outcome or self._lost)
        if not outcome:
            raise self.error(what)
        good, value = outcome[0]
        if good:
            return value
        self.explain(value, what)
        raise value

    def poll(self, ready: Callable[[], bool], what: str) -> None:
        """Waits until `ready()`, for at most a tenth longer than needed.

        Threads must not wait in C++: if a computation wakes one while Python exits, it aborts.

        Raises:
          ProcessLostError: a process is missing.
        """
        start = time.monotonic()
        while not ready():
            pause = min(max((time.monotonic() - start) / 10, 1e-5), 1e-3)
            with self._changed:
                if self._lost or self._changed.wait_for(lambda: self._lost, pause):
                    raise self.error(what)

    def explain(self, error: BaseException, what: str) -> None:
        """Raises the cause, if a missing process caused an error of XLA.

        A connection breaks as soon as one of its processes dies. That process is identified only
        after it has missed its heartbeats.
        """
        if "Gloo" not in str(error):
            return
        with self._changed:
            self._changed.wait_for(lambda: self._lost, self.timeout + self.interval)
        if self._lost:
            raise self.error(what) from error

    # -- the threads --

    def _serve(self) -> None:
        """Runs functions that are called while Python exits."""
        while True:
            self._reserve.get()()

    def _beat(self) -> None:
        """Writes this process's heartbeat and reads those of the others."""
        for count in itertools.count(1):
            try:
                self._write(count)
                self._read()
            except Exception:  # without an answer, the guard notices
                pass
            if self._stopped.wait(self.interval):
                return

    def _write(self, count: int) -> None:
        mine = f"{_SHARED}beat/0" if self.process_id == 0 else f"{_BEATS}{self.process_id}"
        self._store.key_value_set(mine, f"{count}|{self._me}", True)

    def _read(self) -> None:
        shared = dict(self._store.key_value_dir_get(_SHARED))
        now = time.monotonic()
        if now - self._answered > self.timeout / 2:  # this process slept: the others may not have
            self._seen = {process: (beat, now) for process, (beat, _) in self._seen.items()}
        self._answered = now
        for key, reason in shared.items():
            if key.startswith(f"{_SHARED}lost/"):
                self.mark(int(key.rpartition("/")[2]), reason)
        beats = shared if self.process_id else dict(self._store.key_value_dir_get(_BEATS))
        for key, value in beats.items():
            head, _, process = key.rpartition("/")
            if head == "mjax/watch/lost" or int(process) not in self._seen:
                continue
            if self._seen[int(process)][0] != value:
                self._seen[int(process)] = (value, now)

    def _guard(self) -> None:
        """Notices silent processes; ends this process if it is stuck because of them."""
        while not self._stopped.wait(self.interval):
            now = time.monotonic()
            if self.process_id and now - self._answered > self._limit:
                self.mark(0, f"{self._named(0)}: it has not answered for {self._limit:.3g} s")
            for process, (_, since) in list(self._seen.items()):
                if now - since > self._limit and process not in self._lost:
                    self._publish(process, f"{self._named(process)}: nothing was heard of it for "
                                           f"{self._limit:.3g} s")
            if self._lost:
                self._end_if_stuck()
                return

    def _publish(self, process: int, reason: str) -> None:
        if self.process_id == 0:
            self._store.key_value_set(f"{_SHARED}lost/{process}", reason, True)
        self.mark(process, reason)

    def _end_if_stuck(self) -> None:
        """Ends the process if the main thread does not move inside of mjax."""
        before, beats = None, 0
        while not self._stopped.wait(self.interval):
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            place = (id(frame), frame.f_lasti) if frame and _in_engine(frame) else None
            beats = beats + 1 if place and place == before else 0
            before = place
            if frame and beats == _GRACE:
                stack = "".join(traceback.format_stack(frame))
                error = self.error("This call")
                print(f"Traceback (most recent call last):\n{stack}mjax.errors.ProcessLostError: "
                      f"{error}", file=sys.stderr, flush=True)
                os._exit(1)


def _in_engine(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_ENGINE)
