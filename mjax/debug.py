"""Looking into compiled programs."""

from mjax._engine.runtime.callbacks import debug_callback as callback
from mjax._engine.runtime.callbacks import debug_print as print

__all__ = ["callback", "print"]
