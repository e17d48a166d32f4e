"""Vector quantization."""

from mjax._engine.base.faces import face
from mjax._scipy.vq import vq

__all__ = ["vq"]

face("mjax.scipy.cluster.vq")
