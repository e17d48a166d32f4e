"""Images of any number of axes."""

from mjax._engine.base.faces import face
from mjax._scipy.ndimage import map_coordinates

__all__ = ["map_coordinates"]

face("mjax.scipy.ndimage")
