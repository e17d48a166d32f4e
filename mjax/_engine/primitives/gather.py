"""Reading windows of an array at places that are computed: gather.

Every way of indexing with arrays is one gather. Its transpose is a scatter_add and is defined in
`scatter`, which needs gather for its own rules.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import canonicalize_axis, pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.sizes import beyond, index, is_constant_shape
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.emit import (
    broadcast_ir,
    dense_i64,
    full,
    hlo,
    ir,
    ir_type,
    op,
    reduce_ir,
    shape_ir,
    values_ir,
)
from mjax._engine.primitives.shapes import insert, moveaxis, reshape, shift_axes
from mjax._engine.primitives.tangents import zero_tangent
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import Zero

# ---- dimension numbers and modes -------------------------------------------------------


@pickled_by("gather_dimension_numbers_v1")
class GatherDimensionNumbers(Record):
    """The correspondence of axes of a gather's operand, indices and result.

    The last axis of the indices holds index vectors; its other axes are batch axes.

    Attributes:
      offset_dims: axes of the result that run inside a window, increasing.
      collapsed_slice_dims: axes of the operand, increasing, along which windows have size 1
        and which the result does not have.
      start_index_map: for each component of an index vector the axis of the operand that it
        indexes.
      operand_batching_dims: axes of the operand, increasing, that are batch axes of the
        indices as well: window `b` is taken at position `b` along them.
      start_indices_batching_dims: the axes of the indices that these correspond to.

    Source: StableHLO `gather`.

    Example:
      >>> numbers = lax.GatherDimensionNumbers(
      ...     offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
      >>> lax.gather(jnp.array([5, 6, 7]), jnp.array([[2], [0]]), numbers, slice_sizes=(1,))
      Array([7, 5], dtype=int32)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@pickled_by("gather_scatter_mode_v1")
class GatherScatterMode(enum.Enum):
    """The treatment of windows that are not entirely inside the operand.

    Attributes:
      CLIP: they are moved to the nearest place inside.
      FILL_OR_DROP: gather returns a fill value for the whole window, scatter drops it.
      PROMISE_IN_BOUNDS: the user promises that all are inside; results are undefined otherwise.
      ONE_HOT: indexing as a product with a one-hot matrix; only for NumPy-like indexing.

    Example:
      >>> lax.GatherScatterMode.from_any("clip")
      <GatherScatterMode.CLIP: 1>
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    # Members are parts of cache keys; Enum's own hash is a slow Python function.
    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode that a `mode` argument stands for; None is `FILL_OR_DROP`.

        Raises:
          ValueError: the argument is invalid.
        """
        if isinstance(s, GatherScatterMode):
            return s
        mode = _MODES.get(s)
        if mode is None:
            listed = ", ".join(repr(name) for name in _MODES if name)
            msg = f"unknown gather or scatter mode {s!r}; known are {listed}."
            raise ValueError(msg)
        return mode


_MODES: dict[Any, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP, "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP, "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT}
_FILL = GatherScatterMode.FILL_OR_DROP


def check_axes(name: str, argument: str, axes: Sequence[int], ndim: int, *, increasing: bool
               ) -> None:
    """Refuses malformed lists of axes among the dimension numbers."""
    if any(not 0 <= a < ndim for a in axes):
        msg = f"{name}: {argument} {axes} must be in [0, {ndim})."
    elif len(set(axes)) != len(axes):
        msg = f"{name}: {argument} {axes} must not repeat an axis."
    elif increasing and list(axes) != sorted(axes):
        msg = f"{name}: {argument} {axes} must be sorted."
    else:
        return
    raise TypeError(msg)


def check_indices(name: str, argument: str, indices: ShapedArray, index_map: Sequence[int],
                  operand: ShapedArray, map_name: str) -> None:
    """Refuses index vectors that do not fit the operand."""
    if not dtypes.is_integer(indices.dtype):
        msg = f"{name}: {argument} must have an integer dtype, not {indices.dtype}."
        raise ValueError(msg)
    if not indices.shape:
        msg = (f"{name}: {argument} must have a last axis that holds index vectors; got a "
               "scalar. Give a single index the shape (1,).")
        raise TypeError(msg)
    if len(index_map) != indices.shape[-1]:
        msg = (f"{name}: {map_name} {index_map} must name one axis of the operand for each "
               f"component of the index vectors; {argument} of shape {indices.shape} has "
               f"{indices.shape[-1]} in its last axis.")
        raise TypeError(msg)
    check_axes(name, map_name, index_map, operand.ndim, increasing=False)


def check_batching(name: str, operand: ShapedArray, indices: ShapedArray, dims: Sequence[int],
                   index_dims: Sequence[int], exclusive: dict[str, Sequence[int]]) -> None:
    """Refuses batching dims of operand and indices that do not correspond.

    Args:
      name: the operation's name.
      operand: its type.
      indices: their type.
      dims: batching dims of the operand.
      index_dims: batching dims of the indices.
      exclusive: other lists of axes of the operand, by name, that must not share any.
    """
    check_axes(name, "operand_batching_dims", dims, operand.ndim, increasing=True)
    check_axes(name, "the batching dims of the indices", index_dims, indices.ndim - 1,
               increasing=False)
    for other, axes in exclusive.items():
        if not set(axes).isdisjoint(dims):
            msg = (f"{name}: {other} {axes} and operand_batching_dims {dims} must have no axis "
                   "in common.")
            raise TypeError(msg)
    sizes = tuple(operand.shape[d] for d in dims)
    index_sizes = tuple(indices.shape[d] for d in index_dims)
    if sizes != index_sizes:
        msg = (f"{name}: the operand's batching dims {dims} have sizes {sizes}, those of the "
               f"indices {index_dims} have sizes {index_sizes}; they must be equal.")
        raise TypeError(msg)


# ---- gather ----------------------------------------------------------------------------

gather_p = EnginePrimitive("gather", params={
    "dimension_numbers": GatherDimensionNumbers, "slice_sizes": Ints, "indices_are_sorted": bool,
    "unique_indices": bool, "mode": GatherScatterMode, "fill_value": Any},
    structural=True, exact_params=("fill_value",))


@gather_p.def_abstract_eval
def _gather_type(operand: Any, indices: Any, *, dimension_numbers: GatherDimensionNumbers,
                 slice_sizes: tuple[int, ...], indices_are_sorted: bool, unique_indices: bool,
                 mode: GatherScatterMode, fill_value: Any) -> ShapedArray:
    offset, collapsed, index_map, batching, index_batching = dimension_numbers
    check_indices("gather", "start_indices", indices, index_map, operand, "start_index_map")
    check_axes("gather", "offset_dims", offset, len(offset) + indices.ndim - 1, increasing=True)
    check_axes("gather", "collapsed_slice_dims", collapsed, operand.ndim, increasing=True)
    check_batching("gather", operand, indices, batching, index_batching,
                   {"collapsed_slice_dims": collapsed, "start_index_map": index_map})
    _check_windows(operand, indices, slice_sizes, dimension_numbers)
    window = iter(n for i, n in enumerate(slice_sizes)
                  if i not in collapsed and i not in batching)
    batch = iter(indices.shape[:-1])
    shape = tuple(next(window) if i in offset else next(batch)
                  for i in range(len(offset) + indices.ndim - 1))
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def _check_windows(operand: ShapedArray, indices: ShapedArray, slice_sizes: tuple[int, ...],
                   dims: GatherDimensionNumbers) -> None:
    if len(slice_sizes) != operand.ndim:
        msg = (f"gather: slice_sizes {slice_sizes} must have one size per axis of the operand, "
               f"of shape {operand.shape}.")
        raise TypeError(msg)
    collapsed, batching = dims.collapsed_slice_dims, dims.operand_batching_dims
    if operand.ndim != len(dims.offset_dims) + len(collapsed) + len(batching):
        msg = (f"gather: each of the {operand.ndim} axes of the operand must be one of "
               f"collapsed_slice_dims {collapsed}, of operand_batching_dims {batching}, or have "
               f"its place in offset_dims {dims.offset_dims}.")
        raise TypeError(msg)
    if 0 not in indices.shape[:-1] and any(
            not 0 <= n <= size for n, size in zip(slice_sizes, operand.shape, strict=True)):
        msg = (f"gather: slice_sizes {slice_sizes} must be in the range from 0 to the sizes of "
               f"the operand, {operand.shape}.")
        raise TypeError(msg)
    if any(slice_sizes[d] != 1 for d in collapsed):
        msg = (f"gather: slice_sizes {slice_sizes} must be 1 along the collapsed_slice_dims "
               f"{collapsed}.")
        raise TypeError(msg)
    if any(slice_sizes[d] > 1 for d in batching):
        msg = (f"gather: slice_sizes {slice_sizes} must be 1, or 0, along the "
               f"operand_batching_dims {batching}.")
        raise TypeError(msg)


@gather_p.def_lowering
def _gather_lowering(ctx: Any, operand: Any, indices: Any, *,
                     dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...],
                     indices_are_sorted: bool, unique_indices: bool, mode: GatherScatterMode,
                     fill_value: Any) -> Any:
    aval, indices_aval = ctx.avals_in
    out_aval = ctx.avals_out[0]
    if out_aval.size == 0:
        return [full(0, out_aval)]
    mask = None
    if mode is _FILL:
        indices, indices_aval = signed_indices(indices, indices_aval, aval)
        limits = [aval.shape[d] - slice_sizes[d] for d in dimension_numbers.start_index_map]
        mask = _inside(indices, indices_aval, limits)
    else:
        indices, indices_aval = widen_indices(indices, indices_aval)
    offset, collapsed, index_map, batching, index_batching = map(list, dimension_numbers)
    dims = hlo.GatherDimensionNumbers.get(
        offset_dims=offset, collapsed_slice_dims=collapsed, start_index_map=index_map,
        operand_batching_dims=batching, start_indices_batching_dims=index_batching,
        index_vector_dim=indices_aval.ndim - 1)
    attributes = {"dimension_numbers": dims,
                  "indices_are_sorted": ir.BoolAttr.get(indices_are_sorted)}
    if is_constant_shape(slice_sizes):
        out = op("stablehlo.gather", ctx.out_types, [operand, indices],
                 {**attributes, "slice_sizes": dense_i64(slice_sizes)})
    else:
        out = op("stablehlo.dynamic_gather", ctx.out_types,
                 [operand, indices, shape_ir(slice_sizes)], attributes)
    if mask is None:
        # XLA itself clamps windows.
        return out
    batch = [i for i in range(out_aval.ndim) if i not in offset]
    mask = broadcast_ir(ir_type(out_aval.update(dtype=np.dtype(bool))), out_aval.shape, mask, batch)
    return [hlo.select(mask, out[0], full(fill_value, out_aval))]


