"""The profiler: named ranges, sessions that record them, and a server of recordings."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import gates
from .native import ext

__all__ = [
    "ProfileData",
    "ProfileEvent",
    "ProfileOptions",
    "ProfilePlane",
    "ProfilerServer",
    "ProfilerSession",
    "TraceMe",
    "heap_profile",
    "register_subprocess",
    "start_server",
]

_module: Any = (
    importlib.import_module("jaxlib._profiler") if gates.PROFILER_MODULE.open else ext.profiler
)

#: `with TraceMe("name", **metadata):` names a range on this thread's timeline.
if TYPE_CHECKING:
    from .native_types import TraceMe
else:
    TraceMe = _module.TraceMe
#: `ProfilerSession()` records until `.stop()`, which returns the XSpace proto as bytes, or
#: `.stop_and_export(folder)`. It takes ProfileOptions.
ProfilerSession: Any = _module.ProfilerSession
ProfileOptions: Any = _module.ProfileOptions
ProfilerServer: Any = _module.ProfilerServer
#: `start_server(port)` returns a ProfilerServer, which runs as long as it lives.
start_server: Any = _module.start_server


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Adds the profile of another process, whose server listens on `port`, to that of this one.

    Args:
      pid: the number of the process.
      port: the port of its server.

    Returns:
      a function that undoes this.

    Raises:
      NotImplementedError: this jaxlib cannot.
      RuntimeError: the process is this one, or no server listens on the port.
      TypeError: one of the numbers is not an integer.

    Example:
      >>> stop = mjax.profiler.register_subprocess(worker.pid, 9000)    # doctest: +SKIP
      >>> stop()                                                        # doctest: +SKIP
    """
    if not gates.PROFILED_SUBPROCESSES.open:
        raise _too_old("profiler.register_subprocess", gates.PROFILED_SUBPROCESSES)
    take_back: Callable[[], None] = _module.register_subprocess(pid, port)
    return take_back


def heap_profile(client: Any) -> bytes:
    """The allocations of a client's memory by place, as pprof's protocol buffer.

    Args:
      client: the client.

    Returns:
      Bytes.

    Raises:
      AttributeError: `client` is not a client.

    Example:
      >>> from mjaxlib_shim import client, profiler
      >>> isinstance(profiler.heap_profile(client.client_for("cpu")), bytes)
      True
    """
    return bytes(client.heap_profile())


def _too_old(what: str, gate: gates.Gate) -> NotImplementedError:
    return NotImplementedError(f"{what} needs jaxlib {gate.since_release} or newer")


class _NoProfileData:
    """Replaces classes that this jaxlib does not have yet."""

    def __init__(self, *_: object) -> None:
        raise _too_old("reading profiles (ProfileData)", gates.PROFILE_DATA)

    from_file = from_serialized_xspace = from_text_proto = classmethod(lambda cls, _: cls())


_data: Any = importlib.import_module("jaxlib._profile_data") if gates.PROFILE_DATA.open else None
#: `ProfileData.from_serialized_xspace(bytes)` and `.from_file(path)`: `planes`, with `lines`, with
#: `events`.
ProfileData: Any = _data.ProfileData if _data else _NoProfileData
ProfileEvent: Any = _data.ProfileEvent if _data else _NoProfileData
ProfilePlane: Any = _data.ProfilePlane if _data else _NoProfileData
