"""Types for annotations of functions that take arrays, dtypes and shapes."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.arrays.annotations import ArrayLike, DTypeLike, Shape

__all__ = ["ArrayLike", "DTypeLike", "Shape"]

face("mjax.typing")
