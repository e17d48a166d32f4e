"""Maps errors of XLA back to their causes: exceptions of Python callbacks, lost processes, and
foreign functions that are not registered.

XLA keeps only the text of an error, and raises it at any wait: at the call, when a result is read,
at a barrier. The text contains a number that identifies the exception of the callback.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyText
from mjax._engine.base.records import Record
from mjax._engine.base.sockets import sockets
from mjax._engine.tracing.rule_errors import applied_at
from mjaxlib_shim import custom_calls
from mjaxlib_shim.arrays import XlaRuntimeError

#: The error of XLA's compiler and runtime, out of memory for example.
JaxRuntimeError = XlaRuntimeError
_MARK = "mjax callback failure {}"
_KEPT = 1000


class _Failure(Record):
    error: BaseException
    traceback: TracebackType | None
    cause: BaseException | None
    context: BaseException | None
    suppress_context: bool


class CallbackFailure(Exception):
    """The error that XLA gets in place of the exception.

    Attributes:
      original: the exception.
    """

    def __init__(self, text: str, original: BaseException):
        super().__init__(text)
        self.original = original


_lock = threading.Lock()
_failures: dict[int, _Failure] = {}
_delivered: set[int] = set()
_count = 0


def remember(error: BaseException) -> CallbackFailure:
    """Keeps an exception; returns the one to raise in its place."""
    global _count
    with _lock:
        _count += 1
        number = _count
        _failures[number] = _Failure(error, error.__traceback__, error.__cause__,
                                     error.__context__, error.__suppress_context__)
        while len(_failures) > _KEPT:
            old = next(iter(_failures))
            del _failures[old]
            _delivered.discard(old)
    return CallbackFailure(f"{_MARK.format(number)}: {type(error).__name__}: {error}",
                           error)


def _number_in(error: BaseException) -> int | None:
    found = re.search(_MARK.format(r"(\d+)"), str(error))
    return int(found[1]) if found and int(found[1]) in _failures else None


def raise_original(error: BaseException) -> None:
    """Raises the known cause of an error of XLA: the exception of a callback."""
    if sockets.watch is not None:
        sockets.watch.explain(error, "A computation")
    number = _number_in(error)
    if number is not None:
        _delivered.add(number)
        kept = _failures[number]
        try:
            raise kept.error.with_traceback(kept.traceback)
        finally:  # XLA's error is not its cause
            kept.error.__cause__, kept.error.__context__ = kept.cause, kept.context
            kept.error.__suppress_context__ = kept.suppress_context


def is_delivered(error: BaseException) -> bool:
    """Whether the exception behind an error of XLA was raised to the user before."""
    return _number_in(error) in _delivered


# ---- foreign functions -----------------------------------------------------------------


class UnknownTargetError(
        LazyText, XlaRuntimeError, shown_as=XlaRuntimeError):  # type: ignore[misc, valid-type]
    """A program calls a foreign function that is not registered."""


@contextmanager
def explaining_compilation(targets: Mapping[str, Any], platform: str
                           ) -> Iterator[Callable[[Any], Any]]:
    """Replaces XLA's errors for unknown targets, and for exceptions of the functions of
    `custom_partitioning`, in the body of a `with` statement.

    Args:
      targets: target -> a primitive that calls it, and where it was applied.
      platform: the platform of the program.

    Yields:
      A function that returns a compiled program, and raises the error for it where XLA finds
      targets only when they are called.
    """

    def refuse(target: str | None) -> None:
        if target is not None and target in targets:
            _refuse_target(target, platform, *targets[target])

    def check(executable: Any) -> Any:
        if platform == "cpu":
            refuse(custom_calls.unknown_when_run(executable, targets, platform))
        return executable

    try:
        yield check
    except UnknownTargetError:
        raise
    except XlaRuntimeError as error:
        raise_original(error)
        refuse(custom_calls.unknown_target(error))
        raise


def _refuse_target(target: str, platform: str, primitive: Any, source: Any) -> NoReturn:
    name = platform if platform == "cpu" else platform.upper()
    raise UnknownTargetError(lambda: (
        f"{primitive.name} calls the foreign function {target!r}, which is not registered for "
        f"{platform}. Register it before the program is compiled: mjax.ffi.register_ffi_target("
        f"{target!r}, function, platform={name!r}).\n{applied_at(source)}")) from None
