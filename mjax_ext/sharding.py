"""Shardings as XLA has them, beside those of `mjax.sharding`.

`HloSharding` and `OpSharding` are jaxlib's classes: how an array is cut, in memory and as a
protocol buffer. `GSPMDSharding` adds the devices, and is a sharding like any other.
"""

from __future__ import annotations

from mjax._engine.base.faces import face
from mjax._engine.runtime.arrays.gspmd_sharding import GSPMDSharding
from mjax._engine.runtime.arrays.sharding_protos import (
    HloSharding,
    OpSharding,
    get_hlo_sharding_from_serialized_proto,
    get_op_sharding_from_serialized_proto,
    get_serialized_proto_from_hlo_sharding,
)

__all__ = [
    "GSPMDSharding", "HloSharding", "OpSharding", "get_hlo_sharding_from_serialized_proto",
    "get_op_sharding_from_serialized_proto", "get_serialized_proto_from_hlo_sharding",
]

face("mjax_ext.sharding")
