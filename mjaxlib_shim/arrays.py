"""Buffers: arrays on devices, and transfers to and from them.

A `Buffer` is jaxlib's C++ array. mjax wraps it and never adds to the class, which
is shared with jax. An `aval` argument is any object with `shape`, `dtype` and
`weak_type`; it is stored by reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from . import gates
from ._copies import copies_of_shared
from ._hidden import without_jax
from .client import device_list
from .native import ext, xc
from .shardings import (
    SingleDeviceSharding,
    hlo_sharding_of,
    shard_slices,
    single_device_sharding,
)

__all__ = [
    "Buffer",
    "CopyMode",
    "PlainAval",
    "SingleDeviceSharding",
    "XlaRuntimeError",
    "assemble",
    "block_until_ready",
    "copy_to_device",
    "copy_to_host_async",
    "is_deleted",
    "put",
    "put_shards",
    "putter",
    "replicated_shard",
    "result_handler",
    "scalar_putter",
    "shards",
    "single_device_sharding",
    "to_numpy",
    "unsafe_pointer",
]

Buffer: Any = ext.ArrayImpl
XlaRuntimeError: type[Exception] = xc.XlaRuntimeError

#: When `put` copies; see there.
CopyMode = Literal["always", "during_call", "alias"]

_device_put = xc.batched_device_put
_SEMANTICS = xc.HostBufferSemantics
#: copy mode -> (force_copy, host_buffer_semantics)
_COPY: Final = {
    "always": (True, _SEMANTICS.IMMUTABLE_ONLY_DURING_CALL),
    "during_call": (False, _SEMANTICS.IMMUTABLE_ONLY_DURING_CALL),
    "alias": (False, _SEMANTICS.ZERO_COPY),
}


class PlainAval(NamedTuple):
    """The attributes that C++ needs of an abstract value.

    Args:
      shape: sizes of the axes.
      dtype: the dtype.
      weak_type: whether promotion may pick another dtype.

    Example:
      >>> from mjaxlib_shim import arrays
      >>> arrays.PlainAval((3,), np.dtype("float32")).weak_type
      False
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False


# ------------------------------------------------------------------ host to device

