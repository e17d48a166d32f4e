"""Logs why a function was traced or compiled, and how long that took.

The flags `log_compiles` and `explain_cache_misses` ask for it; the logger is "mjax".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.monitoring import (
    TRACE,
    record_event_duration_secs,
    record_event_time_span,
)
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.source import current_traceback, summarize
from mjax._engine.runtime.dispatch.arguments import JitCall, names_of
from mjax._engine.runtime.dispatch.spans import Facts, guards, record, recorders
from mjax._engine.tracing.flat import describe_function, function_name

#: The key of a call in a cache of traces or programs.
Key = tuple[Any, ...]

logger = logging.getLogger("mjax")

#: The number of earlier traces, the last ones, among which the closest is looked for.
_COMPARED = 64
#: The number of characters of a static value, or of a large structure, that messages show.
_LONGEST = 200
#: The places of definition of functions whose traces were explained.
_seen: set[str] = set()


def log_compile(text: str, *facts: Any) -> None:
    """Logs a step on the way to a compiled program: as a warning if `log_compiles` is on."""
    logger.log(logging.WARNING if thread.options.log_compiles else logging.DEBUG, text, *facts)


class timed:
    """Context manager: logs `text` with the program's name and the seconds that the body of the
    `with` statement took; also tells the listeners of the event, and those who record.

    Args:
      text: with places for the name and the seconds.
      name: of the function.
      event: a name in `monitoring`.
      facts: for those who record; the body may replace them.
    """

    __slots__ = ("began", "event", "facts", "name", "start", "text")

    def __init__(self, text: str, name: str, event: str, facts: Facts = ()):
        self.text, self.name, self.event, self.facts = text, name, event, facts

    def __enter__(self) -> timed:
        self.began, self.start = time.time(), time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        seconds = time.perf_counter() - self.start  # changes of the system's clock do not matter
        if recorders:
            record(self.event, self.name, self.start, seconds, self.facts)
        if kind is None:
            # A function is traced; what is lowered and compiled is a program of it.
            name = self.name if self.event == TRACE else f"jit({self.name})"
            log_compile(self.text, name, seconds)
            record_event_duration_secs(self.event, seconds, fun_name=name)
            record_event_time_span(self.event, self.began, self.began + seconds, fun_name=name)


class Joined:
    """Values that are joined to a text only if it is shown."""

    def __init__(self, values: Iterable[Any]):
        self.values = values

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


# ---- cache misses ----------------------------------------------------------------------


def explain_trace(f: Callable[..., Any], call: JitCall, key: tuple[Any, ...],
                  seen: Iterable[Any]) -> None:
    """Logs why a function is traced.

    Args:
      f: the function.
      call: the call that needs it.
      key: `(settings, axes, structure, static arguments, types)`.
      seen: the keys of its traces.
    """
    reasons = reasons_for_trace(key, seen, lambda: names_of(f, call))
    where = describe_function(f)
    if reasons:
        text = "its arguments differ from those of the closest earlier call:\n" + "\n".join(
            f"  {line}" for line in reasons)
    else:
        text = "this function was never traced before."
        if where in _seen:
            text += (" Another function defined at the same place was: if it is defined or "
                     "decorated anew for each call, nothing is ever found in the cache.")
    _seen.add(where)
    _log_miss("TRACING", f, where, text)


def reasons_for_trace(key: Key, seen: Iterable[Any], names: Callable[[], DebugInfo]) -> list[str]:
    """The differences to the closest earlier call, a line each; empty if there is none.

    Args:
      key: `(settings, axes, structure, static arguments, types)`.
      seen: the keys of earlier calls, the last one at the end.
      names: gives the names of the arguments.
    """
    earlier = list(seen)[-_COMPARED:]
    if not earlier:
        return []
    return _differences(names, key, min(reversed(earlier), key=lambda old: _distance(key, old)))


def guarded(f: Callable[..., Any], call: JitCall, key: Key, seen: Iterable[Any]) -> None:
    """Tells those who may refuse a trace that a function is about to be traced."""
    reasons = reasons_for_trace(key, seen, lambda: names_of(f, call))
    for guard in tuple(guards):
        guard(f, reasons)


def explain_compilation(f: Callable[..., Any], call: JitCall, placements: tuple[Any, ...],
                        seen: Iterable[Any]) -> None:
    """Logs why a function is compiled again for the same types.

    Args:
      f: the function.
      call: the call that needs it; its leaves are arrays.
      placements: the placements of its leaves.
      seen: the keys of its programs, `(settings, placements, structure, static arguments)`.
    """
    key = (thread.settings, placements, call.tree, call.static_key)
    reasons = reasons_for_compilation(key, seen, lambda: names_of(f, call))
    if reasons:
        _log_miss("COMPILATION", f, describe_function(f), (
            "its arguments are elsewhere than those of the closest earlier call:\n" + "\n".join(
                f"  {line}" for line in reasons)))


def reasons_for_compilation(key: Key, seen: Iterable[Any], names: Callable[[], DebugInfo]
                            ) -> list[str]:
    """The arguments that are elsewhere than those of the closest earlier call of the same types, a
    line each.

    Args:
      key: `(settings, placements, structure, static arguments)`.
      seen: the keys of earlier calls.
      names: gives the names of the arguments.
    """
    avals = [p.aval for p in key[1]]
    earlier = [_moved(names, key[1], old[1]) for old in list(seen)
               if old[0] == key[0] and old[2:] == key[2:] and [p.aval for p in old[1]] == avals]
    return min(reversed(earlier), key=len) if earlier else []


def _log_miss(what: str, f: Callable[..., Any], where: str, text: str) -> None:
    logger.warning("%s CACHE MISS of jit(%s) at %s, function %s: %s", what, function_name(f),
                   summarize(current_traceback()), where, text)


def _distance(new: Key, old: Key) -> int:
    """The number of `_differences`."""
    settings = 0 if new[0] is old[0] else sum(
        value != old[0].values[name] for name, value in new[0].values.items())
    static = 0 if new[3] == old[3] else len(_changed(dict(new[3]), dict(old[3])))
    types = 1 if new[2] != old[2] else sum(a is not b for a, b in zip(new[4], old[4], strict=True))
    return settings + static + types + (new[1] != old[1])


def _differences(names: Callable[[], DebugInfo], new: Key, old: Key) -> list[str]:
    """A line for each difference between two keys of traces."""
    lines = [f"setting {name}: now {new[0].values[name]!r}, before {old[0].values[name]!r}"
             for name in new[0].values if new[0].values[name] != old[0].values[name]]
    if new[1] != old[1]:
        lines.append(f"named axes: now {new[1]}, before {old[1]}")
    if new[2] != old[2]:
        now, before = _apart(str(new[2]), str(old[2]))
        lines.append(f"structure of (args, kwargs): now {now}, before {before}")
    lines += _static_differences(dict(new[3]), dict(old[3]))
    if new[2] == old[2]:
        lines += [f"argument {names().arg_name(i)}: now {a}, before {b} ({_what(a, b)})"
                  for i, (a, b) in enumerate(zip(new[4], old[4], strict=True)) if a is not b]
    return lines


def _changed(new: dict[Any, Any], old: dict[Any, Any]) -> list[Any]:
    """The names of static arguments whose values differ."""
    return [name for name in {**new, **old} if new.get(name) != old.get(name)]


def _static_differences(new: dict[Any, Any], old: dict[Any, Any]) -> list[str]:
    return [f"static argument {name!r}: now {_shown(new.get(name))}, before {_shown(old.get(name))}"
            for name in _changed(new, old)]


def _shown(form: Any) -> str:
    """The value behind an `exact` form on one line; None if there is none."""
    if form is None:
        return "not given"
    kind, *parts = form
    if isinstance(kind, tuple):  # of numbers and texts
        return _repr(parts[0])
    if issubclass(kind, tuple):
        return f"({', '.join(map(_shown, parts))}{',' * (len(parts) == 1)})"
    if kind is frozenset:
        return f"frozenset({{{', '.join(sorted(map(_shown, parts[0])))}}})"
    if issubclass(kind, np.generic):
        return repr(np.frombuffer(parts[1], parts[0])[0])
    if issubclass(kind, (float, complex)):
        value = complex(parts[0])
        return repr(value.real if issubclass(kind, float) else value)
    return _repr(parts[0])


def _apart(*texts: str) -> list[str]:
    """Texts, or the parts of long ones from which on they differ."""
    if max(map(len, texts)) <= 2 * _LONGEST:
        return list(texts)
    same = next((i for i, characters in enumerate(zip(*texts)) if len({*characters}) > 1), 0)
    begin = max(0, same - _LONGEST // 4)
    return [f"{'...' * (begin > 0)}{t[begin:begin + _LONGEST]}"
            f"{'...' * (len(t) > begin + _LONGEST)}" for t in texts]


def _repr(value: Any) -> str:
    """The repr of a user's value: a line, not too long."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:
        return f"an object of {type(value).__name__} whose repr raises {type(error).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _what(a: Any, b: Any) -> str:
    """The difference between two types of arrays."""
    facts = {"shape": "shape", "dtype": "dtype", "weak_type": "weak type",
             "varying": "varying axes"}
    return ", ".join(text for name, text in facts.items()
                     if getattr(a, name, None) != getattr(b, name, None))


def _moved(names: Callable[[], DebugInfo], new: Sequence[Any], old: Sequence[Any]) -> list[str]:
    return [f"argument {names().arg_name(i)}: now {_place(a)}, before {_place(b)}"
            for i, (a, b) in enumerate(zip(new, old, strict=True)) if a is not b]


def _place(placement: Any) -> str:
    return f"{'committed to' if placement.committed else 'uncommitted on'} {placement.sharding}"
