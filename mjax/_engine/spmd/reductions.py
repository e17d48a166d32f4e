"""Reductions over named axes: psum, pmean, pmax, pmin; casts to varying; axis_index.

Derivatives are those of functions of all elements together. `psum` is its own transpose under vmap,
in an unchecked shard_map, and within groups. If types track variance, the result of a sum is known
to be the same on all devices. That is `psum_invariant`; its transpose is the cast `pvary`, which
does not move data. The sum of an invariant value is a product, but the same primitive: the value
may turn out to vary later, as carries of loops do, and must then be summed.

Source: efficient transposition of replication-inducing collectives, JEP 17111.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.schema import AxisNames
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import add, div, mul
from mjax._engine.primitives.composed import broadcast
from mjax._engine.primitives.convert import convert_element_type
from mjax._engine.primitives.emit import hlo, i64_attr, ir_type, reduce_ir
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.reductions import (
    extremum_ir,
    highest,
    lowest,
    reduce_max_p,
    reduce_min_p,
)
from mjax._engine.primitives.shapes import reduce_sum_p, scalar_of
from mjax._engine.spmd.axes import (
    Batched,
    Groups,
    Names,
    checked_groups,
    collective,
    def_collective_batch,
    def_mesh_batch,
    differ,
    invariant_names,
    names_of,
    parties,
    reduced_by_groups,
    require_varying,
    size_of,
    sizes_of,
    varying_names,
)
from mjax._engine.spmd.partitions import axis_index_ir, emit, partition_groups
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._engine.tracing.variance import pvary_p
from mjax._engine.transforms.batching import AxisData

# ---- psum, pmax, pmin ------------------------------------------------------------------


class _Reduction(NamedTuple):
    """The primitives of one reduction.

    Attributes:
      name: its public name.
      over_axes: over axes of an array.
      over_names: over named axes.
      invariant: over mesh axes, with a result known to be the same.
    """

    name: str
    over_axes: Primitive
    over_names: Primitive
    invariant: Primitive

    def over(self, x: Any, names: Names, groups: Groups | None) -> Any:
        """The reduction of an array over named axes, each by the primitive for it."""
        typed = () if groups else varying_names(names)
        same = invariant_names(self.name, x, typed)
        for axes in tuple(n for n in typed if n not in same), same:
            if axes:
                x = self.invariant.bind(x, axes=axes)
        if len(typed) < len(names):
            x = self.over_names.bind(x, axes=tuple(n for n in names if n not in typed),
                                     axis_index_groups=groups)
        return x


def _define(name: str, over_axes: Primitive, all_reduce: Callable[..., Any],
            of_equals: Callable[[Any, int], Any] = lambda x, count: x) -> _Reduction:
    """The primitives of a reduction over named axes.

    Args:
      name: its public name.
      over_axes: the same over axes of an array.
      all_reduce: `(ctx, x, pairs) -> result`, emits it between partitions.
      of_equals: the result where all elements are the same, from one and their number.
    """
    primitive = collective(name, {"axes": AxisNames, "axis_index_groups": Groups | None})
    invariant = collective(f"{name}_invariant", {"axes": AxisNames}, own_varying=True)

    @primitive.def_abstract_eval
    def type_rule(x: Any, *, axes: Names, axis_index_groups: Groups | None) -> ShapedArray:
        sizes_of(axes, name)
        require_varying(name, x, axes)
        return over_axes.infer([x], {"axes": ()})[0][0]

    @primitive.def_lowering
    def lowering(ctx: Any, x: Any, *, axes: Names, axis_index_groups: Groups | None) -> Any:
        return [all_reduce(ctx, x, partition_groups(ctx, axes, axis_index_groups))]

    @def_collective_batch(primitive)
    def batch(axis: AxisData, x: Any, dim: int | None, *, axes: Names,
              axis_index_groups: Groups | None) -> Batched:
        if axis_index_groups is not None:
            return reduced_by_groups(lambda x: over_axes.bind(x, axes=(1,)), axis, x, dim,
                                     axis_index_groups)
        out = of_equals(x, axis.size) if dim is None else over_axes.bind(x, axes=(dim,))
        rest = tuple(a for a in axes if a != axis.name)
        return primitive.bind(out, axes=rest, axis_index_groups=None) if rest else out, None

    # Over mesh axes, with a result known to be the same on all devices: it communicates over those
    # along which its operand varies.
    @invariant.def_abstract_eval
    def invariant_type(x: Any, *, axes: Names) -> ShapedArray:
        sizes_of(axes, f"{name}_invariant")
        out = over_axes.infer([x], {"axes": ()})[0][0]
        return out.update(varying=x.varying.difference(axes))

    @invariant.def_lowering
    def invariant_lowering(ctx: Any, x: Any, *, axes: Names) -> Any:
        over, same = _apart(ctx.avals_in[0], axes)
        if over:
            x = all_reduce(ctx, x, partition_groups(ctx, over))
        if not same:
            return [x]
        count = parties(name, same)
        return ctx.inline(trace_to_jaxpr(lambda x: [of_equals(x, count)], ctx.avals_out), x)

    invariant.def_collective_axes(lambda x, *, axes: x.varying.intersection(axes))
    def_mesh_batch(invariant)
    return _Reduction(name, over_axes, primitive, invariant)


def _apart(aval: Any, axes: Names) -> tuple[Names, Names]:
    """The axes along which a type varies, and the others."""
    return (tuple(a for a in axes if a in aval.varying),
            tuple(a for a in axes if a not in aval.varying))


def times(x: Any, count: int) -> Any:
    """The sum of `count` equal values."""
    return mul(x, scalar_of(typeof(x), count))


def _sum_ir(ctx: Any, x: Any, pairs: Any) -> Any:
    return emit(ctx, "all_reduce", ctx.out_types[0], x, pairs, {}, lambda a, b: hlo.add(a, b))


def _extremum_ir(name: str, identity: Callable[[Any], Any]) -> Callable[..., Any]:
    def all_reduce(ctx: Any, x: Any, pairs: Any) -> Any:
        aval = ctx.avals_in[0]
        combine = extremum_ir(name, aval.dtype)
        if dtypes.kind(aval.dtype) != "c":
            return emit(ctx, "all_reduce", ctx.out_types[0], x, pairs, {}, combine)
        if (pairs < 0).any():
            msg = (f"p{name[:3]} of complex numbers in groups of different sizes: XLA gathers "
                   "between equal ones. Gather the axis with lax.all_gather, and reduce rows of "
                   "that.")
            raise NotImplementedError(msg)
        # XLA reduces between devices only by operations that it knows.
        one, many = (ir_type(aval.update(shape=(n, *aval.shape))) for n in (1, pairs.shape[1]))
        gathered = emit(ctx, "all_gather", many, hlo.reshape(one, x), pairs,
                        {"all_gather_dim": i64_attr(0)})
        return reduce_ir(ctx.out_types[0], gathered, aval.dtype, (0,), identity(aval.dtype),
                         combine)

    return all_reduce


_SUM = _define("psum", reduce_sum_p, _sum_ir, times)
_MAX = _define("pmax", reduce_max_p, _extremum_ir("maximum", lowest))
_MIN = _define("pmin", reduce_min_p, _extremum_ir("minimum", highest))
psum_p, psum_invariant_p = _SUM.over_names, _SUM.invariant
pmax_p, pmax_invariant_p = _MAX.over_names, _MAX.invariant
pmin_p, pmin_invariant_p = _MIN.over_names, _MIN.invariant
for _p in pmax_p, pmin_p, pmax_invariant_p, pmin_invariant_p:
    _p.without("jvp", "JAX does not have one either: gather the axis with lax.all_gather, and "
               "reduce rows of that.")
define_linear(psum_p, lambda ct, x, **params: psum_p.bind(ct, **params))


def _psum_transpose(ct: Any, x: Any, *, axes: Names) -> Any:
    over, same = _apart(x.aval, axes)
    if same:
        ct = psum_invariant_p.bind(ct, axes=same)
    return pvary_p.bind(ct, axes=over) if over else ct


define_linear(psum_invariant_p, _psum_transpose)
define_linear(pvary_p, lambda ct, x, *, axes: (
    psum_invariant_p.bind(ct, axes=axes) if axes else ct))
def_mesh_batch(pvary_p)


@pvary_p.def_cast_varying
def _pvary_cast_varying(varying: Any, *, axes: Names) -> Any:
    """Drops from a cast the axes along which the value varies already."""
    return varying, {"axes": tuple(a for a in axes if a not in varying[0])}


def _reduce(reduction: _Reduction, x: Any, axis_name: Any, axis_index_groups: Any,
            of_constant: Callable[[Any, int], Any] | None) -> Any:
    """The common part of `psum`, `pmax` and `pmin`; ints among the names are array axes."""
    axes = names_of(axis_name)
    names = tuple(a for a in axes if not isinstance(a, int))
    positions = tuple(a for a in axes if isinstance(a, int))
    groups = checked_groups(reduction.name, names, axis_index_groups, alike=False)
    count = parties(reduction.name, names, groups)
    uneven = differ(groups)

    def of_leaf(leaf: Any) -> Any:
        if positions:
            ndim = np.ndim(leaf)
            leaf = reduction.over_axes.bind(
                leaf, axes=tuple(canonicalize_axis(p, ndim) for p in positions))
        if not names:
            return leaf
        if of_constant is not None and not (uneven or isinstance(leaf, Tracer)):
            return of_constant(leaf, count)
        return reduction.over(leaf, names, groups)

    return tree_map(of_leaf, x)


@boundary
def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sums over named axes.

    Args:
      x: pytree of arrays; booleans are counted.
      axis_name: the name of an axis in scope, or a tuple of names.
      axis_index_groups: lists of indices along the axis; each group has a sum of its own. They may
        differ in size.

    Returns:
      The same tree of sums. A value that is not traced is multiplied by the size of the axes, or
      of groups of one size, so that `psum(1, axis_name)` is a Python int.

    Raises:
      NameError: no such axis is in scope.
      ValueError: the groups do not hold each index of the axis once, or one is empty.

    Example:
      >>> mjax.vmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(jnp.array([1., 3.]))
      Array([0.25, 0.75], dtype=float32)
    """
    def counted(leaf: Any) -> Any:
        if typeof(leaf).dtype != np.bool_:
            return leaf
        return np.int32(leaf) if isinstance(leaf, bool) else convert_element_type(leaf, np.int32)

    def of_constant(leaf: Any, count: int) -> Any:
        if isinstance(leaf, np.int32) and isinstance(count, int):
            return dtypes.from_int(count * int(leaf), leaf.dtype)
        return count * leaf if isinstance(leaf, (int, float, complex)) else times(leaf, count)

    return _reduce(_SUM, tree_map(counted, x), axis_name, axis_index_groups, of_constant)


