"""Types for annotations."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, Union

import numpy as np

from mjax._engine.runtime.arrays.array import Array


class SupportsDType(Protocol):
    """An object with a dtype, such as `jnp.float32` or an array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""


#: Values that functions of `mjax.numpy` take as arrays. (Tracers are `Array`s.)
ArrayLike: TypeAlias = Union[  # noqa: UP007 (JAX's kind of object)
    Array, np.ndarray[Any, Any], np.bool_, np.number[Any], bool, int, float, complex]
#: Values that `dtype=` arguments take, besides None for the default.
DTypeLike: TypeAlias = Union[str, type[Any], np.dtype[Any], SupportsDType]  # noqa: UP007
