"""`debug.trace_report`, `debug.no_retrace`: what is traced and compiled, where, and why again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.monitoring import COMPILE, LOWER, TRACE
from mjax._engine.base.records import Record
from mjax._engine.base.util import counted
from mjax._engine.ir.source import current_traceback, summarize
from mjax._engine.runtime.dispatch.spans import guards, recorders
from mjax._engine.tracing.flat import describe_function, function_name
from mjax._tools.spans import Span, kind_of, read

_PHASES = {TRACE: "trace", LOWER: "lower", COMPILE: "compile"}
#: Reasons that a row of the table shows.
_SHOWN = 3


class TraceRow(Record):
    """A call site and a function.

    Attributes:
      site: the user's line, `file:line (function)`.
      function: the name of the function.
      traces, compilations: how often it was traced and compiled.
      seconds: phase ("trace", "lower", "compile") -> seconds, without what was traced or compiled
        inside, which has rows of its own.
      equations: those of its last trace, nested programs included.
      reasons: why it was traced or compiled again, a text per time.

    Example:
      >>> with mjax.debug.trace_report() as report:
      ...   y = mjax.jit(lambda x: x * 2 + 1)(3.0)
      >>> row = report.rows[0]
      >>> row.traces, row.equations, sorted(row.seconds)
      (1, 2, ['compile', 'lower', 'trace'])
    """

    site: str
    function: str
    traces: int
    compilations: int
    seconds: dict[str, float]
    equations: int
    reasons: tuple[str, ...]


class TraceReport:
    """The record of `mjax.debug.trace_report`; `str` gives a table.

    Attributes:
      rows: a `TraceRow` for each call site and function, the slowest first.
      wall: seconds for which it has recorded.

    Example:
      >>> with mjax.debug.trace_report() as report:
      ...   y = mjax.jit(lambda x: x * 2 + 1)(3.0)
      >>> [(row.function, row.traces, row.equations) for row in report.rows]
      [('<lambda>', 1, 2)]
    """

    def __init__(self) -> None:
        #: Entries that refer to functions and jaxprs; read, and left, when the recording ends.
        self._entries: list[tuple[Any, ...]] = []
        self._read: list[Span] | None = None
        self._record = self._entries.append
        recorders.append(self._record)
        self._start = time.perf_counter()
        self._wall: float | None = None

    def _finish(self) -> None:
        self._wall = self.wall
        recorders.remove(self._record)
        self._read = self._spans
        self._entries.clear()

    @property
    def _spans(self) -> list[Span]:
        return read(list(self._entries)) if self._read is None else self._read

    @property
    def wall(self) -> float:
        """Seconds from its begin to its end, or until now."""
        return time.perf_counter() - self._start if self._wall is None else self._wall

    @property
    def rows(self) -> list[TraceRow]:
        """The rows of the table."""
        groups: dict[tuple[str, str], list[Span]] = {}
        for span in sorted(self._spans, key=lambda s: s.start):
            groups.setdefault((span.site, span.name), []).append(span)
        found = []
        for (site, name), spans in groups.items():
            seconds = {phase: sum(s.own for s in spans if s.event == event)
                       for event, phase in _PHASES.items()}
            traces, compiled = ([s for s in spans if s.event == e] for e in (TRACE, COMPILE))
            again = [s for s in (traces or compiled) if s.reasons]
            found.append(TraceRow(
                site, name, len(traces), len(compiled), seconds,
                next((s.equations for s in reversed(traces)), 0),
                tuple("; ".join(s.reasons) for s in again)))
        return sorted(found, key=lambda row: -sum(row.seconds.values()))

    def __str__(self) -> str:
        rows = self.rows
        lines = [("function", "traces", "compilations", "equations", *_PHASES.values(), "seconds",
                  "line")]
        for row in rows:
            lines.append((row.function, str(row.traces), str(row.compilations), str(row.equations),
                          *_times([row.seconds[phase] for phase in _PHASES.values()]), row.site))
        traces, compiled = self._counts(rows)
        sums = [sum(row.seconds[phase] for row in rows) for phase in _PHASES.values()]
        lines.append(("total", str(traces), str(compiled), "", *_times(sums),
                      f"of {self.wall:.3f} s"))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = []
        for line, found in zip(lines, [None, *rows, None], strict=True):
            first, *numbers, last = line
            cells = [first.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:]))]
            text.append("  ".join([*cells, last]))
            if found is not None:
                text += [f"    again: {reason}" for reason in found.reasons[:_SHOWN]]
                more = len(found.reasons) - _SHOWN
                text += [f"    and {more} times more"] if more > 0 else []
        return "\n".join(text)

    def __repr__(self) -> str:
        rows = self.rows
        traces, compiled = self._counts(rows)
        seconds = sum(sum(row.seconds.values()) for row in rows)
        return (f"<TraceReport: {counted(traces, 'trace')}, {counted(compiled, 'compilation')}, "
                f"{seconds:.3f} s>")

    @staticmethod
    def _counts(rows: Sequence[TraceRow]) -> tuple[int, int]:
        return sum(row.traces for row in rows), sum(row.compilations for row in rows)

    def json(self) -> str:
        """Rows and spans as JSON."""
        return json.dumps({"wall": self.wall, "rows": [row._asdict() for row in self.rows],
                           "spans": [_span(s, self._start) for s in self._spans]}, indent=2)

    def perfetto(self) -> str:
        """The spans in the format that Perfetto and Chrome's tracing show."""
        spans = self._spans
        first = min([self._start, *(span.start for span in spans)])  # times cannot be negative
        # Python's numbers of threads have more than 32 bits, for which Perfetto has no place.
        threads = {thread: i for i, thread in enumerate(dict.fromkeys(s.thread for s in spans), 1)}
        events = [{"ph": "X", "pid": os.getpid(), "tid": threads[span.thread], "name": span.name,
                   "cat": _PHASES[span.event], "ts": (span.start - first) * 1e6,
                   "dur": span.seconds * 1e6, "args": _span(span, self._start)}
                  for span in spans]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    @boundary
    def save(self, path: str | os.PathLike[str], form: str = "json") -> None:
        """Writes a file.

        Args:
          path: the file.
          form: "json", "perfetto" or "table".

        Raises:
          ValueError: there is no such form.
        """
        forms = {"json": self.json, "perfetto": self.perfetto, "table": self.__str__}
        if form not in forms:
            msg = f"trace_report: a report has the forms {', '.join(forms)}; got {form!r}."
            raise ValueError(msg)
        with open(path, "w", encoding="utf-8") as file:
            file.write(forms[form]())


