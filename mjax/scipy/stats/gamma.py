"""The gamma distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.gamma import cdf, logcdf, logpdf, logsf, pdf, sf

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

face("mjax.scipy.stats.gamma")
