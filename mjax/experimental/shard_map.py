"""The first form of `shard_map`, now `mjax.shard_map`, and what it asked of primitives."""

from mjax._engine.base.faces import face
from mjax._engine.spmd.pmap import register_standard_check, register_standard_rewrite
from mjax._engine.spmd.pmap import shard_map_of_old as shard_map

__all__ = ["register_standard_check", "register_standard_rewrite", "shard_map"]

face("mjax.experimental.shard_map")
