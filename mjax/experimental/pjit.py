"""`pjit`, the former name of `jit` with shardings."""

from mjax._engine.runtime.pjit import pjit

__all__ = ["pjit"]
