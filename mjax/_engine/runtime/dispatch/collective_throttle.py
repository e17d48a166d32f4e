"""Limits how far programs over several devices run ahead; those with collectives never do.

Programs over several processes run one after the other. If two of them run at a time, jaxlib's
collectives between CPUs deadlock. This was seen from 0.4.36 to 0.10.2, with `jax` too, after two
independent sums and a few dozen steps. jaxlib also blocks callers that are 32 computations ahead
while it holds Python's lock. Then no thread could notice that a process is gone. So the caller
waits here, in Python, for its previous program.

Over the devices of one process, programs with collectives run one after the other, because jaxlib
has one thread per device. Take two programs that sum over one axis of a mesh of two, and so over
several groups of devices. One group of the first and another of the second can occupy all threads,
and wait for members without a thread. This always happened up to jaxlib 0.6.1 after a few such
sums, with `jax` too. Later releases order programs better, and the cost of waiting is not
measurable. Programs without collectives need not wait for others. But jaxlib blocks callers that
launch more than 32 computations per device, in a thread of the same pool. So every fourth waits for
an earlier one. Launches are serialized: two threads that launch at the same time could start two
programs with collectives at once.

Programs that call Python wait only if they have collectives. Programs launched by their callbacks
do not wait: the program that called could be the one they would wait for. They do wait if that
program runs on one device.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjaxlib_shim import arrays as shim
from mjaxlib_shim.executables import ResultsAndToken

#: One result of the program under way, the smallest.
_under_way: list[Any] = []


def in_turn(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`execute_sharded` of a program over several processes that waits for the one before."""
    smallest: list[int] = []

    def waiting(buffers: Sequence[Any], **options: Any) -> Any:
        settle()
        return _Noted(execute(buffers, **options), smallest)

    return waiting


def settle() -> None:
    """Waits for the program under way. Its errors are raised where its results are read."""
    while _under_way:
        buffer = _under_way.pop()
        if shim.is_deleted(buffer):
            continue
        if sockets.watch is not None:
            sockets.watch.poll(buffer.is_ready, "Reading a value")
        try:
            buffer.block_until_ready()
        except Exception:
            continue


class _Pace:
    """Limits the number of executions under way.

    Args:
      most: the number of tokens kept before the oldest is awaited.
      every: one in so many executions leaves its token; taking it costs time.
    """

    def __init__(self, most: int, every: int):
        self.most, self.every = most, every
        self.count = itertools.count()
        #: Oldest first; a token keeps no result alive.
        self.tokens: deque[Any] = deque()

    def wait(self) -> None:
        """Waits until one more may run. Errors are raised where results are read."""
        tokens = self.tokens
        while len(tokens) >= self.most:
            oldest = tokens[0]
            with contextlib.suppress(Exception):
                oldest.block_until_ready()
            if tokens and tokens[0] is oldest:  # a signal handler may have launched meanwhile
                tokens.popleft()


_WITH_COLLECTIVES, _WITHOUT = _Pace(1, 1), _Pace(2, 4)
#: Reentrant: a signal handler may launch while its thread waits.
_launch = threading.RLock()


def few_at_a_time(execute: Callable[..., Any], has_collectives: bool) -> Callable[..., Any]:
    """`execute_sharded` of a program over devices that waits while many are under way."""
    pace = _WITH_COLLECTIVES if has_collectives else _WITHOUT
    count, every, tokens = pace.count, pace.every, pace.tokens

    def waiting(buffers: Sequence[Any], with_tokens: bool = False) -> Any:
        if thread.in_callback > 1:
            return execute(buffers, with_tokens=with_tokens)
        with _launch:
            if next(count) % every:
                return execute(buffers, with_tokens=with_tokens)
            pace.wait()
            results = execute(buffers, with_tokens=True)
            token = results.consume_token()
            tokens.append(token)
        return ResultsAndToken(results, token) if with_tokens else results

    return waiting


class _Noted:
    """Results of an execution; records one of them when they are taken."""

    def __init__(self, results: Any, smallest: list[int]):
        self._results, self._smallest = results, smallest
        self.consume_token = results.consume_token

    def consume_with_handlers(self, handlers: Any) -> Any:
        buffers = self._results.consume_with_handlers(handlers)
        if not self._smallest:
            sizes = [math.prod(buffer.aval.shape) for buffer in buffers]
            self._smallest.append(sizes.index(min(sizes)) if sizes else -1)
        if buffers:
            _under_way.append(buffers[self._smallest[0]])
        return buffers
