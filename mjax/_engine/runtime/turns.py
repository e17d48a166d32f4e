"""How far programs over several devices may run ahead: with collectives there is a limit.

Programs over several processes run one after the other. Where two of them are under way at a
time, jaxlib's collectives between CPUs get stuck: seen from 0.4.36 to 0.10.2, with `jax` too, after
two independent sums and a few dozen steps. jaxlib also blocks callers that are 32 computations
ahead, with Python locked, so that no thread could notice that a process is gone. So the caller
waits here, in Python, for what it started before.

Over the devices of one process a few with collectives may be under way. Each takes a thread per
device while it waits in a collective, of a pool that has few more; with 32 under way, jaxlib's own
limit, they wait for each other for ever (2 cores, 8 devices, 0.10.2; with `jax` too), with 16 not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.runtime.array import waits
from mjaxlib_shim import arrays as shim

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
        for wait in waits:
            wait(buffer)
        try:
            buffer.block_until_ready()
        except Exception:
            continue


#: How many programs with collectives over the devices of this process may be under way.
_MOST = 8
#: Their tokens, oldest first; a token keeps no result alive.
_here: deque[Any] = deque()


def few_at_a_time(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`execute_sharded` of a program with collectives that waits where many are under way."""

    def waiting(buffers: Sequence[Any], with_tokens: bool = False) -> Any:
        while len(_here) >= _MOST:
            try:
                _here.popleft().block_until_ready()
            except Exception:  # whoever reads the results is told
                continue
        results = execute(buffers, with_tokens=True)
        token = results.consume_token()
        _here.append(token)
        return _Told(results, token) if with_tokens else results

    return waiting


class _Told:
    """Results whose token was taken already."""

    def __init__(self, results: Any, token: Any):
        self.consume_with_handlers = results.consume_with_handlers
        self.consume_token = lambda: token


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
