"""Values limited to an interval: clamp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import bitwise_and, bitwise_or, gt, lt
from mjax._engine.primitives.comparing import extremum_ir
from mjax._engine.primitives.elementwise import check_kinds, define_elementwise_lowering, stretch
from mjax._engine.primitives.emit import op
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import batch_size, batch_to_front, broadcast_in_dim_p, zeros_of
from mjax._engine.primitives.tangents import define_jvp_from_result
from mjax._engine.tracing.primitive import EnginePrimitive

clamp_p = EnginePrimitive("clamp", params={})


@clamp_p.def_abstract_eval
def _clamp_type(low: Any, x: Any, high: Any) -> ShapedArray:
    if not low.dtype == x.dtype == high.dtype:
        msg = (f"clamp requires arguments to have the same dtypes, got {low.dtype}, {x.dtype}, "
               f"{high.dtype}.")
        raise TypeError(msg)
    check_kinds("clamp", x, "biufc")
    for name, bound in (("min", low), ("max", high)):
        if bound.shape and bound.shape != x.shape:
            msg = (f"clamp: {name} must be a scalar or have the operand's shape {x.shape}, got "
                   f"{bound.shape}.")
            raise TypeError(msg)
    return ShapedArray(x.shape, x.dtype, low.weak_type and x.weak_type and high.weak_type)


def _clamp_share(of: int) -> Callable[..., Any]:
    """The contribution of operand `of`: its tangent where the result equals it."""

    def rule(t: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
        # The upper bound is the result if the bounds cross.
        passed = (bitwise_and(gt(low, x), lt(low, high)), bitwise_and(gt(x, low), lt(x, high)),
                  bitwise_or(lt(high, x), bitwise_and(gt(low, x), gt(low, high))))[of]
        t = stretch(t, typeof(x).shape)
        return select_n(stretch(passed, typeof(x).shape), zeros_of(typeof(t)), t)
    return rule


def _clamp_lowering(ctx: Any, low: Any, x: Any, high: Any) -> Any:
    aval = ctx.avals_out[0]
    if aval.dtype.kind != "c" and aval.dtype != np.bool_:
        return op("stablehlo.clamp", ctx.out_types, [low, x, high])
    # XLA's own compares only real parts, and does not take booleans on the oldest jaxlib.
    return [extremum_ir("minimum", extremum_ir("maximum", x, low, aval), high, aval)]


define_elementwise_lowering(clamp_p, _clamp_lowering)
define_jvp_from_result(clamp_p, *map(_clamp_share, range(3)))


@clamp_p.def_batch
def _clamp_batch(args: Any, dims: Any) -> Any:
    if dims[0] is None and dims[2] is None and not typeof(args[0]).shape and not typeof(
            args[2]).shape:
        return clamp_p.bind(*args), dims[1]
    size = batch_size(args, dims)
    low, x, high = [batch_to_front(a, d, size) for a, d in zip(args, dims, strict=True)]
    shape = typeof(x).shape
    low, high = [reshape_scalars(b, shape) for b in (low, high)]
    return clamp_p.bind(low, x, high), 0


def reshape_scalars(batch: Any, shape: tuple[int, ...]) -> Any:
    """A batch of scalars stretched to a batch of arrays; a batch of arrays as it is."""
    if typeof(batch).ndim == len(shape):
        return batch
    return broadcast_in_dim_p.bind(batch, shape=shape, broadcast_dimensions=(0,))


@boundary
def clamp(min: Any, x: Any, max: Any) -> Any:
    """Elementwise `x`, limited to the interval from `min` to `max`.

    Args:
      min: scalar or array of the shape of `x`, of its dtype.
      x: array; complex numbers are compared by their real parts, then their imaginary ones.
      max: as `min`.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: shapes or dtypes do not fit.

    Example:
      >>> lax.clamp(0.0, jnp.array([-1.0, 0.5, 2.0]), 1.0)
      Array([0. , 0.5, 1. ], dtype=float32)

    Source: StableHLO `clamp`.
    """
    return clamp_p.bind(min, x, max)
