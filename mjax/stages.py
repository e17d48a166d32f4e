"""The stages of ahead-of-time compilation: `jit(f).trace(...).lower().compile()`."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.dispatch.stages import (
    ArgInfo,
    Compiled,
    CompilerOptions,
    Lowered,
    Traced,
)
from mjax._engine.runtime.dispatch.wrapped import Wrapped

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

face("mjax.stages")
