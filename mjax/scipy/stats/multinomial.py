"""The multinomial distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.multinomial import logpmf, pmf

__all__ = ["logpmf", "pmf"]

face("mjax.scipy.stats.multinomial")
