"""`smap`: `shard_map` over one axis of a mesh, with axes of arrays in place of specs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Function, P, R
from mjax._engine.base.util import NOT_GIVEN
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.pytree import tree_map
from mjax._engine.spmd.shard_map import shard_map


@overload
def smap(f: Callable[P, R], /, *, in_axes: Any = ..., out_axes: Any, axis_name: Any
         ) -> Function[P, R]: ...
@overload
def smap(f: None = ..., /, *, in_axes: Any = ..., out_axes: Any, axis_name: Any
         ) -> Callable[[Callable[P, R]], Function[P, R]]: ...
@boundary
def smap(f: Callable[..., Any] | None = None, /, *, in_axes: Any = NOT_GIVEN, out_axes: Any,
         axis_name: Any) -> Any:
    """Maps a function over the pieces of its arguments along one axis of the mesh that is set.

    Args:
      f: the function, of pieces. Without it: a decorator.
      in_axes: the axis to cut of each array, as in `vmap`: an integer, None for whole arrays, or a
        tuple with one of these, or a tree of them, for each positional argument.
      out_axes: the axis along which the pieces of each result are joined, or None.
      axis_name: the axis of the mesh.

    Returns:
      A function of whole arrays, which gives whole arrays.

    Raises:
      TypeError: an axis is not an integer; `axis_name` has several names; `in_axes` is missing.
      ValueError: an axis is negative, or that of the mesh does not exist.

    Source: JAX, `jax.smap`.

    Example:
      >>> with mjax.set_mesh(mjax.make_mesh((1,), ('x',))):
      ...   mjax.smap(lambda x: 2 * x, in_axes=0, out_axes=0, axis_name='x')(jnp.arange(2))
      Array([0, 2], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, (list, tuple)):
        msg = f"smap maps over one axis of a mesh, got {axis_name!r}; shard_map takes several."
        raise LazyArgumentError(msg)
    if in_axes is NOT_GIVEN:
        msg = "smap: in_axes must be given: an integer, None, or a tuple with one per argument."
        raise LazyArgumentError(msg)
    in_specs, out_specs = [
        tree_map(functools.partial(_spec, axis_name, which), axes, is_leaf=lambda a: a is None)
        for which, axes in (("in_axes", in_axes), ("out_axes", out_axes))]
    return shard_map(f, in_specs=in_specs, out_specs=out_specs, axis_names={axis_name})


def _spec(axis_name: Any, which: str, axis: Any) -> PartitionSpec:
    if axis is None:
        return PartitionSpec()
    if not isinstance(axis, int) or isinstance(axis, bool):
        msg = f"smap: {which} holds integers and None, got {axis!r} of type {type(axis).__name__}."
        raise LazyArgumentError(msg)
    if axis < 0:
        msg = f"smap: {which} counts axes from the front, got {axis}."
        raise ValueError(msg)
    return PartitionSpec(*(None,) * axis, axis_name)
