"""Arranging devices for meshes."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.arrays.meshes import create_device_mesh, create_hybrid_device_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]

face("mjax.experimental.mesh_utils")
