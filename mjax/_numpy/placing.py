"""Where results lie on several devices, for the packages above, which do not import the runtime."""

from mjax._engine.runtime.laid_out import lays_out

__all__ = ["lays_out"]
