"""Trees of arrays as one flat array, and back: `ravel_pytree`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.dtypes import DType
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.joining import concatenate, split
from mjax._engine.primitives.shapes import array_of, full, reshape
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.tracing.flat import check_arguments
from mjax._numpy.core import cast, check_array, dtype_of, shape_of, weak_type_of
from mjax._numpy.fused import fused


@boundary
def ravel_pytree(pytree: Any) -> tuple[Array, Unravel]:
    """Joins the leaves of a tree into one flat array.

    Args:
      pytree: a tree of arrays and scalars.

    Returns:
      A vector of the leaves' elements in order, in the dtype that the leaves promote to; and a
      function that turns such a vector into a tree of this structure. Leaves get their own
      dtypes again. The function is hashable: functions of equal trees are equal.

    Raises:
      TypeError: a leaf is not an array.

    Example:
      >>> from mjax.flatten_util import ravel_pytree
      >>> flat, unravel = ravel_pytree({"a": np.ones((1, 2), "float32"), "b": 3.0})
      >>> flat
      Array([1., 1., 3.], dtype=float32)
      >>> unravel(flat)["a"]
      Array([[1., 1.]], dtype=float32)

    Source: JAX, `jax.flatten_util.ravel_pytree`.
    """
    check_arguments("ravel_pytree", pytree, "pytree")
    leaves, tree = tree_flatten(pytree)
    shapes = tuple(map(shape_of, leaves))
    if not leaves:
        return array_of(full((0,), np.float32(0))), Unravel(tree, (), None, np.dtype("float32"))
    dtype, weak = common_type(*map(weak_type_of, leaves))
    dtypes = tuple(map(dtype_of, leaves))
    mixed = any(d != dtype for d in dtypes)
    return (_ravel(leaves, dtype=dtype, weak=weak),
            Unravel(tree, shapes, dtypes if mixed else None, dtype))


@fused(static_argnames=("dtype", "weak"))
def _ravel(leaves: Sequence[Any], *, dtype: DType, weak: bool) -> Any:
    return concatenate([reshape(cast(x, dtype, weak), (typeof(x).size,)) for x in leaves], 0)


class Unravel:
    """The function from flat arrays to trees that `ravel_pytree` returns.

    Args:
      tree: the structure.
      shapes: the leaves' shapes.
      dtypes: the leaves' dtypes if they differ; None: that of the flat array.
      dtype: the flat array's dtype.
    """

    __slots__ = ("dtype", "dtypes", "shapes", "tree")

    def __init__(self, tree: Any, shapes: tuple[tuple[int, ...], ...],
                 dtypes: tuple[DType, ...] | None, dtype: DType):
        self.tree = tree
        self.shapes = shapes
        self.dtypes = dtypes
        self.dtype = dtype

    @boundary
    def __call__(self, flat: Any) -> Any:
        """The tree whose elements are those of a flat array.

        Raises:
          TypeError: it is not an array, or of another dtype although the leaves' dtypes differ.
          ValueError: it has another shape.
        """
        flat = check_array("unravel", flat)
        aval, size = typeof(flat), sum(map(math.prod, self.shapes))
        if aval.shape != (size,):
            raise LazyValueError(lambda: (
                f"unravel: the array must have shape ({size},), as the result of ravel_pytree, but "
                f"has shape {aval.shape}."))
        if self.dtypes is not None and aval.dtype != self.dtype:
            raise LazyTypeError(lambda: (
                f"unravel: the array must have dtype {self.dtype}, to which the leaves' dtypes "
                f"{', '.join(dict.fromkeys(map(str, self.dtypes or ())))} were promoted, but has "
                f"dtype {aval.dtype}."))
        if not self.shapes:
            return self.tree.unflatten(())
        return self.tree.unflatten(_unravel(flat, shapes=self.shapes, dtypes=self.dtypes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unravel) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.tree, self.shapes, self.dtypes, self.dtype

    def __repr__(self) -> str:
        return f"Unravel({self.tree})"


@fused(static_argnames=("shapes", "dtypes"))
def _unravel(flat: Any, *, shapes: tuple[tuple[int, ...], ...],
             dtypes: tuple[DType, ...] | None) -> list[Any]:
    parts = split(flat, [math.prod(s) for s in shapes])
    leaves = [reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
    if dtypes is None:
        return leaves
    return [cast(leaf, dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]
