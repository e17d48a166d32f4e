"""Transfer guards: C++ lets copies between host and devices pass, logs them, or refuses them.

A level holds for the process or for a thread; the thread's takes precedence. Copies that the
program requests by name are *explicit*: only levels with that word in their name apply to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import guard_levels
from .guard_levels import DIRECTIONS
from .native import ext

__all__ = [
    "DIRECTIONS",
    "LEVELS",
    "explicit",
    "is_guarded",
    "levels",
    "set_level",
    "set_levels",
    "unguarded",
]

_levels: Any = ext.guard_lib.TransferGuardLevel
#: Name -> level of jaxlib's guards.
LEVELS: dict[str, Any] = {name: getattr(_levels, name.upper()) for name in guard_levels.LEVELS}
_state: Any = ext.guard_lib.thread_local_state
_process: Any = ext.guard_lib.global_state()


def set_level(direction: str, level: str | None, everywhere: bool) -> None:
    """Sets the level of a direction, for the process or this thread; None: not set.

    Args:
      direction: one of `DIRECTIONS`.
      level: one of `LEVELS`, or None.
      everywhere: whether it is for the process.

    Raises:
      AttributeError: `direction` is not an attribute of jaxlib's guards.
      TypeError: `direction` is not a string, or belongs to another kind of attribute.
      KeyError: `level` is neither one of `LEVELS` nor None.

    Example:
      >>> from mjaxlib_shim import guards
      >>> guards.set_level("host_to_device", "allow", everywhere=False)
      >>> guards.set_level("host_to_device", None, everywhere=False)
    """
    state = ext.guard_lib.global_state() if everywhere else _state()
    setattr(state, direction, None if level is None else LEVELS[level])


def levels() -> tuple[Any, ...]:
    """The levels of this thread, in the form that `set_levels` takes.

    Example:
      >>> from mjaxlib_shim import guards
      >>> guards.set_levels(guards.levels())
    """
    state = _state()
    return tuple([getattr(state, direction) for direction in DIRECTIONS])


def set_levels(levels: tuple[Any, ...]) -> None:
    """Sets all levels of this thread.

    Args:
      levels: levels, as `levels` gives them.

    Raises:
      ValueError: there are not as many levels as `DIRECTIONS`.
      TypeError: `levels` is not iterable, or has names in place of levels.

    Example:
      >>> from mjaxlib_shim import guards
      >>> guards.set_levels(guards.levels())
    """
    state = _state()
    for direction, level in zip(DIRECTIONS, levels, strict=True):
        setattr(state, direction, level)


def is_guarded(direction: str) -> bool:
    """Whether copies of this thread in a direction may be logged or refused.

    Args:
      direction: one of `DIRECTIONS`.

    Returns:
      A bool.

    Raises:
      AttributeError: `direction` is not an attribute of jaxlib's guards.
      TypeError: `direction` is not a string.

    Example:
      >>> from mjaxlib_shim import guards
      >>> guards.is_guarded("host_to_device")
      False
    """
    level = getattr(_state(), direction)
    if level is None:
        level = getattr(_process, direction)
    return level is not None and level != _levels.ALLOW


@contextmanager
def explicit() -> Iterator[None]:
    """Copies in the body of the `with` are explicit.

    Example:
      >>> from mjaxlib_shim import guards
      >>> with guards.explicit():
      ...   x = mjax.device_put(np.arange(3))
    """
    state = _state()
    before = state.explicit_device_put, state.explicit_device_get
    state.explicit_device_put = state.explicit_device_get = True
    try:
        yield
    finally:
        state.explicit_device_put, state.explicit_device_get = before


@contextmanager
def unguarded() -> Iterator[None]:
    """Allows all copies in the body of the `with`, in this thread.

    Example:
      >>> from mjaxlib_shim import guards
      >>> with guards.unguarded():
      ...   x = jnp.arange(3) + 1
    """
    before = levels()
    set_levels((_levels.ALLOW,) * len(before))
    try:
        yield
    finally:
        set_levels(before)
