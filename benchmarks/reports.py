"""Counts what `debug.trace_report` costs while it records, in bytecodes and in seconds.

    python -m benchmarks.reports

Each call traces, lowers or compiles something new; it runs without a report and inside of one, by
turns. Functions and their programs are kept, as programs do: a report keeps what it saw until it
ends, which costs collections of garbage where a function would have gone at once. Seconds are those
that the thread computed, in the best turn, so that other load does not count. The goal is 3 percent
of each. The last column is what a report takes to read one call's entries when it ends; it has no
goal.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import mjax
from benchmarks.checks import bytecodes
from benchmarks.rows import chain
from mjax import lax

GOAL = 0.03


class Cost(NamedTuple):
    """Of one call: bytecodes and seconds without a report, and with one; seconds to read it."""

    name: str
    bytecodes: tuple[int, int]
    seconds: tuple[float, float]
    reading: float


def programs() -> dict[str, Callable[[], Any]]:
    """The calls, by name."""
    x, numbers = np.ones(3, np.float32), itertools.count()
    known = mjax.jit(lambda x, n: lax.sin(x) + n, static_argnums=1)
    inner = mjax.jit(lambda x: lax.sin(x) + 1.0)
    kept: list[Any] = []

    def keep(f: Any) -> Any:
        kept.append(mjax.jit(f))
        return kept[-1]

    def fresh() -> Any:
        return keep(lambda x: lax.sin(x) + 1.0)

    def nested(x: Any) -> Any:
        return fresh()(inner(x))

    return {
        "trace of 2 equations": lambda: fresh().trace(x),
        "the same again": lambda: known.trace(x, float(next(numbers))),
        "trace of nested functions": lambda: keep(lambda x: nested(x)).trace(x),
        "trace of 100 equations": lambda: keep(lambda x: chain(mjax, 100)(x)).trace(x),
        "trace and lowering": lambda: fresh().lower(x),
        "call of 2 equations": lambda: fresh()(x),
    }


def both(call: Callable[[], Any]) -> tuple[int, int]:
    """The bytecodes of a call, without a report and with one."""
    call()
    off = min(bytecodes(call) for _ in range(3))  # caches grow now and then
    with mjax.debug.trace_report():
        return off, min(bytecodes(call) for _ in range(3))


def turn(call: Callable[[], Any], loops: int) -> float:
    """Computed seconds per call."""
    start = time.thread_time()
    for _ in range(loops):
        call()
    return (time.thread_time() - start) / loops


def costs(turns: int = 40, seconds: float = 0.01) -> Iterator[Cost]:
    """Measures all programs."""
    for name, call in programs().items():
        counts = both(call)
        loops = max(1, round(seconds / turn(call, 2)))
        best = [float("inf")] * 3
        for _ in range(turns):
            without = turn(call, loops)
            with mjax.debug.trace_report():
                recorded = turn(call, loops)
                start = time.thread_time()
            reading = (time.thread_time() - start) / loops
            best = [*map(min, best, (without, recorded, reading))]
        yield Cost(name, counts, (best[0], best[1]), best[2])


def main() -> None:
    """Prints the table."""
    print(f"{'':28}{'bytecodes':>10}{'more':>8}{'seconds':>11}{'more':>8}{'reading':>11}")
    for cost in costs():
        more = [on / off - 1 for off, on in (cost.bytecodes, cost.seconds)]
        print(f"{cost.name:28}{cost.bytecodes[0]:10}{more[0]:8.1%}{cost.seconds[0] * 1e6:8.1f} µs"
              f"{more[1]:8.1%}{cost.reading * 1e6:8.1f} µs"
              f"{'  missed' if max(more) > GOAL else ''}", flush=True)


if __name__ == "__main__":
    main()
