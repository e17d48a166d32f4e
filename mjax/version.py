"""The version of mjax."""

from mjax._engine.base.faces import face
from mjax._engine.base.version import __version__, __version_info__

__all__ = ["__version__", "__version_info__"]

face("mjax.version")
