"""Pictures of shardings, in text: which device holds which part of an array."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.runtime.array import Array, is_array
from mjax._engine.runtime.shardings import Sharding, bounds
from mjax._engine.tracing.interpreter import Tracer

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
    rows = _cells(tuple(shape), sharding)
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


def _cells(shape: tuple[int, ...], sharding: Sharding) -> list[list[str]]:
    """The names of the devices that hold each part: rows of columns."""
    if len(shape) not in (1, 2):
        msg = ("visualize_sharding: arrays of one or two dimensions can be shown, not one of "
               f"shape {shape}.")
        raise ValueError(msg)
    holders: dict[Any, list[Any]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        holders.setdefault(bounds(index, shape), []).append(device)
    rows: dict[Any, list[str]] = {}
    for place in sorted(holders):
        devices = holders[place]
        ids = ",".join(str(d.id) for d in devices)
        rows.setdefault(place[:-1], []).append(f"{devices[0].platform.upper()} {ids}")
    return list(rows.values())


def _colour(place: int, count: int, color_map: Callable[[float], Sequence[float]] | None) -> str:
    """A format that gives a text its background."""
    code = f"5;{_COLOURS[place % len(_COLOURS)]}"
    if color_map is not None:
        rgb = [str(round(255 * part)) for part in color_map(place / count)[:3]]
        code = "2;" + ";".join(rgb)
    return f"\x1b[48;{code}m\x1b[97m{{}}\x1b[0m"


@boundary
def visualize_array_sharding(arr: Array, **options: Any) -> None:
    """Prints which devices hold which part of an array.

    Args:
      arr: an array of one or two dimensions.
      options: those of `visualize_sharding`.

    Raises:
      TypeError: it is no array, or traced: what a program's values are cut into, XLA decides
        later.
      ValueError: it has no dimensions, or more than two.

    Example:
      >>> mjax.debug.visualize_array_sharding(jnp.arange(4))
      ┌─────────┐
      │  CPU 0  │
      └─────────┘
    """
    if isinstance(arr, Tracer):
        msg = (f"visualize_array_sharding: {arr!r} is traced, and how it is cut is only known when "
               "the program is compiled. Call this on a result, or show one of "
               "jit(f).lower(...).compile().output_shardings with visualize_sharding.")
        raise TypeError(msg)
    if not is_array(arr):
        msg = f"visualize_array_sharding needs an Array, got {type(arr).__name__}."
        raise TypeError(msg)
    visualize_sharding(arr.shape, arr.sharding, **options)