@boundary
def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Averages over named axes; arguments are those of `psum`.

    Args:
      x: a pytree of arrays of any shape.
      axis_name: the name of an axis of `vmap` or of a mesh, or a tuple of names.
      axis_index_groups: lists of positions along the axis: each group has a result of its own.

    Returns:
      The same tree of means, which are floating-point even for integers. With groups of different
      sizes, each sum is divided by the size of its group (JAX takes that of the first for all).

    Raises:
      NameError: no such axis is in scope.

    Example:
      >>> mjax.vmap(lambda x: lax.pmean(x, "i"), axis_name="i")(jnp.array([1.0, 5.0]))
      Array([3., 3.], dtype=float32)
    """
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)

    def mean(total: Any) -> Any:
        if isinstance(total, (int, float, complex)):
            return total / count
        if not dtypes.is_inexact(typeof(total).dtype):
            total = convert_element_type(total, dtypes.dtype_of_python(float))
        aval = typeof(total)
        if isinstance(count, int):
            return div(total, scalar_of(aval, count))
        size = broadcast(convert_element_type(count, aval.dtype), aval.shape)
        # A constant does not have a cotangent, so its cast is not the author's choice.
        others = tuple(sorted(aval.varying - typeof(size).varying, key=str))
        return div(total, pvary_p.bind(size, axes=others) if others else size)

    return tree_map(mean, psum(x, axis_name, axis_index_groups=axis_index_groups))


@boundary
def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The greatest element over named axes; arguments are those of `psum`.

    It does not have a derivative (as in JAX): use `all_gather`, and take the maximum.

    Args:
      x: a pytree of arrays of any shape.
      axis_name: the name of an axis of `vmap` or of a mesh, or a tuple of names.
      axis_index_groups: lists of positions along the axis: each group has a result of its own.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.

    Example:
      >>> mjax.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(jnp.array([1, 5]))
      Array([5, 5], dtype=int32)
    """
    return _reduce(_MAX, x, axis_name, axis_index_groups, None)


