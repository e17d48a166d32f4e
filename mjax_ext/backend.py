"""Clients of platforms: which there are, factories of further ones, options for XLA.

`platform_aliases` has the name of all platforms of a kind, "gpu", by the vendor's, such as "cuda".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.platforms import PLATFORMS, names_of
from mjax._engine.base.program_caches import forget_programs, registered
from mjax._engine.runtime.arrays import devices
from mjax._engine.runtime.arrays.devices import default_device
from mjax._engine.runtime.arrays.transfer import forget_devices
from mjax._engine.runtime.effects.tokens import effects_barrier
from mjaxlib_shim import client as shim
from mjaxlib_shim.executables import any_compile_options

__all__ = [
    # clients
    "backend_xla_version", "backends", "clear_backends", "get_backend", "get_default_device",
    "register_backend_factory",
    # platforms
    "is_known_platform", "platform_aliases",
    # caches and options
    "clear_in_memory_compilation_cache", "get_compile_options", "register_backend_cache",
]

#: The vendor's platform -> the name of all of them.
platform_aliases: dict[str, str] = {
    name: "gpu" for name in PLATFORMS if name != "gpu" and "gpu" in names_of(name)}


@boundary
def get_backend(platform: Any = None) -> Any:
    """The client of a platform, jaxlib's `Client`; it is made at the first call.

    Args:
      platform: its name; None: the default; a client is given back.

    Returns:
      A client.

    Raises:
      RuntimeError: the platform is unknown or does not have devices.
      TypeError: it is neither a string nor a client.

    Example:
      >>> from mjax_ext import backend
      >>> backend.get_backend().platform
      'cpu'

    Source: JAX, `jax.extend.backend.get_backend`.
    """
    return platform if isinstance(platform, shim.Client) else devices.client(platform)


@boundary
def backends() -> dict[str, Any]:
    """The clients of all platforms that have one, by name, in the order of priority.

    A platform whose factory fails is left out, if it was registered with `fail_quietly`.

    Example:
      >>> from mjax_ext import backend
      >>> list(backend.backends())
      ['cpu']

    Source: JAX, `jax.extend.backend.backends`.
    """
    found = {}
    for platform, factory in shim.factories_by_priority():
        try:
            found[platform] = devices.client(platform)
        except Exception:
            if not factory.fail_quietly:
                raise
    return found


def is_known_platform(platform: str) -> bool:
    """Whether a client can be made for a platform, or it is another name of one.

    Args:
      platform: a name, such as `"cuda"`.

    Returns:
      A bool.

    Raises:
      TypeError: the platform is not hashable, as a list.

    Example:
      >>> from mjax_ext import backend
      >>> backend.is_known_platform("cpu"), backend.is_known_platform("abacus")
      (True, False)

    Source: JAX, `jax._src.xla_bridge.is_known_platform`.
    """
    return platform in {*shim.platforms(), *platform_aliases, *platform_aliases.values()}


@boundary
def register_backend_factory(name: str, factory: Callable[[], Any], *, priority: int = 0,
                             fail_quietly: bool = True, experimental: bool = False,
                             make_topology: Callable[..., Any] | None = None,
                             c_api: Any = None) -> None:
    """Registers a function that makes the client of a platform.

    Args:
      name: the name of the platform, as `mjax.devices(name)` takes it.
      factory: gives jaxlib's `Client`, for one of a PJRT plugin.
      priority: that of the CPU is 0; the highest one is the default platform.
      fail_quietly: whether the default platform is another one if the factory fails.
      experimental: for JAX, which warns then. mjax does not.
      make_topology: not used: mjax compiles for devices that are there.
      c_api: not used: plugins are not told of each other.

    Raises:
      TypeError: the name is not a string, or the factory is not a function; when the devices are
        asked for: it does not give a client.
      RuntimeError: the platform has a client already.

    Example:
      >>> from mjax_ext import backend
      >>> backend.register_backend_factory("second", lambda: backend.get_backend("cpu"))
      >>> mjax.devices("second")[0].platform
      'cpu'

    Source: JAX, `jax.extend.backend.register_backend_factory`.
    """
    if not isinstance(name, str):
        msg = f"register_backend_factory: the name must be a string, got {name!r}."
        raise TypeError(msg)
    if not callable(factory):
        msg = (f"the factory of platform {name!r} must be a function that makes a client, got "
               f"{factory!r} of type {type(factory).__name__}.")
        raise TypeError(msg)
    def make(**options: Any) -> Any:
        client = factory()
        if not hasattr(client, "local_devices"):
            msg = (f"the factory of platform {name!r} must return a client of jaxlib, but returned "
                   f"{client!r} of type {type(client).__name__}.")
            raise TypeError(msg)
        return client

    devices.register_factory(name, shim.Factory(make, priority, fail_quietly))


def get_default_device() -> Any:
    """The device of values that nobody placed: that of `mjax.default_device`, else the first one.

    Example:
      >>> from mjax_ext import backend
      >>> backend.get_default_device() == mjax.devices()[0]
      True

    Source: JAX, `jax.extend.backend.get_default_device`.
    """
    return default_device()


@boundary
def backend_xla_version(platform: str | None = None) -> int | None:
    """The version of XLA that a PJRT plugin was built with; None for the clients of jaxlib itself.

    Args:
      platform: the name of the platform; None: the default.

    Returns:
      An int, or None.

    Raises:
      RuntimeError: the platform is unknown or does not have devices.
      TypeError: it is neither a string nor a client.

    Example:
      >>> from mjax_ext import backend
      >>> backend.backend_xla_version("cpu")

    Source: JAX, `jax.extend.backend.backend_xla_version`.
    """
    version: int | None = getattr(get_backend(platform), "xla_version", None)
    return version


@boundary
def clear_backends() -> None:
    """Drops all clients, after their effects are done, and forgets all programs.

    The next computation makes new ones. Arrays keep the devices they are on, so that they cannot
    be operands together with new ones.

    Example:
      >>> from mjax_ext import backend
      >>> old = mjax.devices()[0]
      >>> backend.clear_backends()
      >>> mjax.devices()[0] == old
      False

    Source: JAX, `jax.extend.backend.clear_backends`.
    """
    effects_barrier()
    devices.forget_clients()
    forget_devices()
    forget_programs()


def clear_in_memory_compilation_cache() -> None:
    """Forgets compiled programs, and the traces that they were made from.

    Example:
      >>> from mjax_ext import backend
      >>> backend.clear_in_memory_compilation_cache()

    Source: JAX, `jax.extend.backend.clear_in_memory_compilation_cache`.
    """
    forget_programs()


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Lets a cache be cleared together with the library's (`mjax.clear_caches`).

    It is cleared, too, where a rule of a primitive is replaced.

    Args:
      cache: an object with a method `cache_clear()`, such as a function under `functools.cache`.
        It is not kept alive.
      for_what: what it is for.

    Raises:
      TypeError: it does not have that method.

    Example:
      >>> import functools
      >>> from mjax_ext import backend
      >>> square = functools.cache(lambda x: x * x)
      >>> backend.register_backend_cache(square, "squares")
      >>> _ = square(3), mjax.clear_caches()
      >>> square.cache_info().currsize
      0

    Source: JAX, `jax.extend.backend.register_backend_cache`.
    """
    if not callable(getattr(cache, "cache_clear", None)):
        msg = (f"register_backend_cache: the cache for {for_what} does not have a method "
               f"cache_clear(): {cache!r} of type {type(cache).__name__}.")
        raise TypeError(msg)
    registered.add(cache)


