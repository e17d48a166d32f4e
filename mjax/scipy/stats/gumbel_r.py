"""The right-skewed Gumbel distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.gumbel_r import cdf, logcdf, logpdf, logsf, pdf, ppf, sf

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

face("mjax.scipy.stats.gumbel_r")