@boundary
def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The least element over named axes; like `pmax`.

    Args:
      x: a pytree of arrays of any shape.
      axis_name: the name of an axis of `vmap` or of a mesh, or a tuple of names.
      axis_index_groups: lists of positions along the axis: each group has a result of its own.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.

    Example:
      >>> mjax.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(jnp.array([1, 5]))
      Array([1, 1], dtype=int32)
    """
    return _reduce(_MIN, x, axis_name, axis_index_groups, None)


# ---- pvary -----------------------------------------------------------------------------


@boundary
def pvary(x: Any, axis_name: Any) -> Any:
    """Casts values that are the same on all devices along mesh axes to ones that may differ.

    It moves no data. Its transpose is a sum over these axes. So its place can matter: cotangents
    that are added before the sum need only one sum. Within `shard_map`, casts are inserted for
    operands that need them; write one to choose the place of the sum.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names. Those of vmap, and those of
        a shard_map that is not checked, change nothing.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.
      ValueError: a value varies along one of them already.

    Example:
      >>> mesh = mjax.make_mesh((2,), ("x",))
      >>> f = mjax.shard_map(lambda x: lax.pvary(x, "x"), mesh=mesh, in_specs=mjax.P(),
      ...                    out_specs=mjax.P("x"))
      >>> f(jnp.arange(2))
      Array([0, 1, 0, 1], dtype=int32)

    Source: JEP 17111, where it is called pbroadcast.
    """
    names = names_of(axis_name)
    sizes_of(names, "pvary")
    typed = varying_names(names)

    def of_leaf(leaf: Any) -> Any:
        aval = typeof(leaf)
        if not aval.varying.isdisjoint(typed):
            raise LazyValueError(lambda: (
                f"pvary over {typed} of a value of type {aval}, which varies along "
                f"{tuple(n for n in typed if n in aval.varying)} already."))
        return pvary_p.bind(leaf, axes=typed) if typed else leaf

    return tree_map(of_leaf, x)


@boundary
def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Casts values to types that vary along mesh axes.

    Args:
      x: pytree of arrays.
      axis_name: the name of an axis in scope, or a tuple of names.
      to: "varying", the only type that needs no communication: `pvary`.

    Returns:
      The same tree, of arrays of the same shapes and dtypes.

    Raises:
      NameError: no such axis is in scope.
      ValueError: a value varies along one of the axes already, or `to` is something else.

    Example:
      >>> mesh = mjax.make_mesh((2,), ("x",))
      >>> f = mjax.shard_map(lambda x: lax.pcast(x, "x", to="varying"), mesh=mesh,
      ...                    in_specs=mjax.P(), out_specs=mjax.P("x"))
      >>> f(jnp.arange(2))
      Array([0, 1, 0, 1], dtype=int32)
    """
    if to != "varying":
        msg = (f"pcast: to must be 'varying', got {to!r}. Only communication makes values that "
               "differ between devices the same: psum, pmax, all_gather_invariant.")
        raise ValueError(msg)
    return pvary(x, axis_name)


