"""Geometry; submodules load when they are first used."""

from mjax._engine.base.faces import face

_SUBMODULES = ("transform",)

__all__ = [*_SUBMODULES]

__getattr__, __dir__ = face("mjax.scipy.spatial", modules=_SUBMODULES)
