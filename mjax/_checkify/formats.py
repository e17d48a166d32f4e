"""Format strings of checks, compared with their values before the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.ir.dtypes import is_extended
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.array import Array


class _StandIn:
    """Stands for a value in a format string before the program runs.

    Args:
      aval: the type of the value; None if any field may show it.
    """

    def __init__(self, aval: Any = None):
        self.aval = aval

    def __getattr__(self, name: str) -> Any:
        if self.aval is not None:
            getattr(Array, name)
        return _StandIn()

    def __getitem__(self, index: Any) -> Any:
        if self.aval is None:
            return self
        if isinstance(index, str):
            msg = f"{index!r} is not an index of an array"
            raise TypeError(msg)
        if not self.aval.shape or index >= self.aval.shape[0]:
            msg = f"[{index}] is out of bounds for an array of shape {self.aval.shape}"
            raise IndexError(msg)
        return _StandIn(self.aval.update(shape=self.aval.shape[1:]))

    def __format__(self, spec: str) -> str:
        if self.aval is None or not spec:
            return "0"
        if self.aval.shape or is_extended(self.aval.dtype):
            msg = f"the format {spec!r} is for scalar arrays, and the value is {self.aval}"
            raise TypeError(msg)
        return format(np.zeros((), self.aval.dtype)[()], spec)


def _stand_in(value: Any) -> Any:
    if isinstance(value, (Array, np.ndarray)):
        return _StandIn(typeof(value))
    if type(value) is dict:
        return {name: _stand_in(x) for name, x in value.items()}
    return type(value)(map(_stand_in, value)) if type(value) in (list, tuple) else _StandIn()


def check_format(who: str, text: str, args: Any, kwargs: Any) -> None:
    """Compares a format string with the values of its fields.

    Args:
      who: the function that takes the string, for messages.
      text: the string.
      args, kwargs: the values: pytrees of arrays, which may be traced.

    Raises:
      TypeError: it is not a str.
      ValueError: it does not fit.
    """
    if not isinstance(text, str):
        msg = f"{who} takes a message, a str, got {text!r} of type {type(text).__name__}."
        raise TypeError(msg)
    try:
        text.format(*map(_stand_in, args), **_stand_in(kwargs))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        why = f"it shows {error}, which is missing" if isinstance(error, KeyError) else error
        msg = (f"{who}: the message {text!r} does not fit its values ({len(args)} by position, by "
               f"name {', '.join(kwargs) or 'none'}): {why}.")
        raise ValueError(msg) from None


__all__ = ["check_format"]
