"""Profiles of time and memory, recorded by jaxlib's profiler."""

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
from mjaxlib_shim.distributed import check_free

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_running: _Profile | None = None
_server: Any = None

#: The URL of Perfetto's viewer, and the local port that it may read from.
_VIEWER = "https://ui.perfetto.dev"
_PORT = 9001


class TraceAnnotation(shim.TraceMe):
    """Context manager that names a range on the timeline of a profile.

    Args:
      name: the name of the range.
      kwargs: numbers and strings that the viewer shows with it.

    Example:
      >>> with mjax.profiler.TraceAnnotation("my step", size=3):
      ...     y = jnp.ones(3) + 1
    """


class StepTraceAnnotation(TraceAnnotation):
    """A `TraceAnnotation` for the steps of a training loop; viewers show their statistics.

    Args:
      name: the name of the steps.
      kwargs: numbers and texts to show; `step_num` is the number of the step.

    Example:
      >>> for step in range(2):
      ...     with mjax.profiler.StepTraceAnnotation("train", step_num=step):
      ...         y = jnp.ones(3) + step
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable[P, R], name: str | None = None, **decorator_kwargs: Any
                      ) -> Callable[P, R]:
    """Decorator that makes each call of a function a range on the timeline of a profile.

    Args:
      func: the function.
      name: the name of the range; by default the function's.
      decorator_kwargs: numbers and strings that the viewer shows with it.

    Returns:
      A function of the same signature.

    Raises:
      AttributeError: the function does not have a name, as of `functools.partial`, and none is
        given.
      TypeError: at calls: the name is not a string.

    Example:
      >>> @mjax.profiler.annotate_function
      ... def step(x):
      ...   return 2 * x
      >>> step(1)
      2
    """
    called = name or getattr(func, "__qualname__", None) or func.__name__

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(called, **decorator_kwargs):
            return func(*args, **kwargs)

    return wrapper


class _Profile:
    """A running profile and its options."""

    def __init__(self, log_dir: str, perfetto: bool, link: bool, options: Any):
        self.log_dir, self.perfetto, self.link = log_dir, perfetto, link
        self.session = shim.ProfilerSession(options or shim.ProfileOptions())

    def stop(self) -> pathlib.Path | None:
        """Writes the profile; returns the file to serve, if any."""
        self.session.stop_and_export(self.log_dir)
        file = _write_for_perfetto(self.log_dir) if self.perfetto or self.link else None
        return file if self.link else None


@boundary
def start_trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
                create_perfetto_trace: bool = False, profiler_options: Any = None) -> None:
    """Starts recording Python functions and XLA programs, until `stop_trace`.

    Args:
      log_dir: the directory of the profile, in TensorBoard's format.
      create_perfetto_link: whether `stop_trace` prints a link to Perfetto's viewer and waits until
        it is opened.
      create_perfetto_trace: whether to write a file for that viewer.
      profiler_options: a `ProfileOptions`; default: jaxlib's defaults.

    Raises:
      RuntimeError: a profile is already being recorded.

    Example:
      >>> import tempfile
      >>> mjax.profiler.start_trace(tempfile.mkdtemp())
      >>> y = (jnp.ones(3) + 1).block_until_ready()
      >>> mjax.profiler.stop_trace()
    """
    global _running
    with _lock:
        if _running is not None:
            msg = "profiler.start_trace: a profile is being recorded; stop_trace ends it."
            raise RuntimeError(msg)
        client()  # a profile covers only devices that exist when it starts
        _running = _Profile(os.fspath(log_dir), create_perfetto_trace, create_perfetto_link,
                          profiler_options)


@boundary
def stop_trace() -> None:
    """Stops the recording that `start_trace` began, and writes the profile.

    Raises:
      RuntimeError: no profile is being recorded.

    Example:
      >>> import tempfile
      >>> mjax.profiler.start_trace(tempfile.mkdtemp())
      >>> mjax.profiler.stop_trace()
    """
    global _running
    with _lock:
        if _running is None:
            msg = "profiler.stop_trace: no profile is being recorded; start_trace starts one."
            raise RuntimeError(msg)
        ended, _running = _running, None
        file = ended.stop()
    if file is not None:  # serving waits for a user, and others may record meanwhile
        _serve_once(file)


@contextlib.contextmanager
def trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
          create_perfetto_trace: bool = False, profiler_options: Any = None) -> Iterator[None]:
    """Context manager that records its block; see `start_trace` for arguments and errors.

    Args:
      log_dir: the directory of the profile, in TensorBoard's format.
      create_perfetto_link: whether the end of the block prints a link to Perfetto's viewer, and
        waits until it is opened.
      create_perfetto_trace: whether to write a file for Perfetto, too.
      profiler_options: a `ProfileOptions`.

    Returns:
      A context manager.

    Raises:
      RuntimeError: a profile is being recorded already.

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
    """Converts the newest profile for Perfetto, which rejects the field `metadata`."""
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
    """Prints a link to the viewer, and serves the file once."""
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
    """Starts a server from which TensorBoard and others request profiles of this process.

    Args:
      port: the port to listen on.
      requires_backend: whether to initialize the devices first.

    Returns:
      The server. It ends when it is not referenced any more.

    Raises:
      ValueError: a server is already running.
      RuntimeError: the port cannot be listened on: it is taken, for example.

    Example:
      >>> server = mjax.profiler.start_server(0)
      >>> mjax.profiler.stop_server()
    """
    global _server
    with _lock:
        if _server is not None:
            msg = "profiler.start_server: only one server can run; stop it with stop_server first."
            raise ValueError(msg)
        if port:
            try:
                check_free(f"[::]:{port}")
            except OSError as error:
                msg = f"profiler.start_server: {error.strerror}."
                raise RuntimeError(msg) from None
        if requires_backend:
            client()
        _server = shim.start_server(port)
        return _server


@boundary
def stop_server() -> None:
    """Stops the server that `start_server` started, unless referenced elsewhere.

    Raises:
      ValueError: no server is running.

    Example:
      >>> server = mjax.profiler.start_server(0)
      >>> mjax.profiler.stop_server()
    """
    global _server
    with _lock:
        if _server is None:
            msg = "profiler.stop_server: no server runs; start_server starts one."
            raise ValueError(msg)
        _server = None


@boundary
def device_memory_profile(backend: str | None = None) -> bytes:
    """The device memory allocations by call site, in pprof's format.

    Args:
      backend: a platform's name; by default the default platform.

    Returns:
      Bytes.

    Raises:
      RuntimeError: the platform is unknown or does not have devices.
      TypeError: it is neither a string nor None.

    Example:
      >>> type(mjax.profiler.device_memory_profile())
      <class 'bytes'>
    """
    return gzip.compress(shim.heap_profile(client(backend)))


@boundary
def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None
                               ) -> None:
    """Writes `device_memory_profile(backend)` to a file.

    Args:
      filename: the file; pprof reads it.
      backend: a platform; None: the default one.

    Raises:
      RuntimeError: the platform is unknown or does not have devices.
      TypeError: `backend` is neither a string nor None, or `open` does not take `filename`.
      OSError: the file cannot be written.

    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as directory:
      ...   mjax.profiler.save_device_memory_profile(directory + '/memory.prof')
      ...   print(os.listdir(directory))
      ['memory.prof']
    """
    profile = device_memory_profile(backend)
    with open(filename, "wb") as file:
        file.write(profile)
