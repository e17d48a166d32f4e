"""What may still change."""

from mjax._engine.runtime.callbacks import io_callback

__all__ = ["io_callback"]
