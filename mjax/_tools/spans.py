"""Reads what `runtime.dispatch.spans` recorded: seconds without those inside, and reasons."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any

from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.monitoring import COMPILE, TRACE
from mjax._engine.base.records import Record
from mjax._engine.ir.jaxpr import Jaxpr, subjaxprs
from mjax._engine.ir.source import summarize
from mjax._engine.runtime.dispatch.arguments import names_of
from mjax._engine.runtime.dispatch.explain import reasons_for_compilation, reasons_for_trace
from mjax._engine.runtime.dispatch.spans import CALL, Entry
from mjax._engine.tracing.flat import function_name, is_partial

_SAME = ("no argument, static value or setting: its last trace was not kept, because it closed "
         "over traced values or the caches were cleared")
#: The number of functions, each of which wraps the next, that are told apart.
_WRAPPED = 50
_ANEW = ("another function with this code was traced here: it is defined or decorated anew for "
         "each call")


class Span(Record):
    """A trace, a lowering or a compilation.

    Attributes:
      event: the name of its kind in `mjax.monitoring`.
      name: the name of the function.
      site: the user's line that caused it.
      start: when it began, as `time.perf_counter` says.
      seconds: how long it took.
      own: the same without the spans inside of it.
      thread: the number of its thread.
      equations: of a trace, those of nested programs included; else 0.
      reasons: why a function was traced or compiled again; empty for the first time.
    """

    event: str
    name: str
    site: str
    start: float
    seconds: float
    own: float
    thread: int
    equations: int
    reasons: tuple[str, ...]


def read(recorded: Iterable[tuple[Any, ...]]) -> list[Span]:
    """The spans in the order in which they ended."""
    entries = [Entry(*entry) for entry in recorded]
    own = _own_seconds([entry for entry in entries if entry.event != CALL])
    sites = [summarize(entry.traceback) for entry in entries]
    return [Span(e.event, e.name, site, e.start, e.seconds, own[id(e)], e.thread, _equations(e),
                 reasons)
            for e, site, reasons in zip(entries, sites, _reasons(entries, sites), strict=True)
            if e.event != CALL]


def _own_seconds(entries: Sequence[Entry]) -> dict[int, float]:
    """The id of an entry -> its seconds without those of the entries inside of it."""
    own, around = {}, dict[int, list[Entry]]()
    for entry in sorted(entries, key=lambda e: (e.start, -e.seconds)):
        own[id(entry)] = entry.seconds
        outer = around.setdefault(entry.thread, [])
        while outer and outer[-1].start + outer[-1].seconds < entry.start + entry.seconds:
            outer.pop()
        if outer:
            own[id(outer[-1])] -= entry.seconds
        outer.append(entry)
    return own


def _equations(entry: Entry) -> int:
    whole = entry.event == TRACE and len(entry.facts) == 5
    return _count(entry.facts[4]) if whole else 0


def _count(jaxpr: Jaxpr) -> int:
    return int(jaxpr.cached("equations", lambda: (
        len(jaxpr.eqns) + sum(map(_count, subjaxprs(jaxpr))))))


def _reasons(entries: Sequence[Entry], sites: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """The reasons of each entry. A program is lowered and compiled for those of its trace, or of
    its call if it was traced before."""
    seen = _Seen(entries)
    last: dict[int, tuple[str, ...]] = {}
    for entry, site in zip(entries, sites, strict=True):
        if entry.event in (CALL, TRACE):
            last[entry.thread] = tuple(seen.reasons(entry, site))
        yield last.get(entry.thread, ())
        if entry.event == COMPILE:
            last[entry.thread] = ()


class _Seen:
    """The keys that were in the caches of functions before each entry."""

    def __init__(self, entries: Sequence[Entry]):
        self._recorded: dict[int, set[Any]] = {}
        self._before: dict[int, list[Any]] = {}
        self._here: dict[Any, int] = {}
        for entry in entries:
            if entry.facts and entry.facts[0] is not None:
                self._recorded.setdefault(id(entry.facts[0]), set()).add(entry.facts[1])

    def reasons(self, entry: Entry, site: str) -> list[str]:
        """The reasons of a trace or a call."""
        cache, key, *rest = entry.facts
        if cache is None:
            return []
        recorded = self._recorded[id(cache)]
        before = self._before.setdefault(id(cache), [k for k in list(cache) if k not in recorded])
        if entry.event == CALL:
            f, call = rest
            found = reasons_for_compilation(key, before, lambda: names_of(
                f, call._replace(leaves=[p.aval for p in key[1]])))
        else:
            found = reasons_for_trace(key, before, lambda: rest[0])
            same = self._here.setdefault((site, kind_of(rest[1])), id(cache)) == id(cache)
            if not found and (before or not same):
                found = [_SAME if before else _ANEW]
        before.append(key)
        return found


def kind_of(function: Any) -> tuple[Any, ...]:
    """What functions have in common that are defined anew: the code of each that one wraps, and
    what transformations and `partial` were given, as far as it can be compared."""
    parts: list[Any] = []
    for _ in range(_WRAPPED):
        if function is None:
            break
        if is_partial(function):
            parts += _compared(function.args, *sorted(function.keywords.items()))
            function = function.func
        else:
            parts += _code(function)
            function = getattr(function, "__wrapped__", None)
    return tuple(parts)


def _code(function: Any) -> list[Any]:
    """The code of a function, and what one of a transformation closes over."""
    codes, held = [], []
    waiting = [function]
    for inner in waiting:
        code = getattr(inner, "__code__", None)
        if code in codes:
            continue
        codes.append(code or function_name(inner))
        if code is not None and is_engine_file(code.co_filename):
            values = inspect.getclosurevars(inner).nonlocals.values()
            waiting += [v for v in values if isinstance(v, FunctionType)
                        and is_engine_file(v.__code__.co_filename)]
            held += [v for v in values if not callable(v)]
    return [*codes, *_compared(*held)]


def _compared(*values: Any) -> list[Any]:
    found = []
    for value in values:
        with suppress(TypeError):  # it is not hashable
            hash(value)
            found.append(value)
    return found
