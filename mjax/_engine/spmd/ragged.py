"""Pieces of different lengths sent between the elements along named axes: ragged_all_to_all.

CPU clients do not have the operation. All operands are gathered, and each row of a result is read
from the last piece that covers it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.dtypes import is_integer
from mjax._engine.ir.schema import AxisNames
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import add, bitwise_and, ge, lt, max, mul, sub
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.gather import GatherScatterMode, take_on_axis
from mjax._engine.primitives.iota import broadcasted_iota, iota
from mjax._engine.primitives.reductions import reduce_max
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter_add
from mjax._engine.primitives.select import select
from mjax._engine.primitives.shapes import (
    batch_to_front,
    broadcast_in_dim,
    expand_dims,
    full,
    moveaxis,
    reshape,
    zeros_of,
)
from mjax._engine.primitives.tangents import zero_tangent
from mjax._engine.spmd.axes import (
    Batched,
    Groups,
    Names,
    check_types,
    checked_groups,
    collective,
    names_of,
    parties,
    require_varying,
)
from mjax._engine.spmd.exchanges import all_to_all
from mjax._engine.spmd.gathers import gather, merge_axes, reduce_scatter_p
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, batch_flat

_NAME = "ragged_all_to_all"
_VECTORS = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")

ragged_all_to_all_p = collective(_NAME, {
    "axis_name": AxisNames, "axis_index_groups": Groups | None})

# ---- type ------------------------------------------------------------------------------


@ragged_all_to_all_p.def_abstract_eval
def _ragged_type(operand: Any, output: Any, *vectors: Any, axis_name: Names,
                 axis_index_groups: Groups | None) -> ShapedArray:
    count = parties(_NAME, axis_name, axis_index_groups)
    for x in (operand, output, *vectors):
        require_varying(_NAME, x, axis_name)
    if not operand.shape or operand.shape[1:] != output.shape[1:] or not output.shape or (
            operand.dtype != output.dtype):
        msg = (f"{_NAME}: operand and output must be alike in dtype, and in shape but for the "
               f"first axis, got {operand} and {output}.")
        raise ValueError(msg)
    size = vectors[0].shape[0] if vectors[0].shape else 0
    for name, vector in zip(_VECTORS, vectors, strict=True):
        if not is_integer(vector.dtype) or vector.shape != (size,) or not size or size % count:
            msg = (f"{_NAME}: {name} must be a vector of integers, as long as the other three, "
                   f"with a multiple of {count} elements, as many as there are along "
                   f"{axis_name}; got {vector}.")
            raise ValueError(msg)
    return ShapedArray(output.shape, output.dtype)


# ---- the result of an element ----------------------------------------------------------


def _plan(rows: int, length: int, vectors: Any, axis_name: Names, groups: Groups | None
          ) -> tuple[Any, Any]:
    """For each row of a result, whether a piece covers it, and its row among all operands.

    Args:
      rows: the number of rows of the result.
      length: the number of rows of each operand.
      vectors: offsets and sizes, in the form of `ragged_all_to_all`.
      axis_name: the axes.
      groups: the groups.
    """
    kind = np.dtype(np.int64 if any(typeof(v).dtype.itemsize == 8 for v in vectors) else np.int32)
    starts, _, places, sizes = (convert(v, kind) for v in vectors)
    starts, places = (all_to_all(v, axis_name, 0, 0, tiled=True, axis_index_groups=groups)
                      for v in (starts, places))
    pieces = typeof(sizes).shape[0]
    table = (pieces, rows)
    row = broadcasted_iota(kind, table, 1)
    covers = bitwise_and(ge(row, broadcast_in_dim(places, table, (0,))),
                         lt(row, broadcast_in_dim(add(places, sizes), table, (0,))))
    piece = reduce_max(select(covers, broadcasted_iota(kind, table, 0), full(table, -1, kind)),
                       (0,))
    each = pieces // parties(_NAME, axis_name, groups)
    sender = np.arange(pieces, dtype=kind) // each
    shifts = add(sub(starts, places), mul(sender, kind.type(length)))
    shift = take_on_axis(shifts, max(piece, kind.type(0)), 0,
                         mode=GatherScatterMode.PROMISE_IN_BOUNDS)
    return ge(piece, kind.type(0)), add(iota(kind, rows), shift)


def _along_rows(mask: Any, x: Any) -> Any:
    return broadcast_in_dim(mask, typeof(x).shape, (0,))


def _exchanged(operand: Any, output: Any, *vectors: Any, axis_name: Names,
               axis_index_groups: Groups | None) -> Any:
    rows, length = typeof(output).shape[0], typeof(operand).shape[0]
    if not rows or not length:
        return output
    received, row = _plan(rows, length, vectors, axis_name, axis_index_groups)
    sent = merge_axes(gather(operand, axis_name, 0, False, axis_index_groups), 0)
    found = take_on_axis(sent, row, 0, mode=GatherScatterMode.CLIP)
    return select(_along_rows(received, output), found, output)


ragged_all_to_all_p.def_lowering(traced(_exchanged))

# ---- derivatives -----------------------------------------------------------------------


@ragged_all_to_all_p.def_jvp
def _ragged_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = ragged_all_to_all_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents[:2]):
        return out, zero_tangent(out)
    dots = [zeros_of(t.aval) if type(t) is Zero else t for t in tangents[:2]]
    return out, ragged_all_to_all_p.bind(*dots, *primals[2:], **params)


@ragged_all_to_all_p.def_transpose
def _ragged_transpose(ct: Any, operand: Any, output: Any, *vectors: Any, axis_name: Names,
                      axis_index_groups: Groups | None) -> Any:
    # Rows that are sent twice get a sum, so the transpose is not another such exchange.
    params: dict[str, Any] = {"axis_name": axis_name, "axis_index_groups": axis_index_groups}
    rows = typeof(ct).shape[0]
    length = (operand.aval if type(operand) is UndefinedPrimal else typeof(operand)).shape[0]
    back: list[Any] = [None] * 6
    if not rows or not length:
        back[1] = ct
        if type(operand) is UndefinedPrimal:
            back[0] = Zero(operand.aval)
        return back
    received, row = _plan(rows, length, vectors, axis_name, axis_index_groups)
    mask, zeros = _along_rows(received, ct), zeros_of(typeof(ct))
    if type(output) is UndefinedPrimal:
        back[1] = select(mask, zeros, ct)
    if type(operand) is UndefinedPrimal:
        count = parties(_NAME, axis_name, axis_index_groups)
        shape = (count * length, *typeof(ct).shape[1:])
        numbers = ScatterDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,))
        sums = scatter_add(zeros_of(typeof(ct).update(shape=shape)), expand_dims(row, (1,)),
                           select(mask, ct, zeros), numbers, mode=GatherScatterMode.CLIP)
        back[0] = reduce_scatter_p.bind(
            reshape(sums, (count, length, *shape[1:])), scatter_dimension=0, axis_size=count,
            tiled=False, **params)
    return back


# ---- batches ---------------------------------------------------------------------------


@ragged_all_to_all_p.def_axis_batch
def _ragged_batch(axis: AxisData, args: Any, dims: Any, *, axis_name: Names,
                  axis_index_groups: Groups | None) -> Batched:
    params: dict[str, Any] = {"axis_name": axis_name, "axis_index_groups": axis_index_groups}
    check_types(ragged_all_to_all_p, args, dims, params)
    if axis.name in axis_name:
        (out,), (out_dim,) = batch_flat(lambda *xs: [_exchanged(*xs, **params)], axis, args, dims)
        return out, out_dim
    # The elements of the batch are consecutive, and each has pieces of its own. Pieces of all
    # elements for the same receiver are grouped together.
    operand, output, starts, send, places, receive = (
        batch_to_front(x, d, axis.size) for x, d in zip(args, dims, strict=True))
    if axis.size == 0:
        return output, 0

    def shifted(offsets: Any, rows: int) -> Any:
        kind = typeof(offsets).dtype
        steps = mul(broadcasted_iota(kind, typeof(offsets).shape, 0), kind.type(rows))
        return add(offsets, steps)

    vectors = (shifted(starts, typeof(operand).shape[1]), send,
               shifted(places, typeof(output).shape[1]), receive)
    out = ragged_all_to_all_p.bind(
        merge_axes(operand, 0), merge_axes(output, 0),
        *(merge_axes(moveaxis(v, 0, 1), 0) for v in vectors), **params)
    return reshape(out, typeof(output).shape), 0


@boundary
def ragged_all_to_all(operand: Any, output: Any, input_offsets: Any, send_sizes: Any,
                      output_offsets: Any, recv_sizes: Any, *, axis_name: Any,
                      axis_index_groups: Any = None) -> Any:
    """Sends pieces of different lengths from each element along a named axis to each.

    A piece is a run of rows. With k pieces and p elements, `k // p` pieces from `j * k // p` on go
    to element `j`. The last one of overlapping pieces counts.

    Args:
      operand: array of shape `(n, ...)`, the rows to send.
      output: array of shape `(m, ...)` of the same dtype, the rows that no piece covers.
      input_offsets: integers of shape `(k,)`: the first row of each piece in `operand`.
      send_sizes: integers of shape `(k,)`: the number of rows of each piece.
      output_offsets: integers of shape `(k,)`: the place of each piece in its receiver's result.
      recv_sizes: integers of shape `(k,)`: the number of rows of each received piece, the
        `all_to_all` of `send_sizes`.
      axis_name: the name of an axis in scope, or a tuple of names.
      axis_index_groups: lists of indices along the axis; pieces are exchanged within each.

    Returns:
      An array of shape `(m, ...)`.

    Raises:
      NameError: no such axis is in scope.
      ValueError: shapes or dtypes that do not fit.

    Example:
      >>> def swap(x, sizes):
      ...     places = jnp.full(2, lax.axis_index('i'))
      ...     return lax.ragged_all_to_all(x, 0 * x, jnp.arange(2), sizes, places, sizes,
      ...                                  axis_name='i')
      >>> mjax.vmap(swap, (0, None), axis_name='i')(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    names = names_of(axis_name)
    return ragged_all_to_all_p.bind(
        operand, output, input_offsets, send_sizes, output_offsets, recv_sizes, axis_name=names,
        axis_index_groups=checked_groups(_NAME, names, axis_index_groups))


__all__ = ["ragged_all_to_all", "ragged_all_to_all_p"]
