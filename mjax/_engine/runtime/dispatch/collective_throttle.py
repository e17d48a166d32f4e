"""Limits how far programs over several devices run ahead; those with collectives never do.

Programs over several processes run one after the other. Where two of them are under way at a
time, jaxlib's collectives between CPUs get stuck: seen from 0.4.36 to 0.10.2, with `jax` too, after
two independent sums and a few dozen steps. jaxlib also blocks callers that are 32 computations
ahead, with Python locked, so that no thread could notice that a process is gone. So the caller
waits here, in Python, for what it started before.

Over the devices of one process they run one after the other where they have collectives, for
jaxlib has one thread per device. Of two programs that sum over one axis of a mesh of two, and so
over several groups of devices, one group of the first and another of the second can have all the
threads, each waiting for members that get none (always to jaxlib 0.6.1 after a few such sums,
with `jax` too; later releases order programs better, and waiting costs nothing that could be
measured). Programs without collectives wait for nobody, but jaxlib blocks who launches more than 32
computations per device, in a thread of the same pool: every fourth waits for one of those before.
They are launched one after the other: two threads that launch at the same time can start two
programs with collectives at once.

Programs that call Python wait only if they have collectives. What their functions launch does not
wait, as it would for what waits for it, unless the program that called runs on one device.
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
    """Waits for the program under way. Whether it failed is told where its results are read."""
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
    """Lets a few of some executions be under way.

    Args:
      most: how many of their tokens are kept before the oldest is awaited.
      every: of so many executions one leaves its token; taking it costs time.
    """

    def __init__(self, most: int, every: int):
        self.most, self.every = most, every
        self.count = itertools.count()
        #: Oldest first; a token keeps no result alive.
        self.tokens: deque[Any] = deque()

    def wait(self) -> None:
        """Waits until one more may be under way. Whoever reads results is told of failures."""
        tokens = self.tokens
        while len(tokens) >= self.most:
            oldest = tokens[0]
            with contextlib.suppress(Exception):
                oldest.block_until_ready()
            if tokens and tokens[0] is oldest:  # a signal's handler may have launched meanwhile
                tokens.popleft()


_WITH_COLLECTIVES, _WITHOUT = _Pace(1, 1), _Pace(2, 4)
#: Of the same thread again: a signal's handler may launch while its thread waits.
_launch = threading.RLock()


def few_at_a_time(execute: Callable[..., Any], has_collectives: bool) -> Callable[..., Any]:
    """`execute_sharded` of a program over devices that waits where many are under way."""
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
    """Results of an execution; one is noted when they are taken."""

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
