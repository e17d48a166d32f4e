"""Moving values to devices and back: `device_put`, `device_get`, arguments of executions."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.config import override
from mjax._engine.base.context import ctx
from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir import dtypes
from mjax._engine.ir.mesh import UNCONSTRAINED, PartitionSpec
from mjax._engine.ir.pytree import (
    prefix_leaves,
    tree_flatten,
    tree_map,
)
from mjax._engine.ir.types import ShapedArray, abstract_token, typeof
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.runtime.array import (
    Array,
    Placement,
    deep_copies,
    is_array,
    placement_of,
    rebuild,
    waits,
)
from mjax._engine.runtime.constraints import constrain, mesh_in_force, of_batch, refuse_manual
from mjax._engine.runtime.devices import Device, default_device, devices
from mjax._engine.runtime.failures import raise_original
from mjax._engine.runtime.layouts import Format, unformatted
from mjax._engine.runtime.pending import PendingArray
from mjax._engine.runtime.resharding import buffer_aval, cut, layout_of, resharded, shares_memory
from mjax._engine.runtime.shardings import NamedSharding, Sharding, SingleDeviceSharding
from mjax._engine.runtime.structs import ShapeDtypeStruct
from mjax._engine.runtime.token_values import Token
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import check_arguments
from mjax._engine.tracing.interpreter import Tracer, interpreters, refuse_dead
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.transforms.batching import AxisData
from mjaxlib_shim import arrays as shim
from mjaxlib_shim import guards

#: (type, value, settings) of scalars -> Array: `x * 2.0` transfers 2.0 once.
_scalars = BoundedCache(1024)
#: The arrays in `_scalars` that are alive, by id.
_shared: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()
_COMPLEX = frozenset({complex, np.complex64, np.complex128})
#: Types of the commonest scalars, which `from_scalar` takes as they are.
SCALARS = frozenset({bool, int, float, np.float32, np.int32, np.bool_})


def to_array(value: Any, shared: bool = True) -> Array:
    """A value as an array on the default device, uncommitted.

    NumPy arrays are read before this returns, so that the caller may change them.

    Args:
      value: what `typeof` accepts.
      shared: whether equal scalars may be one array; not for arrays that are donated.
    """
    kind = type(value)
    if kind is np.ndarray:
        return _from_numpy(value)
    if kind is Array:
        return value
    if kind is PendingArray:
        settled: Array = value.settled()
        return settled
    if shared and (kind in dtypes.PYTHON_SCALARS or isinstance(value, np.generic)):
        return from_scalar(value, str(value) if kind in _COMPLEX else None)
    return _own(value)


def _from_numpy(value: np.ndarray[Any, Any]) -> Array:
    put, placement = host(value)
    return Array(put(value), placement)


class Hosted:
    """A NumPy array among arguments, which is transferred when its buffer is asked for: a program
    over several devices takes it to all of them at once.

    Attributes:
      value: the array, which the caller may change after the call.
      aval: its type as an argument.
    """

    __slots__ = ("_placement", "_put", "aval", "value")

    def __init__(self, value: np.ndarray[Any, Any]):
        self.value = value
        self._put, self._placement = host(value)
        self.aval = self._placement.aval

    @property
    def _buffer(self) -> Any:
        return self._put(self.value)

    def array(self) -> Array:
        """It on the default device."""
        return Array(self._put(self.value), self._placement)


def host(value: np.ndarray[Any, Any]) -> tuple[Callable[[Any], Any], Placement]:
    """How NumPy arrays of this type get to the default device as buffers, and their placement."""
    key = (value.dtype, value.shape, ctx.settings)
    return _hosts.get(key) or _host(value, key)


def _host(value: np.ndarray[Any, Any], key: Any) -> tuple[Callable[[Any], Any], Placement]:
    aval = typeof(value)
    sharding = SingleDeviceSharding(default_device())
    put = shim.putter(buffer_aval(aval), sharding.native, sharding.device)
    as_it_is = value.dtype is aval.dtype is not dtypes.float0
    return _hosts.put(key, (
        put if as_it_is else lambda value: put(_converted(value, aval)),
        placement_of(aval, sharding, False)))


_hosts = BoundedCache()


def from_scalar(value: Any, text: str | None = None) -> Array:
    """A Python or NumPy scalar as an array that is shared by all who ask for it.

    Args:
      value: the scalar.
      text: what tells it apart from its equals, needed for complex numbers.
    """
    # The sign of a zero is not part of equality: zeros are told apart by their texts.
    key = (type(value), text or value or str(value), ctx.settings)
    known = _scalars.get(key)
    if known is None or known._buffer.is_deleted():
        # It is transferred once, whoever asks first: no transfer that a guard is there for.
        with guards.unguarded():
            known = _own(value)
        if value == value:  # NaN never finds its own entry
            _shared[id(known)] = _scalars.put(key, known)
    return known


def _own(value: Any) -> Any:
    """A value as an array that nobody else has."""
    if isinstance(value, Tracer):
        refuse_dead(value)
    if type(value) is Token:
        return value  # it goes where arrays go, and is one to nobody else
    aval = typeof(value)
    return put(_converted(value, aval), aval)


def as_result(value: Any) -> Any:
    """A value as functions give it: an array that nobody else has, of float0 a NumPy array."""
    if typeof(value) is not abstract_token and typeof(value).dtype == dtypes.float0:
        return np.zeros(value.shape, dtypes.float0)
    return to_array(value, False)


def array_of_type(value: Any, aval: ShapedArray) -> Array:
    """A value as an array of a type that is settled: x64 is not asked."""
    with guards.unguarded():  # the engine's own, or part of a program
        return put(_converted(value, aval), aval)


def brought(array: Array | Hosted, sharding: Any, committed: bool) -> Array:
    """`move` of an argument to where its program runs; a scalar that is shared by all who ask for
    it goes there once."""
    if isinstance(array, Hosted):
        return cut(_converted(array.value, array.aval), layout_of(array.aval, sharding, committed))
    if array._placement.aval.shape:
        return move(array, sharding, committed)
    key = (id(array), sharding)
    source, there = _brought.get(key, (None, None))
    if source is array and not there._buffer.is_deleted():
        return there
    if _shared.get(id(array)) is not array:
        return move(array, sharding, committed)
    with guards.unguarded():
        return _brought.put(key, (array, move(array, sharding, committed)))[1]


#: (id of a scalar in `_shared`, sharding) -> the scalar, and the array there.
_brought = BoundedCache(1024)


def unshared(array: Array) -> Array:
    """An array as a result, which its receiver may donate: a copy of one that `to_array` shares."""
    return array if _shared.get(id(array)) is not array else put(array._numpy(), array.aval)


def _converted(value: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """A foreign value as a NumPy array of the dtype its buffer has.

    Raises:
      TypeError: it stands for an array without being one.
    """
    if isinstance(value, ShapeDtypeStruct):
        msg = (f"{value!r} is no array: a ShapeDtypeStruct stands for one only where nothing is "
               "computed, as in eval_shape, make_jaxpr, and jit's trace and lower.")
        raise TypeError(msg)
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, np.bool_)
    return np.asarray(value, aval.dtype)


def put(value: np.ndarray[Any, Any], aval: ShapedArray, device: Device | Sharding | None = None
        ) -> Array:
    """A NumPy array on a device or in a sharding; committed if that is given.

    Raises:
      ValueError: the sharding does not divide a size, or has more dimensions.
    """
    if isinstance(device, Sharding) and type(device) is not SingleDeviceSharding:
        return cut(value, layout_of(aval, device))
    key = (aval, device or ctx.settings, device is not None)
    target = _targets.get(key)
    if target is None:
        sharding = sharding_of(device or default_device())
        target = _targets.put(key, (placement_of(aval, sharding, device is not None),
                                    buffer_aval(aval), sharding.native, sharding.device))
    placement, stored, native, device = target
    return Array(_put(value, stored, native, device), placement)


_put = shim.put
_targets = BoundedCache()


def move(array: Array, sharding: Any, committed: bool) -> Array:
    """An array in another sharding; the same buffer if it is there already.

    Raises:
      ValueError: the sharding does not divide a size, or has more dimensions.
      RuntimeError: the array was deleted; or parts of it that this process needs are in others.
    """
    now = array._placement
    if sharding is now.sharding:
        return array if committed is now.committed else Array(
            array._buffer, placement_of(now.aval, sharding, committed))
    if type(sharding) is SingleDeviceSharding is type(now.sharding):
        return Array(shim.copy_to_device(array._buffer, sharding.device, sharding.native),
                     placement_of(now.aval, sharding, committed))
    return resharded(array, sharding, committed)


rebuild.append(put)


@copy_p.def_impl
def _copy_impl(x: Any) -> Any:
    """A foreign value is copied by its transfer, without a program."""
    return evaluation.executor(copy_p, (x,), {}) if is_array(x) else as_result(x)


def sharding_of(device: Any) -> Any:
    """The sharding that a device, a sharding or a partition spec given by the user stands for.

    Raises:
      ValueError: it is none of these; or a spec, and no mesh is set that it could refer to.
    """
    if isinstance(device, Sharding):
        return device
    if isinstance(device, Device):
        return SingleDeviceSharding(device)
    if isinstance(device, PartitionSpec):
        mesh = mesh_in_force()
        if mesh is not None:
            return NamedSharding(mesh, device)
        msg = (f"{device} alone says nothing of devices: give a NamedSharding(mesh, spec), or set "
               "the mesh that it refers to (with mjax.set_mesh(mesh): ...).")
        raise ValueError(msg)
    msg = (f"expected a device (such as mjax.devices()[0]) or a sharding, got {device!r} of type "
           f"{type(device).__name__}.")
    raise ValueError(msg)


# ---- device_put ------------------------------------------------------------------------

device_put_p = Primitive("device_put")


@device_put_p.def_abstract_eval
def _device_put_type(x: Any, *, device: Any, src: Any) -> Any:
    if isinstance(device, Sharding) and x is not abstract_token:
        device.shard_shape(x.shape)  # refuses sizes that are not divisible
    return x


# Inside of a program it says how the value is to be cut; the devices are the program's.
device_put_p.def_lowering(lambda ctx, x, *, device, src: (
    constrain(ctx, x, device) if isinstance(device, Sharding) else [x]))
# Cotangents go back where the value came from: there they meet those of its other uses.
define_linear(device_put_p, lambda ct, x, *, device, src: (
    ct if src is None else device_put_p.bind(ct, device=src, src=device)))


def _device_put_batch(axis: AxisData, args: Any, dims: Any, *, device: Any, src: Any) -> Any:
    device, src = (of_batch(s, dims[0], typeof(args[0]).ndim, axis.spmd_name)
                   for s in (device, src))
    return device_put_p.bind(args[0], device=device, src=src), dims[0]


device_put_p.axis_batch = _device_put_batch


def _source(x: Any) -> Sharding | None:
    """Where a value is committed to; that of a tracer if it knows it."""
    while isinstance(x, Tracer):
        x = getattr(x, "primal", None) if hasattr(x, "primal") else getattr(x, "value", None)
    return x.sharding if is_array(x) and x.committed else None


@device_put_p.def_impl
def _device_put_impl(x: Any, *, device: Any, src: Any) -> Any:
    with guards.explicit():
        if device is None:
            return as_result(x)
        sharding = sharding_of(device)
        if is_array(x):
            return move(x, sharding, True)
        aval = typeof(x)
        if aval is abstract_token:
            return x  # programs take it to where they run
        if aval.dtype == dtypes.float0:
            return as_result(x)
        return put(_converted(x, aval), aval, sharding)


@boundary
def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False,
               may_alias: Any = None) -> Any:
    """Puts the leaves of a tree on devices.

    Args:
      x: pytree of arrays, NumPy arrays and scalars.
      device: a device, a sharding, a partition spec of the mesh that is set (`set_mesh`), or a
        prefix tree of these; None: the default device, uncommitted.
      src: where cotangents of the leaves go; default: where a leaf is, if it is committed.
      donate: whether the memory of a leaf is freed, unless the result shares it; or a prefix
        tree of bools.
      may_alias: whether the result may share the memory of a leaf, which it does where it can;
        False: it does not; or a prefix tree of these.

    Returns:
      The tree of arrays, committed if a device is given.

    Raises:
      TypeError: a leaf is not an array.
      ValueError: a device is none, or given in the body of a shard_map; a sharding does not
        divide a size, has more dimensions, or leaves open where the parts are; a tree is no
        prefix of `x`; both `donate` and `may_alias` are given.

    Example:
      >>> sharding = mjax.NamedSharding(mjax.make_mesh((1,), ('x',)), mjax.P('x'))
      >>> mjax.device_put({'a': np.arange(3)}, sharding)['a'].sharding == sharding
      True
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


