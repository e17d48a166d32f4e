"""The memories of a device."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.arrays.memory_spaces import Space

__all__ = ["Space"]

face("mjax.memory")
