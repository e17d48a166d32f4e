"""Images in other sizes."""

from mjax._engine.base.faces import face
from mjax._library.image import ResizeMethod, resize, scale_and_translate

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

face("mjax.image")
