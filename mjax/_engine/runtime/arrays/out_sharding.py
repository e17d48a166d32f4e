"""The argument `out_sharding`: the sharding of a function's result.

A sharding over an empty mesh, such as `typeof(x).sharding`, asks for nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import fold
from mjax._engine.base.util import NOT_GIVEN
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.runtime.arrays.constraints import resolved, with_sharding_constraint
from mjax._engine.runtime.arrays.shardings import NamedSharding

_ENTRY = """out_sharding: how the result is cut over devices: a `NamedSharding`, or a
  `PartitionSpec` for the mesh that is set; None leaves it to XLA."""


def layout(given: Any, who: str) -> NamedSharding | None:
    """The sharding that an argument `out_sharding` asks for; None if it asks for nothing.

    Raises:
      TypeError: it is neither None, a NamedSharding nor a PartitionSpec.
      ValueError: a spec, but no mesh is set.
    """
    if given is None:
        return None
    if not isinstance(given, (NamedSharding, PartitionSpec)):
        raise LazyTypeError(lambda: (
            f"{who}: out_sharding must be a NamedSharding, a PartitionSpec or None, got {given!r} "
            f"of type {type(given).__name__}."))
    sharding: NamedSharding = resolved(given, f"{who}: out_sharding")
    return None if sharding.mesh.empty else sharding


def chosen_place(who: str, device: Any, out_sharding: Any) -> Any:
    """The place of a new array from the two arguments that name one.

    Raises:
      ValueError: both are given.
    """
    if out_sharding is None:
        return device
    if device is not None:
        msg = (f"{who}: device={device} and out_sharding={out_sharding} both say where the array "
               "is to be; give one of them.")
        raise ValueError(msg)
    return layout(out_sharding, who)


def laid_out(x: Any, out_sharding: Any, who: str) -> Any:
    """A tree of results in the sharding of an argument `out_sharding`."""
    sharding = layout(out_sharding, who)
    return x if sharding is None else with_sharding_constraint(x, sharding)


def lays_out(f: Callable[..., Any] | None = None, *, by_position: bool = False,
             result: int | None = None) -> Any:
    """Decorator: a public function that also takes `out_sharding`. It replaces `boundary`.

    Args:
      f: the function, or the result of `boundary` for it.
      by_position: whether the argument may be given by position, after all others.
      result: which of several results is meant; default: all.
    """
    if f is None:
        return lambda g: lays_out(g, by_position=by_position, result=result)
    name, inner = f.__name__, getattr(f, "__wrapped__", f)
    count = len(inspect.signature(f).parameters) if by_position else None

    @functools.wraps(f)
    def wrapper(*args: Any, out_sharding: Any = NOT_GIVEN, **kwargs: Any) -> Any:
        try:
            if count is not None and len(args) > count:
                if out_sharding is not NOT_GIVEN:
                    msg = f"{name}() got multiple values for argument 'out_sharding'"
                    raise TypeError(msg)  # as Python does before it calls
                *args, out_sharding = args  # type: ignore[assignment]
            out = inner(*args, **kwargs)
            if out_sharding is None or out_sharding is NOT_GIVEN:
                return out
            if result is None:
                return laid_out(out, out_sharding, name)
            return tuple(laid_out(part, out_sharding, name) if i == result else part
                         for i, part in enumerate(out))
        except Exception as error:
            fold(error)
            raise

    with_out_sharding(wrapper, f, by_position)
    return wrapper


def with_out_sharding(wrapper: Any, f: Callable[..., Any], by_position: bool = False) -> None:
    """Shows the argument in the signature and the documentation of a function."""
    kind = (inspect.Parameter.POSITIONAL_OR_KEYWORD if by_position
            else inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(f)
    parameters = list(signature.parameters.values())
    end = len(parameters) - (bool(parameters) and parameters[-1].kind is
                             inspect.Parameter.VAR_KEYWORD)
    parameters.insert(end, inspect.Parameter("out_sharding", kind, default=None,
                                             annotation="Any"))
    wrapper.__signature__ = signature.replace(parameters=parameters)
    lines = inspect.cleandoc(f.__doc__ or "").split("\n")
    if "Args:" in lines:
        after = lines.index("", lines.index("Args:")) if "" in lines[
            lines.index("Args:"):] else len(lines)
        lines[after:after] = ["  " + line for line in _ENTRY.split("\n")]
    else:
        lines += ["", "Args:", *["  " + line for line in _ENTRY.split("\n")]]
    wrapper.__doc__ = "\n".join(lines)