def widen_indices(indices: Any, aval: ShapedArray) -> tuple[Any, ShapedArray]:
    """Emits indices in at least 32 bits, and their type: XLA's bounds wrap around in fewer."""
    if aval.dtype.itemsize >= 4:
        return indices, aval
    return _converted(indices, aval, np.int32)


def signed_indices(indices: Any, aval: ShapedArray, operand: ShapedArray) -> Any:
    """Emits indices in a signed dtype that holds them and the operand's sizes; and their type.

    Unsigned indices that are too great for it become negative, which is also out of bounds.
    """
    wide = aval.dtype.itemsize == 8 or any(beyond(n, 2**31 - 1) for n in operand.shape)
    return _converted(indices, aval, np.int64 if wide else np.int32)


def _converted(indices: Any, aval: ShapedArray, dtype: Any) -> tuple[Any, ShapedArray]:
    if aval.dtype == dtype:
        return indices, aval
    aval = aval.update(dtype=np.dtype(dtype))
    return op("stablehlo.convert", [ir_type(aval)], [indices])[0], aval


def _inside(indices: Any, aval: ShapedArray, limits: Sequence[int]) -> Any:
    """Emits, for each index vector, whether all its components are in [0, limit]."""
    bound = broadcast_ir(ir_type(aval), aval.shape, values_ir(limits, aval.dtype), [aval.ndim - 1])
    each = hlo.and_(compare_ir(indices, full(0, aval), "GE", aval.dtype),
                    compare_ir(indices, bound, "LE", aval.dtype))
    out_type = ir_type(ShapedArray(aval.shape[:-1], np.dtype(bool)))
    return reduce_ir(out_type, each, np.dtype(bool), [aval.ndim - 1], True, hlo.and_)


