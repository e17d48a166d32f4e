"""The state of a thread: which interpreter runs, under which settings.

One `threading.local` holds all of it, because the hot paths read several of these
fields per call. Class attributes are the process-wide defaults that a new thread sees.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple


class NamedAxis(NamedTuple):
    """A named axis in scope.

    Attributes:
      name: its name.
      size: the number of elements along it.
      manual: None for an axis of vmap; for a mesh axis inside of shard_map what `spmd` has to know
        of it. It is part of cache keys, like all of this.
    """

    name: Any
    size: int
    manual: Any = None


class ThreadState(threading.local):
    """Per-thread state. `interpreter` and `settings` are plugged in by their own modules."""

    #: The interpreter that `Primitive.bind` hands its calls to.
    interpreter: Any = None
    #: Interned `base.config.Settings`: everything that may change what a trace yields.
    settings: Any = None
    #: Interned `base.config.Options`: switches that never change what a trace yields.
    options: Any = None
    #: Named axes in scope, innermost last.
    axis_env: tuple[NamedAxis, ...] = ()
    #: Source info for equations staged while a transformation replays others' equations;
    #: None means: take the traceback of the call.
    source: Any = None
    #: Over how many devices the compiled program runs that called the Python function that runs;
    #: 0: none did.
    in_callback: int = 0


thread = ThreadState()
