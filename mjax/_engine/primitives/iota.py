"""Arrays of indices along an axis: iota."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType, Ints
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.emit import iota_ir
from mjax._engine.primitives.shapes import canonical_shape
from mjax._engine.tracing.primitive import EnginePrimitive

iota_p = EnginePrimitive("iota", params={"dtype": AnyDType, "shape": Ints, "dimension": int})


@iota_p.def_abstract_eval
def _iota_type(*, dtype: Any, shape: tuple[int, ...], dimension: int) -> ShapedArray:
    if dtypes.kind(dtype) not in "iufc":
        msg = f"iota needs a numeric dtype, not {dtype}."
        raise TypeError(msg)
    if not 0 <= dimension < len(shape):
        msg = f"iota: dimension {dimension} is not an axis of shape {shape}."
        raise ValueError(msg)
    return ShapedArray(shape, dtype)


@iota_p.def_lowering
def _iota_lowering(ctx: Any, *, dtype: Any, shape: Any, dimension: int) -> Any:
    return [iota_ir(ctx.avals_out[0], dimension)]


@boundary
def iota(dtype: Any, size: int) -> Any:
    """The integers from 0 to `size - 1`, of shape `(size,)`.

    Args:
      dtype: an integer, floating or complex dtype.
      size: the number of elements.

    Returns:
      An array of shape `(size,)` and this dtype.

    Raises:
      TypeError: the dtype bool, or a size below 0.

    Example:
      >>> lax.iota("int32", 3)
      Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@boundary
def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """An array whose elements are their own indices along one axis.

    Args:
      dtype: a numeric dtype.
      shape: shape of the result.
      dimension: the axis; not negative.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      ValueError: the axis does not exist.

    Example:
      >>> lax.broadcasted_iota("int32", (2, 3), 1)
      Array([[0, 1, 2],
             [0, 1, 2]], dtype=int32)
    """
    shape = canonical_shape(shape)
    return iota_p.bind(dtype=dtypes.asked_dtype(dtype, "iota"), shape=shape,
                       dimension=operator.index(dimension))
