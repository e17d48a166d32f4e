"""Text visualization of shardings: which device holds which part of an array."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.control.inspection import inspect_sharding_p
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.runtime.arrays.part_grid import part_grid
from mjax._engine.runtime.arrays.shardings import Index, Sharding
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.tracing.flat import check_callable, function_name
from mjax._engine.tracing.interpreter import Tracer
from mjaxlib_shim import shardings as shim

#: Background colors from the 256 of terminals, used by cells in turn.
_COLOURS = (25, 130, 28, 90, 124, 58, 30, 96)


@boundary
def visualize_sharding(shape: Sequence[int], sharding: Sharding, *, use_color: bool = True,
                       scale: float = 1.0, min_width: int = 9, max_width: int = 80,
                       color_map: Callable[[float], Sequence[float]] | None = None) -> None:
    """Prints which devices hold which part of an array.

    Args:
      shape: the shape of the array, of one or two dimensions.
      sharding: its sharding.
      use_color: whether to color cells on terminals.
      scale: factor by which cells are widened.
      min_width: the least width of a cell.
      max_width: the maximum width of the picture, exceeded only by long labels.
      color_map: maps a number in [0, 1] to a color: red, green and blue in [0, 1].

    Raises:
      TypeError: `sharding` is not a sharding.
      ValueError: the array has no dimensions, or more than two; a size is not divisible.

    Example:
      >>> sharding = mjax.NamedSharding(mjax.make_mesh((1,), ('x',)), mjax.P('x'))
      >>> mjax.debug.visualize_sharding((4, 4), sharding)
      ┌─────────┐
      │  CPU 0  │
      └─────────┘
    """
    shape = tuple(shape)
    _check_rank(shape)
    if not isinstance(sharding, Sharding):
        msg = (f"visualize_sharding expects a sharding, got {sharding!r} of type "
               f"{type(sharding).__name__}. Pass x.sharding for an array x, and for a device "
               "SingleDeviceSharding(device).")
        raise TypeError(msg)
    _show(shape, sharding.devices_indices_map(shape), use_color, scale, min_width, max_width,
          color_map)


def _show(shape: tuple[int, ...], parts: Mapping[Any, Index], use_color: bool, scale: float,
          min_width: int, max_width: int,
          color_map: Callable[[float], Sequence[float]] | None) -> None:
    rows = np.atleast_2d(part_grid(shape, parts)).tolist()
    texts = dict.fromkeys(text for row in rows for text in row)
    longest, columns = max(map(len, texts)) + 2, len(rows[0])
    width = max(longest, min(max(int(longest * scale), min_width), max_width // columns - 1))
    paint = {text: "{}" for text in texts}
    if use_color and sys.stdout.isatty():
        paint = {text: _colour(i, len(texts), color_map) for i, text in enumerate(texts)}
    lines = ["│".join(paint[text].format(text.center(width)) for text in row) for row in rows]
    bar = "─" * width
    between = "├" + "┼".join([bar] * columns) + "┤\n"
    print("┌" + "┬".join([bar] * columns) + "┐\n"
          + between.join(f"│{line}│\n" for line in lines)
          + "└" + "┴".join([bar] * columns) + "┘")


def _check_rank(shape: tuple[int, ...]) -> None:
    if len(shape) not in (1, 2):
        msg = ("visualize_sharding: arrays of one or two dimensions can be shown, not one of "
               f"shape {shape}.")
        raise ValueError(msg)


def _colour(place: int, count: int, color_map: Callable[[float], Sequence[float]] | None) -> str:
    """A format string that sets the background color of a text."""
    code = f"5;{_COLOURS[place % len(_COLOURS)]}"
    if color_map is not None:
        rgb = [str(round(255 * part)) for part in color_map(place / count)[:3]]
        code = "2;" + ";".join(rgb)
    return f"\x1b[48;{code}m\x1b[97m{{}}\x1b[0m"


class _Told:
    """The callback of `inspect_sharding`.

    Args:
      function: the user's function.
      act: called with a value's sharding and shape.
    """

    def __init__(self, function: Callable[..., Any], act: Callable[[Any, Any], Any]):
        self.function, self.act = function, act

    def __call__(self, sharding: Sharding, shape: tuple[int, ...]) -> None:
        self.act(sharding, shape)

    def __repr__(self) -> str:
        return function_name(self.function)


@boundary
def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Calls a function with the sharding of an array, also inside programs.

    For a concrete array, the call happens at once. In a program XLA decides the sharding, so the
    call happens when the program is compiled, at least once, and not when it runs again. Under
    `vmap` the callback gets the sharding of the whole batch. In a `shard_map` it gets the sharding
    of a shard over the axes left to XLA. Under differentiation it gets that of the primal only.

    Args:
      value: an array, a value convertible to one, or a traced value.
      callback: a function of a sharding. Its exceptions propagate from the call that compiles.

    Raises:
      TypeError: the value cannot be converted to an array, or the callback is not callable.

    Example:
      >>> @mjax.jit
      ... def f(x):
      ...     mjax.debug.inspect_array_sharding(x + 1, callback=print)
      ...     return x
      >>> y = f(jnp.arange(4))
      SingleDeviceSharding(device=CpuDevice(id=0))
    """
    check_callable("inspect_array_sharding", callback)
    _inspect(value, callback, lambda sharding, _: callback(sharding))


@boundary
def visualize_array_sharding(arr: Any, *, use_color: bool = True, scale: float = 1.0,
                             min_width: int = 9, max_width: int = 80,
                             color_map: Callable[[float], Sequence[float]] | None = None) -> None:
    """Prints which devices hold which part of an array; in programs, at compile time.

    Args:
      arr: an array of one or two dimensions, or a traced value; see `inspect_array_sharding`.
        Under `vmap` the whole batch is shown.
      use_color: as in `visualize_sharding`.
      scale: likewise.
      min_width: likewise.
      max_width: likewise.
      color_map: likewise.

    Raises:
      TypeError: `arr` cannot be converted to an array.
      ValueError: `arr` does not have one or two dimensions.

    Example:
      >>> mjax.debug.visualize_array_sharding(jnp.arange(4))
      ┌─────────┐
      │  CPU 0  │
      └─────────┘
    """
    def show(sharding: Sharding, shape: tuple[int, ...]) -> None:
        _check_rank(shape)
        _show(shape, _parts(shape, sharding), use_color, scale, min_width, max_width, color_map)

    if isinstance(arr, Tracer):
        _check_rank(arr.shape)
    _inspect(arr, visualize_array_sharding, show)


def _parts(shape: tuple[int, ...], sharding: Sharding) -> dict[Any, Index]:
    """The part of each device; in programs XLA also shards sizes that are not divisible."""
    hlo = shim.hlo_sharding_of(sharding.native_for(len(shape)), len(shape))
    devices = sharding.flat_devices
    return dict(zip(devices, shim.shard_slices(hlo, shape, len(devices)), strict=True))


def _inspect(value: Any, function: Callable[..., Any], act: Callable[[Any, Any], Any]) -> None:
    if not (isinstance(value, Tracer) or is_array(value)):
        value = to_array(value)
    inspect_sharding_p.bind(value, callback=_Told(function, act))


@inspect_sharding_p.def_impl
def _impl(value: Any, *, callback: _Told) -> list[Any]:
    array = value if is_array(value) else to_array(value)
    callback(array.sharding, array.shape)
    return []
