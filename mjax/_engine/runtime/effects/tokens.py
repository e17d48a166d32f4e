"""Runtime tokens: effects happen in Python's order, and none is lost.

Executions are asynchronous. For each name of ordered effects a thread has one token: an array
without elements. Its last execution with such effects returns it, and the next one takes it. An
execution with unordered effects leaves an output token, which is ready when it is done.
`effects_barrier` waits for all tokens of a thread; exit waits for those of all threads. It also
waits for programs over several devices that call Python without effects: without an interpreter
they would abort or hang the process.

Source: JEP 10657, "Sequencing side-effects in JAX".
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir.token_types import token_buffer_aval
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.placement import Placement, placement_of
from mjax._engine.runtime.arrays.transfer import move, put
from mjax._engine.runtime.effects.exiting import end_daemons
from mjax._engine.runtime.xla_errors import is_delivered, raise_original
from mjaxlib_shim import guards
from mjaxlib_shim.executables import ResultsAndToken

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

logger = logging.getLogger("mjax")
#: So many executions may be under way before the oldest is awaited.
_MOST_OUTPUTS = 64
#: Tokens of programs over several devices that call Python and have no effects, oldest first.
_calling: deque[Any] = deque()


class ThreadTokens:
    """The tokens of one thread; outlives it until they have been awaited.

    Attributes:
      ordered: name -> the token of the last execution with such effects.
      outputs: tokens of executions with unordered effects, oldest first.
      failed: tokens of failed executions. The barrier raises their errors; later executions do not.
      jobs: programs that run in the background, oldest first, and some that have run.
    """

    __slots__ = ("failed", "jobs", "ordered", "outputs")

    def __init__(self) -> None:
        self.ordered: dict[str, Array] = {}
        self.outputs: list[Any] = []
        self.failed: list[Any] = []
        self.jobs: deque[Any] = deque()

    def take(self, names: Sequence[str], placement: Placement) -> list[Array]:
        """The tokens of these names, on the device of a placement.

        The token of a failed execution is replaced, so that executions after the failure run.
        Waiting for the failed one raises its error.
        """
        return [self._take(name, placement) for name in names]

    def _take(self, name: str, placement: Placement) -> Array:
        token = self.ordered.get(name)
        if token is not None:
            # Copying a token to another device would abort on jaxlib 0.8, so it is awaited.
            here = token.sharding is placement.sharding
            if here and not token._buffer.is_ready():
                return token
            if self._settles(token._buffer) and here:
                return token
        with guards.unguarded():
            made = put(np.zeros(0, np.bool_), token_buffer_aval, placement.sharding.flat_devices[0])
            return move(made, placement.sharding, True)

    def set(self, names: Sequence[str], tokens: Iterable[Array]) -> None:
        """Stores the tokens that an execution returned in place of those it took."""
        self.ordered.update(zip(names, tokens, strict=True))

    def forget(self, names: Sequence[str]) -> None:
        """Drops the tokens of an execution that failed at its call."""
        for name in names:
            self.ordered.pop(name, None)

    def add_output(self, token: Any) -> None:
        """Keeps the output token of an execution."""
        self.outputs.append(token)
        if len(self.outputs) > _MOST_OUTPUTS:
            self._settles(self.outputs.pop(0))

    def wait_for(self, names: Sequence[str]) -> None:
        """Waits for the ordered effects of these names, before an effect that happens at once."""
        for name in names:
            token = self.ordered.pop(name, None)
            if token is not None:
                self._settles(token._buffer)

    def _settles(self, token: Any) -> bool:
        """Waits for a token; returns whether its execution succeeded."""
        try:
            token.block_until_ready()
        except Exception:
            self.failed.append(token)
            return False
        return True

    def settle(self) -> None:
        """Waits for programs in the background."""
        jobs = self.jobs
        while jobs:
            job = jobs[0]
            job.wait()  # the user may interrupt this
            if jobs and jobs[0] is job:
                jobs.popleft()

    def barrier(self) -> None:
        """Waits for all effects of executions that were started.

        Raises:
          Exception: the error of a callback that was not raised before.
        """
        waiting = [*self.failed, *self.outputs, *(t._buffer for t in self.ordered.values())]
        self.failed, self.outputs, self.ordered = [], [], {}
        errors: list[Exception] = []
        for i, token in enumerate(waiting):
            try:
                try:
                    token.block_until_ready()
                except Exception as error:
                    if not is_delivered(error):
                        raise_original(error)
                        raise
            except Exception as error:
                errors.append(error)
            except BaseException:  # an interrupt by the user, or a callback that ends the process
                self.failed[:0] = waiting[i:]
                raise
        for other in errors[1:]:
            logger.error("Another effect failed that was not awaited", exc_info=other)
        if errors:
            raise errors[0]

    def wait(self) -> None:
        """Waits for all effects of executions that were started; raises nothing."""
        outputs, self.outputs = self.outputs, []
        for token in [*outputs, *(t._buffer for t in self.ordered.values())]:
            self._settles(token)


_lock = threading.Lock()
#: Threads with their tokens; also tokens of ended threads, until they are awaited.
_all: list[tuple[weakref.ref[threading.Thread], ThreadTokens]] = []


class _Local(threading.local):
    """The state of a thread.

    Attributes:
      tokens: the tokens that its programs take and return.
      worker: runs programs for it in the background, from the first one on.
      works: whether it is itself the worker of another.
    """

    def __init__(self) -> None:
        self.tokens = ThreadTokens()
        self.worker: ThreadPoolExecutor | None = None
        self.works = False
        with _lock:
            _all[:] = [(thread, t) for thread, t in _all
                       if not all(job.is_done() for job in list(t.jobs))  # which may fail
                       or thread() or t.ordered or t.outputs or t.failed]
            _all.append((weakref.ref(threading.current_thread()), self.tokens))

    def work_for(self, tokens: ThreadTokens) -> None:
        """Makes the current thread the worker of the one that has these tokens."""
        self.tokens, self.works = tokens, True


local = _Local()


def thread_tokens() -> ThreadTokens:
    """The tokens of the current thread, after its background programs have run."""
    tokens = local.tokens
    if tokens.jobs and not local.works:
        tokens.settle()
    return tokens


def token_placement(sharding: Any) -> Placement:
    """The placement of the tokens of a program that runs with a sharding."""
    return placement_of(token_buffer_aval, sharding, True)


@boundary
def effects_barrier() -> None:
    """Waits until all side effects of this thread's computations have happened.

    `block_until_ready` of a result waits for the value; effects of the program that do not
    contribute to it may come later.

    Raises:
      Exception: the error of a callback in a computation that was not awaited.

    Example:
      >>> seen = []
      >>> mjax.jit(lambda x: mjax.debug.callback(seen.append, x))(3)
      >>> mjax.effects_barrier()
      >>> seen
      [Array(3, dtype=int32)]

    Source: JEP 10657.
    """
    if local.works:  # in a callback: the caller of its program gets the errors
        local.tokens.wait()
    else:
        thread_tokens().barrier()


def awaited_at_exit(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`execute_sharded` of a program that calls Python and has no effects, awaited at exit."""

    def noting(buffers: Sequence[Any], with_tokens: bool = False) -> Any:
        results = execute(buffers, with_tokens=True)
        token = results.consume_token()
        _calling.append(token)
        # In a callback it does not wait: the program that calls it may be the oldest.
        if len(_calling) > _MOST_OUTPUTS and not thread.in_callback:
            _await_oldest()
        return ResultsAndToken(results, token) if with_tokens else results

    return noting


def _await_oldest() -> None:
    oldest = _calling[0]
    with contextlib.suppress(Exception):  # errors are raised where results are read
        oldest.block_until_ready()
    with contextlib.suppress(ValueError):  # another thread may have removed it
        _calling.remove(oldest)


def settle_all() -> None:
    """Waits for background programs of all threads."""
    for _, tokens in list(_all):
        tokens.settle()


@atexit.register
def _await_all() -> None:
    for _, tokens in list(_all):
        try:
            tokens.settle()
            tokens.barrier()
        except (Exception, SystemExit):
            print("mjax: an effect failed in a computation that was not awaited:",
                  file=sys.stderr)
            traceback.print_exc()
    while _calling:
        _await_oldest()
    end_daemons()
