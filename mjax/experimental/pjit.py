"""`pjit`, the former name of `jit` with shardings."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.dispatch.jit import pjit

__all__ = ["pjit"]

face("mjax.experimental.pjit")
