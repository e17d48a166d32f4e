"""Arguments of functions that transform programs: checked, with messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.util import check_count, counted, per_item
from mjax._engine.tracing.rule_errors import describe_value


def flags_for(who: str, name: str, flags: Any, items: Sequence[Any], what: str) -> tuple[bool, ...]:
    """One flag per item, from these or from one for all.

    Args:
      who: the function, for messages.
      name: the name of its argument.
      flags: the argument.
      items: what the flags are about.
      what: the name of one in messages.

    Raises:
      TypeError: it is not a flag or a sequence of flags.
      ValueError: there are more or fewer flags than items.
    """
    try:
        found = per_item(bool(flags) if isinstance(flags, np.bool_) else flags, len(items))
    except TypeError:
        found = ("not flags",)  # type: ignore[assignment]
    if not all(isinstance(flag, (bool, np.bool_)) for flag in found):
        msg = (f"{who}: {name} must be a bool, or a list of bools, one for each of the "
               f"{counted(len(items), what)}; got {describe_value(flags)}.")
        raise TypeError(msg)
    check_count(who, name, found, items, what)
    return tuple(map(bool, found))


def as_list(who: str, name: str, values: Any) -> Sequence[Any]:
    """The argument as a list or tuple, from whatever holds values one after another.

    Args:
      who: the function, for messages.
      name: the name of its argument.
      values: the argument.

    Raises:
      TypeError: it is one value, or a text.
    """
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) or (
            getattr(values, "ndim", 1) == 0):
        msg = f"{who}: {name} must be a list, got {describe_value(values)}."
        raise TypeError(msg)
    return list(values)


def as_listed_pair(who: str, result: Any) -> tuple[Any, Any]:
    """The result of a function that gives results and something else.

    Raises:
      TypeError: it is not a pair.
    """
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        msg = (f"{who}: the function must return a pair (results, what is not differentiated), but "
               f"returned {describe_value(result)}.")
        raise TypeError(msg)
    return result[0], result[1]


def as_function(who: str, fun: Any) -> Callable[..., Any]:
    """The argument as a function of its arguments: one of `linear_util`, or any other.

    Raises:
      TypeError: it cannot be called.
    """
    found = getattr(fun, "call_wrapped", fun)
    if not callable(found):
        msg = f"{who} takes a function; got {describe_value(fun)}."
        raise TypeError(msg)
    return found  # type: ignore[no-any-return]
