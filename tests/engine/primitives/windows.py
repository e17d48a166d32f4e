"""gather and scatter in NumPy, window by window, after the StableHLO specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _windows(shape: Sequence[int], indices: Array, index_map: Sequence[int],
             batching: Sequence[int], index_batching: Sequence[int], sizes: Sequence[int],
             clip: bool) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...] | None]]:
    """Each batch position with its window; None where that is not inside."""
    for position in np.ndindex(indices.shape[:-1]):
        start = [0] * len(shape)
        for axis, i in zip(index_map, indices[position], strict=True):
            start[axis] = int(i)
        for axis, index_axis in zip(batching, index_batching, strict=True):
            start[axis] = position[index_axis]
        limits = [n - size for n, size in zip(shape, sizes, strict=True)]
        if clip:
            start = [min(max(i, 0), limit) for i, limit in zip(start, limits, strict=True)]
        inside = all(0 <= i <= limit for i, limit in zip(start, limits, strict=True))
        yield position, tuple(slice(i, i + n) for i, n in zip(start, sizes, strict=True)
                              ) if inside else None


def _place(ndim: int, window_axes: Sequence[int], position: Sequence[int]) -> tuple[Any, ...]:
    batch = iter(position)
    return tuple(slice(None) if i in window_axes else next(batch) for i in range(ndim))


def gather(operand: Array, indices: Array, dims: Sequence[Sequence[int]], sizes: Sequence[int],
           clip: bool, fill: Any = None) -> Array:
    """The result of lax.gather."""
    offset, collapsed, index_map, batching, index_batching = dims
    absent = tuple(sorted((*collapsed, *batching)))
    window = iter([n for i, n in enumerate(sizes) if i not in absent])
    batch = iter(indices.shape[:-1])
    ndim = len(offset) + indices.ndim - 1
    shape = tuple(next(window) if i in offset else next(batch) for i in range(ndim))
    out = np.empty(shape, operand.dtype)
    for position, box in _windows(operand.shape, indices, index_map, batching, index_batching,
                                  sizes, clip):
        value = fill if box is None else operand[box].squeeze(absent)
        out[_place(ndim, offset, position)] = value
    return out


def scatter(operand: Array, indices: Array, updates: Array, dims: Sequence[Sequence[int]],
            combine: Callable[[Array, Array], Array], clip: bool = False) -> Array:
    """The results of lax.scatter and its variants; of windows that overlap the last one stays."""
    window, inserted, index_map, batching, index_batching = dims
    absent = tuple(sorted((*inserted, *batching)))
    inner = iter([updates.shape[i] for i in window])
    sizes = [1 if i in absent else next(inner) for i in range(operand.ndim)]
    out = np.array(operand)
    for position, box in _windows(operand.shape, indices, index_map, batching, index_batching,
                                  sizes, clip):
        if box is not None:
            update = np.expand_dims(updates[_place(updates.ndim, window, position)], absent)
            out[box] = combine(out[box], update)
    return out
