"""Looking into compiled programs."""

from mjax._checkify.nan_source import NaNSource, nan_source
from mjax._engine.base.faces import face
from mjax._engine.control.callback_primitives import DebugEffect, OrderedDebugEffect
from mjax._engine.runtime.effects.callbacks import debug_callback as callback
from mjax._engine.runtime.effects.callbacks import debug_log as log
from mjax._engine.runtime.effects.callbacks import debug_print as print
from mjax._tools.breakpoint import breakpoint
from mjax._tools.drawing import Drawing, draw
from mjax._tools.flops import Flops, flops
from mjax._tools.trace_report import TraceReport, TraceRow, no_retrace, trace_report
from mjax._tools.visualize import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)

__all__ = ["DebugEffect", "Drawing", "Flops", "NaNSource", "OrderedDebugEffect", "TraceReport",
           "TraceRow", "breakpoint", "callback", "draw", "flops", "inspect_array_sharding", "log",
           "nan_source", "no_retrace", "print", "trace_report", "visualize_array_sharding",
           "visualize_sharding"]

face("mjax.debug")
