"""Moving values to devices and back: `device_put`, `device_get`, arguments of executions."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.signatures import T
from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir import dtypes
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.pytree import registry, tree_flatten, tree_map
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import AbstractValue, ShapedArray, typeof
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.runtime.arrays.array import Array, is_array
from mjax._engine.runtime.arrays.constraints import mesh_in_force
from mjax._engine.runtime.arrays.devices import Device, default_device, devices
from mjax._engine.runtime.arrays.memory_errors import explain_memory
from mjax._engine.runtime.arrays.placement import Placement, placement_of
from mjax._engine.runtime.arrays.resharding import buffer_aval, cut, layout_of, resharded
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.arrays.shardings import NamedSharding, Sharding, SingleDeviceSharding
from mjax._engine.runtime.arrays.token_values import Token
from mjax._engine.runtime.xla_errors import raise_original
from mjax._engine.tracing.interpreter import Tracer, refuse_dead
from mjax._engine.tracing.user_types import Packed, lowered
from mjaxlib_shim import arrays as shim
from mjaxlib_shim import guards

#: (type, value, settings) of scalars -> Array: `x * 2.0` in a loop transfers 2.0 twice.
_scalars = BoundedCache(1024)
#: Keys of scalars that were transferred. They are kept when they come again: those of a count or
#: of a rate that decays never do.
_seen: set[Any] = set()


class _Shared:
    """The arrays in `_scalars`, and those that were in it and are alive.

    A `weakref.WeakSet` cannot hold arrays, and calls Python for each that dies.
    """

    __slots__ = ("limit", "lock", "references")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: id -> reference; the array may be dead, and another one have its id.
        self.references: dict[int, weakref.ref[Array]] = {}
        self.limit = 4096

    def add(self, array: Array) -> None:
        """Adds an array."""
        with self.lock:
            if len(self.references) >= self.limit:
                self.references = {key: reference for key, reference in self.references.items()
                                   if reference() is not None}
                self.limit = max(4096, 2 * len(self.references))
            self.references[id(array)] = weakref.ref(array)

    def __contains__(self, array: Array) -> bool:
        reference = self.references.get(id(array))
        return reference is not None and reference() is array


_flatten = registry.flatten
_shared = _Shared()
_COMPLEX = frozenset({complex, np.complex64, np.complex128})
#: Types of scalars without a hash, which arrays do not hold either.
_WITHOUT_HASH = frozenset({np.void, np.timedelta64})
#: Types of scalars whose equal values are told apart without a text: fast path of `from_scalar`.
SCALARS = frozenset({
    bool, int, float, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
    np.uint32, np.uint64, np.float16, np.float32, np.float64})


def to_array(value: Any, shared: bool = True) -> Array:
    """A value as an array on the default device, uncommitted.

    NumPy arrays are read before this returns, so that the caller may change them.

    Args:
      value: what `typeof` accepts.
      shared: whether equal scalars may be one array; not for arrays that are donated.
    """
    kind = type(value)
    if kind is np.ndarray:
        put, placement = host(value)
        try:
            return Array(put(value), placement)
        except Exception as error:
            explain_memory(error, moved=placement.aval)
            raise
    if kind is Array:
        return value
    if shared and (kind in dtypes.PYTHON_SCALARS or (
            isinstance(value, np.generic) and kind not in _WITHOUT_HASH)):
        return from_scalar(value, str(value) if kind in _COMPLEX else None)
    if issubclass(kind, Array):
        settled: Array = value.settled()
        return settled
    return _own(value)


class HostArgument:
    """A NumPy array among arguments, which is transferred when its buffer is read. A program over
    several devices moves it to all of them at once.

    Attributes:
      value: the array, which the caller may change after the call.
      aval: its type as an argument.
    """

    __slots__ = ("_array", "_placement", "_put", "aval", "value")

    def __init__(self, value: np.ndarray[Any, Any]):
        self.value = value
        self._put, self._placement = host(value)
        self.aval = self._placement.aval
        self._array: Array | None = None

    @property
    def _buffer(self) -> Any:
        return self.array()._buffer

    def array(self) -> Array:
        """The array on the default device."""
        if self._array is None:
            try:
                self._array = Array(self._put(self.value), self._placement)
            except Exception as error:
                explain_memory(error, moved=self.aval)
                raise
        return self._array


def arrived(argument: Array | HostArgument) -> Array:
    """An argument as an array."""
    return argument.array() if type(argument) is HostArgument else argument  # type: ignore


def host(value: np.ndarray[Any, Any]) -> tuple[Callable[[Any], Any], Placement]:
    """The function that transfers NumPy arrays of this type to the default device, and their
    placement."""
    key = (value.dtype, value.shape, thread.settings)
    known: tuple[Callable[[Any], Any], Placement] | None = _hosts.get(key)
    if known is not None:
        return known
    aval = typeof(value)
    put, placement = _to_default_device(aval)
    as_it_is = value.dtype is aval.dtype is not dtypes.float0
    return _hosts.put(key, (
        put if as_it_is else lambda value: put(converted(value, aval)), placement))


def _to_default_device(aval: ShapedArray, putter: Callable[..., Any] = shim.putter
                       ) -> tuple[Callable[[Any], Any], Placement]:
    """The function that transfers NumPy arrays of the dtype of a type, and their placement; with
    another `putter` it transfers other values."""
    sharding = SingleDeviceSharding(default_device())
    return (putter(buffer_aval(aval), sharding.native, sharding.device),
            placement_of(aval, sharding, False))


def _numpy_putter(aval: Any, *place: Any) -> Callable[[Any], Any]:
    """`shim.putter` for NumPy's scalars."""
    put_array = shim.putter(aval, *place)
    return lambda value: put_array(np.asarray(value, aval.dtype))


