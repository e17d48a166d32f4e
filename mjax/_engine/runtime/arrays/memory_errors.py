"""Errors of memory that is not there: the program, the user's line, and what takes the memory."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from typing import Any

from mjax._engine.base.errors import LazyText
from mjax._engine.ir.source import current_traceback, summarize
from mjax._engine.ir.types import ShapedArray, physical_aval
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
    # That module imports this one.
    alive = importlib.import_module("mjax._engine.runtime.arrays.transfer").live_arrays()
    lines = [f"{cause}, in {names.program}, called at {where}." if names else
             f"{cause}, in a program whose results are read at {where}."]
    if names:
        lines += _table("The largest arguments", [
            (0 if b.is_deleted() else _size(names.avals[i]),
             f"{names(i)}, {names.avals[i].str_short()}") for i, b in enumerate(buffers)])
    lines += _table("The largest arrays that are alive", [
        (_size(x.aval), f"{x.aval.str_short()} on {_places(x)}") for x in alive])
    text = "\n".join(lines)
    raise OutOfMemoryError(lambda: text) from None


def _table(title: str, found: list[tuple[int, str]]) -> list[str]:
    largest = sorted(found, key=lambda pair: -pair[0])[:_SHOWN]
    return [f"{title}:", *(f"  {text}: {size:,} bytes" for size, text in largest)] if found else []


def _size(aval: Any) -> int:
    if not isinstance(aval, ShapedArray):  # a token
        return 0
    physical = physical_aval(aval)
    return math.prod(physical.shape) * physical.dtype.itemsize


def _places(x: Any) -> str:
    devices = x.sharding.flat_devices
    first = f"{devices[0].platform}:{devices[0].id}"
    return first if len(devices) == 1 else f"{first} and {len(devices) - 1} others"
