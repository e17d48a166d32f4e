"""The Student's t distribution."""

from mjax._engine.base.faces import face
from mjax._scipy.stats.t import logpdf, pdf

__all__ = ["logpdf", "pdf"]

face("mjax.scipy.stats.t")
