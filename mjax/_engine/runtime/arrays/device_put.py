"""`device_put`: moves values to devices, shardings and layouts that the user names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from mjax._engine.base.config import override
from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_order
from mjax._engine.ir import dtypes
from mjax._engine.ir.mesh import UNCONSTRAINED, PartitionSpec
from mjax._engine.ir.pytree import prefix_leaves, tree_flatten
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.runtime.arrays.array import Array, is_array
from mjax._engine.runtime.arrays.constraints import constrain, of_batch, refuse_manual
from mjax._engine.runtime.arrays.devices import Device, default_device
from mjax._engine.runtime.arrays.layouts import Format, layout_behind, sharding_behind
from mjax._engine.runtime.arrays.memory_order import ordered
from mjax._engine.runtime.arrays.memory_spaces import Space, check_space, in_space
from mjax._engine.runtime.arrays.resharding import shares_memory
from mjax._engine.runtime.arrays.shardings import NamedSharding, Sharding
from mjax._engine.runtime.arrays.transfer import as_result, converted, move, put, sharding_of
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import check_arguments
from mjax._engine.tracing.interpreter import Tracer, interpreters
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.transforms.batching import AxisData
from mjaxlib_shim import guards

if TYPE_CHECKING:
    from mjax._engine.runtime.arrays.annotations import ArrayLike

device_put_p = EnginePrimitive("device_put", params={"device": Any, "src": Any})


@device_put_p.def_abstract_eval
def _device_put_type(x: Any, *, device: Any, src: Any) -> Any:
    if isinstance(device, Sharding) and x is not abstract_token:
        device.shard_shape(x.shape)  # refuses sizes that are not divisible
    return x


# Inside of a program it constrains the sharding of the value, over the program's devices.
device_put_p.def_lowering(lambda ctx, x, *, device, src: (
    constrain(ctx, x, device) if isinstance(device, Sharding) else [x]))
# Cotangents go back to where the value came from, and are added to those of its other uses.
define_linear(device_put_p, lambda ct, x, *, device, src: (
    ct if src is None else device_put_p.bind(ct, device=src, src=device)))


@device_put_p.def_axis_batch
def _device_put_batch(axis: AxisData, args: Any, dims: Any, *, device: Any, src: Any) -> Any:
    device, src = (of_batch(s, dims[0], typeof(args[0]).ndim, axis.spmd_name)
                   for s in (device, src))
    return device_put_p.bind(args[0], device=device, src=src), dims[0]


def _source(x: Any) -> Sharding | None:
    """The sharding that a value is committed to; that of a tracer if it knows it."""
    while isinstance(x, Tracer):
        x = getattr(x, "primal", None) if hasattr(x, "primal") else getattr(x, "value", None)
    return x.sharding if is_array(x) and x.committed else None


@device_put_p.def_impl
def _device_put_impl(x: Any, *, device: Any, src: Any) -> Any:
    with guards.explicit():
        if device is None:
            return as_result(x)
        if isinstance(device, Space):
            device = in_space(x.sharding if is_array(x) else sharding_of(default_device()), device)
        sharding = sharding_of(device)
        if is_array(x):
            return move(x, sharding, True)
        aval = typeof(x)
        if aval is abstract_token:
            return x  # programs move it to where they run
        if aval.dtype == dtypes.float0:
            return as_result(x)
        return put(converted(x, aval), aval, sharding)


@overload
def device_put(x: ArrayLike, device: Any = None, *, src: Any = None, donate: Any = False,
               may_alias: Any = None) -> Array: ...
@overload
def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False,
               may_alias: Any = None) -> Any: ...
@boundary
def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False,
               may_alias: Any = None) -> Any:
    """Puts the leaves of a tree on devices.

    Args:
      x: pytree of arrays, NumPy arrays and scalars.
      device: a device, a sharding, a partition spec of the mesh that is set (`set_mesh`), a
        `Format`, a `mjax.memory.Space`, or a prefix tree of these; None: the default device,
        uncommitted. Inside of a program nothing follows from the layout of a format, and only
        results of the program are put into another memory.
      src: the place of cotangents of the leaves; default: where a leaf is, if it is committed.
      donate: whether the memory of a leaf is freed, unless the result shares it; or a prefix
        tree of bools.
      may_alias: whether the result may share the memory of a leaf. It does so where possible;
        False: it never does; or a prefix tree of these.

    Returns:
      The tree of arrays, committed if a device is given.

    Raises:
      TypeError: a leaf is not an array.
      ValueError: a device is invalid, or given in the body of a shard_map; a sharding does not
        divide a size, has more dimensions, or does not fix the places of the parts; a layout does
        not name each axis once; a tree is not a prefix of `x`; both `donate` and `may_alias` are
        given.

    Example:
      >>> sharding = mjax.NamedSharding(mjax.make_mesh((1,), ('x',)), mjax.P('x'))
      >>> mjax.device_put({'a': np.arange(3)}, sharding)['a'].sharding == sharding
      True
      >>> from mjax.experimental.layout import Format, Layout
      >>> x = jnp.ones((2, 3))
      >>> np.asarray(mjax.device_put(x, Format(Layout((1, 0)), x.sharding))).strides
      (4, 8)
    """
    check_arguments("device_put", x)
    leaves, treedef = tree_flatten(x)
    count = len(leaves)
    devices = _per_leaf("device", device, x, count)
    if src is None and donate is False and may_alias is None:
        return treedef.unflatten(list(map(_put_leaf, leaves, devices)))
    return treedef.unflatten(list(map(
        _put_leaf, leaves, devices, _per_leaf("src", src, x, count),
        _per_leaf("donate", donate, x, count), _per_leaf("may_alias", may_alias, x, count))))


def _per_leaf(name: str, option: Any, x: Any, count: int) -> list[Any]:
    """An option for each leaf of a tree, of which it is a tree prefix."""
    if option is None or isinstance(option, _NO_TREES):
        return [option] * count
    return prefix_leaves(f"device_put: {name}", option, x, "the arrays", lambda d: d is None)


_NO_TREES = (Device, Sharding, PartitionSpec, Format, Space, bool)


def _put_leaf(x: Any, device: Any, src: Any = None, donate: Any = False, may_alias: Any = None
              ) -> Any:
    layout = layout_behind(device, "device_put")
    device, src = sharding_behind(device), sharding_behind(src)
    if donate and may_alias:
        msg = ("device_put: donate and may_alias cannot both be given; memory that is shared is "
               "not freed.")
        raise ValueError(msg)
    if isinstance(device, PartitionSpec):
        device = sharding_of(device)
    if type(device) is NamedSharding:
        refuse_manual(device, "device_put")
        if thread.interpreter is evaluation:
            _refuse_open(device)
    elif isinstance(device, Space):
        check_space(device)
    elif device is not None:
        sharding_of(device)  # refuses other types, inside of programs too
        if thread.axis_env:
            _refuse_device(device)
    if src is None and device is not None:
        src = _source(x)
    out = device_put_p.bind(x, device=device, src=src)
    if layout is not None:
        check_order(layout.major_to_minor, typeof(x).ndim, "device_put", layout)
        if is_array(out):
            out = ordered(out, layout)
    if (donate or may_alias is False) and is_array(x) and is_array(out):
        if out is x or shares_memory(x, out):
            return _copied(out) if may_alias is False else out
        if donate:
            x.delete()
    return out


def _refuse_device(device: Any) -> None:
    """Refuses a single device in the body of an eager shard_map, which runs on all devices.

    In programs a device has no effect, so it is not refused there.

    Raises:
      ValueError: this is such a body.
    """
    stages = sum(interpreter.stages_all for interpreter in interpreters())
    if stages == 1 and any(axis.manual is not None for axis in thread.axis_env):
        raise LazyValueError(lambda: (
            f"device_put: {device} was given in the body of a shard_map, which runs on all devices "
            "of the mesh. Leave the device out, or move the array outside."))


def _refuse_open(sharding: NamedSharding) -> None:
    """Refuses shardings that do not fix the places of an array's parts.

    Raises:
      ValueError: the sharding does not.
    """
    if sharding.is_abstract or UNCONSTRAINED in sharding.spec:
        why = ("an AbstractMesh has no devices" if sharding.is_abstract else
               "dimensions can be UNCONSTRAINED only where XLA chooses")
        raise LazyValueError(lambda: (
            f"device_put: {sharding} does not say where the parts of an array are: {why}. Give a "
            "Mesh, and None for each dimension that is not cut; or use "
            "lax.with_sharding_constraint inside of jit."))


def _copied(x: Array) -> Array:
    """A copy in the same sharding. (Old jaxlibs, asked for a copy on one device, share memory.)"""
    if x.sharding.memory_kind == x.sharding.flat_devices[0].default_memory().kind:
        with override(mesh_for_all=False):
            return move(copy_p.bind(x), x.sharding, x.committed)
    return put(x._stored(), x.aval, x.sharding)
