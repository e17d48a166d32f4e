"""The Poisson distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.poisson import cdf, entropy, logpmf, pmf

__all__ = ["cdf", "entropy", "logpmf", "pmf"]

face("mjax.scipy.stats.poisson")
