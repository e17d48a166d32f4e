"""The logistic distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.logistic import cdf, isf, logpdf, pdf, ppf, sf

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

face("mjax.scipy.stats.logistic")
