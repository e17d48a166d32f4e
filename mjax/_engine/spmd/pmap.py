"""`pmap` and the first spelling of `shard_map`, for code that still has them: thin fronts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.control.static import Static
from mjax._engine.ir.mesh import AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.pytree import (
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
)
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import expand_dims, moveaxis, squeeze
from mjax._engine.runtime.devices import local_devices
from mjax._engine.runtime.jit import jit
from mjax._engine.spmd.shard_map import shard_map
from mjax._engine.tracing.flat import (
    argument_numbers,
    check_arguments,
    check_callable,
    function_name,
)


@boundary
def shard_map_of_old(f: Callable[..., Any], mesh: Mesh | AbstractMesh, in_specs: Any,
                     out_specs: Any, check_rep: bool = True,
                     auto: Iterable[Any] = frozenset()) -> Callable[..., Any]:
    """`mjax.shard_map` as it was called in `jax.experimental.shard_map`.

    Args:
      f: the function.
      mesh: the mesh.
      in_specs, out_specs: as there.
      check_rep: its `check_vma`.
      auto: the axes of the mesh that are left to XLA; `axis_names` are the others.

    Returns:
      What `mjax.shard_map` gives.

    Raises:
      ValueError: all axes are left to XLA; and what that refuses.
    """
    left = frozenset(auto)
    names = [name for name in mesh.axis_names if name not in left]
    if not names:
        msg = f"shard_map: auto={set(left)} leaves no axis of {mesh!r} to map over."
        raise ValueError(msg)
    mapped: Callable[..., Any] = shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=names,
        check_vma=check_rep)
    return mapped


# ---- pmap ------------------------------------------------------------------------------


class _Unnamed:
    """The name of an axis that collectives cannot refer to."""

    def __repr__(self) -> str:
        return "unnamed"


_unnamed = _Unnamed()


@boundary
def pmap(fun: Callable[..., Any], axis_name: Hashable | None = None, *, in_axes: Any = 0,
         out_axes: Any = 0, static_broadcasted_argnums: int | Iterable[int] = (),
         devices: Sequence[Any] | None = None, backend: str | None = None,
         axis_size: int | None = None, donate_argnums: Any = ()) -> Callable[..., Any]:
    """Maps a function over devices, each of which has one slice of the arguments.

    Code that is written anew is better off with `mjax.shard_map`, which this is made of: a jitted
    one over a mesh with one axis, and `check_vma=False`: derivatives inside of `fun` take
    `psum` for its own transpose, as code for `pmap` expects.

    Args:
      fun: a function of pytrees of arrays.
      axis_name: what collectives in `fun` call the axis.
      in_axes: which axis of each argument has the slices: an int, None for arguments that all
        devices get whole, or a tuple with a tree prefix of these per argument. Arguments given by
        keyword are mapped along axis 0.
      out_axes: where the slices' axis appears in the results: a tree prefix of ints and None
        (None: one device's value).
      static_broadcasted_argnums: positions of arguments that are no arrays, and hashable.
      devices: the devices; default: the first ones of this process.
      backend: whose devices.
      axis_size: the number of slices, where no argument has them.
      donate_argnums: has no effect.

    Returns:
      A function whose arguments and results have an axis of slices.

    Raises:
      ValueError: axes of slices differ in size, or there are not so many devices; at calls.

    Example:
      >>> mjax.pmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(jnp.ones((1, 2)))
      Array([[1., 1.]], dtype=float32)

    Source: the public interface of `jax.pmap`.
    """
    check_callable("pmap", fun)
    numbers = argument_numbers("pmap", static_broadcasted_argnums)
    static = {numbers} if isinstance(numbers, int) else set(numbers)
    name = _unnamed if axis_name is None else axis_name
    known: dict[Any, Any] = {}

    @functools.wraps(fun)
    @boundary
    def on_devices(*args: Any, **kwargs: Any) -> Any:
        args = tuple(Static(a) if i in static or i - len(args) in static else a
                     for i, a in enumerate(args))
        leaves, tree = tree_flatten((args, kwargs))
        check_arguments(f"pmap of {function_name(fun)}", (args, kwargs))
        dims = _dims(fun, in_axes, args, kwargs, leaves)
        size = _size(fun, args, kwargs, leaves, dims, axis_size)
        key = (tree, tuple(dims), size)
        if key not in known:
            mesh = Mesh(_first(size, devices, backend), (name,))
            known[key] = _on_slices(fun, name, mesh, tree, dims, out_axes)
        return known[key](*leaves)

    return on_devices


def _is_none(x: Any) -> bool:
    return x is None


def _on_slices(fun: Callable[..., Any], name: Any, mesh: Mesh, tree: Any,
               dims: Sequence[int | None], out_axes: Any) -> Callable[..., Any]:
    """The jitted function of leaves, for arguments of one structure."""
    cut = PartitionSpec(name)

    def piece(*slices: Any) -> Any:
        args, kwargs = tree.unflatten([x if d is None else squeeze(x, (d,))
                                       for x, d in zip(slices, dims, strict=True)])
        out = fun(*args, **kwargs)
        return _per_leaf(lambda o, axis: o if axis is None else expand_dims(o, (0,)), out,
                         out_axes, fun)

    mapped = shard_map(
        piece, mesh=mesh, check_vma=False,
        in_specs=tuple([PartitionSpec() if d is None else PartitionSpec(*[None] * d, name)
                        for d in dims]),
        out_specs=tree_map(lambda a: PartitionSpec() if a is None else cut, out_axes,
                           is_leaf=_is_none))

    def placed(*leaves: Any) -> Any:
        return _per_leaf(lambda o, axis: o if not axis else moveaxis(
            o, 0, canonicalize_axis(axis, typeof(o).ndim)), mapped(*leaves), out_axes, fun)

    placed.__name__ = function_name(fun)
    return jit(placed)


def _per_leaf(f: Callable[[Any, int | None], Any], out: Any, out_axes: Any,
              fun: Callable[..., Any]) -> Any:
    leaves, tree = tree_flatten(out)
    try:
        axes = broadcast_prefix(out_axes, out, is_leaf=_is_none)
    except ValueError as error:
        msg = (f"pmap: out_axes {out_axes!r} is no tree prefix of the output of "
               f"{function_name(fun)}: {error}")
        raise ValueError(msg) from None
    return tree.unflatten(map(f, leaves, axes))


def _dims(fun: Callable[..., Any], in_axes: Any, args: Any, kwargs: Any, leaves: Sequence[Any]
          ) -> list[int | None]:
    """Along which axis each leaf has its slices."""
    try:
        axes = broadcast_prefix(tuple(in_axes) if isinstance(in_axes, list) else in_axes, args,
                                is_leaf=_is_none)
    except ValueError as error:
        msg = (f"pmap: in_axes must be a tree prefix of the arguments of {function_name(fun)}: an "
               f"int, or a tuple with one entry per argument. in_axes is {in_axes!r}: {error}")
        raise ValueError(msg) from None
    axes += [0] * (len(leaves) - len(axes))
    shapes = [np.shape(x) for x in leaves]
    for i, (axis, shape) in enumerate(zip(axes, shapes, strict=True)):
        if axis is not None and not -len(shape) <= axis < len(shape):
            raise LazyValueError(lambda i=i, axis=axis: (  # type: ignore[misc]
                f"pmap of {function_name(fun)}: {_name(args, kwargs, i)} has shape {shapes[i]}, "
                f"which has no axis {axis} to map over."))
    return [axis if axis is None else axis % len(shape)
            for axis, shape in zip(axes, shapes, strict=True)]


def _size(fun: Callable[..., Any], args: Any, kwargs: Any, leaves: Sequence[Any],
          dims: Sequence[int | None], axis_size: int | None) -> int:
    """How many slices there are."""
    sizes = {i: np.shape(x)[d] for i, (x, d) in enumerate(zip(leaves, dims, strict=True))
             if d is not None}
    found = {*sizes.values(), *([] if axis_size is None else [axis_size])}
    if not found:
        msg = (f"pmap of {function_name(fun)} must have at least one mapped argument, or be given "
               "axis_size.")
        raise ValueError(msg)
    if len(found) > 1:
        raise LazyValueError(lambda: (
            f"pmap of {function_name(fun)} got inconsistent sizes for the axis to be mapped: "
            + ", ".join([*(f"{_name(args, kwargs, i)} has {n}" for i, n in sizes.items()),
                         *([] if axis_size is None else [f"axis_size is {axis_size}"])]) + "."))
    return found.pop()


def _name(args: Any, kwargs: Any, i: int) -> str:
    path, _ = tree_flatten_with_path((args, kwargs))[0][i]
    return f"argument {keystr(path[1:2]).strip('[]')}{keystr(path[2:])}"


def _first(size: int, devices: Sequence[Any] | None, backend: str | None) -> list[Any]:
    """So many devices.

    Raises:
      ValueError: there are less.
    """
    found = local_devices(backend=backend) if devices is None else list(devices)
    if size > len(found):
        msg = (f"pmap: {size} slices need as many devices, but there are {len(found)}. Map over "
               "less, put a vmap inside, or use mjax.shard_map, whose pieces may hold several "
               "rows. (For development mjax.config.num_cpu_devices makes more devices.)")
        raise ValueError(msg)
    return found[:size]


__all__ = ["pmap", "shard_map_of_old"]
