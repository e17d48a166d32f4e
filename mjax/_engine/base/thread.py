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
      manual: facts that `spmd` needs about a mesh axis inside of shard_map; None for an axis of
        vmap. Cache keys contain it, like the other fields.
    """

    name: Any
    size: int
    manual: Any = None


class ThreadState(threading.local):
    """Per-thread state. `interpreter` and `settings` are plugged in by their own modules.

    The dict of every thread has its `interpreter`, so that dispatch finds it by one lookup.
    """

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
    #: In a callback: the number of devices of the compiled program that called it; otherwise 0.
    in_callback: int = 0
    #: Whether this thread is inside of `frame_room.with_room`.
    has_room: bool = False
    #: Symbols of sizes -> their IR values, in the function that is being lowered; None: all
    #: shapes of the program are known.
    dimensions: Any = None

    def __init__(self) -> None:
        self.interpreter = ThreadState.interpreter
        user_idents.add(threading.get_ident())


#: The identifiers of all threads that have used mjax, dead ones too.
user_idents: set[int] = set()
thread = ThreadState()