@gather_p.def_jvp
def _gather_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand, indices = primals
    out = gather_p.bind(operand, indices, **params)
    if type(tangents[0]) is Zero:
        return out, zero_tangent(out)
    if params["mode"] is _FILL:
        # The fill value does not depend on the operand.
        params = params | {"fill_value": 0}
    return out, gather_p.bind(tangents[0], indices, **params)


@gather_p.def_batch
def batch_gather(args: Any, dims: Any, *, dimension_numbers: GatherDimensionNumbers,
                  slice_sizes: tuple[int, ...], indices_are_sorted: bool, unique_indices: bool,
                  **params: Any) -> Any:
    """Leaves the batch axis where it is in the operand and the indices."""
    (operand, indices), (dim, index_dim) = args, dims
    offset, collapsed, index_map, batching, index_batching = dimension_numbers
    if index_dim is not None and index_dim == typeof(indices).ndim - 1:
        indices, index_dim = moveaxis(indices, index_dim, 0), 0
    if index_dim is None:
        # Windows span the whole batch axis; its position among the window's axes is given.
        before = sum(d < dim and d not in collapsed and d not in batching
                     for d in range(len(slice_sizes)))
        out_dim = offset[before - 1] + 1 if before else 0
        offset = insert(shift_axes(offset, out_dim), before, out_dim)
        slice_sizes = insert(slice_sizes, dim, typeof(operand).shape[dim])
    else:
        # After the batch axis that it follows in the indices.
        free = [i for i in range(len(offset) + typeof(indices).ndim - 2) if i not in offset]
        out_dim = free[index_dim - 1] + 1 if index_dim else 0
        offset = shift_axes(offset, out_dim)
        index_batching = shift_axes(index_batching, index_dim)
    if dim is not None:
        collapsed, index_map, batching = [
            shift_axes(axes, dim) for axes in (collapsed, index_map, batching)]
    if index_dim is not None and dim is not None:
        size = typeof(operand).shape[dim]
        slice_sizes = insert(slice_sizes, dim, min(size, 1))
        place = sum(d < dim for d in batching)
        batching = insert(batching, place, dim)
        index_batching = insert(index_batching, place, index_dim)
        indices_are_sorted = indices_are_sorted and dim == index_dim == 0
    elif dim is None:
        # Several elements of the batch may read the same place.
        indices_are_sorted = unique_indices = False
    out = gather_p.bind(
        operand, indices, dimension_numbers=GatherDimensionNumbers(
            offset, collapsed, index_map, batching, index_batching),
        slice_sizes=slice_sizes, indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices, **params)
    return out, out_dim


