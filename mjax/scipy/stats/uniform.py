"""The uniform distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.uniform import cdf, logpdf, pdf, ppf

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

__getattr__, __dir__ = face("mjax.scipy.stats.uniform")
