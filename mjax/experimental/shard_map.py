"""The first form of `shard_map`, now `mjax.shard_map`."""

from mjax._engine.base.faces import face
from mjax._engine.spmd.pmap import shard_map_of_old as shard_map

__all__ = ["shard_map"]

__getattr__, __dir__ = face("mjax.experimental.shard_map")
