"""Types for annotations."""

from __future__ import annotations

from typing import Any, Protocol, Union

import numpy as np

from mjax._engine.runtime.arrays.array import Array


class SupportsDType(Protocol):
    """An object with a dtype, such as `jnp.float32` or an array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""


#: Values that functions of `mjax.numpy` take as arrays. (Tracers are `Array`s.)
ArrayLike = Union[  # noqa: UP007 (JAX's kind of object)
    Array, np.ndarray, np.bool_, np.number, bool, int, float, complex]
#: Values that `dtype=` arguments take, besides None for the default.
DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]  # noqa: UP007
