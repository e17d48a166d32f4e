"""The generalized normal distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.gennorm import cdf, logpdf, pdf

__all__ = ["cdf", "logpdf", "pdf"]

face("mjax.scipy.stats.gennorm")
