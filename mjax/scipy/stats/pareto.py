"""The Pareto distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.pareto import cdf, logcdf, logpdf, logsf, pdf, ppf, sf

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

face("mjax.scipy.stats.pareto")
