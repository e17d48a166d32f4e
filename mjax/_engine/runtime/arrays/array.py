"""Arrays: an object of two fields, a buffer on devices and its interned `Placement`."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mjax._engine.base.displays import display
from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.sockets import sockets
from mjax._engine.base.util import pickled_as
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, physical_aval, typeof_handlers
from mjax._engine.runtime.arrays.devices import default_device
from mjax._engine.runtime.arrays.layouts import Format, format_of
from mjax._engine.runtime.arrays.memory_errors import explain_memory
from mjax._engine.runtime.arrays.placement import Placement, placement_of
from mjax._engine.runtime.arrays.shardings import Sharding, SingleDeviceSharding, bounds
from mjax._engine.runtime.xla_errors import raise_original
from mjax._engine.tracing.interpreter import Tracer
from mjaxlib_shim import arrays as shim
from mjaxlib_shim.client import Device
from mjaxlib_shim.dlpack import to_dlpack

_TREESCOPE = "mjax._engine.runtime.arrays.treescope"
if TYPE_CHECKING:
    from mjax._engine.runtime.arrays.array_methods import ArrayMethods
else:
    ArrayMethods = object  # `mjax._numpy.methods` sets them on `Array`

#: The largest values, in bytes, that are kept for NumPy.
_KEPT = 4096


class _ArrayMeta(type):
    """Tracers are arrays to `isinstance`, although they do not derive from `Array`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return (type(instance) is Array
                or (isinstance(instance, Tracer) and isinstance(instance.aval, ShapedArray))
                or type.__instancecheck__(cls, instance))


