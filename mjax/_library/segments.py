"""Segment reductions: rows with the same segment index are combined."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import ConcretizationTypeError, LazyTypeError
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.reductions import highest, lowest
from mjax._numpy.core import check_array, common_shape, concrete_int, kind_of
from mjax._numpy.creation import asarray, astype, full
from mjax._numpy.indexing.update import update
from mjax._numpy.out_sharding import lays_out
from mjax._numpy.ranges import arange
from mjax._numpy.reductions import max, min, prod, sum

_shared = documented(
    args=("data: array; its rows lie along the first axis.\n"
          "segment_ids: vector of integers, the segment of each row of `data`. They need not be\n"
          "  sorted; rows of segments outside of `[0, num_segments)` are dropped.\n"
          "num_segments: the number of segments; by default `max(segment_ids) + 1`. Under jit it\n"
          "  must be given and static.\n"
          "indices_are_sorted: whether `segment_ids` is known to be sorted.\n"
          "unique_indices: whether `segment_ids` is known to have no duplicates.\n"
          "bucket_size: the number of rows per bucket; buckets are reduced first, then their\n"
          "  results, which reduces rounding errors.\n"
          "mode: a `lax.GatherScatterMode` or the name of one, for segments out of bounds.\n"
          "out_sharding: the sharding of the result over several devices."),
    raises=("TypeError: `data` or `segment_ids` is not an array, `num_segments` not an integer.\n"
            "ConcretizationTypeError: `segment_ids` is traced, and `num_segments` is not given.\n"
            "ValueError: `num_segments` is negative, or the shapes do not match."),
)


def _number_of_segments(name: str, given: Any, ids: Any) -> int:
    if given is None:
        try:
            known = np.asarray(ids)
        except TypeError:
            msg = (f"{name}: segment_ids is traced, so the number of segments and the "
               "shape of the result are unknown. Give num_segments=, which is static.")
            raise ConcretizationTypeError(msg) from None
        return int(known.max()) + 1
    count = concrete_int(given, f"{name}: num_segments, which is static under jit,")
    if count < 0:
        msg = f"{name}: num_segments must not be negative, got {count}."
        raise ValueError(msg)
    return count


def _check_rows(name: str, data: tuple[int, ...], ids: tuple[int, ...]) -> None:
    """Checks that the rows broadcast to those that the indices select.

    Raises:
      ValueError: they do not.
    """
    selected = (*ids, *data[1:])
    try:
        if common_shape([data, selected]) == selected:
            return
    except ValueError:
        pass
    msg = (f"{name}: segment_ids must have one index for each row of data, shape {data[:1]} for "
           f"data of shape {data}; got {ids}. Flatten several leading axes of both with reshape.")
    raise ValueError(msg)


def _reduced(name: str, data: Any, segment_ids: Any, num_segments: Any, sorted_: Any, unique: Any,
             bucket_size: Any, mode: Any, operation: str, identity: Callable[[Any], Any],
             reduce: Callable[..., Any]) -> Any:
    data = asarray(check_array(name, data))
    ids = asarray(check_array(name, segment_ids, 1))
    shape, dtype = typeof(data).shape, typeof(data).dtype
    count = _number_of_segments(name, num_segments, ids)
    if typeof(ids).shape != shape[:1] or not shape:
        _check_rows(name, shape, typeof(ids).shape)
    if kind_of(ids) in "fc":
        raise LazyTypeError(lambda: (
            f"{name}: segment_ids must be of an integer dtype, got {typeof(ids)}. Convert them "
            "with .astype(int)."))
    # Negative indices are out of bounds here; they do not count from the end.
    mode, options = "drop" if mode is None else mode, (bool(sorted_), bool(unique), False)
    if bucket_size is None:
        start = full((count, *shape[1:]), identity(dtype), dtype)
        return update(operation, start, ids, data, mode, *options)
    buckets = math.ceil(math.prod(typeof(ids).shape) / bucket_size)
    start = full((buckets, count, *shape[1:]), identity(dtype), dtype)
    places = (arange(typeof(ids).shape[0]) // bucket_size, ids)
    parts = update(operation, start, places, data, mode, *options)
    return astype(reduce(parts, axis=0), dtype)


@lays_out(by_position=True)
@_shared
def segment_sum(data: Any, segment_ids: Any, num_segments: int | None = None,
                indices_are_sorted: bool = False, unique_indices: bool = False,
                bucket_size: int | None = None, mode: Any = None) -> Any:
    """Sums of the rows of each segment; 0 for segments without rows.

    Args:
      [args]

    Returns:
      An array of shape `(num_segments, ...)` and of the dtype of `data`.

    Raises:
      [raises]

    Example:
      >>> mjax.ops.segment_sum(jnp.array([1, 2, 4, 8]), jnp.array([0, 0, 2, 0]))
      Array([11,  0,  4], dtype=int32)
    """
    return _reduced("segment_sum", data, segment_ids, num_segments, indices_are_sorted,
                    unique_indices, bucket_size, mode, "add", lambda dtype: 0, sum)


@lays_out(by_position=True)
@_shared
def segment_prod(data: Any, segment_ids: Any, num_segments: int | None = None,
                 indices_are_sorted: bool = False, unique_indices: bool = False,
                 bucket_size: int | None = None, mode: Any = None) -> Any:
    """Products of the rows of each segment; 1 for segments without rows.

    Args:
      [args]

    Returns:
      An array of shape `(num_segments, ...)` and of the dtype of `data`.

    Raises:
      [raises]

    Example:
      >>> mjax.ops.segment_prod(jnp.array([1, 2, 4, 8]), jnp.array([0, 0, 2, 0]))
      Array([16,  1,  4], dtype=int32)
    """
    return _reduced("segment_prod", data, segment_ids, num_segments, indices_are_sorted,
                    unique_indices, bucket_size, mode, "multiply", lambda dtype: 1, prod)


@lays_out(by_position=True)
@_shared
def segment_max(data: Any, segment_ids: Any, num_segments: int | None = None,
                indices_are_sorted: bool = False, unique_indices: bool = False,
                bucket_size: int | None = None, mode: Any = None) -> Any:
    """Maximum of the rows of each segment; the least value of the dtype for empty segments.

    Args:
      [args]

    Returns:
      An array of shape `(num_segments, ...)` and of the dtype of `data`.

    Raises:
      [raises]

    Example:
      >>> mjax.ops.segment_max(jnp.array([1.0, 2.0, 4.0, 8.0]), jnp.array([0, 0, 2, 0]))
      Array([  8., -inf,   4.], dtype=float32)
    """
    return _reduced("segment_max", data, segment_ids, num_segments, indices_are_sorted,
                    unique_indices, bucket_size, mode, "max", lowest, max)


@lays_out(by_position=True)
@_shared
def segment_min(data: Any, segment_ids: Any, num_segments: int | None = None,
                indices_are_sorted: bool = False, unique_indices: bool = False,
                bucket_size: int | None = None, mode: Any = None) -> Any:
    """Minimum of the rows of each segment; the greatest value of the dtype for empty segments.

    Args:
      [args]

    Returns:
      An array of shape `(num_segments, ...)` and of the dtype of `data`.

    Raises:
      [raises]

    Example:
      >>> mjax.ops.segment_min(jnp.array([1.0, 2.0, 4.0, 8.0]), jnp.array([0, 0, 2, 0]))
      Array([ 1., inf,  4.], dtype=float32)
    """
    return _reduced("segment_min", data, segment_ids, num_segments, indices_are_sorted,
                    unique_indices, bucket_size, mode, "min", highest, min)


__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
