"""Sharding constraints: requests of a program about the shardings of its values.

A constraint is the identity. XLA obeys it at that place, and chooses the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyNoMeshError, LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir.mesh import UNCONSTRAINED, AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.mesh_specs import shard_shape
from mjax._engine.ir.pytree import prefix_leaves, tree_flatten
from mjax._engine.ir.types import physical_aval, typeof
from mjax._engine.lowering.shardings import tensor_sharding
from mjax._engine.primitives.linear import define_linear
from mjax._engine.runtime.arrays.shardings import NamedSharding, Sharding, SingleDeviceSharding
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import check_arguments
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.transforms.batching import AxisData
from mjaxlib_shim.mlir import sdy

sharding_constraint_p = EnginePrimitive("sharding_constraint", params={"sharding": Sharding})


@sharding_constraint_p.def_abstract_eval
def _sharding_constraint_type(x: Any, *, sharding: Any) -> Any:
    if type(sharding) is NamedSharding:
        sharding.spec.dims(len(x.shape))  # refuses specs that are longer
    return x


def constrain(lowering: Any, value: Any, sharding: Any) -> list[Any]:
    """Lowers a constraint on the one operand of an equation.

    Args:
      lowering: the lowering context.
      value: the operand's value.
      sharding: has `mesh` and `spec` if it is over several devices.
    """
    mctx = lowering.module_context
    if not mctx.partitioned or type(sharding) is SingleDeviceSharding:
        return [value]
    shape = physical_aval(lowering.avals_in[0]).shape
    attribute = tensor_sharding(mctx, sharding.mesh, sharding.spec, len(shape), sizes=shape)
    return [sdy.ShardingConstraintOp(value, attribute).result]


sharding_constraint_p.def_lowering(lambda lowering, x, *, sharding: (
    constrain(lowering, x, sharding)))
define_linear(sharding_constraint_p, lambda ct, x, *, sharding: (
    sharding_constraint_p.bind(ct, sharding=sharding)))


@sharding_constraint_p.def_axis_batch
def _sharding_constraint_batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], *,
                               sharding: Any) -> Any:
    return sharding_constraint_p.bind(
        args[0], sharding=of_batch(sharding, dims[0], typeof(args[0]).ndim,
                                   axis.spmd_name or UNCONSTRAINED)), dims[0]


def of_batch(sharding: Any, dim: int, ndim: int, entry: Any = None) -> Any:
    """The sharding of a batch of values.

    Args:
      sharding: the sharding of each value.
      dim: the batch dimension.
      ndim: the rank of the batch.
      entry: of the batch dimension in the spec: mesh axes, None, or `UNCONSTRAINED`.
    """
    if not isinstance(sharding, NamedSharding):
        return sharding
    entries = [*sharding.spec, *[None] * (ndim - 1 - len(sharding.spec))]
    entries.insert(dim, entry)
    return NamedSharding(sharding.mesh, PartitionSpec(*entries))


def resolved(given: Any, who: str) -> Any:
    """The sharding that a user's sharding or partition spec stands for.

    Args:
      given: the argument.
      who: its name in messages.

    Raises:
      TypeError: it is neither.
      ValueError: a spec, but no mesh is set; or a spec that does not fit that mesh.
    """
    if isinstance(given, Sharding):
        return given
    if not isinstance(given, PartitionSpec):
        raise LazyTypeError(lambda: (
            f"{who}: expected a NamedSharding, another sharding, a PartitionSpec or None, got "
            f"{given!r} of type {type(given).__name__}."))
    mesh = mesh_in_force()
    if mesh is None:
        raise LazyNoMeshError(lambda: (
            f"{who}: {given} alone does not name devices: give a NamedSharding(mesh, spec), or "
            "set the mesh that it refers to (with mjax.set_mesh(mesh): ...)."))
    return NamedSharding(mesh, given)


def mesh_in_force() -> Mesh | AbstractMesh | None:
    """The mesh that specs alone refer to: of an enclosing shard_map, or set by the user."""
    for axis in reversed(thread.axis_env):
        if axis.manual is not None:
            mesh: Mesh | AbstractMesh = axis.manual.mesh
            return mesh
    return thread.settings.mesh


def mesh_for_all() -> Mesh | None:
    """The mesh that `set_mesh` has set, which all programs run on and new arrays are on."""
    settings = thread.settings
    return settings.mesh if settings.mesh_for_all and isinstance(settings.mesh, Mesh) else None


def check_fits(sharding: Any, aval: Any, who: str) -> None:
    """Refuses shardings that cut a value unevenly, or cut dimensions that it does not have.

    Args:
      sharding: the sharding.
      aval: the type of the value.
      who: what the sharding was given for.

    Raises:
      ValueError: it does.
    """
    check_rank(sharding, aval, who)
    if type(sharding) is not SingleDeviceSharding:
        shard_shape(sharding.spec, sharding.mesh, aval.shape, who)


def check_rank(sharding: Any, aval: Any, who: str) -> None:
    """Refuses shardings that cut dimensions which a value does not have.

    Raises:
      ValueError: it is one.
    """
    if type(sharding) is not SingleDeviceSharding and len(sharding.spec) > aval.ndim:
        raise LazyValueError(lambda: (
            f"{who}: {sharding.spec} has {len(sharding.spec)} entries, one per dimension, but "
            f"the array is {aval}, of {aval.ndim} dimensions. Leave out the last entries."))


@boundary
def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Gives a tree of arrays unchanged, cut over devices as the shardings say.

    Inside of `jit` it tells XLA how a value is to be cut at this place; gradients of the value are
    cut alike. Outside it moves arrays.

    Args:
      x: pytree of arrays.
      shardings: a `NamedSharding` (also one over an `AbstractMesh`, for the devices that the
        program runs on), or a `PartitionSpec` for the mesh that is set (`set_mesh`) or that of an
        enclosing shard_map, or a prefix tree of them; `PartitionSpec.UNCONSTRAINED` leaves a
        dimension, and None a whole array, to XLA.

    Returns:
      The tree of arrays.

    Raises:
      TypeError: a leaf of `shardings` is not a sharding.
      ValueError: `shardings` is None, which would constrain nothing; a spec is longer than the rank
        of its array, or refers to a mesh where none is set; the tree is not a prefix of `x`;
        outside of `jit`, a size is not divisible, or an array is committed to other devices.

    Example:
      >>> mesh = mjax.make_mesh((1,), ('x',))
      >>> f = mjax.jit(lambda x: mjax.lax.with_sharding_constraint(x * 2, mjax.P('x')))
      >>> with mjax.set_mesh(mesh):
      ...   f(jnp.arange(3))
      Array([0, 2, 4], dtype=int32)
    """
    who = "with_sharding_constraint"
    check_arguments(who, x)
    leaves, tree = tree_flatten(x)
    if shardings is None and leaves:
        msg = (f"{who}: shardings is None, which constrains nothing: give a NamedSharding or a "
               "PartitionSpec. (In a tree, None leaves an array to XLA.)")
        raise ValueError(msg)
    given = prefix_leaves(f"{who}: the tree of shardings", shardings, x, "the arrays",
                          lambda s: s is None)
    return tree.unflatten([leaf if s is None else _constrained(leaf, resolved(s, who), who)
                           for leaf, s in zip(leaves, given, strict=True)])


def _constrained(x: Any, sharding: Any, who: str) -> Any:
    if type(sharding) is NamedSharding:
        refuse_manual(sharding, who)
        if thread.interpreter is evaluation:
            check_fits(sharding, typeof(x), who)
    return sharding_constraint_p.bind(x, sharding=sharding)


def refuse_manual(sharding: NamedSharding, who: str) -> None:
    """Refuses shardings along axes that an enclosing shard_map uses.

    Raises:
      ValueError: the sharding uses one.
    """
    manual = {axis.name for axis in thread.axis_env if axis.manual is not None}
    used = [axis for axis in sharding.spec.axes if axis in manual]
    if used:
        raise LazyValueError(lambda: (
            f"{who}: {sharding.spec} names the mesh axis {used[0]!r}, along which this is the body "
            "of a shard_map: values are cut there already, one shard per device."))


__all__ = ["sharding_constraint_p", "with_sharding_constraint"]
