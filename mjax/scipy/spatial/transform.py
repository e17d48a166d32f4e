"""Rotations in three dimensions."""

from mjax._engine.base.faces import face
from mjax._scipy.rotations import Rotation, Slerp

__all__ = ["Rotation", "Slerp"]

face("mjax.scipy.spatial.transform")
