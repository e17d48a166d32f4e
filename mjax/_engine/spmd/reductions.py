"""Reductions over named axes: psum, pmean, pmax, pmin; axis_index.

Derivatives are those of functions of all elements at once: psum is its own transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import add, div, mul
from mjax._engine.primitives.convert import convert_element_type
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.reductions import reduce_max_p, reduce_min_p
from mjax._engine.primitives.shapes import iota, reduce_sum_p
from mjax._engine.spmd.axes import (
    Batched,
    Groups,
    Names,
    by_groups,
    checked_groups,
    collective,
    def_axis_batch,
    names_of,
    size_of,
    sizes_of,
)
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.transforms.batching import AxisData

# ---- psum, pmax, pmin ------------------------------------------------------------------


def _define_reduction(name: str, reduce_p: Primitive, of_equals: Callable[[Any, int], Any]
                      ) -> Primitive:
    """A reduction over named axes.

    Args:
      name: of the primitive.
      reduce_p: the same over axes of an array.
      of_equals: the result where all elements are the same, from one and their number.
    """
    primitive = collective(name)

    @primitive.def_abstract_eval
    def type_rule(x: Any, *, axes: Names, axis_index_groups: Groups | None) -> ShapedArray:
        sizes_of(axes, name)
        return reduce_p.infer([x], {"axes": ()})[0][0]

    @def_axis_batch(primitive)
    def batch(axis: AxisData, x: Any, dim: int | None, *, axes: Names,
              axis_index_groups: Groups | None) -> Batched:
        if axis.name not in axes:
            return primitive.bind(x, axes=axes, axis_index_groups=axis_index_groups), dim
        if axis_index_groups is not None:
            return by_groups(lambda x: primitive.bind(x, axes=axes, axis_index_groups=None), axis,
                             x, dim, axis_index_groups)
        out = of_equals(x, axis.size) if dim is None else reduce_p.bind(x, axes=(dim,))
        rest = tuple(a for a in axes if a != axis.name)
        return primitive.bind(out, axes=rest, axis_index_groups=None) if rest else out, None

    return primitive


def times(x: Any, count: int) -> Any:
    """The sum of `count` equal values."""
    return mul(x, np.asarray(count).astype(typeof(x).dtype)[()])


psum_p = _define_reduction("psum", reduce_sum_p, times)
pmax_p = _define_reduction("pmax", reduce_max_p, lambda x, count: x)
pmin_p = _define_reduction("pmin", reduce_min_p, lambda x, count: x)
define_linear(psum_p, lambda ct, x, **params: psum_p.bind(ct, **params))


def _reduce(primitive: Primitive, reduce_p: Primitive, x: Any, axis_name: Any,
            axis_index_groups: Any, of_constant: Callable[[Any, int], Any] | None) -> Any:
    """What `psum`, `pmax` and `pmin` have in common; ints among the names are array axes."""
    axes = names_of(axis_name)
    names = tuple(a for a in axes if not isinstance(a, int))
    positions = tuple(a for a in axes if isinstance(a, int))
    groups = checked_groups(primitive.name, names, axis_index_groups)
    count = len(groups[0]) if groups else math.prod(sizes_of(names, primitive.name))

    def of_leaf(leaf: Any) -> Any:
        if positions:
            ndim = np.ndim(leaf)
            leaf = reduce_p.bind(leaf, axes=tuple(canonicalize_axis(p, ndim) for p in positions))
        if not names:
            return leaf
        if of_constant is not None and not isinstance(leaf, Tracer):
            return of_constant(leaf, count)
        return primitive.bind(leaf, axes=names, axis_index_groups=groups)

    return tree_map(of_leaf, x)


@boundary
def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sums over named axes.

    Args:
      x: pytree of arrays; booleans are counted.
      axis_name: the name of an axis in scope, or a tuple of names.
      axis_index_groups: lists of indices along the axis; each group has a sum of its own.

    Returns:
      The same tree of sums. Of values that are not traced it is the product with the size of
      the axes, so that `psum(1, axis_name)` is a Python int.

    Raises:
      NameError: no such axis is in scope.
      ValueError: the groups do not cut the axis into sets of one size.

    Example:
      >>> mjax.vmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(jnp.array([1., 3.]))
      Array([0.25, 0.75], dtype=float32)
    """
    def counted(leaf: Any) -> Any:
        if typeof(leaf).dtype != np.bool_:
            return leaf
        return int(leaf) if isinstance(leaf, bool) else convert_element_type(leaf, np.int32)

    def of_constant(leaf: Any, count: int) -> Any:
        return count * leaf if isinstance(leaf, (int, float, complex)) else times(leaf, count)

    return _reduce(psum_p, reduce_sum_p, tree_map(counted, x), axis_name, axis_index_groups,
                   of_constant)


@boundary
def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Averages over named axes; arguments are those of `psum`.

    Returns:
      The same tree of means, which are floating-point for integers too.

    Raises:
      NameError: no such axis is in scope.
    """
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)

    def mean(total: Any) -> Any:
        if isinstance(total, (int, float, complex)):
            return total / count
        if not dtypes.is_inexact(typeof(total).dtype):
            total = convert_element_type(total, dtypes.dtype_of_python(float))
        return div(total, np.asarray(count).astype(typeof(total).dtype)[()])

    return tree_map(mean, psum(x, axis_name, axis_index_groups=axis_index_groups))


@boundary
def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The greatest element over named axes; arguments are those of `psum`.

    It has no derivative (as in JAX): gather the elements with `all_gather` and take their
    maximum.

    Raises:
      NameError: no such axis is in scope.
    """
    return _reduce(pmax_p, reduce_max_p, x, axis_name, axis_index_groups, None)


@boundary
def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The least element over named axes; as `pmax`.

    Raises:
      NameError: no such axis is in scope.
    """
    return _reduce(pmin_p, reduce_min_p, x, axis_name, axis_index_groups, None)


# ---- axis_index ------------------------------------------------------------------------

axis_index_p = collective("axis_index")


@axis_index_p.def_abstract_eval
def _axis_index_type(*, axis_name: Any) -> ShapedArray:
    size_of(axis_name, "axis_index")
    return ShapedArray((), np.int32)


@def_axis_batch(axis_index_p)
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
    """
    if not isinstance(axis_name, (tuple, list)):
        return axis_index_p.bind(axis_name=axis_name)
    index, stride = np.int32(0), 1
    for name in reversed(axis_name):
        index = add(index, mul(axis_index_p.bind(axis_name=name), np.int32(stride)))
        stride *= size_of(name)
    return index
