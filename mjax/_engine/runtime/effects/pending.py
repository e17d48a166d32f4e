"""Arrays whose programs have not run yet; `background` runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from mjax._engine.ir.types import typeof_handlers
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.placement import Placement

_slot: Any = Array.__dict__["_buffer"]


class Promise(ABC):
    """The value in an array that does not have its buffer yet."""

    __slots__ = ()

    @abstractmethod
    def check(self) -> None:
        """Waits until the arrays are filled, and raises the error of the program."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether `check` would not wait."""


class PendingArray(Array):
    """An array that waits for its buffer when it is read.

    It becomes an `Array` when it is filled. So reads of arrays, which are much more frequent, pay
    nothing for this.
    """

    __slots__ = ()

    def __init__(self, promise: Promise, placement: Placement):
        _slot.__set__(self, promise)
        self._placement = placement

    @property
    def _buffer(self) -> Any:
        held = _slot.__get__(self)
        if isinstance(held, Promise):
            held.check()
            held = _slot.__get__(self)
        return held

    def settled(self) -> Array:
        """The array, once it is filled."""
        assert self._buffer is not None  # reading it waits
        return self

    def fill(self, buffer: Any) -> None:
        """Turns it into the array of a buffer."""
        _slot.__set__(self, buffer)  # first: another thread may be about to read
        self.__class__ = Array  # type: ignore[assignment]

    def is_ready(self) -> bool:
        """Whether the value is computed."""
        held = _slot.__get__(self)
        return bool(held.is_done() if isinstance(held, Promise) else held.is_ready())

    def is_deleted(self) -> bool:
        """Whether the array was deleted, or its buffer donated."""
        held = _slot.__get__(self)
        return not isinstance(held, Promise) and bool(held.is_deleted())


#: Messages call it an Array: users need not know the difference.
PendingArray.__name__ = PendingArray.__qualname__ = Array.__name__
typeof_handlers[PendingArray] = typeof_handlers[Array]
