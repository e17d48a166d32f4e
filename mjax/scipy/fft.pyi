"""Types of `mjax.scipy.fft`; a test compares them with the functions."""

from collections.abc import Sequence

from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array

__all__: list[str]

def dct(x: ArrayLike, type: int = ..., n: int | None = ..., axis: int = ..., norm: str | None = ...
        ) -> Array: ...
def dctn(x: ArrayLike, type: int = ..., s: Sequence[int] | None = ...,
         axes: Sequence[int] | None = ..., norm: str | None = ...) -> Array: ...
def idct(x: ArrayLike, type: int = ..., n: int | None = ..., axis: int = ...,
         norm: str | None = ...) -> Array: ...
def idctn(x: ArrayLike, type: int = ..., s: Sequence[int] | None = ...,
          axes: Sequence[int] | None = ..., norm: str | None = ...) -> Array: ...
