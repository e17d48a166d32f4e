"""Errors of memory that is not there: the program, the user's line, and what takes the memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from mjax._engine.base.errors import LazyText
from mjax._engine.ir.source import current_traceback, summarize
from mjax._engine.ir.types import ShapedArray
from mjax._engine.runtime.arrays.devices import made
from mjax._engine.runtime.xla_errors import XlaRuntimeError

_MARKS = ("RESOURCE_EXHAUSTED", "Out of memory allocating")
#: The number of buffers that a message lists.
_SHOWN = 5


class OutOfMemoryError(
        LazyText, XlaRuntimeError, shown_as=XlaRuntimeError):  # type: ignore[misc, valid-type]
    """A program needs more memory than there is."""


def explain_memory(error: Exception, names: Any = None, buffers: Iterable[Any] = ()) -> None:
    """Raises an error that says more, if memory is exhausted.

    Args:
      error: the error of jaxlib.
      names: the names of the program and its arguments; None: they are not known, since the
        program failed after its call.
      buffers: the buffers of the arguments.

    Raises:
      OutOfMemoryError: that is what happened.
    """
    if not any(mark in str(error) for mark in _MARKS):
        return
    where = summarize(current_traceback())
    cause = str(error).strip().partition("\n")[0].removesuffix(".")
    given = [(b, f"{names(i)}, {_described(b)}") for i, b in enumerate(buffers)] if names else []
    lines = [f"{cause}, in {names.program}, called at {where}." if names else
             f"{cause}, in a program whose results are read at {where}."]
    lines += _table("The largest arguments", given)
    lines += _table("The largest arrays that are alive", [
        (b, f"{_described(b)} on {client.platform}")
        for client in made() for b in client.live_buffers() if not b.is_deleted()])
    text = "\n".join(lines)
    raise OutOfMemoryError(lambda: text) from None


def _table(title: str, found: list[tuple[Any, str]]) -> list[str]:
    largest = sorted(found, key=lambda pair: -_bytes(pair[0]))[:_SHOWN]
    return [f"{title}:", *(f"  {text}" for _, text in largest)] if largest else []


def _described(buffer: Any) -> str:
    if buffer.is_deleted():
        return "deleted"
    return f"{buffer.aval.str_short()}, {_bytes(buffer):,} bytes"


def _bytes(buffer: Any) -> int:
    aval = None if buffer.is_deleted() else buffer.aval
    return math.prod(aval.shape) * aval.dtype.itemsize if isinstance(aval, ShapedArray) else 0
