"""Batching that users write."""

from mjax._engine.base.faces import face
from mjax._engine.control.custom.custom_vmap import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]

face("mjax.custom_batching")
