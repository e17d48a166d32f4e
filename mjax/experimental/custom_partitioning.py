"""Functions that say how they are cut over devices."""

from mjax._engine.base.faces import face
from mjax._engine.spmd.custom_partitioning import custom_partitioning, custom_partitioning_p
from mjax._engine.spmd.sharding_rules import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
)

__all__ = ["ArrayMapping", "BATCHING", "CompoundFactor", "SdyShardingRule", "custom_partitioning",
           "custom_partitioning_p"]

face("mjax.experimental.custom_partitioning")
