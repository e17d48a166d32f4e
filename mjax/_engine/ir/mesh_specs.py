"""Partition specs on meshes: whether they fit, the pieces that they cut, and their devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.ir.mesh import Name, PartitionSpec


def check_spec(spec: PartitionSpec, mesh: Any, who: str = "") -> None:
    """Refuses a spec that names axes the mesh does not have, or one of them twice.

    Raises:
      ValueError: the spec does.
    """
    prefix = f"{who}: " if who else ""
    axes = spec.axes
    unknown = [name for name in axes if name not in mesh.axis_names]
    if unknown:
        raise LazyValueError(lambda: (
            f"{prefix}{spec} names the mesh axis {unknown[0]!r}, but the mesh has the axes "
            f"{', '.join(map(repr, mesh.axis_names)) or 'none'}."))
    twice = [name for i, name in enumerate(axes) if name in axes[:i]]
    if twice:
        raise LazyValueError(lambda: (
            f"{prefix}{spec} names the mesh axis {twice[0]!r} twice; a mesh axis can cut one "
            "dimension of an array, once."))


def cuts(spec: PartitionSpec, mesh: Any, ndim: int) -> tuple[int, ...]:
    """The number of pieces of each dimension."""
    sizes = dict(mesh.shape_tuple)
    return tuple(math.prod(sizes[a] for a in dim) for dim in spec.dims(ndim))


def shard_shape(spec: PartitionSpec, mesh: Any, shape: Sequence[int], who: str = ""
                ) -> tuple[int, ...]:
    """The shape of one piece.

    Raises:
      ValueError: a size is not divisible, or the spec is longer than the shape.
    """
    pieces = cuts(spec, mesh, len(shape))
    for dim, (size, count) in enumerate(zip(shape, pieces, strict=True)):
        if size % count:
            _refuse_uneven(spec, mesh, shape, dim, count, who)
    return tuple(size // count for size, count in zip(shape, pieces, strict=True))


def _refuse_uneven(spec: PartitionSpec, mesh: Any, shape: Sequence[int], dim: int, count: int,
                   who: str) -> NoReturn:
    size = shape[dim]
    raise LazyValueError(lambda: (
        f"{who + ': ' if who else ''}dimension {dim} of an array of shape {tuple(shape)} has "
        f"{size} elements, which {spec} cuts into {count} pieces, one per device along "
        f"{_axes_text(spec.dims(len(shape))[dim], mesh)}: {size} = {size // count} * {count} + "
        f"{size % count}. Pad it by {-size % count} elements, or leave the dimension whole (None "
        "in the spec)."))


def _axes_text(axes: Sequence[Name], mesh: Any) -> str:
    sizes = dict(mesh.shape_tuple)
    return " and ".join(f"{a!r} (size {sizes[a]})" for a in axes)


def device_order(spec: PartitionSpec, mesh: Any, ndim: int) -> Iterator[int]:
    """The device of each piece, as an index into the flat devices of the mesh.

    Pieces are in row-major order; copies of a piece are adjacent.
    """
    position = {name: i for i, name in enumerate(mesh.axis_names)}
    named = [position[a] for dim in spec.dims(ndim) for a in dim]
    rest = [i for i in range(len(position)) if i not in named]
    grid = np.arange(mesh.size).reshape(mesh.axis_sizes or ())
    return iter(grid.transpose(*named, *rest).reshape(-1).tolist())
