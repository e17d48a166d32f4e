"""Folding engine frames out of the tracebacks users see.

Public functions are wrapped in `boundary`. An exception that passes through one loses the
frames of mjax's own files, so that the user's line is the last one shown. The option
`traceback_filtering="off"` (or `MJAX_TRACEBACK_FILTERING=off`) shows all.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import ParamSpec, TypeVar, cast

from mjax._engine.base.thread import thread

P = ParamSpec("P")
R = TypeVar("R")

#: The note on an error whose traceback was folded.
FOLDED = ("mjax left its own frames out of this traceback; "
          "MJAX_TRACEBACK_FILTERING=off shows them.")


_PACKAGES = os.path.abspath(os.path.join(__file__, *[os.pardir] * 4))
#: Files below these paths are ours: tracebacks and searches for the user's line skip them.
_EXCLUDED = [os.path.join(_PACKAGES, name, "") for name in ("mjax", "mjax_ext", "mjaxlib_shim")]
_is_engine: dict[str, bool] = {}


def register_exclusion(path: str) -> None:
    """Counts a file, or all files below a folder, as engine code: tracebacks and the sources of
    equations skip it.

    Args:
      path: of the file or folder; a library passes its `__file__`.

    Raises:
      TypeError: the path is neither a string nor an `os.PathLike`.

    Example:
      >>> from mjax_ext import traceback_util
      >>> traceback_util.register_exclusion("/somewhere/mine.py")

    Source: JAX, `jax.extend.source_info_util.register_exclusion`.
    """
    _EXCLUDED.append(os.path.abspath(path) + os.sep)
    _is_engine.clear()


def unregister_exclusion(path: str) -> None:
    """Takes back one `register_exclusion` of a path; ValueError if there is none."""
    _EXCLUDED.remove(os.path.abspath(path) + os.sep)
    _is_engine.clear()


def exclusions() -> list[str]:
    """The paths that are excluded."""
    return [path.rstrip(os.sep) for path in _EXCLUDED]


def is_engine_file(file: str) -> bool:
    """True if frames of this file are dropped from the tracebacks users see."""
    known = _is_engine.get(file)
    if known is None:
        known = _is_engine[file] = (file + os.sep).startswith((*_EXCLUDED, "<frozen"))
    return known


def fold(error: BaseException) -> None:
    """Drops engine frames from the traceback of an exception, in place."""
    if thread.options.traceback_filtering == "off":
        return
    _drop_inner_context(error)
    whole = error.__traceback__
    if whole is None:
        return
    folded = filter_traceback(whole)
    if folded is whole:
        return
    error.__traceback__ = folded
    if FOLDED not in getattr(error, "__notes__", ()):
        error.add_note(FOLDED)


def filter_traceback(tb: TracebackType) -> TracebackType | None:
    """A traceback without the frames of mjax and of registered files.

    Args:
      tb: the traceback of an exception.

    Returns:
      The same object if there are none; None if there are no others.

    Raises:
      AttributeError: `tb` is neither a traceback nor None.

    Example:
      >>> from mjax_ext import traceback_util
      >>> try:
      ...   1 / 0
      ... except ZeroDivisionError as error:
      ...   tb = error.__traceback__
      >>> traceback_util.filter_traceback(tb) is tb
      True

    Source: JAX, `jax._src.traceback_util.filter_traceback`.
    """
    kept: list[TracebackType] = []
    dropped, inner = False, cast("TracebackType | None", tb)
    while inner is not None:
        if is_engine_file(inner.tb_frame.f_code.co_filename):
            dropped = True
        else:
            kept.append(inner)
        inner = inner.tb_next
    if not dropped:
        return tb
    chain: TracebackType | None = None
    for inner in reversed(kept):
        chain = TracebackType(chain, inner.tb_frame, inner.tb_lasti, inner.tb_lineno)
    return chain


def _drop_inner_context(error: BaseException) -> None:
    """Forgets errors that the engine raised and caught itself, such as misses of its caches.

    Errors with a frame of the user's stay, and so do explicit causes (`raise ... from`).
    """
    while (context := error.__context__) is not None:
        if error.__cause__ is not context and _only_engine_frames(context.__traceback__):
            error.__context__ = context.__context__
        else:
            error = context


def _only_engine_frames(tb: TracebackType | None) -> bool:
    while tb is not None:
        if not is_engine_file(tb.tb_frame.f_code.co_filename):
            return False
        tb = tb.tb_next
    return True


@contextmanager
def calling(text: Callable[[], str]) -> Iterator[None]:
    """Adds `text()` to the error if a user's function does not take the arguments of a call.

    The body of the `with` statement is that call.
    """
    try:
        yield
    except TypeError as error:
        # Python raises that error before it enters the function.
        if type(error) is TypeError and "argument" in str(error) and (
                _only_engine_frames(error.__traceback__)):
            error.add_note(text())
        raise


def boundary(f: Callable[P, R]) -> Callable[P, R]:
    """Decorator of public functions: exceptions leave them without engine frames."""

    @functools.wraps(f)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            # A bare raise adds no entry for this frame, so the traceback that fold() set is shown.
            fold(error)
            raise

    return wrapper
