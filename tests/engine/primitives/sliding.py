"""Convolutions and reductions over windows in NumPy, place by place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def padded(x: Array, padding: Sequence[tuple[int, int]], dilation: Sequence[int], fill: Any = 0
           ) -> Array:
    """An array with holes between its elements and edges around; negative edges cut."""
    for axis, ((low, high), holes) in enumerate(zip(padding, dilation, strict=True)):
        x = np.moveaxis(x, axis, 0)
        size = (len(x) - 1) * holes + 1 if len(x) else 0
        out = np.full((size, *x.shape[1:]), fill, x.dtype)
        out[::holes] = x
        edge = [np.full((max(n, 0), *x.shape[1:]), fill, x.dtype) for n in (low, high)]
        out = np.concatenate([edge[0], out[max(-low, 0):size - max(-high, 0)], edge[1]])
        x = np.moveaxis(out, 0, axis)
    return x


def places(shape: Sequence[int], window: Sequence[int], strides: Sequence[int],
           dilation: Sequence[int]) -> tuple[tuple[int, ...], Iterator[Any]]:
    """At how many places windows fit; and each place with the index of its window."""
    spans = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    counts = tuple(max((n - span) // s + 1, 0)
                   for n, span, s in zip(shape, spans, strides, strict=True))

    def each() -> Iterator[Any]:
        for place in np.ndindex(*counts):
            yield place, tuple(slice(i * s, i * s + span, d) for i, s, span, d in zip(
                place, strides, spans, dilation, strict=True))

    return counts, each()


def convolution(lhs: Array, rhs: Array, strides: Sequence[int], padding: Sequence[Any],
                lhs_dilation: Sequence[int] | None = None,
                rhs_dilation: Sequence[int] | None = None, numbers: Any = None,
                feature_groups: int = 1, batch_groups: int = 1) -> Array:
    """The result of lax.conv_general_dilated for explicit padding."""
    count = lhs.ndim - 2
    specs = [tuple(range(lhs.ndim))] * 3
    if numbers is not None:
        spatial = [c for c in numbers[1] if c not in "OI"]
        specs = [[spec.index(c) for c in (*roles, *spatial)]
                 for spec, roles in zip(numbers, ("NC", "OI", "NC"), strict=True)]
    x, k = lhs.transpose(specs[0]), rhs.transpose(specs[1])
    logical = x.dtype == bool
    if logical:
        x, k = x.astype(int), k.astype(int)
    x = padded(x, [(0, 0), (0, 0), *padding], [1, 1, *(lhs_dilation or [1] * count)])
    counts, each = places(x.shape[2:], k.shape[2:], strides, rhs_dilation or [1] * count)
    groups = max(feature_groups, batch_groups)
    kernels = np.split(k, groups)
    parts = np.split(x, groups, axis=1 if batch_groups == 1 else 0)
    out = np.zeros((len(parts[0]), len(k), *counts), np.result_type(x, k))
    for place, window in each:
        out[(slice(None), slice(None), *place)] = np.concatenate([
            np.tensordot(part[(slice(None), slice(None), *window)], kernel,
                         [range(1, x.ndim)] * 2)
            for part, kernel in zip(parts, kernels, strict=True)], axis=1)
    out = out.transpose(np.argsort(specs[2]))
    return out > 0 if logical else out


def reduce_window(x: Array, init: Any, combine: Callable[..., Any], window: Sequence[int],
                  strides: Sequence[int], padding: Sequence[Any], base_dilation: Sequence[int],
                  window_dilation: Sequence[int]) -> Array:
    """The result of lax.reduce_window for explicit padding; `combine` reduces a vector."""
    x = padded(x, padding, base_dilation, init)
    counts, each = places(x.shape, window, strides, window_dilation)
    out = np.empty(counts, x.dtype)
    for place, index in each:
        out[place] = combine(x[index].ravel())
    return out


def select_and_gather(tangents: Array, operand: Array, greatest: bool, window: Sequence[int],
                      strides: Sequence[int], padding: Sequence[Any],
                      base_dilation: Sequence[int], window_dilation: Sequence[int]) -> Array:
    """The tangents where each window has its first extreme element; 0 in padding."""
    fill = -np.inf if greatest else np.inf
    x, t = padded(operand, padding, base_dilation, fill), padded(tangents, padding, base_dilation)
    counts, each = places(x.shape, window, strides, window_dilation)
    out = np.zeros(counts, t.dtype)
    for place, index in each:
        out[place] = t[index].ravel()[_extreme(x[index], greatest)]
    return out


def select_and_scatter(source: Array, operand: Array, greatest: bool, window: Sequence[int],
                       strides: Sequence[int], padding: Sequence[Any]) -> Array:
    """Its transpose, for windows without holes."""
    ones = [1] * operand.ndim
    x = padded(operand, padding, ones, -np.inf if greatest else np.inf)
    total = np.zeros(x.shape, source.dtype)
    for place, index in places(x.shape, window, strides, ones)[1]:
        box = total[(*index, ...)]  # a view
        box[np.unravel_index(_extreme(x[index], greatest), box.shape)] += source[place]
    return padded(total, [(-low, -high) for low, high in padding], ones)


def _extreme(x: Array, greatest: bool) -> int:
    return int(np.argmax(x) if greatest else np.argmin(x))
