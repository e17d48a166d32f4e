"""Ordinary differential equations."""

from mjax._engine.base.faces import face
from mjax._library.ode import odeint

__all__ = ["odeint"]

face("mjax.experimental.ode")