def _times(seconds: Sequence[float]) -> list[str]:
    """Seconds by phase, and their sum."""
    return [f"{s:.3f}" for s in (*seconds, sum(seconds))]


def _span(span: Span, start: float) -> dict[str, Any]:
    return {"phase": _PHASES[span.event], "function": span.name, "line": span.site,
            "start": span.start - start, "seconds": span.seconds, "own": span.own,
            "thread": span.thread, "equations": span.equations, "reasons": span.reasons}


@contextmanager
def trace_report() -> Iterator[TraceReport]:
    """Records every trace, lowering and compilation of the body of a `with` statement.

    All threads are recorded. `python -m mjax trace script.py`, or `trace -m module`, does it for a
    whole program. Calls of programs that are compiled already cost nothing. Traced programs are
    kept until the body ends.

    Returns:
      A context manager that gives a `TraceReport`: by call site how often, how long, how many
      equations, and why again: which argument's type, static value or setting differed.

    Example:
      >>> f = mjax.jit(lambda x: jnp.sin(x))
      >>> with mjax.debug.trace_report() as report:
      ...   y = f(jnp.ones(2)), f(jnp.ones(3))
      >>> report.rows[0].traces
      2
    """
    report = TraceReport()
    try:
        yield report
    finally:
        report._finish()


class _NoRetrace:
    """Refuses second traces, of this thread, of functions that are not the library's."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._traced: set[tuple[Any, ...]] = set()

    def __call__(self, function: Callable[..., Any], reasons: Sequence[str]) -> None:
        """Told of each trace before it begins."""
        if threading.get_ident() != self._thread or (
                getattr(function, "__module__", None) or "").startswith("mjax."):
            return
        kind = kind_of(function)
        if not reasons and kind not in self._traced:
            self._traced.add(kind)
            return
        why = "\n".join(f"  {line}" for line in reasons) or (
            "  another function with this code was traced: it is defined or decorated anew for "
            "each call")
        msg = (f"no_retrace: {function_name(function)} would be traced again, for the call at "
               f"{summarize(current_traceback())}. The function is "
               f"{describe_function(function)}.\n{why}")
        raise RuntimeError(msg)


@contextmanager
def no_retrace() -> Iterator[None]:
    """Refuses to trace a jitted function that was traced before, in this thread: for tests.

    First traces are allowed, of each function. One that is defined or decorated anew has the code
    of another, and counts as that one.

    Raises:
      RuntimeError: in the body of the `with` statement: a function is traced again. The message
        says which argument's type, static value or setting is the reason.

    Example:
      >>> f = mjax.jit(lambda x: x + 1)
      >>> with mjax.debug.no_retrace():
      ...   y = f(1.0), f(2.0)
    """
    guard = _NoRetrace()
    guards.append(guard)
    try:
        yield
    finally:
        guards.remove(guard)
