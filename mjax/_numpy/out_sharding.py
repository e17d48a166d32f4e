"""The argument `out_sharding=`, for packages that do not import the runtime."""

from mjax._engine.runtime.arrays.out_sharding import lays_out

__all__ = ["lays_out"]