# ---- axis_index ------------------------------------------------------------------------

axis_index_p = collective("axis_index", {"axis_name": Any}, own_varying=True)
axis_index_p.def_collective_axes(None)


@axis_index_p.def_abstract_eval
def _axis_index_type(*, axis_name: Any) -> ShapedArray:
    size_of(axis_name, "axis_index")
    return ShapedArray((), np.int32, varying=frozenset(varying_names((axis_name,))))


@axis_index_p.def_lowering
def _axis_index_lowering(ctx: Any, *, axis_name: Any) -> Any:
    return [axis_index_ir(ctx, axis_name)]


@def_collective_batch(axis_index_p)
def _axis_index_batch(axis: AxisData, *, axis_name: Any) -> Batched:
    return iota(np.int32, axis.size), 0


@boundary
def axis_index(axis_name: Any) -> Any:
    """The index of the present element along a named axis.

    Args:
      axis_name: the name of an axis in scope, or a tuple of names, the last of which varies
        fastest.

    Returns:
      An int32 scalar.

    Raises:
      NameError: no such axis is in scope.

    Example:
      >>> mjax.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(jnp.array([10, 20]))
      Array([10, 21], dtype=int32)
    """
    if not isinstance(axis_name, (tuple, list)):
        return axis_index_p.bind(axis_name=axis_name)
    index, stride = np.int32(0), 1
    for name in reversed(axis_name):
        index = add(index, mul(axis_index_p.bind(axis_name=name), np.int32(stride)))
        stride *= size_of(name)
    return index
