"""The Bernoulli distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.bernoulli import cdf, logpmf, pmf, ppf

__all__ = ["cdf", "logpmf", "pmf", "ppf"]

face("mjax.scipy.stats.bernoulli")
