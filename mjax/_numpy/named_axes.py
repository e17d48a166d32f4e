"""Named axes, for the packages above, which do not import the machinery of the engine."""

from mjax._engine.spmd.axes import axis_size
from mjax._engine.spmd.reductions import axis_index

__all__ = ["axis_index", "axis_size"]