_hosts = BoundedCache()
#: (type, settings) of scalars -> the function that transfers them, and their placement.
_kinds = BoundedCache()


def forget_devices() -> None:
    """Forgets values and functions that belong to devices, when others take their place."""
    for cache in (_hosts, _kinds, _scalars, _targets, _brought):
        cache.clear()


def from_scalar(value: Any, text: str | None = None) -> Array:
    """A Python or NumPy scalar as an array that all uses but the first share.

    Args:
      value: the scalar.
      text: distinguishes it from equal scalars, needed for complex numbers.
    """
    # The sign of a zero is not part of equality: zeros are told apart by their texts.
    key = (type(value), text or value or str(value), thread.settings)
    known = _scalars.get(key)
    if known is not None and not known._buffer.is_deleted():
        return known
    # Sharing is the engine's choice, so transfer guards do not apply to any use.
    if guards.is_guarded("host_to_device"):
        with guards.unguarded():
            made = own_scalar(value)
    else:
        made = own_scalar(value)
    if key not in _seen:
        if len(_seen) >= 1024:
            _seen.clear()
        _seen.add(key)
    elif value == value:  # NaN never finds its own entry
        _shared.add(_scalars.put(key, made))
    return made


def own_scalar(value: Any) -> Array:
    """A scalar as an array of its own; those of the commonest types by as few steps as possible."""
    kind = type(value)
    if kind not in SCALARS or (kind is int and not -(2**31) <= value < 2**31):
        array: Array = _own(value)
        return array
    key = (kind, thread.settings)
    known = _kinds.get(key)
    if known is None:
        aval = typeof(value)
        if kind in dtypes.PYTHON_SCALARS:
            put, placement = _to_default_device(aval, shim.scalar_putter)
        else:
            put, placement = _to_default_device(aval, _numpy_putter)
        known = _kinds.put(key, (put, placement))
    put, placement = known
    return Array(put(value), placement)


def _own(value: Any) -> Any:
    """A value as an array that is not shared."""
    if isinstance(value, Tracer):
        lowered = value.full_lower()
        return refuse_dead(value) if lowered is value else to_array(lowered, False)
    if type(value) is Token:
        return value  # it is transferred later, into an array of its own
    aval = typeof(value)
    return _parts_of(value, aval) if aval.is_high else put(converted(value, aval), aval)


def _parts_of(value: Any, aval: AbstractValue) -> Packed:
    """The arrays that represent an object of an author's class."""
    parts = lowered(value, aval)
    for part in parts:
        if isinstance(part, Tracer) and type(part) is not Packed:
            raise LazyTypeError(lambda: (
                f"{type(value).__name__} of type {aval} holds values that were being traced. In "
                "traced functions make such values with primitives, whose results are traced as a "
                "whole."))
    return Packed(aval, [to_array(part) for part in parts])


def as_result(value: Any) -> Any:
    """A value as a result of a function: an array that is not shared; for float0, NumPy's."""
    if typeof(value) is not abstract_token and typeof(value).dtype == dtypes.float0:
        return np.zeros(value.shape, dtypes.float0)
    return to_array(value, False)


def array_of_type(value: Any, aval: ShapedArray) -> Array:
    """A value as an array of a given type, whatever x64 is."""
    with guards.unguarded():  # the engine's own, or part of a program
        return put(converted(value, aval), aval)


sockets.array_of_type = array_of_type


def brought(array: Array | HostArgument, sharding: Any, committed: bool) -> Array:
    """`move` of an argument to where its program runs; shared scalars are moved once."""
    if isinstance(array, HostArgument):
        return cut(converted(array.value, array.aval), layout_of(array.aval, sharding, committed))
    if array._placement.aval.shape:
        return move(array, sharding, committed)
    key = (id(array), sharding)
    source, there = _brought.get(key, (None, None))
    if source is array and not there._buffer.is_deleted():
        return there
    if array not in _shared:
        return move(array, sharding, committed)
    with guards.unguarded():
        return _brought.put(key, (array, move(array, sharding, committed)))[1]


