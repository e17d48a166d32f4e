"""Types for annotations of functions that take arrays and dtypes."""

from mjax._numpy.annotations import ArrayLike, DTypeLike

__all__ = ["ArrayLike", "DTypeLike"]
