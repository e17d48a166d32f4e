"""The stages of ahead-of-time compilation: `jit(f).trace(...).lower().compile()`."""

from mjax._engine.runtime.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced"]
