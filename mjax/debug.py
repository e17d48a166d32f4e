"""Looking into compiled programs."""

from mjax._engine.base.faces import face
from mjax._engine.control.callback_primitives import DebugEffect, OrderedDebugEffect
from mjax._engine.runtime.effects.callbacks import debug_callback as callback
from mjax._engine.runtime.effects.callbacks import debug_log as log
from mjax._engine.runtime.effects.callbacks import debug_print as print
from mjax._tools.breakpoint import breakpoint
from mjax._tools.visualize import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)

__all__ = ["DebugEffect", "OrderedDebugEffect", "breakpoint", "callback",
           "inspect_array_sharding", "log", "print",
           "visualize_array_sharding", "visualize_sharding"]

__getattr__, __dir__ = face("mjax.debug")
