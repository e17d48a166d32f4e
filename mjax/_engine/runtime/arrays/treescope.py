"""Arrays in treescope, an interactive printer for notebooks: its array adapter.

Source: treescope, `treescope.ndarray_adapters.NDArrayAdapter` of release 0.1.10.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from treescope import ndarray_adapters, rendering_parts

from mjax._engine.ir import dtypes

#: Arrays of more elements are summarized without their values.
_SUMMARIZED = 1_000_000


def array_adapter(array: Any) -> Any:
    """The adapter of all arrays."""
    return _adapter()


def array_parts(array: Any, path: str | None, subtree_renderer: Any) -> Any:
    """An array: its summary, and unfolded its values."""
    parts = rendering_parts
    summary = f"<{_adapter().get_array_summary(array, False)}>"
    return parts.build_custom_foldable_tree_node(
        label=parts.abbreviation_color(parts.text(summary)),
        contents=parts.fold_condition(expanded=parts.indented_children(
            [parts.text(line) for line in repr(array).splitlines()])),
        path=path)


@functools.cache
def _adapter() -> Any:
    return Adapter()


class Adapter(ndarray_adapters.NDArrayAdapter[Any]):
    """Tells treescope what an array holds, and where."""

    def get_axis_info_for_array_data(self, array: Any) -> tuple[Any, ...]:
        return tuple([ndarray_adapters.PositionalAxisInfo(i, n) for i, n in enumerate(array.shape)])

    def get_array_data_with_truncation(self, array: Any, mask: Any,
                                       edge_items_per_axis: Sequence[int | None]) -> Any:
        shown = np.ones((), bool) if mask is None else np.asarray(mask)
        return _cut(np.asarray(array), np.broadcast_to(shown, array.shape), edge_items_per_axis)

    def get_array_summary(self, array: Any, fast: bool) -> str:
        text = f"{array.dtype}[{','.join(map(str, array.shape))}]"
        if fast or not _readable(array) or not 0 < array.size <= _SUMMARIZED:
            return text
        values = np.asarray(array)
        if values.dtype == bool:
            return f"{text} {int(values.sum())} of {values.size} true"
        if array.size == 1:
            return f"{text} {values.reshape(())[()]}"
        wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
        finite = wide[np.isfinite(wide)]
        if wide.dtype.kind == "c" or not finite.size:
            return f"{text} {finite.size} of {wide.size} finite"
        odd = "" if finite.size == wide.size else f", {wide.size - finite.size} not finite"
        return (f"{text} ≈{finite.mean():.2g} ±{finite.std():.2g} "
                f"[≥{finite.min():.2g}, ≤{finite.max():.2g}]{odd}")

    def get_numpy_dtype(self, array: Any) -> Any:
        return None if dtypes.is_extended(array.dtype) else array.dtype

    def get_sharding_info_for_array_data(self, array: Any) -> Any:
        if array.is_deleted() or len(array.sharding.flat_devices) < 2:
            return None
        parts = array.sharding.devices_indices_map(array.shape)
        return ndarray_adapters.ShardingInfo(
            shard_shape=array.sharding.shard_shape(array.shape),
            device_index_to_shard_slices={device.id: part for device, part in parts.items()},
            device_type=next(iter(parts)).platform.upper(),
            fully_replicated=array.is_fully_replicated)

    def should_autovisualize(self, array: Any) -> bool:
        return _readable(array)


def _readable(array: Any) -> bool:
    return (not array.is_deleted() and not dtypes.is_extended(array.dtype)
            and (array.is_fully_addressable or array.is_fully_replicated))


def _cut(values: Any, mask: Any, edges: Sequence[int | None]) -> tuple[Any, Any]:
    """Values and mask without the middle of axes, for which one masked element stands."""
    for axis, edge in enumerate(edges):
        if edge is not None:
            n = values.shape[axis]
            kept = np.r_[:edge, edge, n - edge : n]
            values, mask = np.take(values, kept, axis), np.take(mask, kept, axis)
            middle = (slice(None),) * axis + (edge,)
            mask[middle] = False
    return values, mask
