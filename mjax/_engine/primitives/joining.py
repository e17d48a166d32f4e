"""Joining and splitting arrays: concatenate, split, stack, unstack, tile."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.types import ShapedArray, has_array_type, typeof
from mjax._engine.primitives.along_axis import batched_alike, define_batching_along
from mjax._engine.primitives.emit import (
    broadcast_ir,
    hlo,
    i64_attr,
    in_bytes,
    ir_type,
    op,
    reshape_ir,
    slice_ir,
)
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import check_axis, insert, reduce_sum, reshape
from mjax._engine.primitives.tangents import aval_of, define_jointly_linear, instantiate
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import UndefinedPrimal


def _check_same(name: str, operands: Sequence[ShapedArray]) -> None:
    if not operands:
        msg = f"{name} needs at least one operand."
        raise TypeError(msg)
    if any(o.dtype != operands[0].dtype for o in operands):
        msg = (f"{name} requires arguments to have the same dtypes, got "
               f"{', '.join(str(o.dtype) for o in operands)}. (The function of mjax.numpy "
               "promotes its arguments.)")
        raise TypeError(msg)


def _weak(operands: Sequence[ShapedArray]) -> bool:
    return all(o.weak_type for o in operands)


def _concatenate_ir(out_type: Any, values: Sequence[Any], dimension: int) -> Any:
    return op("stablehlo.concatenate", [out_type], list(values),
              {"dimension": i64_attr(dimension)})[0]


# ---- concatenate -----------------------------------------------------------------------

concatenate_p = EnginePrimitive("concatenate", params={"dimension": int}, structural=True)
concatenate_p._narrow = False  # it takes any number of operands


@concatenate_p.def_abstract_eval
def _concatenate_type(*operands: Any, dimension: int) -> ShapedArray:
    _check_same("concatenate", operands)
    first = operands[0]
    if not 0 <= dimension < first.ndim:
        msg = (f"concatenate: dimension {dimension} is not an axis of operands of shape "
               f"{first.shape}.")
        raise TypeError(msg)
    before, after = first.shape[:dimension], first.shape[dimension + 1 :]
    if any(o.ndim != first.ndim or o.shape[:dimension] != before
           or o.shape[dimension + 1 :] != after for o in operands):
        msg = (f"cannot concatenate arrays of shapes {', '.join(str(o.shape) for o in operands)} "
               f"along axis {dimension}: all other axes must have equal sizes.")
        raise TypeError(msg)
    total = sum(o.shape[dimension] for o in operands)
    return ShapedArray((*before, total, *after), first.dtype, _weak(operands))


@concatenate_p.def_lowering
def _concatenate_lowering(ctx: Any, *operands: Any, dimension: int) -> Any:
    mctx, out = ctx.module_context, ctx.avals_out[0]
    values, avals = mctx.whole_along(dimension, operands), list(ctx.avals_in)
    wide, out_type = in_bytes(out), ctx.out_types[0]
    if wide is not out:
        avals, out_type = list(map(in_bytes, avals)), ir_type(wide)
        values = [hlo.convert(ir_type(a), v) for a, v in zip(avals, values, strict=True)]
    # XLA compiles very many operands at once slowly; a tree of small ones runs as fast.
    while len(values) > 16:
        groups = [slice(i, i + 16) for i in range(0, len(values), 16)]
        joined = [wide.update(shape=(*out.shape[:dimension],
                                     sum(a.shape[dimension] for a in avals[g]),
                                     *out.shape[dimension + 1 :])) for g in groups]
        values = [_concatenate_ir(ir_type(a), values[g], dimension)
                  for a, g in zip(joined, groups, strict=True)]
        avals = joined
    result = _concatenate_ir(out_type, values, dimension)
    return mctx.whole_along(dimension, [
        result if wide is out else hlo.convert(ctx.out_types[0], result)])


@concatenate_p.def_transpose
def _concatenate_transpose(ct: Any, *operands: Any, dimension: int) -> Any:
    undefined = [type(o) is UndefinedPrimal for o in operands]
    sizes = tuple(aval_of(o).shape[dimension] for o in operands)
    parts = split_p.bind(ct, sizes=sizes, axis=dimension)
    return [p if u else None for p, u in zip(parts, undefined, strict=True)]


define_jointly_linear(concatenate_p, slice(None))
define_batching_along(concatenate_p, "dimension")


@boundary
def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Joins arrays along one of their axes.

    Args:
      operands: arrays of one dtype, of equal shapes except along that axis; at least one.
      dimension: the axis.

    Returns:
      An array of their dtype; the operand itself if there is only one.

    Raises:
      TypeError: shapes or dtypes do not fit.
      ValueError: the sequence of operands is empty.

    Source: StableHLO `concatenate`.

    Example:
      >>> lax.concatenate([jnp.array([1, 2]), jnp.array([3])], 0)
      Array([1, 2, 3], dtype=int32)
    """
    if len(operands) == 0:
        msg = "concatenate needs at least one array."
        raise ValueError(msg)
    if len(operands) == 1 and has_array_type(operands[0]):
        return operands[0]
    return concatenate_p.bind(*operands, dimension=operator.index(dimension))


