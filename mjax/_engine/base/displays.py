"""Methods that notebooks call: their code loads with the first call."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def display(module: str, name: str) -> Callable[..., Any]:
    """A method that is a function of another module, which loads with the first call.

    Args:
      module: the name of a module of the same layer, or of a lower one.
      name: that of the function; its first argument is the object.
    """

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(self, *args, **kwargs)

    method.__name__ = name
    return method