_NO_TREES = (Device, Sharding, PartitionSpec, Format, bool)


def _put_leaf(x: Any, device: Any, src: Any = None, donate: Any = False, may_alias: Any = None
              ) -> Any:
    device, src = unformatted(device, "device_put"), unformatted(src, "device_put")
    if donate and may_alias:
        msg = ("device_put: donate and may_alias cannot both be given; memory that is shared is "
               "not freed.")
        raise ValueError(msg)
    if isinstance(device, PartitionSpec):
        device = sharding_of(device)
    if type(device) is NamedSharding:
        refuse_manual(device, "device_put")
        if ctx.interpreter is evaluation:
            _refuse_open(device)
    elif device is not None:
        sharding_of(device)  # refuses what is none, inside of programs too
        if ctx.axis_env:
            _refuse_device(device)
    if src is None and device is not None:
        src = _source(x)
    out = device_put_p.bind(x, device=device, src=src)
    if (donate or may_alias is False) and is_array(x) and is_array(out):
        if out is x or shares_memory(x, out):
            return _copied(out) if may_alias is False else out
        if donate:
            x.delete()
    return out


def _refuse_device(device: Any) -> None:
    """Refuses one device in the body of a shard_map that is part of no program: there the body
    runs on all devices. (As part of a program it is without effect, as anywhere in programs.)

    Raises:
      ValueError: this is such a body.
    """
    stages = sum(interpreter.stages_all for interpreter in interpreters())
    if stages == 1 and any(axis.manual is not None for axis in ctx.axis_env):
        raise LazyValueError(lambda: (
            f"device_put: {device} was given in the body of a shard_map, which runs on all devices "
            "of the mesh. Leave the device out, or move the array outside."))


