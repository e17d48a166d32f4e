"""The von Mises distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.vonmises import logpdf, pdf

__all__ = ["logpdf", "pdf"]

face("mjax.scipy.stats.vonmises")
