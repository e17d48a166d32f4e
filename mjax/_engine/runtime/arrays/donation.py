"""Donated arguments: the results that take over their memory, and errors of donation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyDeletedError
from mjax._engine.base.records import Record
from mjax._engine.ir.source import warn
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import physical_aval
from mjax._engine.runtime.arrays.memory_errors import explain_memory
from mjax._engine.runtime.xla_errors import JaxRuntimeError, raise_original
from mjaxlib_shim.arrays import is_deleted


class ArgumentNames:
    """The names of a program and its arguments in messages.

    Args:
      program: its name.
      arguments: their names, if known.
      avals: their types.
    """

    __slots__ = ("arguments", "avals", "program")
    program: str
    arguments: Sequence[str]
    avals: Sequence[Any]

    def __init__(self, program: str, arguments: Sequence[str] | None, avals: Sequence[Any]):
        self.program = program
        self.arguments = arguments or ()
        self.avals = avals

    def __call__(self, index: int) -> str:
        return f"argument {self.arguments[index] if index < len(self.arguments) else index}"


class Donation(Record):
    """The use of donated inputs.

    Attributes:
      aliases: input -> the result of its type that takes over its memory.
      donors: inputs without such a result; XLA may use their memory for a result of their size.
    """

    aliases: dict[int, int]
    donors: list[int]


def settle(donated: Sequence[int], in_avals: Sequence[Any], out_avals: Sequence[Any],
           describe: Callable[[int], str], agree: Callable[[int, int], bool],
           copies: Callable[[int, int], bool]) -> Donation:
    """Finds results for donated inputs; warns about inputs without a result of their size.

    Args:
      donated: the inputs.
      in_avals, out_avals: types of all inputs and results.
      describe: the name of an input.
      agree: whether an input and a result are known to be cut alike over devices.
      copies: whether a result is a copy of an input, or its new contents; then that result takes
        its memory.
    """
    donated = [i for i in donated if in_avals[i] is not abstract_token]  # these have no memory
    if not donated:
        return Donation({}, [])
    free: dict[Any, list[int]] = {}
    for i, aval in enumerate(out_avals):
        if aval is not abstract_token:
            free.setdefault((aval.shape, aval.dtype), []).append(i)
    aliases: dict[int, int] = {}
    for i in donated:
        candidates = free.get((in_avals[i].shape, in_avals[i].dtype), [])
        match = min((c for c in candidates if agree(i, c)),
                    key=lambda c: not copies(i, c), default=None)
        if match is not None:
            candidates.remove(match)
            aliases[i] = match
    sizes = {_bytes(out_avals[i]) for left in free.values() for i in left}
    rest = [i for i in donated if i not in aliases]
    unusable = [i for i in rest if _bytes(in_avals[i]) not in sizes]
    if unusable:
        named = ", ".join(f"{describe(i)} of type {in_avals[i]}" for i in unusable)
        warn(f"Some donated buffers were not usable: {named}. No result of the size is left to "
             "take over their memory; do not donate them.")
    return Donation(aliases, [i for i in rest if i not in unusable])


def _bytes(aval: Any) -> int:
    stored = physical_aval(aval)
    return int(stored.size * stored.dtype.itemsize)


def refuse_same(names: ArgumentNames, kept: Sequence[int], buffers: Sequence[Any],
                 donated: Collection[int]) -> None:
    """Refuses a donated argument that shares its buffer with another argument.

    Raises:
      JaxRuntimeError: there is one.
    """
    places: dict[int, int] = {}
    for i, buffer in zip(kept, buffers, strict=True):
        other = places.setdefault(id(buffer), i)
        if other != i and (other in donated or i in donated):
            msg = (f"{names.program}: one array was given as {names(other)} and as {names(i)}, "
                   "but its memory is donated, so that a result may overwrite it while it is "
                   "read. Donate neither of them, or pass a copy (mjax.numpy.copy).")
            raise JaxRuntimeError(msg)


def refuse_deleted(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`execute_sharded` over several devices with its own check for deleted arguments.

    jaxlib 0.10 crashes on donated arrays over several devices.
    """

    def looked_at(buffers: Sequence[Any], **options: Any) -> Any:
        if any(map(is_deleted, buffers)):
            msg = "an array that the program takes has been deleted."
            raise RuntimeError(msg)
        return execute(buffers, **options)

    return looked_at


#: jaxlib's messages about deleted arguments. After any other error, donated arguments may be gone.
_OF_DELETED = ("deleted", "donated", "shards, got: [")


def explain_failure(error: Exception, names: ArgumentNames, buffers: Iterable[Any]) -> None:
    """Raises the cause of an error of jaxlib, if it is an error of a callback, an argument that
    was deleted, or exhausted memory.

    Args:
      error: the error of jaxlib.
      names: the names of the program and its arguments.
      buffers: the buffers of the arguments, or NumPy arrays.
    """
    raise_original(error)
    explain_memory(error, names, buffers)
    if not any(words in str(error) for words in _OF_DELETED):
        return
    for i, buffer in enumerate(buffers):
        if type(buffer) is not np.ndarray and buffer.is_deleted():
            msg = (f"{names.program}: {names(i)} of type {names.avals[i]} has been deleted: it was "
                   "donated to an earlier computation (donate_argnums) or .delete() was called. "
                   "Use that computation's result, or do not donate what is used again.")
            raise LazyDeletedError(msg) from None
