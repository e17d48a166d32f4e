"""Tracebacks without the frames of libraries."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

from mjax._engine.base.folding import (
    boundary,
    filter_traceback,
    is_engine_file,
    register_exclusion,
)

__all__ = ["api_boundary", "filter_traceback", "include_frame", "register_exclusion"]

P = ParamSpec("P")
R = TypeVar("R")


def api_boundary(fun: Callable[P, R], *, repro_api_name: str | None = None,
                 repro_user_func: bool = False) -> Callable[P, R]:
    """Decorator of a library's public functions: exceptions leave them without frames of mjax, nor
    of files given to `register_exclusion`.

    Args:
      fun: the function.
      repro_api_name: for JAX's recorder of calls, which mjax does not have.
      repro_user_func: the same.

    Returns:
      The function. `MJAX_TRACEBACK_FILTERING=off` shows all frames.

    Raises:
      TypeError: at calls: `fun` is not callable.

    Example:
      >>> from mjax_ext import traceback_util
      >>> traceback_util.api_boundary(lambda x: x + 1)(1)
      2

    Source: JAX, `jax._src.traceback_util.api_boundary`.
    """
    return boundary(fun)


def include_frame(f: FrameType) -> bool:
    """Whether tracebacks show a frame.

    Args:
      f: the frame.

    Returns:
      A bool.

    Raises:
      AttributeError: `f` is not a frame.

    Example:
      >>> import sys
      >>> from mjax_ext import traceback_util
      >>> traceback_util.include_frame(sys._getframe())
      True

    Source: JAX, `jax._src.traceback_util.include_frame`.
    """
    return not is_engine_file(f.f_code.co_filename)


def __dir__() -> list[str]:
    return sorted(__all__)
