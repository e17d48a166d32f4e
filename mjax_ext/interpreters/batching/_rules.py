"""Batching rules: makers, and helpers to write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis, check_count, listed
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.elementwise import align_batches
from mjax._engine.primitives.shapes import (
    batch_size,
    batch_to_front,
    broadcast_in_dim,
    transpose_p,
)
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import refuse_other
from mjax._engine.transforms.batching import AxisData
from mjax_ext._tables import Rule, RuleTable

#: `(args, dims, **params) -> result, dim`.
BatchingRule = Callable[..., Any]


class AxisPrimitiveBatchers:
    """The older spelling of `fancy_primitive_batchers`: write only.

    Rules are `rule(axis_size, axis_name, None, args, dims, **params)`.
    """

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        def axis_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
            return rule(axis.size, axis.name, None, args, dims, **params)

        axis_batch.__wrapped__ = rule  # type: ignore[attr-defined]
        RuleTable("axis_batch")[primitive] = axis_batch


def broadcast(x: Any, sz: int, axis: int, mesh_axis: None = None) -> Any:
    """`sz` copies of an array along a new axis.

    Args:
      x: an array.
      sz: the number of copies.
      axis: the place of the new axis.
      mesh_axis: None, as `AxisData.explicit_mesh_axis` is.

    Returns:
      An array of the dtype of `x`.

    Raises:
      TypeError: `x` is not an array, `sz` is not an integer or is negative, or `axis` is not an
        integer from 0 to the rank of `x`.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.broadcast(jnp.ones(2), 3, 0).shape
      (3, 2)
    """
    shape = [*getattr(x, "shape", ())]
    shape.insert(axis, sz)
    return broadcast_in_dim(x, shape, [d for d in range(len(shape)) if d != axis])


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: None = None) -> Any:
    """A batch with its batch axis first; repeated along it if it has none.

    Args:
      x: an array.
      bdim: its batch axis, or None.
      size: the size of the batch.
      mesh_axis: None, as `AxisData.explicit_mesh_axis` is.

    Returns:
      An array of the dtype of `x`.

    Raises:
      ValueError: `bdim` is out of range.
      TypeError: `x` is not an array, or `bdim` is neither an integer nor None; or `bdim` is
        None, and `size` is not an integer.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.bdim_at_front(jnp.ones((2, 3)), 1, 3).shape
      (3, 2)
      >>> batching.bdim_at_front(jnp.ones(2), None, 3).shape
      (3, 2)
    """
    return batch_to_front(x, bdim, size)


def moveaxis(x: Any, src: int | Sequence[int], dst: int | Sequence[int]) -> Any:
    """Moves axes to other places; the others keep their order.

    Args:
      x: an array.
      src: the axis, or several.
      dst: its place, or as many.

    Returns:
      An array of the dtype of `x`.

    Raises:
      ValueError: an axis is out of range or named twice, or there are more or fewer places than
        axes.
      TypeError: an axis is not an integer, or `x` is not an array.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.moveaxis(jnp.ones((2, 3)), 0, 1).shape
      (3, 2)
      >>> batching.moveaxis(jnp.ones((2, 3, 4)), (0, 1), (-1, 0)).shape
      (3, 4, 2)
    """
    ndim = typeof(x).ndim
    sources, places = ([canonicalize_axis(a, ndim) for a in listed(axes)] for axes in (src, dst))
    check_count("moveaxis", "dst", places, sources, "source")
    for name, given in (("src", sources), ("dst", places)):
        if len(set(given)) != len(given):
            raise LazyValueError(lambda name=name, given=given: (  # type: ignore[misc]
                f"moveaxis: {name} names an axis twice: {given}."))
    order = [i for i in range(ndim) if i not in sources]
    for place, source in sorted(zip(places, sources, strict=True)):
        order.insert(place, source)
    return x if order == list(range(ndim)) else transpose_p.bind(x, permutation=tuple(order))


def vectorized_batcher(prim: Primitive, axis_data: AxisData | None, batched_args: Sequence[Any],
                       batch_dims: Sequence[int | None], **params: Any) -> Any:
    """The batching rule that `defvectorized` gives a primitive.

    Args:
      prim: a primitive whose operands and results have one shape.
      axis_data: the axis; not read.
      batched_args: its operands.
      batch_dims: their batch axes.
      params: its params.

    Returns:
      The result for the batch, and its batch axis.

    Raises:
      ValueError: there are more or fewer batch axes than operands; or they differ, and one is out
        of range.
      TypeError: an operand is not an array, or the primitive refuses the operands or params.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> out, dim = batching.vectorized_batcher(lax.add_p, None, [jnp.ones((2, 3))] * 2, [1, 1])
      >>> out.shape, dim
      ((2, 3), 1)
    """
    check_count("vectorized_batcher", "batch_dims", batch_dims, batched_args, "operand")
    args, dim = batched_args, next(iter(batch_dims), None)
    if any(d != dim for d in batch_dims):
        size = batch_size(args, batch_dims)
        args = [batch_to_front(x, d, size) for x, d in zip(args, batch_dims, strict=True)]
        dim = 0
    return _with_dim(prim, prim.bind(*args, **params), dim)


def broadcast_batcher(prim: Primitive, axis_data: AxisData | None, args: Sequence[Any],
                      dims: Sequence[int | None], **params: Any) -> Any:
    """The batching rule that `defbroadcasting` gives a primitive.

    Args:
      prim: an elementwise primitive that itself stretches scalars and axes of size 1.
      axis_data: the axis; not read.
      args: its operands.
      dims: their batch axes.
      params: its params.

    Returns:
      The result for the batch, and its batch axis.

    Raises:
      ValueError: an axis that has to move is out of range, or there are more or fewer axes than
        operands.
      TypeError: an operand is not an array, or the primitive refuses the operands or params.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> out, dim = batching.broadcast_batcher(lax.add_p, None, [jnp.ones((3, 2))] * 2, [0, 0])
      >>> out.shape, dim
      ((3, 2), 0)
    """
    check_count("broadcast_batcher", "dims", dims, args, "operand")
    args, dim = align_batches(args, dims)
    return _with_dim(prim, prim.bind(*args, **params), dim)


def _with_dim(prim: Primitive, out: Any, dim: int | None) -> tuple[Any, Any]:
    return out, [dim] * len(out) if prim.multiple_results else dim


def reducer_batcher(prim: Primitive, axis_data: AxisData | None, batched_args: Sequence[Any],
                    batch_dims: Sequence[int | None], axes: Sequence[int], **params: Any) -> Any:
    """The batching rule that `defreducer` gives a primitive.

    Args:
      prim: a primitive of one operand that removes the axes in its parameter `axes`.
      axis_data: the axis; not read.
      batched_args: its operand, in a list.
      batch_dims: the operand's batch axis, in a list.
      axes: the axes of one element to remove; negative ones count from its end.
      params: its other params.

    Returns:
      The result for the batch, and its batch axis.

    Raises:
      ValueError: an axis is out of range; an IndexError, too. Or there is not exactly one operand,
        or one batch axis.
      TypeError: the operand is not an array, an axis is not an integer, one of `axes` is there
        twice, or the primitive refuses the params.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> out, dim = batching.reducer_batcher(
      ...     lax.reduce_max_p, None, [jnp.ones((2, 3, 4))], [1], axes=(0,))
      >>> out.shape, dim
      ((3, 4), 0)
    """
    for name, given in (("batched_args", batched_args), ("batch_dims", batch_dims)):
        check_count("reducer_batcher", name, given, (prim,), "operand")
    if batch_dims[0] is None:
        return prim.bind(*batched_args, axes=tuple(axes), **params), None
    ndim = typeof(batched_args[0]).ndim
    dim = canonicalize_axis(batch_dims[0], ndim)
    axes = canonicalize_axes(axes, ndim - 1)
    out_dim = dim - sum(a < dim for a in axes)
    return prim.bind(*batched_args, axes=tuple(a + (a >= dim) for a in axes), **params), out_dim


def _define(primitive: Primitive, batcher: Rule) -> None:
    refuse_other(primitive)

    def batch(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return batcher(primitive, None, args, dims, **params)

    primitive.define("batch", batch, derived=True)


def defvectorized(primitive: Primitive) -> None:
    """Batches a primitive whose operands and results have one shape, element by element.

    Args:
      primitive: the primitive.

    Raises:
      TypeError: it is not a primitive.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import batching
      >>> p = core.Primitive("double")
      >>> _ = p.def_impl(lambda x: x + x)
      >>> batching.defvectorized(p)
      >>> mjax.vmap(p.bind)(jnp.arange(3))
      Array([0, 2, 4], dtype=int32)
    """
    _define(primitive, vectorized_batcher)


def defbroadcasting(primitive: Primitive) -> None:
    """Batches an elementwise primitive that itself stretches scalars and axes of size 1.

    Args:
      primitive: the primitive.

    Raises:
      TypeError: it is not a primitive.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import batching
      >>> p = core.Primitive("plus")
      >>> _ = p.def_impl(lambda x, y: x + y)
      >>> batching.defbroadcasting(p)
      >>> mjax.vmap(p.bind, (0, None))(jnp.arange(3), 10)
      Array([10, 11, 12], dtype=int32)
    """
    _define(primitive, broadcast_batcher)


def defreducer(primitive: Primitive) -> None:
    """Batches a primitive of one operand that removes the axes in its parameter `axes`.

    Args:
      primitive: the primitive.

    Raises:
      TypeError: it is not a primitive.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import batching
      >>> p = core.Primitive("total")
      >>> _ = p.def_impl(lambda x, axes: x.sum(axes))
      >>> batching.defreducer(p)
      >>> mjax.vmap(lambda x: p.bind(x, axes=(0,)), 1)(jnp.ones((2, 3)))
      Array([2., 2., 2.], dtype=float32)
    """
    _define(primitive, reducer_batcher)