@boundary
def gather(operand: Any, start_indices: Any, dimension_numbers: GatherDimensionNumbers,
           slice_sizes: Sequence[int], *, unique_indices: bool = False,
           indices_are_sorted: bool = False, mode: str | GatherScatterMode | None = None,
           fill_value: Any = None) -> Any:
    """Reads windows of one size at computed places, and stacks them.

    Args:
      operand: array.
      start_indices: integer array; its last axis holds the index vectors, each the lowest
        corner of a window.
      dimension_numbers: which axes of operand, indices and result belong together.
      slice_sizes: size of the windows, one per axis of the operand.
      unique_indices: a promise that no element is read twice; it makes the gradient faster.
      indices_are_sorted: a promise that the index vectors increase lexicographically.
      mode: what happens to windows that are not entirely inside: `"clip"`, `"fill"` or
        `"promise_in_bounds"`, the default; see `GatherScatterMode`.
      fill_value: the value that `"fill"` returns; by default NaN for inexact dtypes, the lowest
        value for signed, the highest for unsigned integers, True for bool.

    Returns:
      An array of the operand's dtype. Its axes `dimension_numbers.offset_dims` run inside the
      windows, the others over the batch axes of the indices.

    Raises:
      TypeError: the dimension numbers, sizes and shapes do not fit.
      ValueError: the indices are not integers, or the mode is unknown.

    Source: StableHLO `gather`.

    Example:
      >>> dims = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,),
      ...                                   start_index_map=(0,))
      >>> x = jnp.array([[0, 1], [2, 3], [4, 5]])
      >>> lax.gather(x, jnp.array([[2], [0]]), dims, slice_sizes=(1, 2))
      Array([[4, 5],
             [0, 1]], dtype=int32)
    """
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if mode is _FILL:
        fill_value = _fill_value(typeof(operand).dtype, fill_value)
    elif mode is GatherScatterMode.ONE_HOT:
        msg = "gather has no mode 'one_hot': it belongs to NumPy-like indexing, x.at[...].get."
        raise ValueError(msg)
    else:
        fill_value = None
    return gather_p.bind(
        operand, start_indices, dimension_numbers=dimension_numbers,
        slice_sizes=tuple(map(index, slice_sizes)),
        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
        mode=mode, fill_value=fill_value)


