"""Small libraries for examples; submodules load when they are first used."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjax.example_libraries import optimizers, stax

__all__ = ["optimizers", "stax"]

face("mjax.example_libraries")
