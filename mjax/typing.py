"""Types for annotations of functions that take arrays and dtypes."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.arrays.annotations import ArrayLike, DTypeLike

__all__ = ["ArrayLike", "DTypeLike"]

face("mjax.typing")
