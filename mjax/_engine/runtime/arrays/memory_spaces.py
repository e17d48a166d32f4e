"""Memories of a device by their purpose, whatever a platform calls them."""

from __future__ import annotations

import enum
from typing import Any

from mjax._engine.base.util import pickled_by
from mjax._engine.runtime.arrays.shardings import Sharding


@pickled_by("memory_space_v1")
class Space(enum.Enum):
    """A memory in which `device_put` puts values, on the devices where they are.

    `Device` is the memory in which programs compute, `Host` the pinned memory of the host. `Any` is
    a name that JAX has; nothing is put there.

    Example:
      >>> x = mjax.device_put(jnp.ones(2), mjax.memory.Space.Host)
      >>> x.sharding.memory_kind
      'pinned_host'
      >>> mjax.device_put(x, mjax.memory.Space.Device).sharding == jnp.ones(2).sharding
      True

    Source: `jax.memory.Space` of release 0.10.2.
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"


def check_space(space: Space) -> None:
    """Refuses the space that does not name one memory.

    Raises:
      ValueError: it is that one.
    """
    if space is Space.Any:
        msg = f"device_put: {space!r} does not name one memory: give Space.Device or Space.Host."
        raise ValueError(msg)


def in_space(sharding: Sharding, space: Space) -> Any:
    """A sharding in another memory.

    Raises:
      ValueError: the devices do not have that memory.
    """
    return (sharding.in_default_memory if space is Space.Device else
            sharding.with_memory_kind("pinned_host"))


__all__ = ["Space", "check_space", "in_space"]
