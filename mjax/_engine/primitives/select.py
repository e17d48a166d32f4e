"""Elementwise choice between arrays: select_n."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.emit import full, op
from mjax._engine.primitives.shapes import batch_size, batch_to_front, broadcast_in_dim_p, zeros_of
from mjax._engine.primitives.tangents import define_jointly_linear
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import UndefinedPrimal

select_n_p = EnginePrimitive("select_n", params={}, structural=True)
select_n_p._narrow = False  # it takes any number of operands


@select_n_p.def_abstract_eval
def _select_n_type(which: Any, *cases: Any) -> ShapedArray:
    if not cases:
        msg = "select_n needs at least one case."
        raise TypeError(msg)
    first = cases[0]
    if any(c.shape != first.shape or c.dtype != first.dtype for c in cases):
        msg = f"select_n cases must have one shape and dtype, got {', '.join(map(str, cases))}."
        raise TypeError(msg)
    if dtypes.kind(which.dtype) not in "biu":
        msg = f"select_n chooses by booleans or integers, not by {which.dtype}."
        raise TypeError(msg)
    if which.dtype == np.bool_ and len(cases) > 2:
        msg = f"select_n with a boolean `which` takes at most two cases, got {len(cases)}."
        raise TypeError(msg)
    if which.shape and which.shape != first.shape:
        msg = (f"select_n: `which` must be a scalar or have the cases' shape {first.shape}, got "
               f"{which.shape}.")
        raise TypeError(msg)
    return first.update(weak_type=all(c.weak_type for c in cases))


@select_n_p.def_lowering
def _select_n_lowering(ctx: Any, which: Any, *cases: Any) -> Any:
    which_aval, out_type = ctx.avals_in[0], ctx.out_types[0]
    if len(cases) == 1:
        return [cases[0]]
    if which_aval.dtype == np.bool_:
        return op("stablehlo.select", [out_type], [which, cases[1], cases[0]])

    def choose(low: int, high: int) -> Any:
        """The selected one of cases[low:high], by bisection."""
        if high - low == 1:
            return cases[low]
        mid = (low + high) // 2
        below = compare_ir(which, full(mid, which_aval), "LT", which_aval.dtype)
        return op("stablehlo.select", [out_type], [below, choose(low, mid), choose(mid, high)])[0]

    return [choose(0, len(cases))]


define_jointly_linear(select_n_p, slice(1, None))


@select_n_p.def_transpose
def _select_n_transpose(ct: Any, which: Any, *cases: Any) -> Any:
    zero = zeros_of(typeof(ct))
    return [None] + [
        select_n_p.bind(which, *[ct if i == j else zero for j in range(len(cases))])
        if type(case) is UndefinedPrimal else None for i, case in enumerate(cases)]


@select_n_p.def_batch
def _select_n_batch(args: Any, dims: Any) -> Any:
    which_dim, size = dims[0], batch_size(args, dims)
    case_dims = set(dims[1:])
    if len(case_dims) == 1 and None not in case_dims and (
            (which_dim in case_dims and typeof(args[0]).ndim == typeof(args[1]).ndim)
            or (which_dim is None and not typeof(args[0]).shape)):
        return select_n_p.bind(*args), dims[1]
    cases = [batch_to_front(x, d, size) for x, d in zip(args[1:], dims[1:], strict=True)]
    which = args[0]
    if which_dim is not None or typeof(which).shape:
        which = batch_to_front(which, which_dim, size)
        shape = typeof(cases[0]).shape
        if typeof(which).ndim < len(shape):
            which = broadcast_in_dim_p.bind(which, shape=shape, broadcast_dimensions=(0,))
    return select_n_p.bind(which, *cases), 0


@boundary
def select_n(which: Any, *cases: Any) -> Any:
    """Takes each element from the case whose number `which` holds there.

    Args:
      which: boolean or integer array of the cases' shape, or a scalar; values in `[0, len(cases))`.
      cases: arrays of one shape and dtype; at most two if `which` is bool.

    Returns:
      An array of the cases' shape and dtype.

    Raises:
      TypeError: shapes or dtypes do not fit.

    Example:
      >>> lax.select_n(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([10, 20]))
      Array([10,  2], dtype=int32)
    """
    return select_n_p.bind(which, *cases)


@boundary
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of `on_true` where `pred` is true, else of `on_false`; shapes are equal.

    Args:
      pred: array of booleans of the shape of the others, or a scalar.
      on_true: array.
      on_false: array of the same shape and dtype.

    Returns:
      An array of their shape and dtype.

    Raises:
      TypeError: shapes or dtypes that differ.

    Example:
      >>> lax.select(jnp.array([True, False]), jnp.ones(2), jnp.zeros(2))
      Array([1., 0.], dtype=float32)

    Source: StableHLO `select`.
    """
    return select_n_p.bind(pred, on_false, on_true)
