"""Spans of tracing, lowering and compilation, for those who record them.

Nothing here runs in calls of compiled programs. While nobody records, a trace costs two tests more.
An entry refers to what is there anyway, and is read when a report is asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, NamedTuple

from mjax._engine.ir.source import current_traceback

#: A report finds the reasons here. A trace has the cache of its function, its key there, the names
#: of its arguments, the function, and the jaxpr unless it failed. A call that may be compiled for
#: other devices has the cache, the key, the function and the call without its leaves.
Facts = tuple[Any, ...]


class Entry(NamedTuple):
    """A trace, a lowering or a compilation that has ended.

    Attributes:
      event: the name of its kind in `mjax.monitoring`; `CALL` for the facts of a call.
      name: the name of the function.
      start: when it began, as `time.perf_counter` says.
      seconds: how long it took, with the spans inside of it.
      thread: the number of its thread.
      traceback: of the call that caused it, jaxlib's.
      facts: see `Facts`.
    """

    event: str
    name: str
    start: float
    seconds: float
    thread: int
    traceback: Any
    facts: Facts


#: The event of a call that is not known for the placements of its arguments.
CALL = "call"
#: Functions that take the fields of each `Entry`, of all threads, as a tuple.
recorders: list[Callable[[tuple[Any, ...]], None]] = []
#: Functions that are told of each trace before it begins, with the reasons if the function was
#: traced before; they may refuse it by raising.
guards: list[Callable[[Callable[..., Any], Sequence[str]], None]] = []


def record(event: str, name: str, start: float, seconds: float, facts: Facts) -> None:
    """Tells those who record that a span has ended."""
    entry = event, name, start, seconds, get_ident(), current_traceback(), facts
    for add in tuple(recorders):
        add(entry)
