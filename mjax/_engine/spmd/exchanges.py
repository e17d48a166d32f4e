"""Exchanges between the elements along named axes: ppermute, pbroadcast, all_to_all.

Derivatives are those of functions of all elements together: that of a permutation is its inverse.
Over several axes of vmap, operations that cannot be done axis by axis gather first.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.schema import AxisNames, Pairs
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import eq
from mjax._engine.primitives.dynamic_slicing import dynamic_index_in_dim
from mjax._engine.primitives.emit import i64_attr
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.select import select
from mjax._engine.primitives.shapes import (
    batch_to_front,
    broadcast_in_dim,
    expand_dims,
    moveaxis,
    squeeze,
    zeros_of,
)
from mjax._engine.primitives.slicing import index_in_dim
from mjax._engine.spmd.axes import (
    Batched,
    Groups,
    Names,
    axis_size,
    checked_groups,
    collective,
    def_collective_batch,
    mapped,
    names_of,
    parties,
    reorder,
    require_varying,
)
from mjax._engine.spmd.gathers import check_parts, cut_axis, gather, merge_axes, own_part, resize
from mjax._engine.spmd.partitions import emit, partition_groups
from mjax._engine.spmd.reductions import axis_index, psum_p
from mjax._engine.tracing.marked import traced
from mjax._engine.transforms.batching import AxisData

# ---- ppermute, pbroadcast --------------------------------------------------------------

ppermute_p = collective("ppermute", {"axis_name": AxisNames, "perm": Pairs})


@ppermute_p.def_abstract_eval
def _ppermute_type(x: Any, *, axis_name: Names, perm: tuple[tuple[int, int], ...]) -> ShapedArray:
    size = parties("ppermute", axis_name)
    require_varying("ppermute", x, axis_name)
    for what, ends in (("source", [s for s, _ in perm]), ("destination", [d for _, d in perm])):
        if len(set(ends)) != len(ends) or not all(0 <= i < size for i in ends):
            msg = (f"ppermute: perm must hold pairs (source, destination) in which each {what} is "
                   f"an index in [0, {size}) along {axis_name} and stands once, got {perm}.")
            raise ValueError(msg)
    return x


@ppermute_p.def_lowering
def _ppermute_lowering(ctx: Any, x: Any, *, axis_name: Names, perm: Any) -> Any:
    ends = np.array(perm, np.int64).reshape(-1, 2)
    pairs = partition_groups(ctx, axis_name)[:, ends].reshape(-1, 2)
    return [emit(ctx, "collective_permute", ctx.out_types[0], x, pairs, {})]


define_linear(ppermute_p, lambda ct, x, *, axis_name, perm: ppermute_p.bind(
    ct, axis_name=axis_name, perm=tuple((d, s) for s, d in perm)))


@def_collective_batch(ppermute_p)
def _ppermute_batch(axis: AxisData, x: Any, dim: int | None, *, axis_name: Names, perm: Any
                    ) -> Batched:
    size = parties("ppermute", axis_name)
    source_of = {d: s for s, d in perm}
    sources = np.array([source_of.get(i, 0) for i in range(size)], np.int32)
    receives = np.array([i in source_of for i in range(size)])

    def from_all(x: Any) -> Any:
        index = axis_index(axis_name)
        sent = dynamic_index_in_dim(gather(x, axis_name, 0, False),
                                    dynamic_index_in_dim(sources, index, keepdims=False),
                                    keepdims=False)
        return _where(dynamic_index_in_dim(receives, index, keepdims=False), sent)

    if len(axis_name) > 1:
        return mapped(from_all, axis, x, dim)
    out = reorder(batch_to_front(x, dim, size), sources)
    return out if receives.all() else _where(receives, out), 0


def _where(keep: Any, x: Any) -> Any:
    """`x` where a boolean of its leading axes is true, else zeros."""
    mask = broadcast_in_dim(keep, x.shape, tuple(range(np.ndim(keep))))
    return select(mask, x, zeros_of(typeof(x)))


@boundary
def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends values between elements along a named axis.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names, the last of which varies
        fastest.
      perm: pairs `(source, destination)` of indices; each source and each destination occurs in at
        most one. Elements that are not a destination get zeros.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.
      ValueError: `perm` holds an index twice, or one that is out of range.

    Example:
      >>> shift = lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 2)])
      >>> mjax.vmap(shift, axis_name='i')(jnp.array([5, 6, 7]))
      Array([0, 5, 6], dtype=int32)
    """
    pairs = tuple((operator.index(s), operator.index(d)) for s, d in perm)
    return tree_map(
        lambda leaf: ppermute_p.bind(leaf, axis_name=names_of(axis_name), perm=pairs), x)


