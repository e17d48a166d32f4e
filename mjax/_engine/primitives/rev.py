"""Reversal of axes: rev."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.emit import dense_i64, op
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import shift_axes
from mjax._engine.tracing.primitive import EnginePrimitive

rev_p = EnginePrimitive("rev", params={"dimensions": Ints}, structural=True)


@rev_p.def_abstract_eval
def _rev_type(x: Any, *, dimensions: tuple[int, ...]) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < x.ndim for d in dimensions):
        msg = (f"rev: dimensions {dimensions} must be distinct axes of an operand of {x.ndim} "
               "dimensions, and not negative; count from the first axis.")
        raise LazyArgumentError(msg)
    return x


@rev_p.def_lowering
def _rev_lowering(ctx: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return op("stablehlo.reverse", ctx.out_types, [x], {"dimensions": dense_i64(dimensions)})


define_linear(rev_p, lambda ct, x, *, dimensions: rev_p.bind(ct, dimensions=dimensions))


@rev_p.def_batch
def _rev_batch(args: Any, dims: Any, *, dimensions: tuple[int, ...]) -> Any:
    return rev_p.bind(args[0], dimensions=shift_axes(dimensions, dims[0])), dims[0]


@boundary
def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Reverses the order of the elements along axes; negative axes are refused, as in JAX.

    Args:
      operand: array.
      dimensions: the axes, each once.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: an axis is out of range, or named twice.

    Example:
      >>> lax.rev(jnp.arange(3), (0,))
      Array([2, 1, 0], dtype=int32)
    """
    return rev_p.bind(operand, dimensions=tuple(map(operator.index, dimensions)))
