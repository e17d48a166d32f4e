"""Collecting values along named axes, and cutting them into parts: all_gather, psum_scatter,
all_gather_invariant, pscatter.

all_gather and psum_scatter are each other's transposes. So are all_gather_invariant, whose
result is known to be the same on all devices, and pscatter, which cuts such a value without
communication.

Source: efficient transposition of replication-inducing collectives, JEP 17111.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.schema import NO_PARAMS, AxisNames
from mjax._engine.ir.types import ShapedArray, physical_aval, typeof
from mjax._engine.primitives.arithmetic import mul
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.emit import hlo, i64_attr, ir_type
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import batch_to_front, moveaxis, reduce_sum_p, reshape, squeeze
from mjax._engine.spmd.axes import (
    Batched,
    Groups,
    Names,
    checked_groups,
    collective,
    def_collective_batch,
    def_mesh_batch,
    names_of,
    parties,
    require_varying,
    sizes_of,
    varying_names,
)
from mjax._engine.spmd.partitions import emit, partition_groups
from mjax._engine.spmd.reductions import axis_index, times
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.variance import pvary_p
from mjax._engine.transforms.batching import AxisData


def insert(shape: Sequence[int], place: int, size: int) -> tuple[int, ...]:
    """A shape with one more axis."""
    return (*shape[:place], size, *shape[place:])


def resize(shape: Sequence[int], place: int, size: int) -> tuple[int, ...]:
    """A shape with another size along one axis."""
    return (*shape[:place], size, *shape[place + 1 :])


def cut_axis(x: Any, place: int, sizes: Sequence[int]) -> Any:
    """One axis as several."""
    return reshape(x, (*x.shape[:place], *sizes, *x.shape[place + 1 :]))


def merge_axes(x: Any, place: int, count: int = 2) -> Any:
    """Several neighbouring axes as one."""
    return reshape(x, (*x.shape[:place], math.prod(x.shape[place : place + count]),
                       *x.shape[place + count :]))


# ---- all_gather, psum_scatter ----------------------------------------------------------


_BY_GROUPS: Mapping[str, Any] = {"axis_index_groups": Groups | None}


def _params(dimension: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
    return {dimension: int, "axis_name": AxisNames, "axis_size": int, "tiled": bool, **more}


def _define_gather(name: str, more: Mapping[str, Any], own_varying: bool = False) -> Primitive:
    primitive = collective(name, _params("all_gather_dimension", more), own_varying)

    @primitive.def_abstract_eval
    def type_rule(x: Any, *, all_gather_dimension: int, axis_name: Names, axis_size: int,
                  tiled: bool, axis_index_groups: Groups | None = None) -> ShapedArray:
        sizes_of(axis_name, name)
        require_varying(name, x, axis_name)
        d = all_gather_dimension
        shape = (resize(x.shape, d, x.shape[d] * axis_size) if tiled
                 else insert(x.shape, d, axis_size))
        return ShapedArray(shape, x.dtype, x.weak_type, x.varying.difference(axis_name))

    @primitive.def_lowering
    def lowering(ctx: Any, x: Any, *, all_gather_dimension: int, axis_name: Names, axis_size: int,
                 tiled: bool, axis_index_groups: Groups | None = None) -> Any:
        if not tiled:
            aval = physical_aval(ctx.avals_in[0])
            shape = insert(aval.shape, all_gather_dimension, 1)
            x = hlo.reshape(ir_type(aval.update(shape=shape)), x)
        pairs = partition_groups(ctx, axis_name, axis_index_groups)
        return [emit(ctx, "all_gather", ctx.out_types[0], x, pairs,
                     {"all_gather_dim": i64_attr(all_gather_dimension)})]

    return primitive


def _define_transposes(gather_p: Primitive, scatter_p: Primitive) -> None:
    define_linear(gather_p, lambda ct, x, *, all_gather_dimension, **params: scatter_p.bind(
        ct, scatter_dimension=all_gather_dimension, **params))
    define_linear(scatter_p, lambda ct, x, *, scatter_dimension, **params: gather_p.bind(
        ct, all_gather_dimension=scatter_dimension, **params))


all_gather_p = _define_gather("all_gather", _BY_GROUPS)
reduce_scatter_p = collective("reduce_scatter", _params("scatter_dimension", _BY_GROUPS))
_define_transposes(all_gather_p, reduce_scatter_p)


@def_collective_batch(all_gather_p, "all_gather_dimension")
def _all_gather_batch(axis: AxisData, x: Any, dim: int | None, *, all_gather_dimension: int,
                      axis_name: Names, tiled: bool, **params: Any) -> Batched:
    d = all_gather_dimension
    out = moveaxis(batch_to_front(x, dim, axis.size), 0, d)
    rest = tuple(a for a in axis_name if a != axis.name)
    if rest:
        out = gather(out, rest, d, False)
        # The axes are in the order (rest..., this one); the result needs the order of their names.
        place = axis_name.index(axis.name)
        out = cut_axis(out, d, sizes_of(rest))
        out = merge_axes(moveaxis(out, d + len(rest), d + place), d, len(axis_name))
    return merge_axes(out, d) if tiled else out, None


def gather(x: Any, names: Names, dimension: int, tiled: bool, groups: Groups | None = None
           ) -> Any:
    """`all_gather` of one array, with its arguments checked."""
    return all_gather_p.bind(
        x, all_gather_dimension=dimension, axis_name=names, tiled=tiled, axis_index_groups=groups,
        axis_size=parties("all_gather", names, groups))


@boundary
def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0,
               tiled: bool = False, to: str = "varying") -> Any:
    """Collects the values of all elements along named axes, in order.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names, the last of which varies
        fastest.
      axis_index_groups: lists of indices along the axis; values are collected within each.
      axis: where the collected values are: a new axis, or with `tiled` the one along which
        they are concatenated.
      tiled: whether values are concatenated instead of stacked.
      to: "varying", or "invarying" for `all_gather_invariant`.

    Returns:
      The same tree. Its arrays have the collected values along a new axis, or joined along it if
      `tiled`.

    Raises:
      NameError: no such axis is in scope.
      ValueError: `axis` is out of range, or `to` is something else.

    Example:
      >>> mjax.vmap(lambda x: lax.all_gather(x, 'i') + x, axis_name='i')(jnp.array([1, 2]))
      Array([[2, 3],
             [3, 4]], dtype=int32)
    """
    if to != "varying":
        return _all_gather_to(to, x, axis_name, axis_index_groups, axis, tiled)
    names = names_of(axis_name)
    groups = checked_groups("all_gather", names, axis_index_groups)
    return tree_map(lambda leaf: gather(
        leaf, names, canonicalize_axis(axis, np.ndim(leaf) + (not tiled)), tiled, groups), x)


def _all_gather_to(to: str, x: Any, axis_name: Any, groups: Any, axis: int, tiled: bool) -> Any:
    if to != "invarying":
        msg = f"all_gather: to must be 'varying' or 'invarying', got {to!r}."
        raise ValueError(msg)
    if groups is not None:
        msg = ("all_gather: with axis_index_groups results differ between the groups; leave out "
               "to='invarying'.")
        raise ValueError(msg)
    return all_gather_invariant(x, axis_name, axis=axis, tiled=tiled)


@reduce_scatter_p.def_abstract_eval
def _reduce_scatter_type(x: Any, *, scatter_dimension: int, axis_name: Names, axis_size: int,
                         tiled: bool, axis_index_groups: Groups | None) -> ShapedArray:
    sizes_of(axis_name, "psum_scatter")
    require_varying("psum_scatter", x, axis_name)
    return _scattered_type("psum_scatter", x, scatter_dimension, axis_name, axis_size, tiled)


def _scattered_type(who: str, x: Any, d: int, names: Names, count: int, tiled: bool
                    ) -> ShapedArray:
    check_parts(who, x.shape, d, names, count, tiled)
    shape = resize(x.shape, d, x.shape[d] // count) if tiled else x.shape[:d] + x.shape[d + 1 :]
    return ShapedArray(shape, x.dtype, x.weak_type)


def check_parts(who: str, shape: tuple[int, ...], d: int, names: Any, count: int, tiled: bool
                ) -> None:
    """Refuses an operand that cannot be cut into a part for each element along named axes.

    Raises:
      ValueError: its axis `d` has the wrong size.
    """
    if shape[d] % count if tiled else shape[d] != count:
        raise LazyValueError(lambda: (
            f"{who}: axis {d} of an operand of shape {shape} must have "
            f"{'a multiple of ' if tiled else ''}{count} elements, as many as there are "
            f"along {names}" + ("." if tiled else ", or tiled=True and a multiple.")))


@reduce_scatter_p.def_lowering
def _reduce_scatter_lowering(ctx: Any, x: Any, *, scatter_dimension: int, axis_name: Names,
                             axis_size: int, tiled: bool, axis_index_groups: Groups | None) -> Any:
    aval, d = ctx.avals_in[0], scatter_dimension
    cut = ir_type(aval.update(shape=resize(aval.shape, d, aval.shape[d] // axis_size)))
    out = emit(ctx, "reduce_scatter", cut, x, partition_groups(ctx, axis_name, axis_index_groups),
               {"scatter_dimension": i64_attr(d)}, lambda a, b: hlo.add(a, b))
    return [out if tiled else hlo.reshape(ctx.out_types[0], out)]


@def_collective_batch(reduce_scatter_p, "scatter_dimension")
def _reduce_scatter_batch(axis: AxisData, x: Any, dim: int | None, *, scatter_dimension: int,
                          axis_name: Names, axis_size: int, tiled: bool, **params: Any) -> Batched:
    d = scatter_dimension
    out = times(x, axis.size) if dim is None else reduce_sum_p.bind(x, axes=(dim,))
    # Cut the scattered axis into one per name, and one for the part of an element.
    out = cut_axis(out, d, (*sizes_of(axis_name), out.shape[d] // axis_size))
    out = moveaxis(out, d + axis_name.index(axis.name), 0)
    rest = tuple(a for a in axis_name if a != axis.name)
    if rest:
        out = reduce_scatter_p.bind(
            merge_axes(out, d + 1, len(rest)), scatter_dimension=d + 1, axis_name=rest, tiled=False,
            axis_size=parties("psum_scatter", rest), axis_index_groups=None)
    return out if tiled else squeeze(out, (d + 1,)), 0


@boundary
def psum_scatter(x: Any, axis_name: Any, *, scatter_dimension: int = 0,
                 axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """Sums over named axes and gives each element its part of the sum.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names.
      scatter_dimension: the axis of the arrays that is cut. Its size is that of the named axes, and
        it is removed; with `tiled` its size is a multiple, and it is shortened.
      axis_index_groups: lists of indices along the axis; each group has a sum of its own.
      tiled: whether the axis is kept.

    Returns:
      The same tree. Its arrays are parts: the axis is cut, or gone unless `tiled`.

    Raises:
      NameError: no such axis is in scope.
      ValueError: the axis is out of range or has the wrong size.

    Example:
      >>> mjax.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(jnp.array([[1, 2], [3, 4]]))
      Array([4, 6], dtype=int32)
    """
    names = names_of(axis_name)
    groups = checked_groups("psum_scatter", names, axis_index_groups)
    size = parties("psum_scatter", names, groups)
    return tree_map(lambda leaf: reduce_scatter_p.bind(
        leaf, scatter_dimension=canonicalize_axis(scatter_dimension, np.ndim(leaf)),
        axis_name=names, axis_size=size, axis_index_groups=groups, tiled=bool(tiled)), x)


# ---- all_gather_invariant, pscatter ----------------------------------------------------

all_gather_invariant_p = _define_gather("all_gather_invariant", NO_PARAMS, own_varying=True)
pscatter_p = collective("pscatter", _params("scatter_dimension", NO_PARAMS), own_varying=True)
pscatter_p.def_collective_axes(None)
_define_transposes(all_gather_invariant_p, pscatter_p)
def_mesh_batch(all_gather_invariant_p, "all_gather_dimension")
def_mesh_batch(pscatter_p, "scatter_dimension")


@pscatter_p.def_abstract_eval
def _pscatter_type(x: Any, *, scatter_dimension: int, axis_name: Names, axis_size: int,
                   tiled: bool) -> ShapedArray:
    if not x.varying.isdisjoint(axis_name):
        raise LazyTypeError(lambda: (
            f"pscatter over {axis_name} of {x}, which varies along "
            f"{tuple(n for n in axis_name if n in x.varying)} already."))
    out = _scattered_type("pscatter", x, scatter_dimension, axis_name, axis_size, tiled)
    return out.update(varying=x.varying.union(axis_name))


@pscatter_p.def_lowering
def _pscatter_lowering(ctx: Any, x: Any, *, scatter_dimension: int, axis_name: Names,
                       axis_size: int, tiled: bool) -> Any:
    return ctx.lower_traced(traced(lambda x: own_part(
        pvary_p.bind(x, axes=axis_name), axis_name, scatter_dimension, tiled)), [x], {})


def own_part(x: Any, names: Names, d: int, tiled: bool) -> Any:
    """The part of an array that belongs to the present element."""
    part = x.shape[d] // parties("axis_index", names)
    out = dynamic_slice_in_dim(x, mul(axis_index(names), np.int32(part)), part, d)
    return out if tiled else squeeze(out, (d,))


@boundary
def all_gather_invariant(x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> Any:
    """Collects the values of all elements along named axes; the result is known to be the same.

    Within `shard_map` its type does not vary along the axes, so it can be a result whose spec does
    not name them. Its transpose, `pscatter`, does not communicate. Elsewhere it is `all_gather`.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names, the last of which varies
        fastest.
      axis: where the collected values are: a new axis, or with `tiled` the one along which
        they are concatenated.
      tiled: whether values are concatenated instead of stacked.

    Returns:
      The same tree. Its arrays have the collected values along a new axis, or joined along it if
      `tiled`.

    Raises:
      NameError: no such axis is in scope.
      ValueError: `axis` is out of range.

    Example:
      >>> mesh = mjax.make_mesh((2,), ("x",))
      >>> f = mjax.shard_map(lambda x: lax.all_gather_invariant(x, "x", tiled=True), mesh=mesh,
      ...                    in_specs=mjax.P("x"), out_specs=mjax.P())
      >>> f(jnp.arange(4))
      Array([0, 1, 2, 3], dtype=int32)

    Source: JEP 17111.
    """
    names = names_of(axis_name)
    sizes_of(names, "all_gather_invariant")
    typed = set(varying_names(names))
    runs = [(is_typed, tuple(run)) for is_typed, run in
            itertools.groupby(names, lambda name: name in typed)]

    def of_run(x: Any, is_typed: bool, run: Names, d: int, tiled: bool) -> Any:
        if not is_typed:
            return gather(x, run, d, tiled)
        return all_gather_invariant_p.bind(
            x, all_gather_dimension=d, axis_name=run, tiled=tiled,
            axis_size=parties("all_gather_invariant", run))

    def of_leaf(leaf: Any) -> Any:
        d = canonicalize_axis(axis, np.ndim(leaf) + (not tiled))
        if len(runs) == 1:
            return of_run(leaf, *runs[0], d, tiled)
        for is_typed, run in reversed(runs):
            leaf = of_run(leaf, is_typed, run, d, False)
        return merge_axes(leaf, d, len(runs) + tiled)

    return tree_map(of_leaf, x)


@boundary
def pscatter(x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> Any:
    """Gives each element along named axes its part of an array that all of them have.

    It does not communicate. Within `shard_map` its transpose is `all_gather_invariant`.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names, the last of which varies
        fastest.
      axis: the axis of the arrays that is cut: of as many elements as there are along the named
        axes, and removed; with `tiled`, of a multiple, and made shorter.
      tiled: whether the axis is kept.

    Returns:
      The same tree. Its arrays are parts: the axis is cut, or gone unless `tiled`.

    Raises:
      NameError: no such axis is in scope.
      ValueError: the axis is out of range or has the wrong size.

    Source: JEP 17111.

    Example:
      >>> mjax.vmap(lambda x: lax.pscatter(x, 'i'), in_axes=None, axis_size=2,
      ...           axis_name='i')(jnp.array([5, 6]))
      Array([5, 6], dtype=int32)
    """
    names = names_of(axis_name)
    size = parties("pscatter", names)
    typed = varying_names(names)

    def of_leaf(leaf: Any) -> Any:
        d, aval = canonicalize_axis(axis, np.ndim(leaf)), typeof(leaf)
        if len(typed) == len(names) and aval.varying.isdisjoint(names):
            return pscatter_p.bind(leaf, scatter_dimension=d, axis_name=names, axis_size=size,
                                   tiled=bool(tiled))
        _scattered_type("pscatter", aval, d, names, size, tiled)
        return own_part(leaf, names, d, tiled)

    return tree_map(of_leaf, x)