@boundary
def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Reorders the elements along a named axis: element `i` gets the value of `perm[i]`.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names.
      perm: each index along the axis once.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.
      ValueError: `perm` is not a permutation.

    Example:
      >>> mjax.vmap(lambda x: lax.pshuffle(x, "i", [1, 2, 0]), axis_name="i")(jnp.array([1, 2, 3]))
      Array([2, 3, 1], dtype=int32)
    """
    perm = tuple(map(operator.index, perm))
    if sorted(perm) != list(range(axis_size(axis_name))):
        msg = (f"pshuffle: perm must hold each index from 0 to {axis_size(axis_name) - 1} along "
               f"{axis_name} once, got {perm}.")
        raise ValueError(msg)
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


pbroadcast_p = collective("pbroadcast", {"axis_name": Any, "source": int})


@pbroadcast_p.def_abstract_eval
def _pbroadcast_type(x: Any, *, axis_name: Any, source: int) -> ShapedArray:
    size = parties("pbroadcast", names_of(axis_name))
    require_varying("pbroadcast", x, names_of(axis_name))
    if not 0 <= source < size:
        msg = f"pbroadcast: source {source} is not an index along {axis_name}, of size {size}."
        raise ValueError(msg)
    return x


def _from_source(x: Any, *, axis_name: Any, source: int) -> Any:
    # CPU has no collective_broadcast.
    return index_in_dim(gather(x, names_of(axis_name), 0, False), source, keepdims=False)


pbroadcast_p.def_lowering(traced(_from_source))


def _pbroadcast_transpose(ct: Any, x: Any, *, axis_name: Any, source: int) -> Any:
    total = psum_p.bind(ct, axes=names_of(axis_name), axis_index_groups=None)
    return _where(eq(axis_index(axis_name), np.int32(source)), total)


define_linear(pbroadcast_p, _pbroadcast_transpose)


@def_collective_batch(pbroadcast_p)
def _pbroadcast_batch(axis: AxisData, x: Any, dim: int | None, *, axis_name: Any, source: int
                      ) -> Batched:
    return mapped(lambda x: _from_source(x, axis_name=axis_name, source=source), axis, x, dim)


@boundary
def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Gives all elements along a named axis the value of one of them.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names.
      source: the index of that element.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.
      ValueError: `source` is out of range.

    Example:
      >>> mjax.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(jnp.array([1, 2, 3]))
      Array([2, 2, 2], dtype=int32)
    """
    return tree_map(lambda leaf: pbroadcast_p.bind(
        leaf, axis_name=axis_name, source=operator.index(source)), x)


# ---- all_to_all ------------------------------------------------------------------------

all_to_all_p = collective("all_to_all", {
    "axis_name": Any, "split_axis": int, "concat_axis": int, "tiled": bool,
    "axis_index_groups": Groups | None})