# ---- split -----------------------------------------------------------------------------

split_p = EnginePrimitive("split", params={
    "sizes": Ints, "axis": int}, multiple_results=True, structural=True)


@split_p.def_abstract_eval
def _split_type(x: Any, *, sizes: tuple[int, ...], axis: int) -> list[ShapedArray]:
    check_axis("split", x, axis)
    if any(n < 0 for n in sizes) or sum(sizes) != x.shape[axis]:
        msg = (f"split: sizes {sizes} must not be negative and must sum up to {x.shape[axis]}, "
               f"the size of axis {axis} of an operand of shape {x.shape}.")
        raise ValueError(msg)
    return [ShapedArray((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, x.weak_type)
            for n in sizes]


def _parts_ir(x: Any, aval: ShapedArray, sizes: Sequence[int], axis: int) -> list[Any]:
    """Emits the pieces of these sizes along an axis."""
    start, outs = [0] * aval.ndim, []
    for n in sizes:
        shape = (*aval.shape[:axis], n, *aval.shape[axis + 1 :])
        limit = [*aval.shape[:axis], start[axis] + n, *aval.shape[axis + 1 :]]
        outs.append(slice_ir(ir_type(aval.update(shape=shape)), x, start, limit, [1] * aval.ndim))
        start[axis] += n
    return outs


@split_p.def_lowering
def _split_lowering(ctx: Any, x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    return _parts_ir(x, ctx.avals_in[0], sizes, axis)


define_linear(split_p, lambda cts, x, *, sizes, axis: concatenate_p.bind(
    *map(instantiate, cts), dimension=axis))
define_batching_along(split_p, "axis")


@boundary
def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> Sequence[Any]:
    """Cuts an array along an axis.

    Args:
      operand: array with at least one axis.
      sizes: sizes of the pieces, which sum up to that of the axis.
      axis: the axis.

    Returns:
      A list of arrays, one for each size.

    Raises:
      ValueError: the sizes do not sum up, or the axis is out of range.

    Example:
      >>> lax.split(jnp.array([1, 2, 3]), (1, 2))
      [Array([1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return split_p.bind(operand, sizes=tuple(map(operator.index, sizes)),
                        axis=canonicalize_axis(axis, typeof(operand).ndim))


# ---- stack, unstack --------------------------------------------------------------------

stack_p = EnginePrimitive("stack", params={"axis": int}, structural=True)
stack_p._narrow = False  # it takes any number of operands
unstack_p = EnginePrimitive("unstack", params={"axis": int}, multiple_results=True, structural=True)


@stack_p.def_abstract_eval
def _stack_type(*operands: Any, axis: int) -> ShapedArray:
    _check_same("stack", operands)
    first = operands[0]
    if any(o.shape != first.shape for o in operands):
        msg = (f"cannot stack arrays of shapes {', '.join(str(o.shape) for o in operands)}: they "
               "must be equal.")
        raise TypeError(msg)
    if not 0 <= axis <= first.ndim:
        msg = f"stack: axis {axis} must be in [0, {first.ndim}] for operands of {first.ndim} axes."
        raise TypeError(msg)
    return ShapedArray(insert(first.shape, axis, len(operands)), first.dtype, _weak(operands))


@stack_p.def_lowering
def _stack_lowering(ctx: Any, *operands: Any, axis: int) -> Any:
    avals = [a.update(shape=insert(a.shape, axis, 1)) for a in ctx.avals_in]
    values = [reshape_ir(ir_type(a), a.shape, x)
              for x, a in zip(operands, avals, strict=True)]
    return _concatenate_lowering(ctx.replace(avals_in=avals), *values, dimension=axis)


@stack_p.def_transpose
def _stack_transpose(ct: Any, *operands: Any, axis: int) -> Any:
    return [part if type(o) is UndefinedPrimal else None
            for part, o in zip(unstack_p.bind(ct, axis=axis), operands, strict=True)]


@stack_p.def_batch
def _stack_batch(args: Any, dims: Any, *, axis: int) -> Any:
    args, dim = batched_alike(args, dims)
    # If both new axes have the same neighbours, the batch axis comes first.
    return stack_p.bind(*args, axis=axis + (axis >= dim)), dim + (axis < dim)


define_jointly_linear(stack_p, slice(None))


@unstack_p.def_abstract_eval
def _unstack_type(x: Any, *, axis: int) -> list[ShapedArray]:
    check_axis("unstack", x, axis)
    out = ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], x.dtype, x.weak_type)
    return [out] * x.shape[axis]


@unstack_p.def_lowering
def _unstack_lowering(ctx: Any, x: Any, *, axis: int) -> Any:
    aval = ctx.avals_in[0]
    parts = _parts_ir(x, aval, [1] * aval.shape[axis], axis)
    return [reshape_ir(t, ctx.avals_out[0].shape, part)
            for t, part in zip(ctx.out_types, parts, strict=True)]


define_linear(unstack_p, lambda cts, x, *, axis: stack_p.bind(*map(instantiate, cts), axis=axis))


@unstack_p.def_batch
def _unstack_batch(args: Any, dims: Any, *, axis: int) -> Any:
    dim, axis = dims[0], axis + (axis >= dims[0])
    outs = unstack_p.bind(args[0], axis=axis)
    return outs, [dim - (axis < dim)] * len(outs)


@boundary
def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Joins arrays along a new axis.

    Args:
      operands: arrays of one shape and dtype; at least one.
      axis: the place of the new axis in the result.

    Returns:
      An array of the dtype of the operands.

    Raises:
      TypeError: shapes or dtypes differ.
      ValueError: the sequence of operands is empty, or the axis is out of range.

    Example:
      >>> lax.stack([jnp.array([1, 2]), jnp.array([3, 4])], axis=1)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    if len(operands) == 0:
        msg = "stack needs at least one array."
        raise ValueError(msg)
    axis = canonicalize_axis(axis, typeof(operands[0]).ndim + 1)
    return stack_p.bind(*operands, axis=axis)


@boundary
def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """Splits an array along an axis; the parts do not have that axis.

    Args:
      x: array.
      axis: the axis; negative ones count from the end.

    Returns:
      A tuple of arrays, as many as the size of the axis.

    Raises:
      ValueError: the axis is out of range.

    Example:
      >>> lax.unstack(jnp.array([[1, 2], [3, 4]]), axis=1)
      (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    return tuple(unstack_p.bind(x, axis=canonicalize_axis(axis, typeof(x).ndim)))


# ---- tile ------------------------------------------------------------------------------

tile_p = EnginePrimitive("tile", params={"reps": Ints}, structural=True)


@tile_p.def_abstract_eval
def _tile_type(x: Any, *, reps: tuple[int, ...]) -> ShapedArray:
    if len(reps) != x.ndim or any(r < 0 for r in reps):
        msg = (f"tile: reps {reps} must hold one non-negative number for each axis of the "
               f"operand, of shape {x.shape}.")
        raise TypeError(msg)
    return x.update(shape=tuple(n * r for n, r in zip(x.shape, reps, strict=True)))


def _paired(reps: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for pair in zip(reps, shape, strict=True) for n in pair)


@tile_p.def_lowering
def _tile_lowering(ctx: Any, x: Any, *, reps: tuple[int, ...]) -> Any:
    aval = ctx.avals_in[0]
    repeated = aval.update(shape=_paired(reps, aval.shape))
    x = broadcast_ir(ir_type(repeated), repeated.shape, x, range(1, 2 * aval.ndim, 2))
    return [reshape_ir(ctx.out_types[0], ctx.avals_out[0].shape, x)]


def _tile_transpose(ct: Any, x: Any, *, reps: tuple[int, ...]) -> Any:
    ct = reshape(ct, _paired(reps, x.aval.shape))
    return reduce_sum(ct, tuple(range(0, 2 * x.aval.ndim, 2)))


define_linear(tile_p, _tile_transpose)


@tile_p.def_batch
def _tile_batch(args: Any, dims: Any, *, reps: tuple[int, ...]) -> Any:
    return tile_p.bind(args[0], reps=insert(reps, dims[0], 1)), dims[0]


@boundary
def tile(operand: Any, reps: Sequence[int]) -> Any:
    """Repeats an array along each of its axes.

    Args:
      operand: array of shape `(n_0, n_1, ...)`.
      reps: the number of repetitions along each axis.

    Returns:
      An array of shape `(n_0 * reps[0], n_1 * reps[1], ...)`.

    Raises:
      TypeError: `reps` does not have one number for each axis.

    Example:
      >>> lax.tile(jnp.array([[1, 2]]), (2, 2))
      Array([[1, 2, 1, 2],
             [1, 2, 1, 2]], dtype=int32)
    """
    return tile_p.bind(operand, reps=tuple(map(operator.index, reps)))
