"""Small libraries for examples; submodules load when they are first used."""

from mjax._engine.base.faces import face

_SUBMODULES = ("optimizers", "stax")

__all__ = [*_SUBMODULES]

__getattr__, __dir__ = face("mjax.example_libraries", modules=_SUBMODULES)
