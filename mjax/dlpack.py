"""Arrays of other libraries, and which dtypes they share."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.arrays.dlpack import from_dlpack, is_supported_dtype

__all__ = ["from_dlpack", "is_supported_dtype"]

face("mjax.dlpack")
