"""halves: a library with a primitive, an interpreter, and a module for releases of jax."""

from halves.interpreter import doubled, primitives_of
from halves.primitive import half, half_p

__all__ = ["doubled", "half", "half_p", "primitives_of"]
