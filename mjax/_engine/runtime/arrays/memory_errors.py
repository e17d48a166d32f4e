"""Errors of memory that is not there: the program, the user's line, and what takes the memory."""

from __future__ import annotations

import importlib
import itertools
import math
import re
from collections.abc import Iterable
from typing import Any

from mjax._engine.base.errors import LazyText
from mjax._engine.ir.source import current_traceback, summarize
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.runtime.arrays import devices
from mjax._engine.runtime.xla_errors import XlaRuntimeError
from mjaxlib_shim.executables import programs_that_need

_MARKS = ("RESOURCE_EXHAUSTED", "Out of memory allocating")
#: The number of buffers that a message lists.
_SHOWN = 5


class OutOfMemoryError(
        LazyText, XlaRuntimeError, shown_as=XlaRuntimeError):  # type: ignore[misc, valid-type]
    """A program needs more memory than there is."""


def explain_memory(error: Exception, names: Any = None, buffers: Iterable[Any] = (),
                   moved: Any = None) -> None:
    """Raises an error that says more, if memory is exhausted.

    Args:
      error: the error of jaxlib.
      names: the names of the program and its arguments; None: they are not known, since the
        program failed after its call.
      buffers: the buffers of the arguments.
      moved: the type of a value that was to be moved to a device, without a program.

    Raises:
      OutOfMemoryError: that is what happened.
    """
    if not any(mark in str(error) for mark in _MARKS):
        return
    where = summarize(current_traceback())
    cause = str(error).strip().partition("\n")[0].removesuffix(".")
    if moved is not None:
        lines = [f"{cause}, for a value of type {moved.str_short()} that is moved to a device, at "
                 f"{where}."]
    elif names:
        lines = [f"{cause}, in {names.program}, called at {where}.",
                 *_table("The largest arguments", [
                     (0 if b.is_deleted() else _size(names.avals[i]),
                      f"{names(i)}, {names.avals[i].str_short()}")
                     for i, b in enumerate(buffers)])]
    else:
        programs = _programs(cause)
        one = f"in {programs[0][1]}, whose results" if len(programs) == 1 else (
            "in a program whose results")
        lines = [f"{cause}, {one} are read at {where}.",
                 *_table("Programs in memory that need as much", programs[:_SHOWN])]
    # That module imports this one.
    alive = importlib.import_module("mjax._engine.runtime.arrays.transfer").live_arrays()
    largest = filter(_is_there, sorted(alive, key=lambda x: -_size(x.aval)))
    lines += _table("The largest arrays that are alive", [
        (_size(x.aval), f"{x.aval.str_short()} on {_places(x)}")
        for x in itertools.islice(largest, _SHOWN)])
    text = "\n".join(lines)
    raise OutOfMemoryError(lambda: text) from None


def _programs(cause: str) -> list[tuple[int, str]]:
    """The programs that may be the one that failed: bytes, and a name with the line of the call
    that compiled it."""
    asked = re.search(r"allocating (\d+) bytes", cause)
    if asked is None:
        return []
    return [(size, f"{name.removeprefix('jit_').replace('_lambda_', '<lambda>')}, compiled for "
             f"the call at {summarize(traceback)}")
            for client in devices.made()
            for size, name, traceback in programs_that_need(client, int(asked[1]))]


def _is_there(x: Any) -> bool:
    """Whether an array has memory, or will have: it is not the result of a program that failed."""
    try:
        if x.is_ready():
            x._buffer.block_until_ready()
    except Exception:
        return False
    return True


def _table(title: str, found: list[tuple[int, str]]) -> list[str]:
    largest = sorted(found, key=lambda pair: -pair[0])[:_SHOWN]
    return [f"{title}:", *(f"  {text}: {size:,} bytes" for size, text in largest)] if found else []


def _size(aval: Any) -> int:
    if not isinstance(aval, ShapedArray):  # a token
        return 0
    physical = physical_aval(aval)
    return math.prod(physical.shape) * physical.dtype.itemsize


def _places(x: Any) -> str:
    on = x.sharding.flat_devices
    first = f"{on[0].platform}:{on[0].id}"
    return first if len(on) == 1 else f"{first} and {len(on) - 1} others"