@all_to_all_p.def_abstract_eval
def _all_to_all_type(x: Any, *, split_axis: int, concat_axis: int, axis_name: Any, tiled: bool,
                     axis_index_groups: Groups | None) -> ShapedArray:
    count = parties("all_to_all", names_of(axis_name), axis_index_groups)
    require_varying("all_to_all", x, names_of(axis_name))
    check_parts("all_to_all", x.shape, split_axis, axis_name, count, tiled)
    shape = resize(x.shape, split_axis, x.shape[split_axis] // count)
    shape = resize(shape, concat_axis, shape[concat_axis] * count)
    return ShapedArray(shape, x.dtype, x.weak_type)


@all_to_all_p.def_lowering
def _all_to_all_lowering(ctx: Any, x: Any, *, split_axis: int, concat_axis: int, axis_name: Any,
                         tiled: bool, axis_index_groups: Groups | None) -> Any:
    pairs = partition_groups(ctx, names_of(axis_name), axis_index_groups)
    return [emit(ctx, "all_to_all", ctx.out_types[0], x, pairs, {
        "split_dimension": i64_attr(split_axis), "concat_dimension": i64_attr(concat_axis),
        "split_count": i64_attr(pairs.shape[1])})]


define_linear(all_to_all_p, lambda ct, x, *, split_axis, concat_axis, **params: all_to_all_p.bind(
    ct, split_axis=concat_axis, concat_axis=split_axis, **params))


@def_collective_batch(all_to_all_p, "split_axis", "concat_axis")
def _all_to_all_batch(axis: AxisData, x: Any, dim: int | None, *, split_axis: int, concat_axis: int,
                      axis_name: Any, **params: Any) -> Batched:
    names = names_of(axis_name)

    def from_all(x: Any) -> Any:
        out = own_part(gather(x, names, 0, False), names, split_axis + 1, True)
        return merge_axes(moveaxis(out, 0, concat_axis), concat_axis)

    if len(names) > 1:
        return mapped(from_all, axis, x, dim)
    x = batch_to_front(x, dim, axis.size)
    out = cut_axis(x, split_axis + 1, (axis.size, x.shape[split_axis + 1] // axis.size))
    # From (source, ..., destination, ...) to (destination, ..., source, ...).
    out = moveaxis(moveaxis(out, split_axis + 1, 0), 1, concat_axis + 1)
    return merge_axes(out, concat_axis + 1), 0


@boundary
def all_to_all(x: Any, axis_name: Any, split_axis: int, concat_axis: int, *,
               axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """Cuts each element's array into parts, sends part `j` to element `j`, and joins the parts.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names.
      split_axis: the axis that is cut. Its size is that of the named axis, and it is removed; with
        `tiled` its size is a multiple, and it is shortened.
      concat_axis: where the parts are joined: a new axis, or with `tiled` the one along which
        they are concatenated.
      axis_index_groups: lists of indices along the axis; parts are exchanged within each.
      tiled: whether axes are kept.

    Returns:
      The same tree of arrays of the same dtypes.

    Raises:
      NameError: no such axis is in scope.
      ValueError: an axis is out of range, or the one to be cut has the wrong size.

    Example:
      >>> x = jnp.array([[1, 2], [3, 4]])
      >>> mjax.vmap(lambda row: lax.all_to_all(row, "i", 0, 0), axis_name="i")(x)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    names = names_of(axis_name)
    groups = checked_groups("all_to_all", names, axis_index_groups)
    params = {"axis_name": names if isinstance(axis_name, list) else axis_name,
              "axis_index_groups": groups, "tiled": bool(tiled)}

    def of_leaf(leaf: Any) -> Any:
        split, concat = (canonicalize_axis(a, np.ndim(leaf)) for a in (split_axis, concat_axis))
        if tiled or split == concat:
            return all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params)
        check_parts("all_to_all", np.shape(leaf), split, axis_name,
                    parties("all_to_all", names, groups), False)
        # The parts are stacked along a new axis, and the rest of the cut axis is removed.
        if split < concat:
            concat += 1
        else:
            split += 1
        out = all_to_all_p.bind(expand_dims(leaf, (concat,)), split_axis=split,
                                concat_axis=concat, **params)
        return squeeze(out, (split,))

    return tree_map(of_leaf, x)


@boundary
def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchanges a named axis and an axis of the arrays of the same size.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope.
      axis: the axis of the arrays.
      axis_index_groups: lists of indices along the axis; axes are exchanged within each.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.
      ValueError: the sizes differ.

    Example:
      >>> mjax.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(jnp.array([[1, 2], [3, 4]]))
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
