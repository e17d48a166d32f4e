"""The profiler: named ranges, and sessions that record them."""

from __future__ import annotations

import importlib
from typing import Any

from . import gates
from .native import ext

__all__ = ["ProfilerSession", "TraceMe"]

_module: Any = (
    importlib.import_module("jaxlib._profiler") if gates.PROFILER_MODULE.open else ext.profiler
)

#: `with TraceMe("name", **metadata):` names a range on this thread's timeline.
TraceMe: Any = _module.TraceMe
#: `ProfilerSession()` records until `.stop()`, which returns the XSpace proto as bytes.
ProfilerSession: Any = _module.ProfilerSession
