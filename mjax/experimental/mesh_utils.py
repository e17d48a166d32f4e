"""Arranging devices for meshes."""

from mjax._engine.runtime.meshes import create_device_mesh, create_hybrid_device_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]
