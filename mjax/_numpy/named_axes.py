"""Named axes of the engine, for the packages above, which do not import them directly."""

from mjax._engine.spmd.axes import axis_size
from mjax._engine.spmd.reductions import axis_index

__all__ = ["axis_index", "axis_size"]
