"""Tracing functions for `jit`, and the cache of traces."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.frame_room import with_room
from mjax._engine.base.monitoring import TRACE
from mjax._engine.base.program_caches import forget_programs, programs_of
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.control.calls.static_arguments import with_static
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import is_object_value
from mjax._engine.runtime.dispatch.arguments import JitCall, names_of
from mjax._engine.runtime.dispatch.explain import explain_trace, guarded, timed
from mjax._engine.runtime.dispatch.short import Caches
from mjax._engine.runtime.dispatch.spans import guards, recorders
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import FlatFunction, function_name
from mjax._engine.tracing.reference import refuse_returned
from mjax._engine.tracing.stage import lift_tracers, stage


class TracedProgram(Record):
    """A traced function: the jaxpr, the values it closed over, and the tree of its results."""

    jaxpr: Jaxpr
    closed_over: tuple[Any, ...]
    out_tree: Any


_lock = threading.Lock()


def caches_of(f: Callable[..., Any], options: Any) -> Caches:
    """The caches of a function, shared by all `jit`s of it with the same options.

    A bound method is created anew at each attribute access, so the key is its function and its
    object.
    """
    owner: Any = f
    key: tuple[Any, ...] = (options,)
    instance = getattr(f, "__self__", None)
    if inspect.ismethod(f):
        owner, key = f.__func__, (options, id(instance))
    with _lock:
        known = programs_of(owner)
        caches = known.get(key)
        if caches is None:
            caches = known.put(key, Caches())
            if len(key) == 2:
                try:
                    # An id may be given to another object once this one is gone.
                    weakref.finalize(instance, known.pop, key, None)
                except TypeError:
                    known.pop(key)
    return caches


def clear_caches() -> None:
    """Forgets all traces and compiled programs, of jitted functions and of single operations.

    Example:
      >>> mjax.clear_caches()
    """
    forget_programs()


def trace_call(f: Callable[..., Any], call: JitCall, avals: Sequence[Any], caches: Caches | None,
               traced_for: str = "jit") -> TracedProgram:
    """Traces a function for a call; from the cache if the trace holds no tracers. Messages name the
    transformation `traced_for`."""
    key = (thread.settings, thread.axis_env, call.tree, call.static_key, tuple(avals))
    if caches is not None:
        known = caches.traces.get(key)
        if known is not None:
            return known
        if thread.options.explain_cache_misses:
            explain_trace(f, call, key, caches.traces)
        if guards:
            guarded(f, call, key, caches.traces)
    if thread.options.no_tracing:
        msg = (f"{function_name(f)} would have to be traced for `{traced_for}`, which the flag "
               "no_tracing refuses.")
        raise RuntimeError(msg)
    flat = FlatFunction(with_static(f, call.static), call.tree)
    info = names_of(f, call, traced_for)
    facts = (caches and caches.traces, key, info, f)
    with timed("Finished tracing %s for jit in %.6f s", function_name(f), TRACE, facts) as span:
        jaxpr, closed_over = lift_tracers(with_room(stage, flat, avals, info))
        if traced_for != "jit":
            # A program of jit, once it is there: its calls share it.
            jaxpr = jaxpr.replace(debug_info=info._replace(traced_for="jit"))
        if recorders:
            span.facts = (*facts, jaxpr)
    refuse_returned(traced_for, jaxpr)
    trace = TracedProgram(jaxpr, tuple(closed_over), flat.out_tree)
    if caches is not None and all(
            is_object_value(c) or c.interp is evaluation for c in closed_over):
        caches.traces.put(key, trace)
    return trace
