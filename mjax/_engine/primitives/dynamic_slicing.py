"""Boxes at places that are known only at run time: dynamic_slice, dynamic_update_slice.

They are each other's transposes. Under vmap with batched places they become gather and scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import DimExpr
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.sizes import index, is_symbolic_dim
from mjax._engine.ir.types import ShapedArray, same_array_type, typeof
from mjax._engine.primitives.arithmetic import add, lt, rem
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.emit import dynamic_slice_ir, op
from mjax._engine.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    batch_gather,
    gather,
    widen_indices,
)
from mjax._engine.primitives.joining import stack_p
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, batch_scatter, scatter_p
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    batch_at,
    batch_size,
    expand_dims,
    insert,
    scalar_of,
    squeeze,
    zeros_of,
)
from mjax._engine.primitives.slicing import index_in_dim
from mjax._engine.primitives.tangents import aval_of, define_jointly_linear
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import UndefinedPrimal

dynamic_slice_p = EnginePrimitive("dynamic_slice", params={"slice_sizes": Ints}, structural=True)
dynamic_update_slice_p = EnginePrimitive("dynamic_update_slice", params={}, structural=True)


def _check_starts(name: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim or any(i.shape for i in starts):
        msg = (f"{name}: start_indices must be one scalar for each axis of the operand, of shape "
               f"{x.shape}, got {', '.join(map(str, starts)) or 'none'}.")
        raise TypeError(msg)
    if any(i.dtype != starts[0].dtype or not dtypes.is_integer(i.dtype) for i in starts):
        msg = (f"{name}: start_indices must be integers of one dtype, got "
               f"{', '.join(str(i.dtype) for i in starts)}.")
        raise TypeError(msg)


@dynamic_slice_p.def_abstract_eval
def _dynamic_slice_type(x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> ShapedArray:
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim or not all(0 <= n <= size for n, size in
                                             zip(slice_sizes, x.shape, strict=True)):
        msg = (f"dynamic_slice: slice_sizes {slice_sizes} must hold one number for each axis of "
               f"the operand, from 0 to its size; its shape is {x.shape}.")
        raise TypeError(msg)
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _starts_ir(ctx: Any, starts: Sequence[Any]) -> list[Any]:
    avals = ctx.avals_in[len(ctx.avals_in) - len(starts):]
    return [widen_indices(i, a)[0] for i, a in zip(starts, avals, strict=True)]


@dynamic_slice_p.def_lowering
def _dynamic_slice_lowering(ctx: Any, x: Any, *starts: Any, slice_sizes: Any) -> Any:
    return [dynamic_slice_ir(ctx.out_types[0], x, ctx.avals_in[0].shape, _starts_ir(ctx, starts),
                             slice_sizes)]


def _dynamic_slice_transpose(ct: Any, x: Any, *starts: Any, slice_sizes: Any) -> Any:
    return dynamic_update_slice_p.bind(zeros_of(x.aval.strip_weak_type()), ct, *starts)


define_linear(dynamic_slice_p, _dynamic_slice_transpose)


def _index_vectors(starts: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Start indices, batched or not, as a batch of index vectors."""
    size = batch_size(starts, dims)
    return stack_p.bind(*[batch_at(i, d, 0, size) for i, d in zip(starts, dims, strict=True)],
                        axis=1)


def _start_zero(starts: Sequence[Any]) -> Any:
    return scalar_of(typeof(starts[0]), 0) if starts else np.int32(0)


@dynamic_slice_p.def_batch
def _dynamic_slice_batch(args: Any, dims: Any, *, slice_sizes: tuple[int, ...]) -> Any:
    x, *starts = args
    dim, *start_dims = dims
    if all(d is None for d in start_dims):
        starts.insert(dim, _start_zero(starts))
        sizes = insert(slice_sizes, dim, typeof(x).shape[dim])
        return dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), dim
    axes = tuple(range(len(slice_sizes)))
    return batch_gather(
        [x, _index_vectors(starts, start_dims)], [dim, 0],
        dimension_numbers=GatherDimensionNumbers(axes, (), axes), slice_sizes=slice_sizes,
        indices_are_sorted=True, unique_indices=True, mode=GatherScatterMode.CLIP,
        fill_value=None)


