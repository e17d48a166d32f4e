"""Shardings as XLA serializes them: `OpSharding` protocol buffers, as objects and as bytes."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjaxlib_shim.shardings import HloSharding, OpSharding


@boundary
def get_op_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """An `OpSharding` from its bytes.

    Args:
      sharding: a serialized `xla.OpSharding`, as XLA and exported programs hold it.

    Returns:
      jaxlib's `OpSharding`: with `type`, `tile_assignment_dimensions`,
      `tile_assignment_devices` and others.

    Raises:
      ValueError: they are not the bytes of one.

    Example:
      >>> from mjax_ext import sharding
      >>> data = sharding.get_serialized_proto_from_hlo_sharding(
      ...     sharding.HloSharding.iota_tile((2, 1)))
      >>> sharding.get_op_sharding_from_serialized_proto(data).tile_assignment_dimensions
      [2, 1]

    Source: JAX, `jax.extend.sharding`.
    """
    proto = OpSharding()
    proto.ParseFromString(sharding)
    # jaxlib does not tell whether it could read them.
    if len(proto.SerializeToString()) != len(sharding):
        msg = f"these {len(sharding)} bytes are not a serialized OpSharding: {sharding[:20]!r}..."
        raise ValueError(msg)
    return proto


@boundary
def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """A `HloSharding` from the bytes of an `OpSharding`.

    Args:
      sharding: a serialized `xla.OpSharding`.

    Returns:
      jaxlib's `HloSharding`, as `GSPMDSharding` takes it.

    Raises:
      ValueError: they are not the bytes of one.

    Example:
      >>> from mjax_ext import sharding
      >>> data = sharding.get_serialized_proto_from_hlo_sharding(sharding.HloSharding.replicate())
      >>> sharding.get_hlo_sharding_from_serialized_proto(data).is_replicated()
      True

    Source: JAX, `jax.extend.sharding`.
    """
    return HloSharding.from_proto(get_op_sharding_from_serialized_proto(sharding))


@boundary
def get_serialized_proto_from_hlo_sharding(sharding: Any) -> bytes:
    """The bytes of the `OpSharding` of a `HloSharding`.

    Args:
      sharding: a `HloSharding`.

    Returns:
      Bytes.

    Raises:
      TypeError: it is something else.

    Example:
      >>> from mjax_ext import sharding
      >>> sharding.get_serialized_proto_from_hlo_sharding(sharding.HloSharding.replicate())
      b''

    Source: JAX, `jax.extend.sharding`.
    """
    if not isinstance(sharding, HloSharding):
        msg = f"a HloSharding is needed, got {sharding!r} of type {type(sharding).__name__}."
        raise TypeError(msg)
    return bytes(sharding.to_proto().SerializeToString())


__all__ = ["HloSharding", "OpSharding", "get_hlo_sharding_from_serialized_proto",
           "get_op_sharding_from_serialized_proto", "get_serialized_proto_from_hlo_sharding"]
