"""Measuring two functions against each other.

They take turns, so that other load on the machine affects both; the best turn counts. The garbage
collector stays on, as for users.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], Any]


def turn(call: Call, loops: int) -> float:
    """Seconds per call in one loop."""
    start = time.perf_counter()
    for _ in range(loops):
        call()
    return (time.perf_counter() - start) / loops


def loops_for(call: Call, seconds: float) -> int:
    """The number of calls that fill this time; the first call, which compiles, does not count."""
    call()
    loops = 1
    while turn(call, loops) * loops < seconds / 10 and loops < 100_000:
        loops *= 4
    return max(1, round(seconds / max(turn(call, loops), 1e-9)))


def interleaved(calls: Sequence[Call], turns: int, seconds: float) -> list[float]:
    """The best seconds per call of each function.

    Args:
      calls: the functions.
      turns: the number of loops of each.
      seconds: how long a loop takes; slower calls run once per turn.
    """
    loops = [loops_for(call, seconds) for call in calls]
    best = [float("inf")] * len(calls)
    for _ in range(turns):
        for i, call in enumerate(calls):
            best[i] = min(best[i], turn(call, loops[i]))
    return best


def import_seconds(modules: str, turns: int) -> float:
    """The best time of an import statement in a fresh interpreter, from bytecode."""
    code = (f"import time; start = time.perf_counter(); import {modules}; "
            "print(time.perf_counter() - start)")
    with tempfile.TemporaryDirectory() as cache:
        # Some machines forbid writing bytecode; then every import would compile.
        environ = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        seconds = [float(subprocess.run([sys.executable, "-c", code], check=True, env=environ,
                                        capture_output=True, text=True).stdout)
                   for _ in range(turns + 1)]
    return min(seconds[1:])