def _start_indices(name: str, operand: Any, starts: Any, allow_negative: bool | Sequence[bool]
                   ) -> list[Any]:
    """Start indices as operands: of one dtype, negative ones counted from the end."""
    shape = typeof(operand).shape
    if (np.shape(starts) if hasattr(starts, "shape") else (len(starts),)) != (len(shape),):
        msg = (f"{name}: start_indices {starts!r} must hold one index for each axis of the "
               f"operand, of shape {shape}.")
        raise ValueError(msg)
    if hasattr(starts, "aval"):
        starts = [index_in_dim(starts, i, keepdims=False) for i in range(len(shape))]
    allowed = [allow_negative] * len(shape) if isinstance(allow_negative, bool) else allow_negative
    # Python's and NumPy's integers are static: they are checked here and take the dtype of the
    # others.
    static = [isinstance(i, (int, np.integer, DimExpr)) for i in starts]
    dtype = next((typeof(i).dtype for i, s in zip(starts, static, strict=True) if not s),
                 dtypes.dtype_of_python(int))
    if dtypes.is_integer(dtype) and dtype.itemsize < 4:
        # The axis' size may exceed the range of the index' dtype.
        dtype = np.dtype(np.int32)
        starts = [i if s else convert(i, dtype) for i, s in zip(starts, static, strict=True)]
    scalar, out = dtype.type, []
    for start, size, negative, known in zip(starts, shape, allowed, static, strict=True):
        if not known:
            out.append(_from_end(start, size) if negative else start)
        elif start < 0 and not negative:
            msg = (f"{name}: start index {start} is out of bounds for an axis of size {size} "
                   "with allow_negative_indices=False.")
            raise ValueError(msg)
        else:
            start = start + size if start < 0 else start
            out.append(convert(start, dtype) if is_symbolic_dim(start) else scalar(start))
    return out


def _from_end(index: Any, size: int) -> Any:
    """A traced or computed index, plus the axis' size if it is negative."""
    dtype = typeof(index).dtype
    if dtypes.kind(dtype) == "u":
        return index
    own = typeof(index)
    return select_n(lt(index, scalar_of(own, 0)), index,
                    add(convert(index, dtype), scalar_of(own.strip_weak_type(), size)))


@boundary
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int], *,
                  allow_negative_indices: bool | Sequence[bool] = True) -> Any:
    """Cuts a box of static size out of an array, at a place that may be computed.

    Args:
      operand: array.
      start_indices: one integer scalar for each axis, or a vector of them. The box is moved
        to the nearest place inside the operand.
      slice_sizes: size of the box, static.
      allow_negative_indices: whether negative start indices count from the end, for each axis
        or for all.

    Returns:
      An array of shape `slice_sizes` and the operand's dtype.

    Raises:
      TypeError: the box is greater than the operand, or the indices are not integers of one
        dtype.
      ValueError: there is not one index for each axis.

    Source: StableHLO `dynamic_slice`.

    Example:
      >>> lax.dynamic_slice(jnp.array([0, 1, 2, 3, 4]), (3,), (3,))
      Array([2, 3, 4], dtype=int32)
    """
    starts = _start_indices("dynamic_slice", operand, start_indices, allow_negative_indices)
    sizes = tuple(map(index, slice_sizes))
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def _along(ndim: int, axis: int, start: Any, negative: bool) -> tuple[list[Any], list[bool]]:
    """Start indices, and whether they may be negative, for a box that is partial along one axis."""
    starts, allowed = [0] * ndim, [False] * ndim
    starts[axis], allowed[axis] = start, negative
    return starts, allowed


