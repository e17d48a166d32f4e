"""Where XLA runs parts of a program."""

from mjax._engine.base.faces import face
from mjax._engine.primitives.annotating import compute_on

__all__ = ["compute_on"]

face("mjax.experimental.compute_on")
