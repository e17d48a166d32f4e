"""Indexers: they select the part of an array that a reference's read or write concerns.

An indexer is static and hashable; traced integers are operands beside it. The NumPy layer has one
for its indices. Those here select all, or extend another indexer to a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.primitives.tangents import add_any_p
from mjax._engine.transforms.batching import AxisData, batch_flat, to_dim


class _Whole:
    """The whole array."""

    def take(self, x: Any) -> Any:
        """The part that it selects."""
        return x

    def put(self, x: Any, value: Any) -> Any:
        """The array with a value there."""
        return value

    def add(self, x: Any, value: Any) -> Any:
        """The array with a value added there."""
        return add_any_p.bind(x, value)

    def text(self, names: Sequence[str]) -> str:
        """Its text in jaxprs, given the names of the operands beside it."""
        return "..."

    def __reduce__(self) -> Any:
        return "WHOLE"


WHOLE = _Whole()


class Replacing(Record):
    """The same for `addupdate` in the place of `swap`, outside of programs: it adds by writing.

    Attributes:
      indexer: the place.
    """

    indexer: Any

    def take(self, x: Any, *operands: Any) -> Any:
        """The part that it selects."""
        return self.indexer.take(x, *operands)

    def add(self, x: Any, value: Any, *operands: Any) -> Any:
        """The array with a value there."""
        return self.indexer.put(x, value, *operands)

    def text(self, names: Sequence[str]) -> str:
        """Its text in jaxprs."""
        return str(self.indexer.text(names))


class Batched(Record):
    """The same in each element of a batch.

    Attributes:
      indexer: in one element.
      axis: the axis of the batch.
      dim: its place in the array; None: all elements read the same one.
      dims: its place in the operands, or None; that of values is 0.
    """

    indexer: Any
    axis: AxisData
    dim: int | None
    dims: tuple[int | None, ...]

    def take(self, x: Any, *operands: Any) -> Any:
        """The part that it selects, batched along axis 0."""
        return self._for_all(self.indexer.take, 0, (x, *operands), (self.dim, *self.dims))

    def put(self, x: Any, value: Any, *operands: Any) -> Any:
        """The array with values there."""
        return self._for_all(self.indexer.put, self.dim, (x, value, *operands),
                             (self.dim, 0, *self.dims))

    def add(self, x: Any, value: Any, *operands: Any) -> Any:
        """The array with values added there."""
        return self._for_all(self.indexer.add, self.dim, (x, value, *operands),
                             (self.dim, 0, *self.dims))

    def _for_all(self, f: Callable[..., Any], to: int | None, args: Sequence[Any],
                 dims: Sequence[int | None]) -> Any:
        (out,), (dim,) = batch_flat(lambda *a: [f(*a)], self.axis, args, dims)
        return to_dim(out, dim, to, self.axis.size)

    def text(self, names: Sequence[str]) -> str:
        """Its text in jaxprs."""
        return f"{self.dim} each: {self.indexer.text(names)}"
