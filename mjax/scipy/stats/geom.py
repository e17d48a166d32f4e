"""The geometric distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.geom import logpmf, pmf

__all__ = ["logpmf", "pmf"]

face("mjax.scipy.stats.geom")
