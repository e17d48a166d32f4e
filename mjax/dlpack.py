"""Arrays of other libraries, and which dtypes they share."""

from mjax._engine.runtime.dlpack import from_dlpack, is_supported_dtype

__all__ = ["from_dlpack", "is_supported_dtype"]
