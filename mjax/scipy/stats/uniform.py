"""The uniform distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.uniform import cdf, logpdf, pdf, ppf

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

face("mjax.scipy.stats.uniform")
