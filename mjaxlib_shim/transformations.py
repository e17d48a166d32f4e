"""Functions that XLA calls with each HLO module that it compiles."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from . import foreign_gates

__all__ = ["clear_transformation", "register_transformation"]


def register_transformation(
    name: str, stage: int, callback: Callable[[bytes], bytes | None]
) -> None:
    """Makes XLA call a function with each module that it compiles for the CPU.

    Args:
      name: a name for it.
      stage: 0, before operations are put in an order; 1, afterwards.
      callback: takes a serialized `HloModuleProto`, and gives a changed one or None.

    Raises:
      NotImplementedError: this jaxlib does not do that.
      TypeError: `name` is not a string, or `stage` is not an int.
      RuntimeError: there is not such a stage.

    Example:
      >>> from mjaxlib_shim import transformations
      >>> transformations.register_transformation("example", 0, lambda module: None)
      >>> transformations.clear_transformation("example", 0)
      True
    """
    _native().register_xla_transform(name, stage, callback)


def clear_transformation(name: str, stage: int) -> bool:
    """Takes a function back; returns whether there was one.

    Args:
      name: the name.
      stage: the stage.

    Returns:
      A bool.

    Raises:
      NotImplementedError: this jaxlib does not do that.
      TypeError: `name` is not a string, or `stage` is not an int.
      RuntimeError: there is not such a stage.

    Example:
      >>> from mjaxlib_shim import transformations
      >>> transformations.register_transformation("example", 0, lambda module: None)
      >>> transformations.clear_transformation("example", 0)
      True
    """
    return bool(_native().clear_xla_transform(name, stage))


def _native() -> Any:
    gate = foreign_gates.HLO_TRANSFORMATIONS
    if not foreign_gates.HLO_TRANSFORMATIONS.open:
        raise NotImplementedError(
            f"transformations of HLO modules need jaxlib {gate.since_release} or newer"
        )
    return importlib.import_module("jaxlib._xla")