@boundary
def get_compile_options(num_replicas: int, num_partitions: int, device_assignment: Any = None,
                        env_options_overrides: Mapping[str, object] | None = None,
                        fdo_profile: bytes | None = None, detailed_logging: bool = True,
                        backend: Any = None) -> Any:
    """Options for XLA, jaxlib's `CompileOptions`.

    Args:
      num_replicas: the number of replicas.
      num_partitions: the number of partitions of each.
      device_assignment: devices or their ids, of shape `[num_replicas, num_partitions]`, or
        `[num_replicas]` for one partition; None: XLA chooses.
      env_options_overrides: XLA flags (`xla_...`) by name.
      fdo_profile: a profile that guides optimization.
      detailed_logging: whether XLA's logs show the program.
      backend: the client; it changes nothing.

    Returns:
      Options of jaxlib.

    Raises:
      ValueError: the assignment has another shape.

    Example:
      >>> from mjax_ext import backend
      >>> backend.get_compile_options(1, 2, [mjax.devices()[:2]]).num_partitions
      2

    Source: JAX, `jax.extend.backend.get_compile_options`.
    """
    ids = None
    if device_assignment is not None:
        ids = np.vectorize(lambda d: getattr(d, "id", d), otypes=[np.int32])(
            np.array(device_assignment))
        given, ids = ids.shape, ids[:, None] if ids.ndim == 1 and num_partitions == 1 else ids
        if ids.shape != (num_replicas, num_partitions):
            msg = (f"device_assignment has shape {given}, but there are {num_replicas} replicas "
                   f"of {num_partitions} partitions: it must be ({num_replicas}, "
                   f"{num_partitions}).")
            raise ValueError(msg)
    profile = {"fdo_profile": fdo_profile} if fdo_profile else {}
    found = any_compile_options(
        ids, num_partitions=num_partitions, num_replicas=num_replicas,
        options={"use_spmd_partitioning": True, "use_shardy_partitioner": True, **profile,
                 **(env_options_overrides or {})})
    found.executable_build_options.debug_options.xla_detailed_logging = detailed_logging
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
