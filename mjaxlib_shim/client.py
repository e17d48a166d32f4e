"""Clients and devices.

Making the first client also registers process-wide states. Without these, old jaxlibs
abort: jaxlib's C++ expects that jax has registered them.

mjax and jax can share a process, whichever is imported first. A shim cannot fix one thing:
jaxlib 0.7.2 to 0.9.1 fix at the first transfer which types they take. A program that uses
both must then import jax before mjax's first transfer; otherwise jax's jit refuses jax's
own literals.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from . import gates
from .native import ext, xc

__all__ = [
    "Client",
    "Device",
    "DeviceList",
    "Factory",
    "client_for",
    "clients_gone",
    "cpu_client",
    "device_list",
    "factories_by_priority",
    "platforms",
    "prepare_process",
    "register_factory",
    "set_cpu_asynchronous",
    "set_num_cpu_devices",
    "unfinished_at_exit",
]

Client: Any = ext.Client
DeviceList: Any = ext.DeviceList
if TYPE_CHECKING:
    from .native_types import Device
else:
    Device = ext.Device

_prepared = False
_lock = threading.Lock()


def cpu_client(num_devices: int | None = None, **options: Any) -> Any:
    """A new CPU client with `num_devices` devices (default: XLA_FLAGS, else 1).

    Two clients in one process are fine; their devices are different objects. `options`
    go to jaxlib's `make_cpu_client` (`distributed_client=`, `collectives=`, ...).

    Args:
      num_devices: the number of devices.
      options: arguments for `make_cpu_client`.

    Returns:
      A client of jaxlib.

    Raises:
      ValueError: `num_devices` is below 1.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.cpu_client(2).device_count()
      2
    """
    if num_devices is not None and num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, not {num_devices}")
    prepare_process()
    if num_devices is not None and gates.NUM_DEVICES.open:
        options = {"num_devices": num_devices, **options}
    with _lock, _spare_threads(num_devices):
        if num_devices is None or gates.NUM_DEVICES.open:
            return xc.make_cpu_client(**options)
        return _with_device_count_flag(num_devices, options)


@contextmanager
def _spare_threads(num_devices: int | None) -> Iterator[None]:
    """Gives clients more threads than cores and devices, unless the user set a number."""
    if gates.SPARE_THREADS.open or "NPROC" in os.environ:
        yield
        return
    found = re.findall(r"host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    devices = num_devices or int(found[-1] if found else 1)
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    os.environ["NPROC"] = str(max(cores, 2 * devices + 4))
    try:
        yield
    finally:
        del os.environ["NPROC"]


def _with_device_count_flag(num_devices: int, options: dict[str, Any]) -> Any:
    """XLA reads XLA_FLAGS at the first client of the process only."""
    before = os.environ.get("XLA_FLAGS")
    flag = f"--xla_force_host_platform_device_count={num_devices}"
    os.environ["XLA_FLAGS"] = f"{before} {flag}" if before else flag
    try:
        client = xc.make_cpu_client(**options)
    finally:
        if before is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = before
    if client.local_device_count() != num_devices:
        raise RuntimeError(
            f"this jaxlib fixed the number of CPU devices at its first client "
            f"({client.local_device_count()}); ask for {num_devices} before that, or use "
            f"jaxlib {gates.NUM_DEVICES.since_release} or newer"
        )
    return client


#: The number of devices of `client_for("cpu")`; None: from XLA_FLAGS, else 1.
_num_cpu_devices: int | None = None
_cpu_in_use = False
_asynchronous = True


def set_num_cpu_devices(count: int) -> None:
    """Sets the number of devices of the CPU clients of `client_for`.

    Args:
      count: their number; -1: from XLA_FLAGS, else 1.

    Raises:
      ValueError: it is neither -1 nor at least 1.
      RuntimeError: there is a client already, made with another number.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.set_num_cpu_devices(-1)
    """
    global _num_cpu_devices
    if count != -1 and count < 1:
        raise ValueError(f"num_cpu_devices must be at least 1 (or -1: not set), not {count}")
    wanted = None if count == -1 else count
    if _cpu_in_use and wanted != _num_cpu_devices:
        raise RuntimeError(
            f"num_cpu_devices cannot become {count} any more: the CPU's devices are in use. Set "
            f"it before the first computation, or set the environment variable "
            f"MJAX_NUM_CPU_DEVICES={count}"
        )
    _num_cpu_devices = wanted


def set_cpu_asynchronous(asynchronous: bool) -> None:
    """Sets whether calls may return before their computation is done, for the CPU clients that
    `client_for` makes from now on.

    Args:
      asynchronous: whether they may.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.set_cpu_asynchronous(True)
    """
    global _asynchronous
    _asynchronous = asynchronous


def _configured_cpu_client(**options: Any) -> Any:
    global _cpu_in_use
    configured = {"num_devices": _num_cpu_devices, "asynchronous": _asynchronous}
    client = cpu_client(**{**configured, **options})
    _cpu_in_use = True
    return client


class Factory(NamedTuple):
    """A function that makes the client of a platform.

    `priority`: the platform of the highest one is the default. `fail_quietly`: whether the
    default is another platform if this one fails.

    Args:
      make: `(**options) -> client`.
      priority: the platform of the highest one is the default.
      fail_quietly: whether the default is another platform if this one fails.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.Factory(lambda: None).priority
      0
    """

    make: Callable[..., Any]
    priority: int = 0
    fail_quietly: bool = True


_FACTORIES: dict[str, Factory] = {"cpu": Factory(_configured_cpu_client, fail_quietly=False)}


def register_factory(platform: str, factory: Factory) -> None:
    """Lets `client_for` make clients of a platform.

    Args:
      platform: its name.
      factory: the factory.

    Raises:
      TypeError: `platform` is not hashable.

    Example:
      >>> from mjaxlib_shim import client
      >>> cpu = dict(client.factories_by_priority())["cpu"]
      >>> client.register_factory("cpu", cpu._replace(priority=0))
    """
    _FACTORIES[platform] = factory


def factories_by_priority() -> list[tuple[str, Factory]]:
    """The platforms, that of the highest priority first; among equals the older first.

    Example:
      >>> from mjaxlib_shim import client
      >>> "cpu" in dict(client.factories_by_priority())
      True
    """
    return sorted(_FACTORIES.items(), key=lambda item: -item[1].priority)


def clients_gone() -> None:
    """Told when clients are no longer used: the number of CPU devices may change.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.clients_gone()
    """
    global _cpu_in_use
    _cpu_in_use = False


def vendor_platform(device: Device) -> str:
    """The platform of a device. jaxlib calls GPUs of CUDA and of ROCm both "gpu"; this
    distinguishes them."""
    if device.platform != "gpu":
        return str(device.platform)
    made_with = str(device.client.platform_version).lower()
    return "rocm" if "rocm" in made_with else "cuda"


def platforms() -> tuple[str, ...]:
    """The names that `client_for` takes.

    Example:
      >>> from mjaxlib_shim import client
      >>> "cpu" in client.platforms()
      True
    """
    return tuple(sorted(_FACTORIES))


def client_for(platform: str, **options: Any) -> Any:
    """A new client for a platform; `options` go to its factory.

    Args:
      platform: a name from `platforms`.
      options: arguments for the factory.

    Returns:
      A client of jaxlib.

    Raises:
      ValueError: the platform is unknown.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.client_for("cpu").platform
      'cpu'
    """
    try:
        factory = _FACTORIES[platform]
    except KeyError:
        known = ", ".join(sorted(_FACTORIES))
        raise ValueError(f"no client for platform {platform!r}; known: {known}") from None
    return factory.make(**options)


def unfinished_at_exit(client: Any) -> list[Any] | None:
    """Buffers that have to be computed before the process ends; so have dropped ones.

    None: the process may end at once.

    Args:
      client: the client.

    Returns:
      A list of Buffers, or None.

    Raises:
      AttributeError: `client` is not a client, before jaxlib 0.8.2.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.unfinished_at_exit(client.client_for("cpu")) is None
      True
    """
    if gates.BUSY_EXIT.open or client.platform != "cpu" or not client.live_executables():
        return None
    return [buffer for buffer in client.live_buffers() if not buffer.is_deleted()]


def device_list(devices: Iterable[Any]) -> Any:
    """jaxlib's own list type, for compiling and copying.

    Args:
      devices: devices of one client.

    Returns:
      A `DeviceList`.

    Raises:
      TypeError: `devices` is not iterable.

    Example:
      >>> from mjaxlib_shim import client
      >>> len(client.device_list(client.cpu_client(2).devices()))
      2
    """
    return DeviceList(tuple(devices))


def prepare_process() -> None:
    """Registers what C++ needs once per process; later calls do nothing.

    It sets only unset states. If jax was imported first, its states stay; if it is imported
    later, it replaces ours. Neither harms the other.

    Example:
      >>> from mjaxlib_shim import client
      >>> client.prepare_process()
    """
    global _prepared
    with _lock:
        if _prepared:
            return
        if not gates.ENABLE_X64.open:
            _register_jit_state()
        # The runtime drops Python references from threads without the GIL; they
        # wait in a queue until it is emptied.
        gc.callbacks.append(_collect)
        _prepared = True


def _register_jit_state() -> None:
    """Unset, each of these is a failed CHECK (abort) in the first transfer."""
    jit = ext.jax_jit
    if "jax._src.config" not in sys.modules:
        jit.set_thread_local_state_initialization_callback(lambda: None)
    state = jit.global_state()
    values = {"enable_x64": True, "disable_jit": False}
    if not gates.MEMORIES_STATE.open:
        values["enable_memories"] = False
    for name, value in values.items():
        if getattr(state, name) is None:
            setattr(state, name, value)


def _collect(phase: str, info: dict[str, int]) -> None:
    if phase == "stop":
        ext.collect_garbage()
