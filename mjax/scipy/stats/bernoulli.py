"""The Bernoulli distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.bernoulli import cdf, logpmf, pmf, ppf

__all__ = ["cdf", "logpmf", "pmf", "ppf"]

__getattr__, __dir__ = face("mjax.scipy.stats.bernoulli")
