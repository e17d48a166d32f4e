"""Geometry; submodules load when they are first used."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjax.scipy.spatial import transform

__all__ = ["transform"]

face("mjax.scipy.spatial")
