"""Trees of arrays on disk: sharded, by any number of processes, whole or not at all."""

from mjax._engine.base.faces import face
from mjax._tools.checkpoint import latest_step, restore, save

__all__ = ["latest_step", "restore", "save"]

face("mjax.experimental.checkpoint")
