"""The multivariate normal distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.multivariate_normal import logpdf, pdf

__all__ = ["logpdf", "pdf"]

face("mjax.scipy.stats.multivariate_normal")
