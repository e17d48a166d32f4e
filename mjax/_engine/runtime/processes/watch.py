"""Watching the other processes, and waiting for them without hanging when one is gone.

Every process writes a beat to the key-value store now and then. Process 0, which has the store,
reads all beats and writes down who is missing; the others read that, and watch process 0. So a
beat costs each process two calls, however many there are. A process that ends with an exception
says so itself.

Calls that wait for other processes run in a thread. The caller waits for that thread, or for the
news that a process is missing. A caller that C++ holds cannot be told; when it has not moved
for a while after such news, the process is ended with the same text.
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
#: Beats for which a caller held in C++ is left alone after somebody was found missing.
_GRACE = 4


class Watch:
    """Watches the other processes of a client of the key-value store.

    Args:
      store: the client; `key_value_set` and `key_value_dir_get` are used.
      timeout: seconds after which a process that is not heard of is missing.
    """

    def __init__(self, store: Any, process_id: int, num_processes: int, timeout: float):
        self.process_id = process_id
        self.num_processes = num_processes
        self.timeout = timeout
        self.interval = min(timeout / 20, 2.0)
        # The rest is for news to travel and for a caller that is held in C++ to be given up.
        self._limit = timeout - 6 * self.interval
        self._store = store
        self._changed = threading.Condition()
        self._lost: dict[int, str] = {}
        self._stopped = threading.Event()
        self._reserve: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._answered = time.monotonic()
        others = range(1, num_processes) if process_id == 0 else [0]
        #: Of each process watched: its last beat, and when it was seen first.
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
        """Learns the names of the others: `meet` waits until all processes are here."""
        self.call(lambda: self._write(0), "initialize()")
        meet()
        self.call(self._read, "initialize()")

    def stop(self, patience: float) -> None:
        """Ends the threads; one that C++ holds for longer than `patience` seconds is left."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(patience)

    # -- who is missing --

    @property
    def lost(self) -> bool:
        """Whether a process is missing."""
        return bool(self._lost)

    def mark(self, process: int, reason: str) -> None:
        """A process is missing; everyone who waits is told."""
        with self._changed:
            if not self._stopped.is_set():
                self._lost.setdefault(process, reason)
                self._changed.notify_all()

    def service_lost(self) -> None:
        """The connection to process 0 broke."""
        self.mark(0, f"{self._named(0)}: its connection broke, which happens when it ends")

    def leave(self, reason: str) -> None:
        """Tells the others that this process ends now."""
        self._store.key_value_set(f"{_SHARED}lost/{self.process_id}", reason, True)
        if self.process_id == 0:  # the store ends with this process
            time.sleep(2 * self.interval)

    def error(self, what: str) -> ProcessLostError:
        """What to raise when a process is missing: `what` is what cannot go on."""
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
        except RuntimeError:  # Python ends, and starts no threads any more
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

        No thread waits in C++: one that computations wake while Python ends would abort it.

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
        """Raises the reason, if an error of XLA's is that a process is missing.

        A connection between two processes breaks at once where one dies; who it was is known
        when it has missed its beats.
        """
        if "Gloo" not in str(error):
            return
        with self._changed:
            self._changed.wait_for(lambda: self._lost, self.timeout + self.interval)
        if self._lost:
            raise self.error(what) from error

    # -- the threads --

    def _serve(self) -> None:
        """Does what is called while Python ends."""
        while True:
            self._reserve.get()()

    def _beat(self) -> None:
        """Writes this process's beat and reads the others'."""
        for count in itertools.count(1):
            try:
                self._write(count)
                self._read()
            except Exception:  # no answer: the guard sees it
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
        """Notices who has not been heard of; ends this process if that leaves it stuck."""
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
        """Ends the process when the main thread stays in one place inside of mjax."""
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
