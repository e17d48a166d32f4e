"""The normal distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.norm import cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

face("mjax.scipy.stats.norm")
