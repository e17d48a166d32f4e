"""User contexts: values that traces may depend on, and that are part of every cache key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mjax._engine.base.config import by_owner, of_this_thread, override, set_global
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.base.util import exact


class UserContext:
    """A value of the process that `with` replaces in a thread; `make_user_context` makes one."""

    def __init__(self, default_value: Any):
        self._default = default_value

    @property
    def value(self) -> Any:
        """The value in force in this thread."""
        return self._of(thread.settings)

    def get_global(self) -> Any:
        """The value of threads outside of all `with` statements."""
        return self._of(ThreadState.settings)

    def set_global(self, new_value: Any) -> None:
        """Sets that value.

        Raises:
          TypeError: it is not hashable.
        """
        set_global("user_contexts", self._among(ThreadState.settings.user_contexts, new_value))

    @contextmanager
    def __call__(self, new_value: Any) -> Iterator[None]:
        """Sets the value in this thread for the body of a `with` statement.

        Raises:
          TypeError: it is not hashable.
        """
        here = of_this_thread("user_contexts", ())
        with override(user_contexts=self._among(here, new_value)):
            yield

    def _of(self, settings: Any) -> Any:
        for owner, _, value in settings.user_contexts:
            if owner is self:
                return value
        return self._default

    def _among(self, others: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        hash(value)
        # Values that are equal but not the same, such as 1 and True, are two contexts.
        return by_owner(others, ((self, exact(value), value),))


def make_user_context(default_value: Any = None) -> UserContext:
    """A context whose value jitted functions may read: they are traced anew for each.

    Args:
      default_value: its value until another one is set.

    Returns:
      A function of a value, which gives a context manager; its attribute `value` is the value in
      force. Values are hashable.

    Example:
      >>> scale = mjax.make_user_context(1.0)
      >>> f = mjax.jit(lambda x: x * scale.value)
      >>> with scale(3.0):
      ...     print(f(2.0))
      6.0
      >>> print(f(2.0))
      2.0
    """
    return UserContext(default_value)
