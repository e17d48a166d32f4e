"""Callbacks whose calls a test reads."""

from __future__ import annotations

from typing import Any

import mjax
from mjax.experimental import io_callback


class Recorder:
    """Writes down what it is called with, as Python values."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, *args: Any) -> None:
        values = [getattr(a, "tolist", lambda a=a: a)() for a in args]
        self.seen.append(values[0] if len(values) == 1 else tuple(values))

    def ordered(self, x: Any) -> None:
        """Records a value, in the order of other ordered effects."""
        io_callback(self, None, x, ordered=True)

    def unordered(self, x: Any) -> None:
        """Records a value, at any time."""
        io_callback(self, None, x)

    def taken(self) -> list[Any]:
        """The records since the last question."""
        mjax.effects_barrier()
        seen, self.seen = self.seen, []
        return seen
