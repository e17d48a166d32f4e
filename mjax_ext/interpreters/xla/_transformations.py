"""Functions that change the HLO modules that XLA compiles."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.program_caches import forget_programs
from mjax._engine.tracing.rule_errors import describe_value
from mjaxlib_shim import transformations


class PipelineStage(enum.Enum):
    """When XLA calls a transformation of modules.

    Example:
      >>> from mjax_ext.interpreters import xla
      >>> list(xla.PipelineStage)
      [<PipelineStage.PRE_SCHEDULER: 0>, <PipelineStage.POST_SCHEDULER: 1>]
    """

    #: Before operations are put in an order.
    PRE_SCHEDULER = 0
    #: Afterwards.
    POST_SCHEDULER = 1


def register_hlo_module_transformation(callback: Callable[[bytes], bytes | None], *, name: str,
                                       stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
                                       platforms: Sequence[str] | str | None = None) -> None:
    """Makes XLA call a function with each module that it compiles from now on.

    Functions are called in the order of their registration. Programs that were compiled before are
    forgotten; those that come from the compilation cache on disk stay as they are.

    Args:
      callback: takes a serialized `HloModuleProto`, and gives a changed one, or None for no change.
      name: a name for it.
      stage: when it is called.
      platforms: the platforms whose programs it is for: "cpu", in a string or a list, or None.

    Raises:
      NotImplementedError: this jaxlib does not do that (before 0.10.2), or for another platform.
      TypeError: `callback` is not a function, or `stage` not a `PipelineStage`.

    Example:
      >>> from mjax_ext.interpreters import xla
      >>> xla.register_hlo_module_transformation(3, name="count")
      Traceback (most recent call last):
      TypeError: register_hlo_module_transformation: callback must be a function, got 3.
    """
    who = "register_hlo_module_transformation"
    if not callable(callback):
        msg = f"{who}: callback must be a function, got {describe_value(callback)}."
        raise TypeError(msg)
    transformations.register_transformation(name, _number(who, stage, platforms), callback)
    forget_programs()


def clear_hlo_module_transformation(name: str, stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
                                    platforms: Sequence[str] | str | None = None) -> bool:
    """Takes a function back that was registered by `register_hlo_module_transformation`.

    Args:
      name: its name.
      stage: its stage.
      platforms: "cpu", or None.

    Returns:
      Whether there was one.

    Raises:
      NotImplementedError, TypeError: as for the registration.

    Example:
      >>> from mjax_ext.interpreters import xla
      >>> xla.clear_hlo_module_transformation("count", stage="first")
      Traceback (most recent call last):
      TypeError: clear_hlo_module_transformation: stage must be a PipelineStage, got 'first'.
    """
    number = _number("clear_hlo_module_transformation", stage, platforms)
    cleared = transformations.clear_transformation(name, number)
    forget_programs()
    return cleared


def _number(who: str, stage: Any, platforms: Any) -> int:
    if not isinstance(stage, PipelineStage):
        msg = f"{who}: stage must be a PipelineStage, got {describe_value(stage)}."
        raise TypeError(msg)
    asked = ["cpu"] if platforms is None else [platforms] if isinstance(platforms, str) else [
        *platforms]
    if asked != ["cpu"]:
        msg = f"{who}: XLA calls Python functions for the platform 'cpu', not for {asked!r}."
        raise NotImplementedError(msg)
    return int(stage.value)