if gates.ENABLE_X64.open:

    def put(
        value: np.ndarray[Any, Any],
        aval: Any,
        sharding: Any,
        device: Any,
        *,
        copy: CopyMode = "during_call",
    ) -> Any:
        """One NumPy array to one device; asynchronous. 64-bit dtypes stay 64-bit.

        Args:
          value: C-contiguous or strided; its shape and dtype must be those of `aval`.
          copy: "always": the device never sees the caller's memory. "during_call": the
            caller may change `value` as soon as this returns. "alias": the device may
            read `value`'s own memory for as long as the Buffer lives.
          aval: the type of the array.
          sharding: the sharding of the result.
          device: the device.

        Returns:
          A Buffer.

        Raises:
          XlaRuntimeError: the device is out of memory.
          TypeError: `device` is None.

        Example:
          >>> from mjaxlib_shim import arrays, client, shardings
          >>> device = client.client_for("cpu").local_devices()[0]
          >>> value = np.arange(3, dtype="float32")
          >>> aval = arrays.PlainAval(value.shape, value.dtype)
          >>> buffer = arrays.put(value, aval, shardings.single_device_sharding(device), device)
          >>> arrays.to_numpy(buffer)
          array([0., 1., 2.], dtype=float32)
        """
        if device is None:  # C++ would end the process up to 0.8.3
            raise TypeError("put: the device is None")
        force, semantics = _COPY[copy]
        return _device_put(aval, sharding, [value], [device], True, force, semantics, True)

    def putter(aval: Any, sharding: Any, device: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
        """`put` of many arrays of one type to one place: a function of the array alone.

        Args:
          aval: the type of the arrays.
          sharding: the sharding of the results.
          device: the device.

        Returns:
          `array -> Buffer`.

        Raises:
          XlaRuntimeError: the function is called with a dtype that XLA does not have. On newer
            jaxlibs also with a list.
          TypeError: `device` is not a device, once the function is called.
          AttributeError: `aval` is not a type of arrays, or `sharding` is not a sharding, once the
            function is called.

        Example:
          >>> from mjaxlib_shim import arrays, client, shardings
          >>> device = client.client_for("cpu").local_devices()[0]
          >>> aval = arrays.PlainAval((3,), np.dtype("float32"))
          >>> put = arrays.putter(aval, shardings.single_device_sharding(device), device)
          >>> arrays.to_numpy(put(np.ones(3, "float32")))
          array([1., 1., 1.], dtype=float32)
        """
        (force, semantics), devices = _COPY["during_call"], [device]
        return lambda value: _device_put(
            aval, sharding, [value], devices, True, force, semantics, True
        )

    def scalar_putter(aval: Any, sharding: Any, device: Any) -> Callable[[Any], Any]:
        """`putter` for Python's bools, ints and floats, which C++ reads itself.

        Args:
          aval: the type of the arrays, of shape () and of the dtype that these scalars have with
            64 bits, or with 32.
          sharding: the sharding of the results.
          device: the device.

        Returns:
          `scalar -> Buffer`. A float too large for its dtype becomes an infinity.

        Raises:
          RuntimeError: the function is called with an int that does not fit the dtype.

        Example:
          >>> from mjaxlib_shim import arrays, client, shardings
          >>> device = client.client_for("cpu").local_devices()[0]
          >>> aval = arrays.PlainAval((), np.dtype("float32"))
          >>> put = arrays.scalar_putter(aval, shardings.single_device_sharding(device), device)
          >>> arrays.to_numpy(put(1.5))
          array(1.5, dtype=float32)
        """
        (force, semantics), devices = _COPY["during_call"], [device]
        wide = aval.dtype.itemsize == 8
        return lambda value: _device_put(
            aval, sharding, [value], devices, True, force, semantics, wide
        )

    def put_shards(
        values: Sequence[np.ndarray[Any, Any]],
        aval: Any,
        sharding: Any,
        devices: Sequence[Any],
        *,
        copy: CopyMode = "during_call",
    ) -> Any:
        """One NumPy array per local device, to one Buffer of the global type `aval`.

        Args:
          values: in the order of `devices`; several of them may be the same memory, which
            the Buffers on CPU devices then share.
          copy: see `put`.
          aval: the type of the whole array.
          sharding: its sharding.
          devices: the local devices of the sharding.

        Returns:
          A Buffer.

        Raises:
          ValueError: there are not as many values as devices.
          XlaRuntimeError: XLA does not have the dtype. On newer jaxlibs also if `sharding` needs
            another number of values.
          KeyError: `copy` is not one of the three.
          TypeError: an element of `devices` is None or not a device, or `values` is not a sequence.
          AttributeError: one of several values is not an array, `aval` is not a type of arrays, or
            `sharding` is not a sharding.

        Example:
          >>> from mjaxlib_shim import arrays, client, shardings
          >>> device = client.client_for("cpu").local_devices()[0]
          >>> sharding = shardings.single_device_sharding(device)
          >>> aval = arrays.PlainAval((3,), np.dtype("float32"))
          >>> buffer = arrays.put_shards([np.ones(3, "float32")], aval, sharding, [device])
          >>> len(arrays.shards(buffer))
          1
        """
        if None in devices:  # so it would
            raise TypeError(f"put_shards: a device is None: {devices}")
        if copy != "alias" and len(values) > 1 and (ours := copies_of_shared(values)) is not None:
            values, copy = ours, "alias"
        force, semantics = _COPY[copy]
        return _device_put(aval, sharding, values, devices, True, force, semantics, True)

else:

    def put(
        value: np.ndarray[Any, Any],
        aval: Any,
        sharding: Any,
        device: Any,
        *,
        copy: CopyMode = "during_call",
    ) -> Any:
        """See the newer form above."""
        if device is None:  # C++ would end the process
            raise TypeError("put: the device is None")
        force, semantics = _COPY[copy]
        if value.dtype.itemsize < 8:
            return _device_put(aval, sharding, [value], [device], True, force, semantics)
        return put_shards([value], aval, sharding, [device], copy=copy)

    def putter(aval: Any, sharding: Any, device: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
        """See the newer form above."""
        return lambda value: put(value, aval, sharding, device)

    def scalar_putter(aval: Any, sharding: Any, device: Any) -> Callable[[Any], Any]:
        """See the newer form above."""

        def put_scalar(value: Any) -> Any:
            array = np.empty((), aval.dtype)
            memory: Any = memoryview(array.data)
            memory[...] = value  # rounds to infinity without a warning
            return put(array, aval, sharding, device)

        return put_scalar

    def put_shards(
        values: Sequence[np.ndarray[Any, Any]],
        aval: Any,
        sharding: Any,
        devices: Sequence[Any],
        *,
        copy: CopyMode = "during_call",
    ) -> Any:
        """See the newer form above."""
        if None in devices:  # C++ would end the process
            raise TypeError(f"put_shards: a device is None: {devices}")
        if copy != "alias" and len(values) > 1 and (ours := copies_of_shared(values)) is not None:
            values, copy = ours, "alias"
        force, semantics = _COPY[copy]
        # The flag may be jax's, and jax's default squeezes 64 bits into 32.
        state = ext.jax_jit.thread_local_state()
        before = state.enable_x64
        state.enable_x64 = True
        try:
            return _device_put(aval, sharding, values, devices, True, force, semantics)
        finally:
            state.enable_x64 = before


def assemble(aval: Any, sharding: Any, buffers: Sequence[Any], committed: bool = True) -> Any:
    """One Buffer of the global type `aval` from single-device ones; copies nothing.

    `buffers` are in the order of the sharding's (local) devices; their shapes are not
    checked.

    Args:
      aval: the type of the whole array.
      sharding: its sharding.
      buffers: a list of Buffers on one device each.
      committed: whether the user chose the placement.

    Returns:
      A Buffer.

    Raises:
      TypeError: `buffers` is not a list of Buffers, or `committed` is not a bool.
      ValueError: there are no Buffers, one is on several devices, two are on the same one, or the
        dtypes differ. On newer jaxlibs also if their number or devices are not those of
        `sharding`.
      XlaRuntimeError: a Buffer was deleted or donated.
      AttributeError: `aval` does not have a dtype. On newer jaxlibs also if `sharding` is not a
        sharding.

    Example:
      >>> from mjaxlib_shim import arrays, client, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> sharding = shardings.single_device_sharding(device)
      >>> aval = arrays.PlainAval((3,), np.dtype("float32"))
      >>> buffer = arrays.put(np.ones(3, "float32"), aval, sharding, device)
      >>> arrays.to_numpy(arrays.assemble(aval, sharding, [buffer]))
      array([1., 1., 1.], dtype=float32)
    """
    if not buffers:  # as with deleted ones, old jaxlibs end the process
        raise ValueError("assemble: there are no buffers; give one for each device")
    if any(map(is_deleted, buffers)):
        raise XlaRuntimeError("assemble: a buffer has been deleted or donated")
    return Buffer(aval, sharding, buffers, committed=committed, _skip_checks=True)


def copy_to_device(buffer: Any, device: Any, sharding: Any) -> Any:
    """A single-device Buffer on another device of the same client; keeps its aval.

    On the device it is already on, the result shares the memory.

    Args:
      buffer: a single-device Buffer.
      device: the device.
      sharding: the sharding of the result.

    Returns:
      A Buffer.

    Raises:
      TypeError: `buffer` is not a Buffer, or `device` is None. On older jaxlibs also if `device`
        is not a device.
      XlaRuntimeError: the Buffer was deleted or donated, or is on several devices. On newer jaxlibs
        also if `device` is not a device.
      AttributeError: `sharding` is not a sharding.

    Example:
      >>> from mjaxlib_shim import arrays, client, shardings
      >>> first, second = client.cpu_client(2).local_devices()
      >>> aval = arrays.PlainAval((), np.dtype("float32"))
      >>> buffer = arrays.put(np.float32(3.0).reshape(()), aval,
      ...                     shardings.single_device_sharding(first), first)
      >>> copied = arrays.copy_to_device(buffer, second, shardings.single_device_sharding(second))
      >>> float(arrays.to_numpy(copied))
      3.0
    """
    if is_deleted(buffer):  # C++ would end the process up to 0.10.2
        raise XlaRuntimeError("copy_to_device: the buffer has been deleted or donated")
    if device is None:  # so it would up to 0.6.2
        raise TypeError("copy_to_device: the device is None")
    semantics = ext.ArrayCopySemantics.REUSE_INPUT
    return ext.batched_copy_array_to_devices_with_sharding(
        [buffer], [device_list([device])], [sharding], [semantics]
    )[0]


# ------------------------------------------------------------------ device to host


def to_numpy(buffer: Any) -> np.ndarray[Any, Any]:
    """The value as a read-only NumPy array of the same dtype; blocks.

    It is not a copy if the device's memory is the host's. That memory then lives as long as
    the result, even if the Buffer is deleted or donated. A sharded Buffer is assembled, if
    all its shards are in this process.

    Args:
      buffer: a Buffer.

    Returns:
      A NumPy array.

    Raises:
      XlaRuntimeError: the Buffer was deleted, or the computation that makes it failed.
      ValueError: some shards are in other processes.

    Example:
      >>> from mjaxlib_shim import arrays, client, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> value = np.arange(3, dtype="float32")
      >>> aval = arrays.PlainAval(value.shape, value.dtype)
      >>> buffer = arrays.put(value, aval, shardings.single_device_sharding(device), device)
      >>> arrays.to_numpy(buffer).flags.writeable
      False
    """
    # A view of memory that a failed computation never got would abort the process.
    buffer.block_until_ready()
    try:
        # The fastest route, and on many releases the only one free of hidden imports.
        return np.asarray(memoryview(buffer))
    except BufferError:
        # A dtype without a name in the buffer protocol, or several devices.
        return _slow_to_numpy(buffer)


if gates.TO_NUMPY_WHOLE.open:

    def _slow_to_numpy(buffer: Any) -> np.ndarray[Any, Any]:
        value: np.ndarray[Any, Any] = buffer._to_np_array_did_copy()[0]
        return value

else:

    def _slow_to_numpy(buffer: Any) -> np.ndarray[Any, Any]:
        sharding = buffer._sharding
        if type(sharding) is SingleDeviceSharding:
            return _shard_to_numpy(buffer)
        shape = buffer.aval.shape
        hlo_sharding = hlo_sharding_of(sharding, len(shape))
        if hlo_sharding.is_replicated():
            return to_numpy(replicated_shard(buffer))
        pieces = shards(buffer)
        count = len(sharding._devices)
        if len(pieces) != count:
            raise ValueError(
                f"only {len(pieces)} of the {count} shards of this array are in this process"
            )
        result: np.ndarray[Any, Any] = np.empty(shape, buffer.aval.dtype)
        parts = shard_slices(hlo_sharding, shape, count)
        # Copies may differ: the first one counts, as in `replicated_shard`.
        first = {str(part): i for i, part in reversed(list(enumerate(parts)))}
        for i in first.values():
            result[parts[i]] = to_numpy(pieces[i])
        result.flags.writeable = False
        return result

    def _shard_to_numpy(buffer: Any) -> np.ndarray[Any, Any]:
        with without_jax:
            if gates.TO_NUMPY_COPY_FLAG.open:
                value: np.ndarray[Any, Any] = buffer._single_device_array_to_np_array_did_copy()[0]
            else:
                value = buffer._single_device_array_to_np_array()
        return value


def copy_to_host_async(buffer: Any) -> None:
    """Starts the copy that a later `to_numpy` waits for.

    Args:
      buffer: a Buffer.

    Raises:
      XlaRuntimeError: the Buffer was deleted or donated.
      AttributeError: it is not a Buffer.

    Example:
      >>> from mjaxlib_shim import arrays, client, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> value = np.arange(3, dtype="float32")
      >>> aval = arrays.PlainAval(value.shape, value.dtype)
      >>> buffer = arrays.put(value, aval, shardings.single_device_sharding(device), device)
      >>> arrays.copy_to_host_async(buffer)
    """
    buffer._copy_single_device_array_to_host_async()


def shards(buffer: Any) -> list[Any]:
    """The Buffers on the local devices, in device order; their `aval` may be None.

    Args:
      buffer: a Buffer.

    Returns:
      A list of Buffers on one device each.

    Raises:
      AttributeError: it is not a Buffer.

    Example:
      >>> from mjaxlib_shim import arrays, client, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> value = np.arange(3, dtype="float32")
      >>> aval = arrays.PlainAval(value.shape, value.dtype)
      >>> buffer = arrays.put(value, aval, shardings.single_device_sharding(device), device)
      >>> len(arrays.shards(buffer))
      1
    """
    with without_jax:
        pieces: list[Any] = buffer._arrays
    return pieces


def replicated_shard(buffer: Any) -> Any:
    """The first local Buffer of one that is whole on each device; its `aval` may be None.

    Args:
      buffer: a Buffer.

    Returns:
      A Buffer on one device.

    Raises:
      XlaRuntimeError: the Buffer was deleted or donated.
      AttributeError: it is not a Buffer.

    Example:
      >>> from mjaxlib_shim import arrays, client, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> value = np.arange(3, dtype="float32")
      >>> aval = arrays.PlainAval(value.shape, value.dtype)
      >>> buffer = arrays.put(value, aval, shardings.single_device_sharding(device), device)
      >>> arrays.to_numpy(arrays.replicated_shard(buffer)).shape
      (3,)
    """
    with without_jax:
        piece: Any = buffer._fully_replicated_shard()
    return piece


# ------------------------------------------------------------------ results and state

_HANDLER_OPTIONS: Final[dict[str, bool]] = (
    {} if gates.HANDLER_UNCHECKED.open else {"_skip_checks": True}
)


def result_handler(aval: Any, sharding: Any, committed: bool) -> Any:
    """The handler of an output for `ExecuteResults.consume_with_handlers`; make it once.

    Neither `aval` nor `sharding` is compared with the real output of the program.

    Args:
      aval: the type of the output.
      sharding: its sharding.
      committed: whether the user chose the placement.

    Returns:
      A handler of jaxlib.

    Raises:
      AttributeError: `aval` is not a type of arrays.
      TypeError: `sharding` is None, or `committed` is not a bool.

    Example:
      >>> from mjaxlib_shim import arrays, client, executables, shardings
      >>> cpu = client.client_for("cpu")
      >>> module = mjax.jit(lax.exp).lower(0.0).compiler_ir()
      >>> devices = cpu.local_devices()[:1]
      >>> program = executables.compile_module(cpu, module, devices)
      >>> sharding = shardings.single_device_sharding(devices[0])
      >>> aval = arrays.PlainAval((), np.dtype("float32"))
      >>> handler = arrays.result_handler(aval, sharding, True)
      >>> x = arrays.put(np.zeros((), "float32"), aval, sharding, devices[0])
      >>> (y,) = program.execute_sharded([x]).consume_with_handlers([handler])
      >>> float(arrays.to_numpy(y))
      1.0
    """
    return ext.array_result_handler(aval, sharding, committed, **_HANDLER_OPTIONS)


#: `block_until_ready(buffers)`: waits for a sequence; raises the first failure.
block_until_ready: Any = xc.batched_block_until_ready
#: `is_deleted(buffer)`: whether it was deleted or donated.
is_deleted: Any = Buffer.is_deleted


def unsafe_pointer(buffer: Any) -> int:
    """The address of a single-device Buffer's memory; blocks until it is computed.

    Args:
      buffer: a single-device Buffer.

    Returns:
      An int.

    Raises:
      XlaRuntimeError: the Buffer was deleted, or the computation that makes it failed.

    Example:
      >>> from mjaxlib_shim import arrays, client, shardings
      >>> device = client.client_for("cpu").local_devices()[0]
      >>> value = np.arange(3, dtype="float32")
      >>> aval = arrays.PlainAval(value.shape, value.dtype)
      >>> buffer = arrays.put(value, aval, shardings.single_device_sharding(device), device)
      >>> arrays.unsafe_pointer(buffer) > 0
      True
    """
    buffer.block_until_ready()
    with without_jax:
        address: int = buffer.unsafe_buffer_pointer()
    return address
