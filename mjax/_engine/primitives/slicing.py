"""Boxes at static places: slice and pad, each other's transposes."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.sizes import dilated, index
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.emit import hlo, ir, pad_ir, slice_ir
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    batch_at,
    batch_size,
    broadcast_in_dim_p,
    full,
    insert,
    reduce_sum,
    reshape,
    scalar_of,
    squeeze,
    zeros_of,
)
from mjax._engine.primitives.tangents import aval_of, define_jointly_linear
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import UndefinedPrimal

# ---- slice -----------------------------------------------------------------------------

slice_p = EnginePrimitive("slice", params={
    "start_indices": Ints, "limit_indices": Ints, "strides": Ints | None}, structural=True)


@slice_p.def_abstract_eval
def _slice_type(x: Any, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...],
                strides: tuple[int, ...] | None) -> ShapedArray:
    steps = (1,) * x.ndim if strides is None else strides
    for name, values in (("start_indices", start_indices), ("limit_indices", limit_indices),
                         ("strides", steps)):
        if len(values) != x.ndim:
            msg = (f"slice: {name} {values} must hold one number for each axis of the operand, "
                   f"of shape {x.shape}.")
            raise TypeError(msg)
    if not all(0 <= i <= j <= n for i, j, n in zip(start_indices, limit_indices, x.shape,
                                                   strict=True)):
        msg = (f"slice: it must hold that 0 <= start <= limit <= size, got start_indices "
               f"{start_indices} and limit_indices {limit_indices} for an operand of shape "
               f"{x.shape}.")
        raise TypeError(msg)
    if any(s <= 0 for s in steps):
        msg = f"slice: strides {steps} must be positive."
        raise TypeError(msg)
    shape = tuple((j - i + s - 1) // s for i, j, s in zip(start_indices, limit_indices, steps,
                                                         strict=True))
    return ShapedArray(shape, x.dtype, x.weak_type)


@slice_p.def_lowering
def _slice_lowering(ctx: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any
                    ) -> Any:
    return [slice_ir(ctx.out_types[0], x, start_indices, limit_indices,
                     strides or [1] * len(start_indices))]


def _slice_transpose(ct: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any
                     ) -> Any:
    strides = strides or (1,) * len(start_indices)
    config = []
    for start, stride, n, size in zip(start_indices, strides, typeof(ct).shape, x.aval.shape,
                                      strict=True):
        covered = dilated(n, stride)
        config.append((start, size - start - covered, stride - 1))
    return pad_p.bind(ct, _zero(ct), padding_config=tuple(config))


def _zero(x: Any) -> Any:
    return scalar_of(typeof(x), 0)


define_linear(slice_p, _slice_transpose)


@slice_p.def_batch
def _slice_batch(args: Any, dims: Any, *, start_indices: Any, limit_indices: Any, strides: Any
                 ) -> Any:
    (x,), (dim,) = args, dims
    return slice_p.bind(
        x, start_indices=insert(start_indices, dim, 0),
        limit_indices=insert(limit_indices, dim, typeof(x).shape[dim]),
        strides=None if strides is None else insert(strides, dim, 1)), dim


@boundary
def slice(operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int],
          strides: Sequence[int] | None = None) -> Any:
    """Cuts a box out of an array, or a grid with steps along each axis.

    Args:
      operand: array.
      start_indices: for each axis the first index, not negative.
      limit_indices: for each axis the index after the last, at most the axis' size.
      strides: for each axis the positive step; all 1 by default.

    Returns:
      An array of the operand's dtype.

    Raises:
      TypeError: the indices are out of range.

    Source: StableHLO `slice`.

    Example:
      >>> lax.slice(jnp.array([0, 1, 2, 3, 4]), (1,), (5,), (2,))
      Array([1, 3], dtype=int32)
    """
    return slice_p.bind(operand, start_indices=tuple(map(index, start_indices)),
                        limit_indices=tuple(map(index, limit_indices)),
                        strides=None if strides is None else tuple(map(index, strides)))


@boundary
def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None,
                 stride: int = 1, axis: int = 0) -> Any:
    """Cuts along one axis, as `operand[start_index:limit_index:stride]` does.

    Args:
      operand: array.
      start_index: the first index; negative ones count from the end, None means 0.
      limit_index: the index after the last; negative ones count from the end, None means the end.
      stride: the positive step.
      axis: the axis.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: the indices are out of range. Unlike Python's slices they are not clipped.

    Example:
      >>> lax.slice_in_dim(jnp.arange(6), 1, 6, 2)
      Array([1, 3, 5], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = canonicalize_axis(axis, len(shape))
    start = 0 if start_index is None else index(start_index)
    limit = shape[axis] if limit_index is None else index(limit_index)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + shape[axis] if start < 0 else start
    limits[axis] = limit + shape[axis] if limit < 0 else limit
    strides[axis] = index(stride)
    return slice_p.bind(operand, start_indices=tuple(starts), limit_indices=tuple(limits),
                        strides=tuple(strides))


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices: row by row, every (n + 1)-th element."""
    *stack, n, _ = typeof(x).shape
    flat = reshape(x, (*stack, n * n))
    return slice_p.bind(flat, start_indices=(0,) * typeof(flat).ndim,
                        limit_indices=typeof(flat).shape, strides=(*[1] * len(stack), n + 1))


@boundary
def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """Takes the elements at one static index of an axis.

    Args:
      operand: array.
      index: the index; negative ones count from the end.
      axis: the axis.
      keepdims: whether the axis stays, with size 1.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      IndexError: the index is out of range.

    Example:
      >>> lax.index_in_dim(jnp.arange(6).reshape(3, 2), -1, keepdims=False)
      Array([4, 5], dtype=int32)
    """
    size, place = typeof(operand).shape[axis], operator.index(index)
    if not -size <= place < size:
        msg = f"index {place} is out of bounds for axis {axis} with size {size}."
        raise IndexError(msg)
    place = place + size if place < 0 else place
    out = slice_in_dim(operand, place, place + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


# ---- pad -------------------------------------------------------------------------------

pad_p = EnginePrimitive("pad", params={
    "padding_config": tuple[tuple[int, int, int], ...]}, structural=True)


@pad_p.def_abstract_eval
def _pad_type(x: Any, value: Any, *, padding_config: tuple[tuple[int, int, int], ...]
              ) -> ShapedArray:
    if x.dtype != value.dtype:
        msg = f"pad: operand and padding_value must have one dtype, got {x.dtype}, {value.dtype}."
        raise TypeError(msg)
    if value.shape:
        msg = f"pad: padding_value must be a scalar, got shape {value.shape}."
        raise ValueError(msg)
    if len(padding_config) != x.ndim or any(i < 0 for _, _, i in padding_config):
        msg = (f"pad: padding_config {padding_config} must hold (low, high, interior) for each "
               f"axis of the operand, of shape {x.shape}, with interior not negative.")
        raise ValueError(msg)
    shape = tuple(low + dilated(n, interior + 1) + high
                  for n, (low, high, interior) in zip(x.shape, padding_config, strict=True))
    if any(n < 0 for n in shape):
        msg = (f"pad: padding_config {padding_config} takes more away from an operand of shape "
               f"{x.shape} than there is: the result would have shape {shape}.")
        raise ValueError(msg)
    return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)


@pad_p.def_lowering
def _pad_lowering(ctx: Any, x: Any, value: Any, *, padding_config: Any) -> Any:
    if ctx.module_context.cut_by_xla:
        x, padding_config = _without_holes(x, value, padding_config)
    return [pad_ir(ctx.out_types[0], x, value, padding_config)]


def _without_holes(x: Any, value: Any, padding_config: Any) -> tuple[Any, Any]:
    """The same padding without interior: holes are a separate dimension, which is then merged.

    XLA, up to 0.12 at least, silently pads the interior wrongly if the result is sharded along
    that dimension and the operand is not.
    """
    config = list(padding_config)
    for i, (low, high, interior) in enumerate(config):
        shape, element = list(x.type.shape), x.type.element_type
        if interior and shape[i]:
            before, after = shape[:i + 1], shape[i + 1:]
            x = hlo.reshape(ir.RankedTensorType.get([*before, 1, *after], element), x)
            holes = [(0, interior if j == i + 1 else 0, 0) for j in range(len(shape) + 1)]
            x = pad_ir(ir.RankedTensorType.get([*before, 1 + interior, *after], element), x, value,
                       holes)
            before[-1] *= 1 + interior
            x = hlo.reshape(ir.RankedTensorType.get([*before, *after], element), x)
            config[i] = (low, high - interior, 0)
    return x, config


define_jointly_linear(pad_p, builtins.slice(2))


@pad_p.def_transpose
def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: Any) -> Any:
    x_ct = value_ct = None
    if type(x) is UndefinedPrimal:
        x_ct = ct
        if any(low < 0 or high < 0 for low, high, _ in padding_config):
            # Elements that were cut off have zero cotangents.
            restored = tuple((max(-low, 0), max(-high, 0), 0) for low, high, _ in padding_config)
            x_ct = pad_p.bind(ct, _zero(ct), padding_config=restored)
        rows = list(zip(typeof(x_ct).shape, padding_config, strict=True))
        x_ct = slice_p.bind(
            x_ct, start_indices=tuple(max(low, 0) for _, (low, _, _) in rows),
            limit_indices=tuple(n - max(high, 0) for n, (_, high, _) in rows),
            strides=tuple(interior + 1 for _, (_, _, interior) in rows))
    if type(value) is UndefinedPrimal:
        inside = _inside(aval_of(x).shape, padding_config)
        padding = select_n(inside, ct, zeros_of(typeof(ct).strip_weak_type()))
        value_ct = reduce_sum(padding, tuple(range(len(padding_config))))
    return [x_ct, value_ct]


def _inside(shape: tuple[int, ...], padding_config: Any) -> Any:
    """A mask of the elements of a padded array that come from the original."""
    return pad_p.bind(full(shape, True), np.False_, padding_config=padding_config)


@pad_p.def_batch
def _pad_batch(args: Any, dims: Any, *, padding_config: Any) -> Any:
    (x, value), (dim, value_dim) = args, dims
    if dim is None:
        x, dim = batch_at(x, None, 0, batch_size(args, dims)), 0
    config = (*padding_config[:dim], (0, 0, 0), *padding_config[dim:])
    if value_dim is None:
        return pad_p.bind(x, value, padding_config=config), dim
    # One padding value per element: pad with any value, then select the right one.
    anything = squeeze(slice_in_dim(value, 0, 1), (0,)) if dtypes.is_extended(
        typeof(x).dtype) else _zero(x)
    padded = pad_p.bind(x, anything, padding_config=config)
    padding = broadcast_in_dim_p.bind(value, shape=typeof(padded).shape,
                                      broadcast_dimensions=(dim,))
    return select_n(_inside(typeof(x).shape, config), padding, padded), dim


@boundary
def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Inserts one value at the edges of an array and between its elements.

    Args:
      operand: array of shape `(n, ...)`.
      padding_value: a scalar of its dtype.
      padding_config: for each axis `(low, high, interior)`: the number of elements before, after
        and between any two. Negative `low` and `high` remove elements, after the interior
        ones were inserted.

    Returns:
      An array of shape `(low + n + (n - 1) * interior + high, ...)`.

    Raises:
      TypeError: the dtypes differ.
      ValueError: `padding_value` is not a scalar, or the configuration does not fit.

    Source: StableHLO `pad`.

    Example:
      >>> lax.pad(jnp.array([1, 2]), 0, [(1, 0, 2)])
      Array([0, 1, 0, 0, 2], dtype=int32)
    """
    try:
        config = tuple([(index(low), index(high), index(interior))
                        for low, high, interior in padding_config])
    except (TypeError, ValueError) as error:
        msg = ("pad: padding_config must hold three integers, (low, high, interior), for each axis "
               f"of the operand, got {padding_config!r}.")
        raise type(error)(msg) from None
    return pad_p.bind(operand, padding_value, padding_config=config)
