"""Platforms and their devices."""

from __future__ import annotations

import threading
from typing import Any

from mjax._engine.base.config import checks
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjaxlib_shim import client as shim
from mjaxlib_shim.client import Device

_clients: dict[str, Any] = {}
#: Options for the factory of a platform's client.
options: dict[str, dict[str, Any]] = {}
_lock = threading.Lock()


def add_options(platform: str, **more: Any) -> None:
    """Adds options for the factory of a platform's client."""
    options[platform] = {**options.get(platform, {}), **more}


def client(platform: str | None = None) -> Any:
    """The client of a platform, made on first use.

    Raises:
      TypeError: the platform is not a string.
      RuntimeError: the platform is unknown or has no devices.
    """
    if platform is not None and not isinstance(platform, str):
        msg = (f"backend must be the name of a platform, such as 'cpu', got {platform!r} of type "
               f"{type(platform).__name__}.")
        raise TypeError(msg)
    platform = (platform or _default_platform()).lower()
    known = _clients.get(platform)
    if known is None:
        with _lock:
            known = _clients.get(platform)
            if known is None:
                try:
                    known = _clients[platform] = shim.client_for(
                        platform, **options.get(platform, {}))
                except ValueError as error:
                    msg = f"Unknown backend: platform {platform!r} is not available: {error}"
                    raise RuntimeError(msg) from None
    return known


def _default_platform() -> str:
    """The first platform that the flags name; else cpu.

    Raises:
      RuntimeError: a named platform does not exist.
    """
    asked = (thread.options.platforms or thread.options.platform_name).lower()
    names = [name.strip() for name in asked.split(",") if name.strip()]
    missing = [name for name in names if name not in shim.platforms()]
    if missing:
        flag = "platforms" if thread.options.platforms else "platform_name"
        msg = (f"platform {missing[0]!r} is not available: the flag {flag!r} (or the environment "
               f"variable JAX_{flag.upper()} or MJAX_{flag.upper()}) is {asked!r}, and mjax has "
               f"{', '.join(map(repr, shim.platforms()))}.")
        raise RuntimeError(msg)
    return names[0] if names else _preferred()


def _preferred() -> str:
    """The platform of the highest priority that has a client."""
    global _first_choice
    if _first_choice is None:
        for platform, factory in shim.factories_by_priority():
            try:
                client(platform)
            except Exception:
                if not factory.fail_quietly:
                    raise
            else:
                _first_choice = platform
                break
    return _first_choice or "cpu"


#: The default platform, once it is known.
_first_choice: str | None = None


def made() -> list[Any]:
    """The clients made so far."""
    return list(_clients.values())


def register_factory(platform: str, factory: shim.Factory) -> None:
    """Lets `client` make clients of a platform.

    Raises:
      RuntimeError: the platform has a client.
    """
    global _first_choice
    if platform in _clients:
        msg = (f"platform {platform!r} has a client already: register its factory before the first "
               "computation, or drop the clients (mjax_ext.backend.clear_backends).")
        raise RuntimeError(msg)
    shim.register_factory(platform, factory)
    if not _clients:
        _first_choice = None


def forget_clients() -> None:
    """Makes new clients from now on; arrays and programs of the old ones keep these."""
    global _first, _first_choice
    with _lock:
        _clients.clear()
        _first = _first_choice = None
        shim.clients_gone()


@boundary
def devices(backend: str | None = None) -> list[Device]:
    """The devices of a platform, those of other processes included.

    Args:
      backend: a platform's name; by default the first of the flag `platforms`, else cpu.

    Returns:
      A list of `Device`s, in the order of their numbers.

    Raises:
      RuntimeError: the platform is not available.
      TypeError: `backend` is not a string.

    Example:
      >>> mjax.devices("cpu")[0].platform
      'cpu'
    """
    return list(client(backend).devices())


@boundary
def local_devices(process_index: int | None = None, backend: str | None = None,
                  host_id: int | None = None) -> list[Device]:
    """The devices of this process, or of another.

    Args:
      process_index: the number of the other process.
      backend: a platform's name; see `devices`.
      host_id: JAX's former name of `process_index`.

    Returns:
      A list of `Device`s, in the order of their numbers.

    Raises:
      ValueError: no process has this number.

    Example:
      >>> mjax.local_devices()[0].process_index
      0
    """
    index = process_index if host_id is None else host_id
    if index is None:
        return list(client(backend).local_devices())
    if index not in process_indices(backend):
        msg = (f"local_devices: process {index} does not exist; the numbers of the processes are "
               f"{process_indices(backend)}.")
        raise ValueError(msg)
    return [d for d in client(backend).devices() if d.process_index == index]


def device_count(backend: str | None = None) -> int:
    """The number of devices, over all processes.

    Args:
      backend: a platform, such as `"cpu"`; None: the default one.

    Returns:
      An int.

    Raises:
      RuntimeError: the platform is not available.
      TypeError: `backend` is not a string.

    Example:
      >>> mjax.device_count() == len(mjax.devices())
      True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices of this process.

    Args:
      backend: a platform, such as `"cpu"`; None: the default one.

    Returns:
      An int.

    Raises:
      RuntimeError: the platform is not available.
      TypeError: `backend` is not a string.

    Example:
      >>> mjax.local_device_count() == len(mjax.local_devices())
      True
    """
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process.

    Args:
      backend: a platform, such as `"cpu"`; None: the default one.

    Returns:
      An int, 0 if there is one process.

    Raises:
      RuntimeError: the platform is not available.
      TypeError: `backend` is not a string.

    Example:
      >>> mjax.process_index()
      0
    """
    return int(client(backend).process_index())


def process_count(backend: str | None = None) -> int:
    """The number of processes.

    Args:
      backend: a platform, such as `"cpu"`; None: the default one.

    Returns:
      An int.

    Raises:
      RuntimeError: the platform is not available.
      TypeError: `backend` is not a string.

    Example:
      >>> mjax.process_count()
      1
    """
    return len(process_indices(backend))


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes, sorted.

    Args:
      backend: a platform, such as `"cpu"`; None: the default one.

    Returns:
      A list of ints.

    Raises:
      RuntimeError: the platform is not available.
      TypeError: `backend` is not a string.

    Example:
      >>> mjax.process_indices()
      [0]
    """
    return sorted({d.process_index for d in devices(backend)})


def default_backend() -> str:
    """The name of the default platform: cpu.

    Example:
      >>> mjax.default_backend()
      'cpu'
    """
    return str(client().platform)


def _check_default(chosen: Any) -> None:
    if not (chosen is None or isinstance(chosen, Device)
            or (isinstance(chosen, str) and chosen.lower() in shim.platforms())):
        known = ", ".join(map(repr, shim.platforms()))
        msg = (f"default_device must be a device (mjax.devices()[0]) or the name of a platform "
               f"({known}), got {chosen!r}.")
        raise ValueError(msg)


def _check_platforms(chosen: Any) -> None:
    if not (chosen is None or isinstance(chosen, str)):
        msg = (f"platforms must be the names of platforms, separated by commas ('cpu'), or None; "
               f"got {chosen!r}.")
        raise ValueError(msg)


checks["default_device"] = _check_default
checks["platforms"] = checks["platform_name"] = _check_platforms
_first: Device | None = None


def default_device() -> Device:
    """The device that uncommitted values go to: the configured one, else the first."""
    global _first
    chosen = thread.settings.default_device
    if chosen is None:
        if _first is None:
            _first = client().local_devices()[0]
        return _first
    if isinstance(chosen, Device):
        return chosen
    # A value from the environment was not checked when it was set.
    _check_default(chosen)
    return devices(chosen)[0]
