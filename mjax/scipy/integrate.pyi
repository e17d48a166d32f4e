"""Types of `mjax.scipy.integrate`; a test compares them with the functions."""

from typing import Any

from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def trapezoid(y: ArrayLike, x: Any = ..., dx: ArrayLike = ..., axis: int = ...) -> Array: ...
