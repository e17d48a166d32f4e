"""Modules that may still change; each loads when it is first used."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.effects.callbacks import io_callback

_SUBMODULES = ("checkify", "checkpoint", "custom_partitioning", "jet", "layout", "mesh_utils",
               "multihost_utils", "ode", "pjit", "random", "shard_map")

__all__ = ["io_callback", *_SUBMODULES]

__getattr__, __dir__ = face("mjax.experimental", modules=_SUBMODULES)
