"""Reads and writes of references, for type checkers.

`mjax._numpy.references` sets them on the class when mjax is imported; a test compares the two.
"""

from typing import Any, Protocol

import numpy as np

from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.tracing.interpreter import Tracer

class _At(Protocol):
    """`ref.at`."""

    def __getitem__(self, index: Any, /) -> _Part: ...

class _Access:
    """Whatever references and their parts have in common."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def at(self) -> _At: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __setitem__(self, index: Any, value: ArrayLike, /) -> None: ...
    def get(self, idx: Any = ...) -> Array: ...
    def set(self, value: ArrayLike, idx: Any = ...) -> None: ...
    def swap(self, value: ArrayLike, idx: Any = ...) -> Array: ...
    def addupdate(self, x: ArrayLike, idx: Any = ...) -> None: ...

class _Part(_Access):
    """`ref.at[index]`: a part of a reference, which is read and written like the whole."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...

class RefMethods(_Access, Tracer):
    """The base class of `Ref` that type checkers see."""
