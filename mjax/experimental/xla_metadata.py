"""Metadata of operations, for XLA and its tools."""

from mjax._engine.base.faces import face
from mjax._engine.primitives.annotating import set_xla_metadata

__all__ = ["set_xla_metadata"]

face("mjax.experimental.xla_metadata")
