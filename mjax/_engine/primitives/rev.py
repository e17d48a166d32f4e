"""Axes in reverse order: rev."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.emit import dense_i64, op
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import batch_axes, reduced_shape
from mjax._engine.tracing.primitive import Primitive

rev_p = Primitive("rev", structural=True)


@rev_p.def_abstract_eval
def _rev_type(x: Any, *, dimensions: tuple[int, ...]) -> ShapedArray:
    reduced_shape(x, dimensions, "rev")
    return x


@rev_p.def_lowering
def _rev_lowering(ctx: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return op("stablehlo.reverse", ctx.out_types, [x], {"dimensions": dense_i64(dimensions)})


define_linear(rev_p, lambda ct, x, *, dimensions: rev_p.bind(ct, dimensions=dimensions))


@rev_p.def_batch
def _rev_batch(args: Any, dims: Any, *, dimensions: tuple[int, ...]) -> Any:
    axes, _ = batch_axes(dims[0], dimensions)
    return rev_p.bind(args[0], dimensions=axes), dims[0]


@boundary
def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Reverses the order of the elements along axes; negative ones are refused, as JAX does.

    Example:
      >>> lax.rev(jnp.arange(3), (0,))
      Array([2, 1, 0], dtype=int32)
    """
    dimensions, ndim = tuple(map(operator.index, dimensions)), typeof(operand).ndim
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < ndim for d in dimensions):
        msg = (f"rev: dimensions {dimensions} must be distinct axes of an operand of {ndim} "
               "dimensions, and not negative; count from the first axis.")
        raise LazyArgumentError(msg)
    return rev_p.bind(operand, dimensions=dimensions)