def _refuse_open(sharding: NamedSharding) -> None:
    """Refuses shardings that leave open where the parts of an array are.

    Raises:
      ValueError: it does.
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


def _deep_copy(x: Array) -> Array:
    """A copy in the same place; of an array on one device without a program."""
    if type(x.sharding) is not SingleDeviceSharding:
        return _copied(x)
    return move(put(np.array(x._stored()), x.aval, x.sharding), x.sharding, x.committed)


deep_copies.append(_deep_copy)


@boundary
def device_get(x: Any) -> Any:
    """The leaves of a tree as NumPy arrays; copies of all are started before any is read.

    Keys stay key arrays.
    """
    with guards.explicit():
        for leaf in tree_flatten(x)[0]:
            if is_array(leaf) and not dtypes.is_extended(leaf.dtype):
                leaf.copy_to_host_async()
        return tree_map(_on_host, x)


@boundary
def copy_to_host_async(x: Any) -> Any:
    """Starts copying the arrays of a tree to the host, so that reading them later does not wait.

    Args:
      x: pytree; leaves that are not arrays stay as they are.

    Returns:
      The tree.

    Example:
      >>> mjax.copy_to_host_async({"a": jnp.arange(2), "b": 1})
      {'a': Array([0, 1], dtype=int32), 'b': 1}
    """
    for leaf in tree_flatten(x)[0]:
        if is_array(leaf):
            leaf.copy_to_host_async()
    return x


@boundary
def live_arrays(platform: str | None = None) -> list[Array]:
    """The arrays there are on the devices of a platform, those that mjax keeps included.

    Args:
      platform: its name; default: the first one.

    Raises:
      RuntimeError: the platform is unknown.

    Example:
      >>> x = jnp.arange(3)
      >>> any(y is x for y in mjax.live_arrays())
      True
    """
    mine = set(devices(platform))
    return [x for x in gc.get_objects()
            if is_array(x) and not x.is_deleted() and not mine.isdisjoint(x.devices())]


def _on_host(leaf: Any) -> Any:
    if not hasattr(leaf, "__array__") or (is_array(leaf) and dtypes.is_extended(leaf.dtype)):
        return leaf
    return np.asarray(leaf)


@boundary
def block_until_ready(x: Any) -> Any:
    """Waits until all arrays of a tree are computed; returns the tree.

    Raises what the computation of any of them raised.
    """
    buffers = [leaf._buffer for leaf in tree_flatten(x)[0] if is_array(leaf)]
    try:
        for wait in waits:
            for buffer in buffers:
                wait(buffer)
        shim.block_until_ready(buffers)
    except Exception as error:
        raise_original(error)
        raise
    return x
