"""Vectorization as a transformation of wrapped functions, which take and give flat values.

Each takes a plain function or a `linear_util.WrappedFun`, and gives a `WrappedFun`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.base.util import canonicalize_axis, check_count
from mjax._engine.control.calls.call_primitive import as_wrapped
from mjax._engine.control.calls.wrapped import (
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.shapes import reshape
from mjax._engine.tracing.flat import wraps
from mjax._engine.tracing.interpreter import running
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.transforms.batching import AxisData, BatchTracer, split_results
from mjax._engine.transforms.elements import is_vmappable, map_elements
from mjax_ext.interpreters._traces import BatchTrace
from mjax_ext.interpreters.batching._elements import matchaxis

Dims = Sequence[Any] | Callable[[], Sequence[Any]]


def _list(dims: Dims) -> list[Any]:
    return list(dims() if callable(dims) else dims)


def _checked_dims(who: str, axis: Any, args: Sequence[Any], in_dims: Dims) -> list[Any]:
    """The axes of arguments, those of arrays from 0 on.

    Raises:
      TypeError: `axis` is not an `AxisData`.
      ValueError: there are more or fewer axes than arguments, or one is out of range or has
        another size.
    """
    if not isinstance(axis, AxisData):
        msg = f"{who}: axis_data must be a batching.AxisData, got {describe_value(axis)}."
        raise TypeError(msg)
    dims = _list(in_dims)
    check_count(who, "in_dims", dims, args, "argument")
    for i, (x, dim) in enumerate(zip(args, dims, strict=True)):
        if type(dim) is not int or is_vmappable(x) or not isinstance(typeof(x), ShapedArray):
            continue
        shape = typeof(x).shape
        dims[i] = place = canonicalize_axis(dim, len(shape))
        if isinstance(axis.size, int) and shape[place] != axis.size:
            msg = (f"{who}: argument {i} has size {shape[place]} along axis {dim}, but the axis "
                   f"that is mapped has size {axis.size}.")
            raise ValueError(msg)
    return dims


def batch(fun: Callable[..., Any], axis_data: AxisData, in_dims: Dims, out_dim_dests: Dims,
          sum_match: bool = False) -> WrappedFun:
    """vmap of a function of flat values.

    Args:
      fun: takes values of one element, and gives a list.
      axis_data: the axis.
      in_dims: for each argument its axis, None, or a spec of a class of `register_vmappable`; or a
        function that gives them.
      out_dim_dests: the same for each result, given after the call.
      sum_match: see `matchaxis`.

    Returns:
      A function `call_wrapped(*args)` that gives the results for the batch, and their axes.

    Raises:
      TypeError: `fun` is not a function; at calls: `axis_data` is not an `AxisData`.
      ValueError: at calls: there are more or fewer axes than arguments or results, one is out of
        range or has another size; a result depends on mapped values, and its axis is None.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> axis = batching.AxisData(None, 3)
      >>> f = batching.batch(lambda x, y: [lax.add(x, y)], axis, [0, None], [0])
      >>> f.call_wrapped(jnp.arange(3), 10)
      ([Array([10, 11, 12], dtype=int32)], [0])
    """
    return _batch(as_wrapped(fun), axis_data, _frozen(in_dims), _frozen(out_dim_dests), sum_match)


def _frozen(dims: Dims) -> Any:
    return dims if callable(dims) else tuple(dims)


@transformation2
def _batch(f: Callable[..., Any], axis: AxisData, in_dims: Any, out_dims: Any, sum_match: bool,
           *args: Any) -> tuple[list[Any], list[Any]]:
    dims = _checked_dims("batch", axis, args, in_dims)

    def wanted_dims() -> list[Any]:
        return _list(out_dims)

    @wraps(f)
    def of_element(*elements: Any) -> Any:
        results = f(*elements)
        if isinstance(results, (list, tuple)):
            check_count("batch", "out_dim_dests", wanted_dims(), results, "result")
        return results

    outs = map_elements(
        of_element, axis, axis.size, args, dims, wanted_dims,
        lambda value, dim, wanted: matchaxis(axis, dim, wanted, value, sum_match))
    return outs, _list(out_dims)


def batch_subtrace(fun: Callable[..., Any], tag: Any, axis_data: AxisData, in_dims: Dims
                   ) -> tuple[WrappedFun, Callable[[], Any]]:
    """A function of values of one element as one of batches, by a trace that has a tag.

    Args:
      fun: takes values of one element, and gives a list.
      tag: a `core.TraceTag`.
      axis_data: the axis. Collectives find its name if the caller has brought it into scope.
      in_dims: for each argument its axis, or None; or a function that gives them.

    Returns:
      A function `call_wrapped(*args)` that gives the results; and one that gives, after it, their
      axes, or None.

    Raises:
      TypeError: `fun` is not a function, or `in_dims` neither iterable nor a function. At calls:
        an argument with an axis is not an array, or the result of `fun` is not iterable.
      ValueError: at calls: there are more or fewer axes than arguments, or one is out of range or
        has another size.
      StoreException: the function is called twice, or the axes are asked for before its call.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import batching
      >>> tag, axis = core.TraceTag(), batching.AxisData(None, 3)
      >>> f, out_dims = batching.batch_subtrace(
      ...     lambda x, y: [lax.add(x, y), y], tag, axis, [0, None])
      >>> f.call_wrapped(jnp.arange(3), 10)
      [Array([10, 11, 12], dtype=int32), 10]
      >>> out_dims()
      [0, None]
    """
    return _batch_subtrace(as_wrapped(fun), tag, axis_data, _frozen(in_dims))


@transformation_with_aux2
def _batch_subtrace(f: Callable[..., Any], store: Any, tag: Any, axis: AxisData, in_dims: Any,
                    *args: Any) -> list[Any]:
    given = _checked_dims("batch_subtrace", axis, args, in_dims)
    interp = BatchTrace(thread.interpreter, tag, axis)
    interp.function = f
    with running(interp):
        values, dims = split_results(interp, f(*[
            x if d is None else BatchTracer(interp, x, d)
            for x, d in zip(args, given, strict=True)]))
    store.store(dims)
    return values


def flatten_fun_for_vmap(fun: Callable[..., Any], in_tree: Any
                         ) -> tuple[WrappedFun, Callable[[], Any]]:
    """A function of trees as one of leaves; values of classes of `register_vmappable` are leaves.

    Args:
      fun: the function.
      in_tree: the structure of the pair of its positional arguments and those given by keyword.

    Returns:
      The function of leaves; and one that gives, after it, the structure of the result.

    Raises:
      TypeError: `fun` is not a function.
      ValueError: at calls: the number of leaves is not that of the structure, or the structure
        is of a tuple that is not a pair.
      AttributeError: at calls: `in_tree` is not a structure.
      StoreException: the function is called twice, or the structure of the result is asked for
        before its call.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> leaves, tree = mjax.tree_util.tree_flatten((({"a": 1, "b": 2},), {}))
      >>> flat, out_tree = batching.flatten_fun_for_vmap(lambda x: (x["a"], [x["b"]]), tree)
      >>> flat.call_wrapped(*leaves), out_tree()
      ([1, 2], PyTreeDef((*, [*])))
    """
    return _flatten(as_wrapped(fun), in_tree)


@transformation_with_aux2
def _flatten(f: Callable[..., Any], store: Any, in_tree: Any, *leaves: Any) -> list[Any]:
    args, kwargs = in_tree.unflatten(leaves)
    outs, out_tree = tree_flatten(f(*args, **kwargs), is_vmappable)
    store.store(out_tree)
    return outs


def vtile(f_flat: Callable[..., Any], in_axes_flat: Sequence[int | None],
          out_axes_flat: Sequence[int | None], tile_size: int | None,
          axis_name: Hashable | None = None) -> WrappedFun:
    """vmap over tiles, each of `n / tile_size` of the `n` elements along a mapped axis (jax to
    0.8).

    Args:
      f_flat: takes one value per axis, and gives a list.
      in_axes_flat: for each argument the axis that is tiled, or None.
      out_axes_flat: for each result the axis along which its tiles are joined, or None.
      tile_size: the number of tiles; None: that of the elements, which is `vmap`.
      axis_name: the name of the axis of tiles for collectives.

    Returns:
      A `WrappedFun`.

    Raises:
      ValueError: at calls: no argument is mapped, an axis is out of range, the tiles do not divide
        one, or there are more or fewer axes than arguments or results.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> f = batching.vtile(lambda x: [x.cumsum()], [0], [0], 2)
      >>> f.call_wrapped(jnp.ones(6))
      [Array([1., 2., 3., 1., 2., 3.], dtype=float32)]
    """
    return _vtile(as_wrapped(f_flat), tuple(in_axes_flat), tuple(out_axes_flat), tile_size,
                  axis_name)


@transformation2
def _vtile(f: Callable[..., Any], in_axes: Any, out_axes: Any, tile_size: int | None,
           axis_name: Any, *args: Any) -> list[Any]:
    check_count("vtile", "in_axes_flat", in_axes, args, "argument")
    in_axes = [None if d is None else canonicalize_axis(d, typeof(x).ndim)
               for x, d in zip(args, in_axes, strict=True)]
    sizes = [x.shape[d] for x, d in zip(args, in_axes, strict=True) if d is not None]
    count = next(iter(sizes), None) if tile_size is None else tile_size
    if count is None or count < 1 or any(n % count for n in sizes):
        msg = (f"vtile: {count} tiles do not divide mapped axes of sizes {sizes}; map at least one "
               "argument, along an axis that they divide.")
        raise ValueError(msg)
    axis = AxisData(axis_name, count)
    tiles = [x if d is None else reshape(x, (
        *x.shape[:d], count, x.shape[d] // count, *x.shape[d + 1:]))
        for x, d in zip(args, in_axes, strict=True)]
    outs, _ = batch(f, axis, in_axes, out_axes).call_wrapped(*tiles)
    return [y if d is None else reshape(y, (
        *y.shape[:d], y.shape[d] * y.shape[d + 1], *y.shape[d + 2:]))
            for y, d in zip(outs, out_axes, strict=True)]
