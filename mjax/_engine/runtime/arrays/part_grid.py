"""The grid of an array's parts, with the devices that hold each: for pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.runtime.arrays.shardings import Index, bounds


def part_grid(shape: Sequence[int], parts: Mapping[Any, Index]) -> Any:
    """An array of texts, one for each part of an array: the devices that hold it.

    Args:
      shape: that of the array.
      parts: device -> its part.
    """
    holders: dict[Any, list[Any]] = {}
    for device, index in parts.items():
        holders.setdefault(bounds(index, shape), []).append(device)
    pieces = [sorted({place[d] for place in holders}) for d in range(len(shape))]
    grid = np.full([len(p) for p in pieces], "", object)
    for place, devices in holders.items():
        where = tuple([p.index(piece) for p, piece in zip(pieces, place)])
        grid[where] = f"{devices[0].platform.upper()} {','.join(str(d.id) for d in devices)}"
    return grid
