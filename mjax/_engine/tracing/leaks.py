"""The search of `checking_leaks` for tracers that outlive their trace."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from types import CellType, FrameType
from typing import Any

from mjax._engine.base.errors import UnexpectedTracerError
from mjax._engine.base.thread import thread
from mjax._engine.tracing.interpreter import Interpreter, Tracer


def refuse_leaks(interp: Interpreter) -> None:
    """Under `checking_leaks`, refuses tracers of an interpreter that are still alive.

    A function that holds no tracer calls it when the trace has ended.

    Raises:
      UnexpectedTracerError: there are some; it describes them and the objects that hold them.
    """
    if not thread.options.check_tracer_leaks:
        return
    gc.collect()
    leaked = [t for t in gc.get_objects() if isinstance(t, Tracer) and t.interp is interp]
    if leaked:
        shown = leaked[:5]
        lines = [f"  {t.aval}:{_origin(t)}{_holder(t, (leaked, shown))}" for t in shown]
        more = ["  ..."] if len(leaked) > 5 else []
        raise UnexpectedTracerError("\n".join([
            f"tracers leaked: {len(leaked)} outlived the {interp.name} trace that made them.",
            *lines, *more]))


def _origin(tracer: Tracer) -> str:
    """The place where a tracer was made: its equation when staging, otherwise the function."""
    said, value = "", tracer
    while isinstance(value, Tracer):
        said = value.interp.describe_origin(value) or said
        value = value.below()
    return said


def _holder(tracer: Tracer, own: Sequence[list[Any]]) -> str:
    """The object that keeps a tracer alive, as far as the collector knows; not our own lists."""
    ours = set(map(id, own))
    holders = gc.get_referrers(tracer)
    for holder in holders:
        if isinstance(holder, FrameType) or id(holder) in ours:
            continue
        if isinstance(holder, Tracer):  # of a transformation inside of this trace
            return _holder(holder, (*own, holders))
        if isinstance(holder, CellType):
            return " A variable that a function closes over holds it."
        if isinstance(holder, dict):
            for key, value in holder.items():  # no comprehension, which would close over `tracer`
                if value is tracer:
                    return (f" The global {key!r} of module {holder['__name__']} holds it."
                            if "__name__" in holder else
                            f" A dict or an object's attributes hold it, under {key!r}.")
        return f" A {type(holder).__name__} holds it."
    return ""
