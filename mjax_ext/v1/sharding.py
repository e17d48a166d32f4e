"""Generation v1 (candidate) of `mjax_ext.sharding`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.sharding import (
        GSPMDSharding,
        HloSharding,
        OpSharding,
        get_hlo_sharding_from_serialized_proto,
        get_op_sharding_from_serialized_proto,
        get_serialized_proto_from_hlo_sharding,
    )

__all__ = [
    "get_hlo_sharding_from_serialized_proto", "get_op_sharding_from_serialized_proto",
    "get_serialized_proto_from_hlo_sharding", "GSPMDSharding", "HloSharding", "OpSharding",
]

namespace("mjax_ext.v1.sharding")
