"""What may still change."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.callbacks import io_callback

__all__ = ["io_callback"]

__getattr__, __dir__ = face("mjax.experimental")
