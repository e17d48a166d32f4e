"""Minima of functions."""

from mjax._engine.base.faces import face
from mjax._scipy.optimize.minimizing import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]

face("mjax.scipy.optimize")
