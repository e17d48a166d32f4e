"""Reductions of segments."""

from mjax._engine.base.faces import face
from mjax._library.segments import segment_max, segment_min, segment_prod, segment_sum

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

face("mjax.ops")
