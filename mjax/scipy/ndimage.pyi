"""Types of `mjax.scipy.ndimage`; a test compares them with the functions."""

from collections.abc import Sequence
from typing import Any

from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def map_coordinates(input: ArrayLike, coordinates: Sequence[Any], order: int, mode: str = ...,
                    cval: ArrayLike = ...) -> Array: ...
