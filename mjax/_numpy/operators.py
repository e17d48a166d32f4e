"""Operators of two operands, from functions of the NumPy layer.

They check their other operand first. Operands that are not numbers keep their own operators
(`NotImplemented`); lists are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.config import defaults
from mjax._engine.base.folding import fold
from mjax._engine.base.thread import thread
from mjax._engine.runtime.arrays.array import Array, is_array
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import Tracer

_NUMBERS = (np.ndarray, np.generic, int, float, complex, Tracer)
_REFUSED = (list, tuple, set, dict)
#: The result for unknown short calls; see `ShortCalls`.
_UNKNOWN: Any = (None,) * 5


def _is_operand(other: Any, symbol: str) -> bool:
    """Whether an operator accepts this value; refuses lists.

    Raises:
      TypeError: a list, tuple, set or dict, which NumPy would convert.
    """
    if is_array(other) or isinstance(other, _NUMBERS) or hasattr(type(other), "__jax_array__"):
        return True
    # Subclasses, such as named tuples, may have operators of their own.
    if type(other) in _REFUSED:
        msg = (f"unsupported operand types for {symbol}: 'Array' and {type(other).__name__!r}; "
               "convert it with mjax.numpy.asarray.")
        raise TypeError(msg)
    return False


def binary(function: Any, symbol: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """An operator from a function of two arguments."""
    known = getattr(function, "known", {})

    def operator(self: Any, other: Any) -> Any:
        try:
            kind = type(other)
            if kind is Array:
                # A shortcut without the function: both are concrete, and their call is known.
                mine = thread.__dict__
                if type(self) is Array and mine["interpreter"] is evaluation:
                    settings, run, _, _, _ = known.get(
                        (self._placement, other._placement), _UNKNOWN)
                    if settings is (mine["settings"] if "settings" in mine  # noqa: SIM401
                                    else defaults.settings):
                        return run((self._buffer, other._buffer))
            elif kind is not float and kind is not int and not _is_operand(other, symbol):
                return NotImplemented
            return function(self, other)
        except Exception as error:
            if type(self) is Array and isinstance(other, Tracer) and other.aval.is_high:
                return NotImplemented  # The type of the other operand may define the operator.
            fold(error)
            raise

    def reflected(self: Any, other: Any) -> Any:
        try:
            return function(other, self) if _is_operand(other, symbol) else NotImplemented
        except Exception as error:
            fold(error)
            raise

    return reflected if swapped else operator
