"""Arrays with more or fewer elements: resize, trim_zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.joining import tile_p
from mjax._engine.primitives.shapes import (
    array_of,
    canonical_shape,
    full,
)
from mjax._engine.primitives.slicing import slice_in_dim, slice_p
from mjax._numpy.core import check_array, concrete_int, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.shapes import as_axes, ravel, reshape


@boundary
def resize(a: Any, new_shape: Any) -> Any:
    """An array of another size: its elements are repeated in order, or cut off.

    Args:
      a: array.
      new_shape: shape of the result, static.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: a size is negative.

    Source: `numpy.resize`.

    Example:
      >>> jnp.resize(jnp.arange(3), (2, 4))
      Array([[0, 1, 2, 0],
             [1, 2, 0, 1]], dtype=int32)
    """
    a = check_array("resize", a)
    sizes = new_shape if isinstance(new_shape, (tuple, list)) else (new_shape,)
    if any(concrete_int(n, "resize: a size") < 0 for n in sizes):
        msg = f"resize: sizes must not be negative, got {new_shape}."
        raise ValueError(msg)
    sizes = canonical_shape(sizes)
    own, total = math.prod(shape_of(a)), math.prod(sizes)
    if own == 0 or total == 0:
        return full(sizes, 0, typeof(a).dtype)
    return _resized(a, sizes)


@fused(static_argnames=("sizes",))
def _resized(a: Any, sizes: tuple[int, ...]) -> Any:
    flat = ravel(a)
    total, own = math.prod(sizes), shape_of(flat)[0]
    flat = tile_p.bind(flat, reps=(-(-total // own),))
    return reshape(slice_in_dim(flat, 0, total), sizes)


@boundary
def trim_zeros(filt: Any, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Any:
    """Cuts zeros off at the ends.

    Args:
      filt: array whose values are known (not traced).
      trim: the ends: `"f"` the front, `"b"` the back, `"fb"` both.
      axis: the axis or axes; by default all.

    Returns:
      An array of the dtype of `filt`.

    Raises:
      ConcretizationTypeError: the values are traced.

    Source: `numpy.trim_zeros`.

    Example:
      >>> jnp.trim_zeros(jnp.array([0, 1, 0, 2, 0]))
      Array([1, 0, 2], dtype=int32)
    """
    filt = check_array("trim_zeros", filt) if not isinstance(filt, (list, tuple)) else (
        np.asarray(filt))
    shape = shape_of(filt)
    if not shape:
        return array_of(filt)
    places = np.nonzero(np.asarray(filt))
    axes = canonicalize_axes(None if axis is None else as_axes(axis), len(shape))
    start, stop = [0] * len(shape), list(shape)
    for i in axes:
        low, high = (places[i].min(), places[i].max() + 1) if len(places[i]) else (shape[i],) * 2
        start[i] = int(low) if "f" in trim.lower() else 0
        stop[i] = max(int(high) if "b" in trim.lower() else shape[i], start[i])
    if not len(places[0] if places else ()) and "f" not in trim.lower():
        stop = [0 if i in axes else n for i, n in enumerate(shape)]
    return slice_p.bind(filt, start_indices=tuple(start), limit_indices=tuple(stop), strides=None)


__all__ = ["resize", "trim_zeros"]
