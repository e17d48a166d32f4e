"""Arrays and shardings as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.html import framed, mesh_html, panels
from mjax._engine.runtime.arrays.part_grid import part_grid
from mjax._engine.runtime.arrays.shardings import cuts

#: The height from which the values of an array scroll.
_TALL = "max-height:24em;overflow:auto;margin:0"


def array_html(array: Any) -> str:
    """Values, dtype, shape and sharding of an array."""
    title = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    weak = " weakly typed" if array.weak_type else ""
    head = f'<div><b>{escape(title)}</b>{weak} on {escape(_where(array))}</div>'
    several = len(array.sharding.flat_devices) > 1
    picture = _parts(array.sharding, array.shape) if several else ""
    folded = (f"<details><summary><code>{escape(repr(array.sharding))}</code></summary>{picture}"
              "</details>" if several else "")
    values = f'<pre style="{_TALL}">{_values(array)}</pre>'
    return f'<div class="mjax-array">{head}{values}{folded}</div>'


def sharding_html(sharding: Any) -> str:
    """The parts of arrays that a sharding makes, with their devices."""
    spec = getattr(sharding, "spec", None)
    if spec is None or getattr(sharding, "is_abstract", False):
        mesh = getattr(sharding, "mesh", None)
        return framed(repr(sharding), "" if mesh is None else mesh_html(mesh))
    shape = cuts(spec, sharding.mesh, max(len(spec), 1))
    return framed(repr(sharding), _parts(sharding, tuple(shape)))


def _parts(sharding: Any, shape: tuple[int, ...]) -> str:
    grid = part_grid(shape, sharding.devices_indices_map(shape))
    names = [f"dim {d}" if grid.shape[d] > 1 else "" for d in range(grid.ndim)]
    # Parts with the same devices have the same colour.
    number = {label: i for i, label in enumerate(dict.fromkeys(grid.flat))}
    return panels(grid, tuple(names), np.array([number[label] for label in grid.flat]))


def _where(array: Any) -> str:
    devices = array.sharding.flat_devices
    if len(devices) > 1:
        kinds = sorted({d.platform for d in devices})
        return f"{len(devices)} devices ({', '.join(kinds)})"
    memory = array.sharding.memory_kind
    ordinary = array.sharding.in_default_memory.memory_kind == memory
    return f"{devices[0].platform}:{devices[0].id}" + ("" if ordinary else f", {memory}")


def _values(array: Any) -> str:
    if array.is_deleted():
        return "deleted"
    if not (array.is_fully_addressable or array.is_fully_replicated):
        return "in other processes too"
    if dtypes.is_extended(array.dtype):
        return escape(repr(array))
    return escape(np.array2string(np.asarray(array), separator=", "))
