"""Modules that may still change; each loads when it is first used."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face
from mjax._engine.runtime.effects.callbacks import io_callback

if TYPE_CHECKING:
    from mjax.experimental import (
        checkify,
        checkpoint,
        compute_on,
        custom_partitioning,
        hijax,
        jet,
        layout,
        mesh_utils,
        multihost_utils,
        ode,
        pjit,
        random,
        shard_map,
        xla_metadata,
    )

__all__ = [
    "io_callback", "checkify", "checkpoint", "compute_on", "custom_partitioning", "hijax", "jet",
    "layout", "mesh_utils", "multihost_utils", "ode", "pjit", "random", "shard_map", "xla_metadata",
]

face("mjax.experimental")