def _fill_value(dtype: Any, value: Any) -> Any:
    if value is not None:
        if dtypes.is_integer(dtype) and not isinstance(value, (complex, np.complexfloating)):
            # Cast as NumPy does: fractions are cut off, ints wrap around, NaN is not an error.
            with np.errstate(invalid="ignore"):
                return int(np.asarray(value).astype(dtype))
        # NaNs are equal only if they are one object; params are parts of cache keys.
        is_nan = isinstance(value, (float, np.floating)) and np.isnan(value)
        return np.nan if is_nan else value
    kind = dtypes.kind(dtype)
    if kind in "fc":
        return np.nan
    if kind == "X":
        return int(np.iinfo(dtype.element_dtype).max)
    if kind == "b":
        return True
    info = ml_dtypes.iinfo(dtype)
    return int(info.min if kind == "i" else info.max)


# ---- common gathers --------------------------------------------------------------------


def take_on_axis(operand: Any, indices: Any, axis: int, **options: Any) -> Any:
    """`numpy.take`: the result has the axes of the indices in place of one of the operand's.

    Args:
      operand: array.
      indices: integer array of any shape; negative ones are out of bounds.
      axis: the axis of the operand that is indexed.
      options: keyword arguments of `gather`.
    """
    shape, index_shape = np.shape(operand), np.shape(indices)
    axis = canonicalize_axis(axis, len(shape))
    rank = len(index_shape)
    offset = (*range(axis), *range(axis + rank, len(shape) - 1 + rank))
    return gather(operand, reshape(indices, (*index_shape, 1)),
                  GatherDimensionNumbers(offset, (axis,), (axis,)),
                  (*shape[:axis], 1, *shape[axis + 1 :]), **options)


def take_along_axis(operand: Any, indices: Any, axis: int, **options: Any) -> Any:
    """`numpy.take_along_axis`: along one axis, each row is read at its own indices.

    Args:
      operand: array of shape `(..., n, ...)`.
      indices: integer array of shape `(..., m, ...)`, where the other axes agree or have
        size 1 in one of the two; negative indices are out of bounds.
      axis: the axis of sizes `n` and `m`.
      options: keyword arguments of `gather`.

    Returns:
      An array of shape `(..., m, ...)`.
    """
    shape, index_shape = np.shape(operand), np.shape(indices)
    axis = canonicalize_axis(axis, len(shape))
    collapsed, batching = [axis], list[int]()
    offset, index_batching, kept = list[int](), list[int](), list[int]()
    for i, (n, m) in enumerate(zip(shape, index_shape, strict=True)):
        if i != axis and m == 1 and n != 1:
            offset.append(i)
            continue
        if i != axis and n == 1:
            collapsed.append(i)
        elif i != axis:
            batching.append(i)
            index_batching.append(len(kept))
        kept.append(m)
    dims = GatherDimensionNumbers(tuple(offset), tuple(sorted(collapsed)), (axis,),
                                  tuple(batching), tuple(index_batching))
    sizes = tuple(n if i in offset else 1 for i, n in enumerate(shape))
    return gather(operand, reshape(indices, (*kept, 1)), dims, sizes, **options)