#: (id of a scalar in `_shared`, sharding) -> the scalar, and the array there.
_brought = BoundedCache(1024)


def unshared(array: Array) -> Array:
    """An array as a result, which its receiver may donate: a copy of one that `to_array` shares."""
    return put(array._numpy(), array.aval) if array in _shared else array


def converted(value: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """A foreign value as a NumPy array of the dtype its buffer has.

    Raises:
      TypeError: it describes an array without being one.
    """
    if isinstance(value, ShapeDtypeStruct):
        msg = (f"{value!r} is not an array: a ShapeDtypeStruct stands for one only where nothing "
               "is computed, as in eval_shape, make_jaxpr, and jit's trace and lower.")
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
    key = (aval, device or thread.settings, device is not None)
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
        return Array(shim.copy_to_device(array._existing(), sharding.device, sharding.native),
                     placement_of(now.aval, sharding, committed))
    return resharded(array, sharding, committed)


@copy_p.def_impl
def _copy_impl(x: Any) -> Any:
    """A foreign value is copied by its transfer, without a program."""
    return sockets.execute(copy_p, (x,), {}) if is_array(x) else as_result(x)


def sharding_of(device: Any) -> Any:
    """The sharding that a device, a sharding or a partition spec given by the user stands for.

    Raises:
      ValueError: it is none of these; or a spec, but no mesh is set.
    """
    if isinstance(device, Sharding):
        return device
    if isinstance(device, Device):
        return SingleDeviceSharding(device)
    if isinstance(device, PartitionSpec):
        mesh = mesh_in_force()
        if mesh is not None:
            return NamedSharding(mesh, device)
        msg = (f"{device} alone does not name devices: give a NamedSharding(mesh, spec), or set "
               "the mesh that it refers to (with mjax.set_mesh(mesh): ...).")
        raise ValueError(msg)
    msg = (f"expected a device (such as mjax.devices()[0]) or a sharding, got {device!r} of type "
           f"{type(device).__name__}.")
    raise ValueError(msg)


@boundary
def device_get(x: Any) -> Any:
    """The leaves of a tree as NumPy arrays; copies of all are started before any is read.

    Keys stay key arrays, and values that are traced stay as they are.

    Args:
      x: a pytree of arrays of any shapes and dtypes.

    Returns:
      The tree, with a NumPy array of the same shape and dtype for each array.

    Raises:
      RuntimeError: an array was deleted.
      ValueError: the keys of a dict cannot be sorted.

    Example:
      >>> mjax.device_get({"x": jnp.arange(3)})
      {'x': array([0, 1, 2], dtype=int32)}
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

    Raises:
      RuntimeError: an array was deleted.
      ValueError: the keys of a dict cannot be sorted.

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
    """All arrays on the devices of a platform, including those that mjax keeps.

    Args:
      platform: its name; default: the first one.

    Returns:
      A list of arrays.

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
    if (not hasattr(leaf, "__array__") or isinstance(leaf, Tracer)
            or (is_array(leaf) and dtypes.is_extended(leaf.dtype))):
        return leaf
    return np.asarray(leaf)


def block_until_ready(x: T) -> T:
    """Waits until all arrays of a tree are computed; returns the tree.

    Args:
      x: a pytree. Leaves that are not arrays are asked by their own `block_until_ready()`, and
        left alone if they do not have it.

    Returns:
      The tree itself.

    Raises:
      RuntimeError: a computation failed, or an array was deleted.
      Exception: a host callback of a computation raised it.
      ValueError: the keys of a dict cannot be sorted.

    Example:
      >>> mjax.block_until_ready({"x": jnp.arange(3)})
      {'x': Array([0, 1, 2], dtype=int32)}
    """
    try:
        kind, buffers = type(x), []
        # The commonest results are not flattened.
        for part in (x,) if kind is Array else x if kind is tuple else _flatten(x, None)[0]:
            if type(part) is Array:
                buffers.append(part._buffer)
                continue
            for leaf in _flatten(part, None)[0]:
                if is_array(leaf):
                    buffers.append(leaf._buffer)
                elif hasattr(leaf, "block_until_ready"):
                    leaf.block_until_ready()
        try:
            if sockets.watch is not None:
                for buffer in buffers:
                    sockets.watch.poll(buffer.is_ready, "Reading a value")
            shim.block_until_ready(buffers)
        except Exception as error:
            raise_original(error)
            explain_memory(error)
            raise
    except Exception as error:
        fold(error)
        raise
    return x
