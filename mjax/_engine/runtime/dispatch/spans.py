"""Spans of tracing, lowering and compilation, for those who record them.

Nothing here runs in calls of compiled programs. While nobody records, a trace costs one test more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mjax._engine.base.monitoring import COMPILE, TRACE
from mjax._engine.ir.jaxpr import Jaxpr, subjaxprs
from mjax._engine.ir.source import Frame, current_traceback, user_frame


class Span:
    """A trace, a lowering or a compilation.

    Attributes:
      event: the name of its kind in `mjax.monitoring`.
      name: the name of the function.
      traceback: of the call that caused it, jaxlib's.
      start: when it began, as `time.perf_counter` says.
      seconds: how long it took.
      own: the same without the spans inside of it.
      thread: the number of its thread.
      equations: of a trace, those of nested programs included; else 0.
      reasons: why a function was traced or compiled again; empty for the first time.
    """

    __slots__ = ("equations", "event", "inner", "name", "own", "reasons", "seconds", "start",
                 "thread", "traceback")

    def __init__(self, event: str, name: str, reasons: Sequence[str]):
        self.event, self.name, self.reasons = event, name, tuple(reasons)
        self.traceback = current_traceback()
        self.thread = threading.get_ident()
        self.equations, self.inner, self.seconds, self.own = 0, 0.0, 0.0, 0.0
        self.start = time.perf_counter()

    @property
    def site(self) -> Frame | None:
        """The user's line that caused it; None: there is none."""
        return user_frame(self.traceback)

    def traced(self, jaxpr: Jaxpr) -> None:
        """Told the result of a trace."""
        self.equations = _count(jaxpr)


class Recorder(Protocol):
    """One who records spans."""

    def tracing(self, function: Callable[..., Any], reasons: Sequence[str]) -> None:
        """A function is about to be traced, for these reasons if it was traced before; this may
        refuse it by raising."""

    def ended(self, span: Span) -> None:
        """A span has ended."""


#: Those who record, of all threads.
recorders: list[Recorder] = []


class _Open(threading.local):
    """The open spans of a thread, and the reasons for its next lowering or compilation."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.reasons: tuple[str, ...] = ()


_open = _Open()


def explain_next(reasons: Sequence[str]) -> None:
    """Gives the reasons for the next lowering and compilation of this thread."""
    _open.reasons = tuple(reasons)


def begin(event: str, name: str, reasons: Sequence[str] | None) -> Span:
    """Opens a span; `reasons` is None for those that `explain_next` gave."""
    span = Span(event, name, _open.reasons if reasons is None else reasons)
    _open.spans.append(span)
    return span


def end(span: Span) -> None:
    """Ends a span, and tells those who record."""
    span.seconds = time.perf_counter() - span.start
    span.own = span.seconds - span.inner
    _open.spans.remove(span)
    if span.event == TRACE:
        _open.reasons = span.reasons  # those of the traces inside are not the program's
    elif span.event == COMPILE:
        _open.reasons = ()
    if _open.spans:
        _open.spans[-1].inner += span.seconds
    for recorder in tuple(recorders):
        recorder.ended(span)


def _count(jaxpr: Jaxpr) -> int:
    return int(jaxpr.cached("equations", lambda: (
        len(jaxpr.eqns) + sum(map(_count, subjaxprs(jaxpr))))))
