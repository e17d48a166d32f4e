"""Layouts of arrays in memory."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.arrays.layout_constraints import with_layout_constraint
from mjax._engine.runtime.arrays.layouts import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]

face("mjax.experimental.layout")
