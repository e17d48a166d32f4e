"""The wrapped Cauchy distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.wrapcauchy import logpdf, pdf

__all__ = ["logpdf", "pdf"]

face("mjax.scipy.stats.wrapcauchy")
