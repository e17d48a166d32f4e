"""Pure programs for those that read and write references."""

from mjax._engine.transforms.discharge import discharge_state

__all__ = ["discharge_state"]
