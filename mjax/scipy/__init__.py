"""SciPy's functions on arrays; submodules load when they are first used."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjax.scipy import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )

__all__ = [
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
    "sparse", "spatial", "special", "stats",
]

face("mjax.scipy")
