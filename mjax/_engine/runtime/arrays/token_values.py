"""Tokens as users hold them: values without numbers that programs take and return."""

from __future__ import annotations

from typing import Any

from mjax._engine.ir.token_types import AbstractToken, abstract_token, token_lacks
from mjax._engine.ir.types import typeof_handlers
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.placement import Placement


class Token:
    """A token, from `lax.create_token`: it orders effects, and carries no data.

    Args:
      buffer: an array without elements.

    Example:
      >>> from mjax_ext import core
      >>> isinstance(lax.create_token(), core.Token)
      True
    """

    __slots__ = ("__weakref__", "_array")
    aval: AbstractToken = abstract_token

    def __init__(self, buffer: Array):
        self._array = buffer

    @property
    def _buffer(self) -> Any:
        return self._array._buffer

    @property
    def _placement(self) -> Placement:
        return self._array._placement

    def __copy__(self) -> Token:
        return self

    def __deepcopy__(self, memo: Any) -> Token:
        return self

    def __reduce__(self) -> Any:
        msg = "a token cannot be pickled: it orders effects of this process."
        raise TypeError(msg)

    def __getattr__(self, name: str) -> Any:
        raise token_lacks(name)

    def block_until_ready(self) -> None:
        """Waits for the effects before it; raises their errors."""
        self._array.block_until_ready()


typeof_handlers[Token] = lambda token: abstract_token
