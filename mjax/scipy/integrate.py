"""Integrals of sampled functions."""

from mjax._engine.base.faces import face
from mjax._numpy.calculus import trapezoid

__all__ = ["trapezoid"]

face("mjax.scipy.integrate")
