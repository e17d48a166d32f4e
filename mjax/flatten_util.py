"""Trees of arrays as one flat array, and back."""

from mjax._engine.base.faces import face
from mjax._numpy.raveling import ravel_pytree

__all__ = ["ravel_pytree"]

face("mjax.flatten_util")
