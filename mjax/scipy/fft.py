"""Discrete cosine transforms, as `scipy.fft` has them."""

from mjax._engine.base.faces import face
from mjax._scipy.cosines import dct, dctn, idct, idctn

__all__ = ["dct", "dctn", "idct", "idctn"]

face("mjax.scipy.fft")
