"""Sparse linear operators; submodules load when they are first used."""

from mjax._engine.base.faces import face

_SUBMODULES = ("linalg",)

__all__ = [*_SUBMODULES]

__getattr__, __dir__ = face("mjax.scipy.sparse", modules=_SUBMODULES)
