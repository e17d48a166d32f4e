"""Counts the instructions that calls run, C code included, by Valgrind.

Unlike seconds they do not depend on the load of the machine, and unlike bytecodes they include
hashing and comparing. A process marks where calls begin and end (`mark`), and Callgrind writes what
it has counted there. The places of objects in memory change numbers by up to one percent.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

#: The C function by which CPython asks for the id of the parent; nothing else calls it meanwhile.
MARK = "os_getppid"
#: How often a call runs between marks.
LOOPS = 3


def mark() -> None:
    """Begins or ends what is counted."""
    os.getppid()


def run_marked(calls: Iterable[Callable[[], Any]]) -> None:
    """Runs each call between marks; collects no garbage meanwhile."""
    calls = list(calls)
    for call in calls:
        for _ in range(6):  # CPython specializes code, and caches fill
            call()
    gc.collect()
    gc.freeze()
    gc.disable()
    for call in calls:
        call()
        mark()
        for _ in range(LOOPS):
            call()
        mark()


def count(arguments: list[str], seed: int = 0) -> list[int]:
    """The numbers of instructions of the calls that a Python process runs by `run_marked`.

    Args:
      arguments: those of the interpreter.
      seed: of hashes of strings.

    Returns:
      The number for each call; empty if Valgrind is not installed, or the interpreter was stripped
      of the names of its functions.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [valgrind, "--tool=callgrind", f"--callgrind-out-file={folder}/out",
             f"--dump-before={MARK}", sys.executable, *arguments],
            check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": str(seed)})
        parts = sorted(Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:]))
        totals = [re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE) for path in parts]
    return [int(total[1]) // LOOPS for total in totals[1::2] if total]
