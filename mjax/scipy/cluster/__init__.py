"""Clusters; submodules load when they are first used."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjax.scipy.cluster import vq

__all__ = ["vq"]

face("mjax.scipy.cluster")
