"""Trees of arrays as one flat array, and back."""

from mjax._numpy.raveling import ravel_pytree

__all__ = ["ravel_pytree"]