class Array(ArrayMethods, metaclass=_ArrayMeta):
    """An n-dimensional array on one or several devices.

    Made by `mjax.numpy`, `mjax.device_put` and the results of computations; operators and
    NumPy's methods are those of `mjax.numpy`. Immutable: `x.at[i].set(v)` gives a new array.
    Computations run asynchronously; reading a value waits for it.

    Example:
      >>> x = jnp.arange(3)
      >>> isinstance(x, mjax.Array), x.shape, x.dtype
      (True, (3,), dtype('int32'))
    """

    __slots__ = ("__weakref__", "_buffer", "_host", "_placement")
    _buffer: Any
    _placement: Placement
    #: The value for NumPy, if it is small and was read twice.
    _host: np.ndarray[Any, Any] | None
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __init__(self, buffer: Any, placement: Placement):
        self._buffer = buffer
        self._placement = placement

    # -- facts --

    @property
    def aval(self) -> ShapedArray:
        """The type."""
        return self._placement.aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._placement.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self._placement.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._placement.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._placement.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether promotion may pick the other operand's dtype."""
        return self._placement.aval.weak_type

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        physical = physical_aval(self._placement.aval)
        return physical.size * int(physical.dtype.itemsize)

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
        return int(self.dtype.itemsize)

    def on_device_size_in_bytes(self) -> int:
        """The number of bytes that the devices of the array use for it, copies included."""
        sharding, physical = self._placement.sharding, physical_aval(self._placement.aval)
        elements = math.prod(sharding.shard_shape(self.shape)) * len(sharding.flat_devices)
        parts = math.prod(physical.shape[self.ndim:])
        return elements * parts * int(physical.dtype.itemsize)

    @property
    def sharding(self) -> Sharding:
        """The sharding of the elements."""
        return self._placement.sharding

    @property
    def committed(self) -> bool:
        """Whether the user chose the placement; computations then run there."""
        return self._placement.committed

    _committed = committed

    @property
    def device(self) -> Device | Sharding:
        """The device of a one-device array, else its sharding."""
        sharding = self._placement.sharding
        devices = sharding.flat_devices
        return devices[0] if len(devices) == 1 else sharding

    def devices(self) -> set[Device]:
        """The devices that hold a part of the array."""
        return set(self._placement.sharding.device_set)

    def __len__(self) -> int:
        try:
            return self._placement.aval.length()
        except TypeError as error:
            fold(error)
            raise

    @property
    def format(self) -> Format:
        """The sharding, and the layout in memory, which is row-major."""
        return format_of(self.ndim, self.sharding)

    # -- parts --

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all its devices belong to this process."""
        return bool(self._placement.sharding.is_fully_addressable)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each of its devices has all of it."""
        return bool(self._placement.sharding.is_fully_replicated)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts on the devices of this process, in the order of the sharding's devices."""
        return [shard for shard in self.global_shards if shard._place is not None]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts on all devices; parts of other processes have None as data."""
        self._existing()
        return [Shard._of(self, *part) for part in _parts_of(self._placement.sharding, self.shape)]

    @boundary
    def addressable_data(self, index: int) -> Array:
        """The part on one device of this process, by its place among them, as an array."""
        sharding = self._placement.sharding
        if type(sharding) is SingleDeviceSharding:
            return (self,)[index]
        buffer = shim.shards(self._existing())[index]
        alone = SingleDeviceSharding(sharding.local_devices[index],
                                     memory_kind=sharding.memory_kind)
        aval = self.aval.update(shape=sharding.shard_shape(self.shape))
        placement = placement_of(aval, alone, True)
        return Array(shim.assemble(physical_aval(aval), alone.native, [buffer]), placement)

    def _existing(self) -> Any:
        """The buffer, unless the array was deleted."""
        if self._buffer.is_deleted():
            msg = (f"Array of type {self.aval} has been deleted: it was donated to a computation "
                   "(donate_argnums) or .delete() was called. Use the computation's result, or "
                   "do not donate what is used again.")
            raise RuntimeError(msg)
        return self._buffer

    def _whole(self) -> Any:
        """A buffer from which all elements can be read."""
        sharding = self._placement.sharding
        if type(sharding) is SingleDeviceSharding or sharding.is_fully_addressable:
            return self._existing()
        if sharding.is_fully_replicated and sharding.has_addressable_devices:
            return shim.replicated_shard(self._existing())
        msg = (f"Array of type {self.aval} has parts in other processes, and cannot be read in "
               "this one. Read its parts here (x.addressable_shards), or gather it on all devices: "
               f"mjax.device_put(x, NamedSharding(mesh, P())), in all processes. {sharding}")
        raise RuntimeError(msg)

    def _only_buffer(self, what: str, error: type[Exception]) -> Any:
        """The buffer of an array on one device, for attributes that only such arrays have."""
        count = len(self._placement.sharding.flat_devices)
        if count > 1:
            msg = (f"{what}: the array is spread over {count} devices, and has no memory of its "
                   "own. Take its parts one by one ([s.data for s in x.addressable_shards]), or "
                   "move it to one device: mjax.device_put(x, device).")
            raise error(msg)
        return self._existing()

    # -- state --

    def block_until_ready(self) -> Array:
        """Waits until the value is computed; raises an error of its computation."""
        try:
            try:
                if sockets.watch is not None:
                    sockets.watch.poll(self._buffer.is_ready, "Reading a value")
                self._buffer.block_until_ready()
            except Exception as error:
                raise_original(error)
                explain_memory(error)
                raise
        except Exception as error:
            fold(error)
            raise
        return self

    def is_ready(self) -> bool:
        """Whether the value is computed."""
        return bool(self._buffer.is_ready())

    @boundary
    def delete(self) -> None:
        """Frees the memory now; the array cannot be used any more."""
        sockets.wait_for_readers([self._buffer])
        self._buffer.delete()

    def is_deleted(self) -> bool:
        """Whether the array was deleted, or its buffer donated."""
        return bool(self._buffer.is_deleted())

    def copy_to_host_async(self) -> None:
        """Starts copying to the host, so that reading the value later does not wait."""
        shim.copy_to_host_async(self._buffer)

    @boundary
    def unsafe_buffer_pointer(self) -> int:
        """The address of the memory; valid while the array lives.

        Raises:
          ValueError: the array is on several devices.
        """
        return shim.unsafe_pointer(self._only_buffer("unsafe_buffer_pointer", ValueError))

    # -- conversions --

    def _numpy(self) -> np.ndarray[Any, Any]:
        """The value as a read-only NumPy array, sharing memory where the device does."""
        if dtypes.is_extended(self.dtype):
            msg = f"an array of dtype {self.dtype} holds keys, not numbers: use random.key_data."
            raise TypeError(msg)
        return self._stored()

    def _stored(self) -> np.ndarray[Any, Any]:
        """The numbers in the buffer, which is the physical array if the dtype is extended."""
        buffer = self._buffer
        if type(self._placement.sharding) is not SingleDeviceSharding or buffer.is_deleted():
            buffer = self._whole()
        try:
            if sockets.watch is not None:
                sockets.watch.poll(buffer.is_ready, "Reading a value")
            return shim.to_numpy(buffer)
        except Exception as error:
            raise_original(error)
            explain_memory(error)
            raise

    def _read(self) -> np.ndarray[Any, Any]:
        """The value for NumPy: a view, or a kept copy if it is small and was read before."""
        value = getattr(self, "_host", None)
        if value is None or self._buffer.is_deleted():
            again = hasattr(self, "_host")
            value = self._numpy()
            self._host = None
            # A copy: an array with a view of its memory cannot be donated.
            if again and value.nbytes <= _KEPT:
                self._host = value.copy("K")
                self._host.flags.writeable = False
        return value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        try:
            value = self._read()
            if dtype is not None and value.dtype != dtype:
                if copy is False:
                    msg = (f"an array of type {self.aval} cannot become a NumPy array of dtype "
                           f"{np.dtype(dtype)} without a copy: leave out copy=False, or dtype.")
                    raise ValueError(msg)
                return value.astype(dtype)
            return value.copy() if copy else value
        except Exception as error:
            fold(error)
            raise

    def _scalar(self, kind: str) -> Any:
        """The only element, for a conversion to a Python number of a kind."""
        aval = self._placement.aval
        if kind != "complex" and dtypes.is_complex(aval.dtype):
            msg = (f"a complex number does not become a Python {kind}, and this array is "
                   f"{aval}; take x.real first.")
            raise TypeError(msg)
        if aval.shape:
            msg = (f"only scalar arrays become a Python {kind}, and this one is {aval}; take "
                   "an element by its index, or x.item() of an array of one element.")
            raise TypeError(msg)
        return self._numpy()[()]

    def __bool__(self) -> bool:
        try:
            size = self._placement.aval.size
            if size > 1:
                msg = ("the truth value of an array with more than one element is ambiguous; use "
                       ".any() or .all().")
                raise ValueError(msg)
            if size == 0:
                msg = "the truth value of an empty array is ambiguous; test array.size > 0."
                raise ValueError(msg)
            return bool(self._numpy())
        except Exception as error:
            fold(error)
            raise

    @boundary
    def __int__(self) -> int:
        return int(self._scalar("int"))

    @boundary
    def __float__(self) -> float:
        return float(self._scalar("float"))

    @boundary
    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        try:
            if not dtypes.is_integer(self.dtype):
                msg = f"only integer arrays can be used as an index; this one is {self.aval}."
                raise TypeError(msg)
            return operator.index(self._scalar("index"))
        except Exception as error:
            fold(error)
            raise

    def item(self, *args: int) -> Any:
        """One element as a Python scalar."""
        try:
            return self._numpy().item(*args)
        except Exception as error:
            fold(error)
            raise

    @boundary
    def tolist(self) -> Any:
        """Nested lists of Python scalars."""
        return self._numpy().tolist()

    @boundary
    def tobytes(self, order: str = "C") -> bytes:
        """The elements' bytes, one element after the other.

        Args:
          order: "C": the last axis varies fastest; "F": the first one.
        """
        return self._numpy().tobytes(order)  # type: ignore[arg-type]

    @property
    def flat(self) -> Any:
        """Refused: arrays cannot be changed through an iterator."""
        msg = "arrays have no attribute flat; use x.ravel(), or x.at[...] to set elements."
        raise NotImplementedError(msg)

    #: From `mjax.numpy`, as the operators are.

    def __buffer__(self, flags: int) -> memoryview:
        # From Python 3.12 on, NumPy asks for this before `__array__`.
        return memoryview(self._read())  # type: ignore[arg-type]  # NumPy < 2.1 stubs

    def __bytes__(self) -> bytes:
        return self.tobytes()

    @boundary
    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        # The capsule is unversioned: by the protocol every consumer takes it.
        kind, own = _DLPACK_KINDS["cpu"], self.__dlpack_device__()
        if dl_device is None or tuple(dl_device) == own or dl_device[0] == own[0] == kind:
            source = self.__copy__() if copy else self
            return to_dlpack(source._only_buffer("__dlpack__", BufferError), stream)
        if dl_device[0] == kind and copy is not False:
            return np.array(self._numpy()).__dlpack__()
        msg = (f"__dlpack__: the array is on DLPack device {own}, and dl_device={dl_device} asks "
               f"for another{' without a copy' if dl_device[0] == kind else ''}. Move it there "
               "first: mjax.device_put(x, device).")
        raise BufferError(msg)

    def __dlpack_device__(self) -> tuple[int, int]:
        self._only_buffer("__dlpack_device__", BufferError)
        (device,) = self.devices()
        return _DLPACK_KINDS[device.platform], device.id

    @boundary
    def __reduce__(self) -> Any:
        extended = self.dtype if dtypes.is_extended(self.dtype) else None
        return _array, (np.array(self._stored()), self.weak_type, extended)

    @boundary
    def __copy__(self) -> Array:
        # Without a program: part by part through the host.
        self.block_until_ready()
        where, stored = self._placement.sharding, physical_aval(self.aval)
        parts = [self._stored()] if type(where) is SingleDeviceSharding else [
            shim.to_numpy(part) for part in shim.shards(self._existing())]
        return Array(shim.put_shards([np.array(part) for part in parts], stored,
                                     where.native_for(stored.ndim), where.local_devices),
                     self._placement)

    def __deepcopy__(self, memo: Any) -> Array:
        return self.__copy__()

    @boundary
    def __repr__(self) -> str:
        if self.is_deleted():
            return f"Array(shape={self.shape}, dtype={self.dtype}, deleted)"
        if not (self.is_fully_addressable or self.is_fully_replicated):
            return f"Array(shape={self.shape}, dtype={self.dtype}, in other processes too)"
        if dtypes.is_extended(self.dtype):
            return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{self._stored()}"
        weak = ", weak_type=True" if self.weak_type else ""
        value = self._numpy()
        if value.size == 0:
            return f"Array([], shape={self.shape}, dtype={self.dtype}{weak})"
        text = np.array2string(value, prefix="Array(", separator=", ", suffix=",")
        last_line = len(text.rsplit("\n", 1)[-1]) + 7
        tail = f"dtype={self.dtype}{weak})"
        return f"Array({text}, {tail}" if last_line + len(tail) < 100 else (
            f"Array({text},\n      {tail}")

    _repr_html_: Callable[..., Any] = display("mjax._engine.runtime.arrays.html", "array_html")
    __treescope_repr__: Callable[..., Any] = display(_TREESCOPE, "array_parts")
    __treescope_ndarray_adapter__: Callable[..., Any] = display(_TREESCOPE, "array_adapter")

    @boundary
    def __str__(self) -> str:
        return repr(self) if dtypes.is_extended(self.dtype) else str(self._numpy())

    @boundary
    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and not dtypes.is_extended(self.dtype):
            return format(self._numpy()[()], spec)
        if spec:
            msg = (f"a format ({spec!r}) is for scalar arrays, and this one is {self.aval}; format "
                   "its elements, or str(x).")
            raise TypeError(msg)
        return str(self)


def is_array(value: Any) -> bool:
    """Whether a value is a concrete array, computed or pending."""
    return issubclass(type(value), Array)


class Shard:
    """The part of an array on one device.

    Args:
      device: the device.
      sharding: where the array is.
      global_shape: the shape of the array.
      data: the part, as an array on that device; None if that belongs to another process.

    Attributes:
      device: the device.
      index: the place of the part in the array, as a tuple of slices.
      replica_id: the number of devices before this one with the same part; 0 for the first.

    Example:
      >>> mjax.device_put(np.arange(4)).addressable_shards[0].index
      (slice(None, None, None),)
    """

    __slots__ = ("_array", "_data", "_place", "device", "index", "replica_id")
    _array: Array | None
    device: Any
    index: tuple[slice, ...]
    replica_id: int

    def __init__(self, device: Any, sharding: Any, global_shape: Sequence[int], data: Any = None):
        parts = {part[0]: part for part in _parts_of(sharding, tuple(global_shape))}
        if device not in parts:
            msg = f"Shard: the sharding {sharding} has no part on {device}."
            raise ValueError(msg)
        self._array, self._data = None, data
        self.device, self.index, self.replica_id, self._place = parts[device]

    @classmethod
    def _of(cls, array: Array, device: Any, index: tuple[slice, ...], replica_id: int,
            place: int | None) -> Shard:
        """A part of an array, made only on demand."""
        self = object.__new__(cls)
        self._array, self._data = array, None
        self.device, self.index, self.replica_id, self._place = device, index, replica_id, place
        return self

    @property
    def data(self) -> Array | None:
        """The part as an array on that device; None if that belongs to another process."""
        if self._array is None or self._place is None:
            return self._data
        return self._array.addressable_data(self._place)

    def __repr__(self) -> str:
        return (f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
                f"data={self.data})")


@functools.lru_cache(4096)
def _parts_of(sharding: Any, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Facts of each device: itself, its part of an array of this shape, the number of devices
    before it with the same part, and its place among the devices of this process, if any."""
    found, copies = [], dict[Any, int]()
    places = {device: i for i, device in enumerate(sharding.local_devices)}
    for device, index in sharding.devices_indices_map(shape).items():
        part = bounds(index, shape)
        copies[part] = copies.get(part, -1) + 1
        found.append((device, index, copies[part], places.get(device)))
    return found


_DLPACK_KINDS = {"cpu": 1, "cuda": 2, "gpu": 2, "rocm": 10}


@pickled_as("array_v1")
def _array(stored: np.ndarray[Any, Any], weak_type: bool, extended: Any) -> Array:
    """An array of numbers, or of keys of a dtype; pickles of arrays call this."""
    if extended is None:
        dtype = dtypes.canonicalize(stored.dtype)
        stored, aval = stored.astype(dtype, copy=False), ShapedArray(stored.shape, dtype, weak_type)
    else:
        aval = ShapedArray(stored.shape[:stored.ndim - len(extended.element_shape)], extended)
    place = SingleDeviceSharding(default_device())
    return Array(shim.put(stored, physical_aval(aval), place.native, place.device),
                 placement_of(aval, place, False))


typeof_handlers[Array] = operator.attrgetter("_placement.aval")
