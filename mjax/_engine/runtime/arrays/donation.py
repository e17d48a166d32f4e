"""Donated arguments: which results take over their memory, and what may go wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyDeletedError
from mjax._engine.base.records import Record
from mjax._engine.ir.source import warn
from mjax._engine.ir.types import abstract_token, physical_aval
from mjax._engine.runtime.failures import JaxRuntimeError, raise_original
from mjaxlib_shim.arrays import is_deleted


class ArgumentNames:
    """What messages call a program and its arguments.

    Args:
      program: its name.
      arguments: their names, where they are known.
      avals: their types.
    """

    __slots__ = ("arguments", "avals", "program")

    def __init__(self, program: str, arguments: Sequence[str] | None, avals: Sequence[Any]):
        self.program = program
        self.arguments = arguments or ()
        self.avals = avals

    def __call__(self, index: int) -> str:
        return f"argument {self.arguments[index] if index < len(self.arguments) else index}"


class Donation(Record):
    """What becomes of donated inputs.

    Attributes:
      aliases: input -> the result of its type that takes over its memory.
      donors: inputs without such a result, whose memory XLA may use for a result of the size.
    """

    aliases: dict[int, int]
    donors: list[int]


def settle(donated: Sequence[int], in_avals: Sequence[Any], out_avals: Sequence[Any],
           describe: Callable[[int], str], agree: Callable[[int, int], bool],
           copies: Callable[[int, int], bool]) -> Donation:
    """Finds results for donated inputs; warns of inputs that no result has the size of.

    Args:
      donated: the inputs.
      in_avals, out_avals: types of all inputs and results.
      describe: the name of an input.
      agree: whether an input and a result are known to be cut alike over devices.
      copies: whether a result is a copy of an input; then it is the one to take its memory.
    """
    donated = [i for i in donated if in_avals[i] is not abstract_token]  # which have no memory
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
    """Refuses a donated argument whose buffer another argument has too.

    Raises:
      JaxRuntimeError: it is.
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
    """`execute_sharded` over several devices that looks for deleted arguments itself.

    jaxlib 0.10 crashes on arrays over several devices that were donated.
    """

    def looked_at(buffers: Sequence[Any], **options: Any) -> Any:
        if any(map(is_deleted, buffers)):
            msg = "an array that the program takes has been deleted."
            raise RuntimeError(msg)
        return execute(buffers, **options)

    return looked_at


#: What jaxlib says of deleted arguments; other errors may have deleted what was donated.
_OF_DELETED = ("deleted", "donated", "shards, got: [")


def explain_failure(error: Exception, names: ArgumentNames, buffers: Iterable[Any]) -> None:
    """Raises what a callback raised, or an error that names the argument, if jaxlib's is due to
    that or to a deleted argument.

    Args:
      error: what jaxlib raised.
      names: of the program and its arguments.
      buffers: those of the arguments.
    """
    raise_original(error)
    if not any(words in str(error) for words in _OF_DELETED):
        return
    for i, buffer in enumerate(buffers):
        if buffer.is_deleted():
            msg = (f"{names.program}: {names(i)} of type {names.avals[i]} has been deleted: it was "
                   "donated to an earlier computation (donate_argnums) or .delete() was called. "
                   "Use that computation's result, or do not donate what is used again.")
            raise LazyDeletedError(msg) from None
