"""Interpolation."""

from mjax._engine.base.faces import face
from mjax._scipy.interpolate import RegularGridInterpolator

__all__ = ["RegularGridInterpolator"]

face("mjax.scipy.interpolate")
