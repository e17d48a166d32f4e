"""Signal processing, as `scipy.signal` has it."""

from mjax._engine.base.faces import face
from mjax._scipy.signal.convolving import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
)
from mjax._scipy.signal.detrending import detrend
from mjax._scipy.signal.spectral import csd, istft, stft, welch

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft",
    "stft", "welch",
]

face("mjax.scipy.signal")
