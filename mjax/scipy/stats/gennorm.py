"""The generalized normal distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.gennorm import cdf, logpdf, pdf

__all__ = ["cdf", "logpdf", "pdf"]

__getattr__, __dir__ = face("mjax.scipy.stats.gennorm")
