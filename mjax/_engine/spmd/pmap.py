"""`pmap` and the first form of `shard_map`, for old code; both call `shard_map`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.config import override
from mjax._engine.base.errors import LazyArgumentError, LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.program_caches import forget_programs
from mjax._engine.base.records import Record
from mjax._engine.base.signatures import P, R
from mjax._engine.base.thread import thread
from mjax._engine.base.util import alias, canonicalize_axis
from mjax._engine.control.calls.static_arguments import Parameters, Static
from mjax._engine.ir.mesh import AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.mesh_specs import cuts
from mjax._engine.ir.pytree import broadcast_prefix, tree_flatten, tree_leaves, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import expand_dims, moveaxis, squeeze
from mjax._engine.runtime.arrays.constraints import with_sharding_constraint
from mjax._engine.runtime.arrays.devices import devices, local_devices
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct, aval_of
from mjax._engine.runtime.arrays.shardings import NamedSharding
from mjax._engine.runtime.dispatch.jit import jit
from mjax._engine.runtime.dispatch.wrapped import JitFunction
from mjax._engine.runtime.processes.distributed import is_initialized
from mjax._engine.runtime.processes.multihost import (
    global_array_to_host_local_array,
    host_local_array_to_global_array,
)
from mjax._engine.spmd.shard_map import shard_map
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import check_callable, debug_info_of, function_name, wraps
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.transforms.vmap import dims_and_size, flat_axes


@boundary
def shard_map_of_old(f: Callable[..., Any], mesh: Mesh | AbstractMesh, in_specs: Any,
                     out_specs: Any, check_rep: bool = True,
                     auto: Iterable[Any] = frozenset()) -> Callable[..., Any]:
    """`mjax.shard_map` with the signature of `jax.experimental.shard_map`.

    Args:
      f: the function.
      mesh: the mesh.
      in_specs, out_specs: as in `mjax.shard_map`.
      check_rep: its `check_vma`.
      auto: the axes of the mesh that are left to XLA; `axis_names` are the others.

    Returns:
      The result of `mjax.shard_map`.

    Raises:
      ValueError: all axes are left to XLA; other errors are those of `mjax.shard_map`.

    Example:
      >>> from mjax.experimental.shard_map import shard_map
      >>> mesh = mjax.make_mesh((1,), ("x",))
      >>> shard_map(lambda x: lax.psum(x, "x"), mesh, mjax.P("x"), mjax.P())(jnp.arange(2.0))
      Array([0., 1.], dtype=float32)
    """
    check_callable("shard_map", f)
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        msg = f"shard_map: mesh must be a Mesh or an AbstractMesh, got {mesh!r}."
        raise LazyArgumentError(msg)
    left = frozenset(auto)
    names = [name for name in mesh.axis_names if name not in left]
    if not names:
        msg = f"shard_map: auto={set(left)} leaves no axis of {mesh!r} to map over."
        raise ValueError(msg)
    mapped: Callable[..., Any] = shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=names,
        check_vma=check_rep)
    return mapped


shard_map_of_old = alias(shard_map_of_old, "shard_map", "mjax.experimental.shard_map")


@boundary
def register_standard_check(prim: Primitive) -> None:
    """Makes results of a primitive vary along the mesh axes along which its operands vary.

    Every primitive does so from the start, unless it was made with `own_varying=True`.

    Args:
      prim: the primitive.

    Raises:
      TypeError: it is not a primitive.

    Example:
      >>> from mjax.experimental import shard_map
      >>> from mjax_ext.core import Primitive
      >>> shard_map.register_standard_check(Primitive("halve"))

    Source: JAX, `jax.experimental.shard_map.register_standard_check` to release 0.7.
    """
    _check_primitive("register_standard_check", prim)
    if prim.own_varying:
        prim.own_varying = False
        forget_programs()


@boundary
def register_standard_rewrite(prim: Primitive) -> None:
    """Casts operands of a primitive to vary alike, where it is applied in a `shard_map`.

    Every primitive does so from the start, unless it has a rule `cast_varying`, which this removes.

    Args:
      prim: the primitive.

    Raises:
      TypeError: it is not a primitive.

    Example:
      >>> from mjax.experimental import shard_map
      >>> from mjax_ext.core import Primitive
      >>> shard_map.register_standard_rewrite(Primitive("halve"))

    Source: JAX, `jax.experimental.shard_map.register_standard_rewrite` to release 0.7.
    """
    _check_primitive("register_standard_rewrite", prim)
    prim.undefine("cast_varying")


def _check_primitive(who: str, prim: Any) -> None:
    if not isinstance(prim, Primitive):
        raise LazyTypeError(lambda: f"{who} takes a Primitive, got {prim!r}.")


# ---- pmap ------------------------------------------------------------------------------


class _Unnamed:
    """The name of an axis that collectives cannot refer to."""

    def __repr__(self) -> str:
        return "unnamed"


_unnamed = _Unnamed()


@boundary
def pmap(fun: Callable[P, R], axis_name: Hashable | None = None, *, in_axes: Any = 0,
         out_axes: Any = 0, static_broadcasted_argnums: int | Iterable[int] = (),
         devices: Sequence[Any] | None = None, backend: str | None = None,
         axis_size: int | None = None, donate_argnums: Any = ()) -> JitFunction[P, R]:
    """Maps a function over devices, each of which has one slice of the arguments.

    New code should use `mjax.shard_map`. This function is a jitted one, over a mesh with one axis
    and with `check_vma=False`: derivatives inside of `fun` take `psum` for its own transpose, as
    code for `pmap` expects.

    Args:
      fun: a function of pytrees of arrays.
      axis_name: the name of the axis for collectives in `fun`.
      in_axes: the axis of slices of each argument: an int, None for arguments that all devices get
        whole, or a tuple with a tree prefix of these per argument. Arguments given by keyword are
        mapped along axis 0.
      out_axes: where the slices' axis appears in the results: a tree prefix of ints and None
        (None: one device's value).
      static_broadcasted_argnums: positions of arguments that are not arrays, and hashable.
      devices: the devices; default: the first ones, of each process. Each process gives slices for
        its own devices, and gets their slices of the results.
      backend: the platform of the devices.
      axis_size: the number of slices, of all processes; required if no argument has them.
      donate_argnums: positions of arguments whose memory the results may take over.

    Returns:
      A function whose arguments and results have an axis of slices, with the methods of a jitted
      one: `lower`, `trace`, `eval_shape`.

    Raises:
      TypeError: `fun` is not callable; an axis is not an int.
      ValueError: at calls: axes of slices differ in size, or there are not enough devices; this is
        the body of another pmap or of a shard_map; a static argument is not hashable.

    Example:
      >>> mjax.pmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(jnp.ones((1, 2)))
      Array([[1., 1.]], dtype=float32)

    Source: the public interface of `jax.pmap`.
    """
    check_callable("pmap", fun)
    _check_axes("in_axes", in_axes)
    _check_axes("out_axes", out_axes)
    parameters = Parameters.of("pmap", fun)
    static = parameters.numbers("static_broadcasted", static_broadcasted_argnums)
    if devices is not None and not len(devices):
        msg = "pmap: devices is empty; give one at least, or None for the first ones there are."
        raise ValueError(msg)
    mapped = _Mapped(fun, parameters, _unnamed if axis_name is None else axis_name, in_axes,
                     out_axes, static, None if devices is None else tuple(devices), backend,
                     axis_size)

    def jitted(everywhere: bool) -> Any:
        @wraps(fun)
        def whole(*args: Any, **kwargs: Any) -> Any:
            return mapped(args, kwargs, everywhere)

        # Arguments given by name have slices, even if the numbers include their positions.
        return jit(whole, static_argnums=static, static_argnames=(),
                   donate_argnums=donate_argnums, donate_argnames=())

    here, everywhere = jitted(False), jitted(True)

    @wraps(fun)
    @boundary
    def on_devices(*args: Any, **kwargs: Any) -> Any:
        if static:
            mapped.marked(args)  # refuses arguments that are not hashable
        if mapped.is_everywhere():
            return mapped.own_part(everywhere, args, kwargs)
        return here(*args, **kwargs)

    def stage(name: str) -> Callable[..., Any]:
        @boundary
        def staged(*args: Any, **kwargs: Any) -> Any:
            if mapped.is_everywhere():
                args, kwargs = mapped.structs(args, kwargs)
                return getattr(everywhere, name)(*args, **kwargs)
            return getattr(here, name)(*args, **kwargs)

        return staged

    on_devices.trace = stage("trace")
    on_devices.lower = stage("lower")
    on_devices.eval_shape = stage("eval_shape")
    return on_devices


class _Mapped(Record):
    """A function with the options of `pmap`.

    With several processes, each has slices for its own devices, and the function is mapped over
    those of all. Inside of another program, which has whole values, it is mapped over the devices
    of this process.
    """

    fun: Callable[..., Any]
    parameters: Parameters
    name: Any
    in_axes: Any
    out_axes: Any
    static: tuple[int, ...]
    devices: tuple[Any, ...] | None
    backend: str | None
    axis_size: int | None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], everywhere: bool) -> Any:
        if any(axis.manual is not None for axis in thread.axis_env):
            raise LazyValueError(lambda: (
                f"pmap of {function_name(self.fun)} is called in the body of another pmap or of a "
                "shard_map, which each device runs by itself: there are no devices to map over. "
                "Map by vmap there; or over several axes of devices at once, by mjax.shard_map "
                "over a mesh that has them."))
        leaves, tree, dims, size = self.cut(args, kwargs, self.axis_size)
        return self.on_slices(self.mesh(size, everywhere), tree, dims, leaves)

    def marked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments by position, with static ones as `Static`.

        Raises:
          ValueError: a static argument is not hashable.
        """
        places = self.parameters.places("static_broadcasted", self.static, len(args))
        return tuple([Static(self.parameters.hashable(a, f"argument {i}")) if i in places else a
                      for i, a in enumerate(args)])

    def cut(self, args: tuple[Any, ...], kwargs: dict[str, Any], axis_size: int | None
            ) -> tuple[list[Any], Any, list[int | None], int]:
        """The leaves of the arguments, their structure, the axis of slices of each, and the number
        of slices."""
        args, axes = self.marked(args), self.in_axes
        leaves, tree = tree_flatten((args, kwargs))
        axes = flat_axes("pmap", self.fun, tuple(axes) if isinstance(axes, list) else axes, args)
        return leaves, tree, *dims_and_size(
            "pmap", self.fun, args, kwargs, leaves, [*axes, *[0] * (len(leaves) - len(axes))],
            axis_size)

    def mesh(self, size: int, everywhere: bool) -> Mesh:
        """The devices for a number of slices.

        Raises:
          ValueError: there are fewer devices.
        """
        if everywhere and self.devices is None:
            every = devices(self.backend)
            rows = [[d for d in every if d.process_index == p]
                    for p in sorted({d.process_index for d in every})]
            found = [d for row in rows for d in row[:-(-size // len(rows))]]
        else:
            found = list(local_devices(backend=self.backend) if self.devices is None else
                         self.devices)
        if size > len(found):
            msg = (f"pmap: {size} slices need as many devices, but there are {len(found)}. Map "
                   "over less, put a vmap inside, or use mjax.shard_map, whose pieces may hold "
                   "several rows. (For development mjax.config.num_cpu_devices makes more "
                   "devices.)")
            raise ValueError(msg)
        return Mesh(found[:size], (self.name,))

    def on_slices(self, mesh: Mesh, tree: Any, dims: Sequence[int | None], leaves: Sequence[Any]
                  ) -> Any:
        """The results of the function for the slices of its arguments' leaves."""
        def piece(*slices: Any) -> Any:
            args, kwargs = tree.unflatten([x if d is None else squeeze(x, (d,))
                                           for x, d in zip(slices, dims, strict=True)])
            out = self.fun(*args, **kwargs)
            return self.per_result(
                lambda o, axis: o if axis is None else expand_dims(o, (0,)), out)

        def place(o: Any, axis: int | None) -> Any:
            if not axis:
                return o
            axis = canonicalize_axis(axis, typeof(o).ndim)
            return with_sharding_constraint(moveaxis(o, 0, axis), NamedSharding(
                mesh, self.spec(axis)))

        piece.__name__ = function_name(self.fun)
        info = debug_info_of("pmap", self.fun, *tree.unflatten(leaves))
        piece.users_info = info  # type: ignore[attr-defined]
        mapped = shard_map(
            piece, mesh=mesh, check_vma=False, in_specs=tuple(map(self.spec, dims)),
            out_specs=tree_map(lambda axis: self.spec(None if axis is None else 0), self.out_axes,
                               is_leaf=_is_none))
        with override(mesh_for_all=False):  # the user did not choose the mesh
            outs = mapped(*leaves)
        return self.per_result(place, outs)

    def spec(self, axis: int | None) -> PartitionSpec:
        """The spec of an array with slices along this axis."""
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, self.name)

    def per_result(self, f: Callable[[Any, int | None], Any], out: Any) -> Any:
        """Applies a function to each result and the axis of its slices.

        Raises:
          ValueError: out_axes is not a tree prefix.
        """
        leaves, tree = tree_flatten(out)
        try:
            axes = broadcast_prefix(self.out_axes, out, is_leaf=_is_none)
        except ValueError as error:
            msg = (f"pmap: out_axes {self.out_axes!r} is not a tree prefix of the output of "
                   f"{function_name(self.fun)}: {error}")
            raise ValueError(msg) from None
        return tree.unflatten(map(f, leaves, axes))

    # -- several processes --

    def is_everywhere(self) -> bool:
        """Whether the slices are those of several processes."""
        return is_initialized() and thread.interpreter is evaluation and any(
            d.process_index != d.client.process_index()
            for d in (devices(self.backend) if self.devices is None else self.devices))

    def of_all(self, args: tuple[Any, ...], kwargs: dict[str, Any]
               ) -> tuple[list[Any], Any, Mesh, list[PartitionSpec]]:
        """The leaves of one process's arguments, their structure, the mesh of all processes, and
        their specs."""
        every = devices(self.backend) if self.devices is None else self.devices
        count, whole = len({d.process_index for d in every}), self.axis_size
        leaves, tree, dims, own = self.cut(args, kwargs, None if whole is None else whole // count)
        size = count * own if whole is None or any(d is not None for d in dims) else whole
        return leaves, tree, self.mesh(size, True), list(map(self.spec, dims))

    def own_part(self, whole: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
                 ) -> Any:
        """The slices of the results in this process."""
        leaves, tree, mesh, specs = self.of_all(args, kwargs)
        args, kwargs = tree.unflatten(host_local_array_to_global_array(leaves, mesh, specs))
        return self.per_result(
            lambda o, axis: global_array_to_host_local_array(o, mesh, self.spec(
                None if axis is None else canonicalize_axis(axis, o.ndim))),
            whole(*args, **kwargs))

    def structs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The types of the arguments of all processes together."""
        leaves, tree, mesh, specs = self.of_all(args, kwargs)

        def of_leaf(x: Any, spec: PartitionSpec) -> ShapeDtypeStruct:
            aval = aval_of(x)
            here, there = (cuts(spec, m, aval.ndim) for m in (mesh.local_mesh, mesh))
            shape = [n // a * b for n, a, b in zip(aval.shape, here, there, strict=True)]
            return ShapeDtypeStruct(shape, aval.dtype, sharding=NamedSharding(mesh, spec))

        return tree.unflatten(map(of_leaf, leaves, specs))


def _is_none(x: Any) -> bool:
    return x is None


def _check_axes(what: str, axes: Any) -> None:
    for axis in tree_leaves(axes):
        if not isinstance(axis, (int, np.integer)):
            raise LazyTypeError(lambda axis=axis: (  # type: ignore[misc]
                f"pmap: {what} must be an int, None, or a tree of these, got {axis!r} of type "
                f"{type(axis).__name__}. (The name of the axis is axis_name.)"))


__all__ = ["pmap", "shard_map_of_old"]
