"""SciPy's functions on arrays; submodules load when they are first used."""

from mjax._engine.base.faces import face

_SUBMODULES = ("cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize",
               "signal", "sparse", "spatial", "special", "stats")

__all__ = [*_SUBMODULES]

__getattr__, __dir__ = face("mjax.scipy", modules=_SUBMODULES)