@boundary
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0, *,
                         allow_negative_indices: bool = True) -> Any:
    """`dynamic_slice` along one axis, whole along the others.

    Args:
      operand: array.
      start_index: integer scalar.
      slice_size: size of the box along the axis; static.
      axis: the axis.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Example:
      >>> lax.dynamic_slice_in_dim(jnp.arange(5), 2, 2)
      Array([2, 3], dtype=int32)
    """
    sizes = list(typeof(operand).shape)
    axis = canonicalize_axis(axis, len(sizes))
    sizes[axis] = index(slice_size)
    starts, allowed = _along(len(sizes), axis, start_index, allow_negative_indices)
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allowed)


@boundary
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *,
                         allow_negative_indices: bool = True) -> Any:
    """The part of an array at one computed index of an axis.

    Args:
      operand: array.
      index: integer scalar, clamped to the axis.
      axis: the axis.
      keepdims: whether the axis stays, with size 1.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Example:
      >>> lax.dynamic_index_in_dim(jnp.arange(6).reshape(3, 2), 1, keepdims=False)
      Array([2, 3], dtype=int32)
    """
    out = dynamic_slice_in_dim(operand, index, 1, axis,
                               allow_negative_indices=allow_negative_indices)
    return out if keepdims else squeeze(out, (axis,))


# ---- dynamic_update_slice --------------------------------------------------------------


@dynamic_update_slice_p.def_abstract_eval
def _dynamic_update_slice_type(x: Any, update: Any, *starts: Any) -> ShapedArray:
    if x.dtype != update.dtype:
        msg = (f"dynamic_update_slice requires arguments to have the same dtypes, got {x.dtype} "
               f"and {update.dtype}.")
        raise TypeError(msg)
    if x.ndim != update.ndim or any(n > size for n, size in
                                    zip(update.shape, x.shape, strict=True)):
        msg = (f"dynamic_update_slice: an update of shape {update.shape} does not fit into an "
               f"operand of shape {x.shape}: it must have as many axes, of at most their sizes.")
        raise TypeError(msg)
    _check_starts("dynamic_update_slice", x, starts)
    return x.update(weak_type=all(a.weak_type for a in (x, update, *starts)))


@dynamic_update_slice_p.def_lowering
def _dynamic_update_slice_lowering(ctx: Any, x: Any, update: Any, *starts: Any) -> Any:
    return op("stablehlo.dynamic_update_slice", ctx.out_types,
              [x, update, *_starts_ir(ctx, starts)])


define_jointly_linear(dynamic_update_slice_p, slice(2))


@dynamic_update_slice_p.def_transpose
def _dynamic_update_slice_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> Any:
    x_ct = update_ct = None
    aval = aval_of(update)
    if type(x) is UndefinedPrimal:
        zeros = zeros_of(aval.update(dtype=typeof(ct).dtype, weak_type=False))
        x_ct = dynamic_update_slice_p.bind(ct, zeros, *starts)
    if type(update) is UndefinedPrimal:
        update_ct = dynamic_slice_p.bind(ct, *starts, slice_sizes=aval.shape)
    return [x_ct, update_ct] + [None] * len(starts)


@dynamic_update_slice_p.def_batch
def _dynamic_update_slice_batch(args: Any, dims: Any) -> Any:
    x, update, *starts = args
    dim, update_dim, *start_dims = dims
    if any(d is not None for d in start_dims):
        axes = tuple(range(len(starts)))
        return batch_scatter(
            scatter_p, [x, _index_vectors(starts, start_dims), update], [dim, 0, update_dim],
            ScatterDimensionNumbers(axes, (), axes), {
                "indices_are_sorted": True, "unique_indices": True,
                "mode": GatherScatterMode.CLIP})
    size = batch_size(args, dims)
    place = update_dim if dim is None else dim
    starts.insert(place, _start_zero(starts))
    return dynamic_update_slice_p.bind(
        batch_at(x, dim, place, size), batch_at(update, update_dim, place, size), *starts), place


