"""Linear equations by iteration."""

from mjax._engine.base.faces import face
from mjax._scipy.krylov.gmres import gmres
from mjax._scipy.krylov.short_recurrences import bicgstab, cg

__all__ = ["bicgstab", "cg", "gmres"]

face("mjax.scipy.sparse.linalg")
