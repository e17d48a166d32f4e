"""Sparse linear operators; submodules load when they are first used."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjax.scipy.sparse import linalg

__all__ = ["linalg"]

face("mjax.scipy.sparse")
