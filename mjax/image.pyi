"""Types of `mjax.image`; a test compares them with the functions."""

from collections.abc import Sequence
from typing import Any

from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array
from mjax._library.image import ResizeMethod as ResizeMethod

__all__: list[str]

def resize(image: ArrayLike, shape: Sequence[int], method: Any, antialias: bool = ...,
           precision: Any = ...) -> Array: ...
def scale_and_translate(image: ArrayLike, shape: Sequence[int], spatial_dims: Sequence[int],
                        scale: ArrayLike, translation: ArrayLike, method: Any,
                        antialias: bool = ..., precision: Any = ...) -> Array: ...
