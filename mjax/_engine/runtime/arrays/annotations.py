"""Types for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, runtime_checkable

import numpy as np

from mjax._engine.runtime.arrays.array import Array


@runtime_checkable
class SupportsDType(Protocol):
    """An object with a dtype, such as `jnp.float32` or an array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""


if TYPE_CHECKING:
    _DType: TypeAlias = np.dtype[Any]
    _NDArray: TypeAlias = np.ndarray[Any, Any]
    _Number: TypeAlias = np.number[Any]
else:  # without parameters, as JAX's: beartype does not compare types of arrays that have them
    _DType, _NDArray, _Number = np.dtype, np.ndarray, np.number

#: Values that functions of `mjax.numpy` take as arrays. (Tracers are `Array`s.)
ArrayLike: TypeAlias = Union[  # noqa: UP007 (JAX's kind of object)
    Array, _NDArray, np.bool_, _Number, bool, int, float, complex]
#: Values that `dtype=` arguments take, besides None for the default.
DTypeLike: TypeAlias = Union[str, type[Any], _DType, SupportsDType]  # noqa: UP007
#: Values that `shape` arguments take: sizes, one for each axis. Arrays have theirs as a tuple.
Shape: TypeAlias = Sequence[int]