@boundary
def dynamic_update_slice(operand: Any, update: Any, start_indices: Any, *,
                         allow_negative_indices: bool | Sequence[bool] = True) -> Any:
    """Puts a box into an array, at a place that may be computed.

    Args:
      operand: array.
      update: array of as many axes, of at most the operand's sizes, of its dtype.
      start_indices: one integer scalar for each axis, or a vector of them. The box is moved
        to the nearest place inside the operand.
      allow_negative_indices: whether negative start indices count from the end, for each axis
        or for all.

    Returns:
      An array of the operand's shape and dtype.

    Raises:
      TypeError: the update does not fit, or the indices are not integers of one dtype.
      ValueError: there is not one index for each axis.

    Source: StableHLO `dynamic_update_slice`.

    Example:
      >>> lax.dynamic_update_slice(jnp.zeros(5), jnp.ones(2), (-2,))
      Array([0., 0., 0., 1., 1.], dtype=float32)
    """
    starts = _start_indices("dynamic_update_slice", operand, start_indices,
                            allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


@boundary
def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int, *,
                                allow_negative_indices: bool = True) -> Any:
    """`dynamic_update_slice` that starts at 0 along all axes but one.

    Args:
      operand: array.
      update: array of as many axes and of its dtype.
      start_index: integer scalar.
      axis: the axis.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Example:
      >>> lax.dynamic_update_slice_in_dim(jnp.zeros(4), jnp.ones(2), 1, 0)
      Array([0., 1., 1., 0.], dtype=float32)
    """
    ndim = typeof(operand).ndim
    starts, allowed = _along(ndim, canonicalize_axis(axis, ndim), start_index,
                             allow_negative_indices)
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allowed)


@boundary
def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int, *,
                                allow_negative_indices: bool = True) -> Any:
    """Replaces the elements at one computed index of an axis.

    Args:
      operand: array.
      update: array of its dtype, without the axis or with it in size 1.
      index: integer scalar, clamped to the axis.
      axis: the axis.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Example:
      >>> lax.dynamic_update_index_in_dim(jnp.zeros(3), 7.0, 1, 0)
      Array([0., 7., 0.], dtype=float32)
    """
    if typeof(update).ndim + 1 == typeof(operand).ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis,
                                       allow_negative_indices=allow_negative_indices)


# ---- index_take ------------------------------------------------------------------------


@boundary
def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """Takes elements along several axes at once, with indices modulo the axes' sizes.

    Args:
      src: array.
      idxs: for each of `axes` a vector of integers, all of one length `n`.
      axes: increasing axes.

    Returns:
      An array with a first axis of size `n`, then those of `src` that are not in `axes`.

    Raises:
      ValueError: indices that are not integers.
      TypeError: indices of different lengths or dtypes.

    Example:
      >>> lax.index_take(jnp.array([[0, 1], [2, 3]]), [jnp.array([0, -1])], (1,))
      Array([[0, 2],
             [1, 3]], dtype=int32)
    """
    shape, axes = typeof(src).shape, tuple(axes)
    avals = list(map(typeof, idxs))
    if any(not dtypes.is_integer(a.dtype) for a in avals):
        msg = ("index_take: indices must have an integer type, not "
               f"{', '.join(str(a.dtype) for a in avals)}.")
        raise ValueError(msg)
    if any(a.ndim != 1 or not same_array_type(a, avals[0]) for a in avals):
        msg = ("index_take: indices must be vectors of one length and dtype, got "
               f"{', '.join(map(str, avals))}.")
        raise TypeError(msg)
    columns = []
    for taken, axis in zip(idxs, axes, strict=True):
        if typeof(taken).dtype.itemsize < 4:  # may be too few bits for the size
            taken = convert(taken, np.dtype(np.int32))
        size = scalar_of(typeof(taken), shape[axis])
        columns.append(_from_end(rem(taken, size), shape[axis]))
    sizes = tuple(1 if i in axes else n for i, n in enumerate(shape))
    dims = GatherDimensionNumbers(tuple(range(1, len(shape) - len(axes) + 1)), axes, axes)
    return gather(src, stack_p.bind(*columns, axis=1), dims, sizes)
