"""The fixpoint of facts about carries, which iterations pass on; common to all loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def fixpoint(flags: Sequence[bool], carry: slice, after: Callable[[list[bool]], Sequence[bool]]
             ) -> list[bool]:
    """Grows the carries that are marked until an iteration marks no more of them.

    Marks stand for tangents or cotangents that are not zero, or values that are batched, unknown or
    used.

    Args:
      flags: one per operand.
      carry: the carries among them.
      after: from the operands' flags to those of the results; the carries come first.

    Returns:
      The flags of the operands, complete.
    """
    flags = list(flags)
    while True:
        before = flags[carry]
        grown = [a or b for a, b in zip(before, after(flags), strict=False)]
        if grown == before:
            return flags
        flags[carry] = grown
