"""Profiles of time and memory, by jaxlib's profiler."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import json
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from mjax._engine.base.folding import boundary
from mjax._engine.runtime.arrays.devices import client
from mjaxlib_shim import profiler as shim

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_running: _Profile | None = None
_server: Any = None

#: Where the viewer of Perfetto is, and the port of this machine that it may read from.
_VIEWER = "https://ui.perfetto.dev"
_PORT = 9001


class TraceAnnotation(shim.TraceMe):
    """Context manager that names a range on the timeline of a profile.

    Args:
      name: of the range.
      kwargs: numbers and texts that the viewer shows with it.

    Example:
      >>> with mjax.profiler.TraceAnnotation("my step", size=3):
      ...     y = jnp.ones(3) + 1
    """


class StepTraceAnnotation(TraceAnnotation):
    """As `TraceAnnotation`, for the steps of a training loop: viewers show statistics of steps.

    Example:
      >>> for step in range(2):
      ...     with mjax.profiler.StepTraceAnnotation("train", step_num=step):
      ...         y = jnp.ones(3) + step
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable[P, R], name: str | None = None, **decorator_kwargs: Any
                      ) -> Callable[P, R]:
    """Decorator: each call of the function is a range on the timeline of a profile.

    Args:
      func: the function.
      name: of the range; default: the function's.
      decorator_kwargs: numbers and texts that the viewer shows with it.
    """
    called = name or getattr(func, "__qualname__", None) or func.__name__

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(called, **decorator_kwargs):
            return func(*args, **kwargs)

    return wrapper


class _Profile:
    """A running profile, and what becomes of it."""

    def __init__(self, log_dir: str, perfetto: bool, link: bool, options: Any):
        self.log_dir, self.perfetto, self.link = log_dir, perfetto, link
        self.session = shim.ProfilerSession(options or shim.ProfileOptions())

    def stop(self) -> pathlib.Path | None:
        """Writes the profile; gives the file that is to be served, if one is."""
        self.session.stop_and_export(self.log_dir)
        file = _write_for_perfetto(self.log_dir) if self.perfetto or self.link else None
        return file if self.link else None


@boundary
def start_trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
                create_perfetto_trace: bool = False, profiler_options: Any = None) -> None:
    """Starts to record what runs, Python functions and XLA's programs, until `stop_trace`.

    Args:
      log_dir: where the profile is written, in the form that TensorBoard reads.
      create_perfetto_link: whether `stop_trace` prints a link to Perfetto's viewer, and waits until
        it is opened.
      create_perfetto_trace: whether a file for that viewer is written.
      profiler_options: a `ProfileOptions`; default: jaxlib's defaults.

    Raises:
      RuntimeError: a profile is recorded already.
    """
    global _running
    with _lock:
        if _running is not None:
            msg = "profiler.start_trace: a profile is being recorded; stop_trace ends it."
            raise RuntimeError(msg)
        client()  # devices take part only in profiles that start after them
        _running = _Profile(os.fspath(log_dir), create_perfetto_trace, create_perfetto_link,
                          profiler_options)


@boundary
def stop_trace() -> None:
    """Ends what `start_trace` started, and writes the profile.

    Raises:
      RuntimeError: no profile is recorded.
    """
    global _running
    with _lock:
        if _running is None:
            msg = "profiler.stop_trace: no profile is being recorded; start_trace starts one."
            raise RuntimeError(msg)
        ended, _running = _running, None
        file = ended.stop()
    if file is not None:  # it waits for a user, and others may record meanwhile
        _serve_once(file)


@contextlib.contextmanager
def trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
          create_perfetto_trace: bool = False, profiler_options: Any = None) -> Iterator[None]:
    """Context manager: records what runs inside; arguments and errors are those of `start_trace`.

    Example:
      >>> import tempfile
      >>> with mjax.profiler.trace(tempfile.mkdtemp()):
      ...     y = (jnp.ones(3) + 1).block_until_ready()
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


def _write_for_perfetto(log_dir: str) -> pathlib.Path:
    """The newest profile as a file that Perfetto reads: it refuses the field `metadata`."""
    folders = (pathlib.Path(log_dir).absolute() / "plugins" / "profile").iterdir()
    folder = max(folders, key=os.path.getmtime)
    (source,) = folder.glob("*.trace.json.gz")
    with gzip.open(source, "rb") as file:
        content = json.load(file)
    content.pop("metadata", None)
    target = folder / "perfetto_trace.json.gz"
    with gzip.open(target, "wb") as file:
        file.write(json.dumps(content).encode())
    return target


def _serve_once(file: pathlib.Path) -> None:
    """Prints a link to the viewer, and gives it the file when it asks for it."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        given = False

        def end_headers(self) -> None:
            self.send_header("Access-Control-Allow-Origin", _VIEWER)
            super().end_headers()

        def do_GET(self) -> None:
            super().do_GET()
            Handler.given = Handler.given or self.path == f"/{file.name}"

    handler = functools.partial(Handler, directory=str(file.parent))
    with http.server.HTTPServer(("127.0.0.1", _PORT), handler) as server:
        print(f"Open in a browser: {_VIEWER}/#!/?url=http://127.0.0.1:{_PORT}/{file.name}")
        while not Handler.given:
            server.handle_request()


@boundary
def start_server(port: int, requires_backend: bool = True) -> Any:
    """Starts a server that TensorBoard and others ask for profiles of this process.

    Args:
      port: to listen on.
      requires_backend: whether the devices are made first.

    Raises:
      ValueError: there is one already.
    """
    global _server
    with _lock:
        if _server is not None:
            msg = "profiler.start_server: only one server can run; stop it with stop_server first."
            raise ValueError(msg)
        if requires_backend:
            client()
        _server = shim.start_server(port)
        return _server


@boundary
def stop_server() -> None:
    """Stops the server that `start_server` started, when nobody else holds it.

    Raises:
      ValueError: there is none.
    """
    global _server
    with _lock:
        if _server is None:
            msg = "profiler.stop_server: no server runs; start_server starts one."
            raise ValueError(msg)
        _server = None


@boundary
def device_memory_profile(backend: str | None = None) -> bytes:
    """The allocations of the devices' memory by place, in the form that pprof reads.

    Args:
      backend: a platform's name; default: the default platform.
    """
    return gzip.compress(shim.heap_profile(client(backend)))


@boundary
def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None
                               ) -> None:
    """Writes `device_memory_profile(backend)` to a file."""
    profile = device_memory_profile(backend)
    with open(filename, "wb") as file:
        file.write(profile)
