"""Pictures of shardings, in text: which device holds which part of an array."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.control.inspection import inspect_sharding_p
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.runtime.arrays.shardings import Index, Sharding, bounds
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.tracing.flat import check_callable, function_name
from mjax._engine.tracing.interpreter import Tracer
from mjaxlib_shim import shardings as shim

#: Background colours of the 256 that terminals know; cells take turns.
_COLOURS = (25, 130, 28, 90, 124, 58, 30, 96)


@boundary
def visualize_sharding(shape: Sequence[int], sharding: Sharding, *, use_color: bool = True,
                       scale: float = 1.0, min_width: int = 9, max_width: int = 80,
                       color_map: Callable[[float], Sequence[float]] | None = None) -> None:
    """Prints which devices hold which part of an array.

    Args:
      shape: of the array, of one or two dimensions.
      sharding: its sharding.
      use_color: whether cells are coloured, on terminals.
      scale: cells are this many times as wide as they need to be.
      min_width: the least width of a cell.
      max_width: the width of the picture, which only longer texts exceed.
      color_map: from a number between 0 and 1 to a colour: red, green and blue between 0 and 1.

    Raises:
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
    _show(shape, sharding.devices_indices_map(shape), use_color, scale, min_width, max_width,
          color_map)


def _show(shape: tuple[int, ...], parts: Mapping[Any, Index], use_color: bool, scale: float,
          min_width: int, max_width: int,
          color_map: Callable[[float], Sequence[float]] | None) -> None:
    rows = _cells(shape, parts)
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


def _cells(shape: tuple[int, ...], parts: Mapping[Any, Index]) -> list[list[str]]:
    """The names of the devices that hold each part: rows of columns."""
    holders: dict[Any, list[Any]] = {}
    for device, index in parts.items():
        holders.setdefault(bounds(index, shape), []).append(device)
    rows: dict[Any, list[str]] = {}
    for place in sorted(holders):
        devices = holders[place]
        ids = ",".join(str(d.id) for d in devices)
        rows.setdefault(place[:-1], []).append(f"{devices[0].platform.upper()} {ids}")
    return list(rows.values())


def _check_rank(shape: tuple[int, ...]) -> None:
    if len(shape) not in (1, 2):
        msg = ("visualize_sharding: arrays of one or two dimensions can be shown, not one of "
               f"shape {shape}.")
        raise ValueError(msg)


def _colour(place: int, count: int, color_map: Callable[[float], Sequence[float]] | None) -> str:
    """A format that gives a text its background."""
    code = f"5;{_COLOURS[place % len(_COLOURS)]}"
    if color_map is not None:
        rgb = [str(round(255 * part)) for part in color_map(place / count)[:3]]
        code = "2;" + ";".join(rgb)
    return f"\x1b[48;{code}m\x1b[97m{{}}\x1b[0m"


class _Told:
    """What `inspect_sharding` calls.

    Args:
      function: the user's.
      act: called with the sharding of a value and its shape.
    """

    def __init__(self, function: Callable[..., Any], act: Callable[[Any, Any], Any]):
        self.function, self.act = function, act

    def __call__(self, sharding: Sharding, shape: tuple[int, ...]) -> None:
        self.act(sharding, shape)

    def __repr__(self) -> str:
        return function_name(self.function)


@boundary
def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Tells a function how an array is cut over devices, inside of programs too.

    Of an array the function is called at once. In a program XLA decides, so it is called when
    the program is compiled, at least once, and not when the program runs again: XLA may have
    copied what is called twice. Under `vmap` it gets the sharding of the whole batch, in a
    `shard_map` that of a device's part over the axes that are left to XLA, under derivatives that
    of the primal; tangents and cotangents are not told of.

    Args:
      value: an array, what can become one, or a traced value.
      callback: a function of a sharding. What it raises, the call that compiles raises.

    Raises:
      TypeError: the value cannot become an array, or the callback is not callable.

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
    """Prints which devices hold which part of an array, inside of programs when they are compiled.

    Args:
      arr: an array of one or two dimensions, or a traced value: see `inspect_array_sharding`. Of a
        batch the whole is shown.
      use_color: as of `visualize_sharding`.
      scale: likewise.
      min_width: likewise.
      max_width: likewise.
      color_map: likewise.

    Raises:
      TypeError: it cannot become an array.
      ValueError: it has no dimensions, or more than two.

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
    """Which parts devices hold: XLA cuts inside of programs what they do not divide, too."""
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
