"""Interpolation."""

from mjax._engine.base.faces import face
from mjax._scipy.interpolate import RegularGridInterpolator

__all__ = ["RegularGridInterpolator"]

__getattr__, __dir__ = face("mjax.scipy.interpolate")
