"""The primitive: y[t] = decay * y[t - 1] + x[t], along the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mjax.numpy as jnp
from mjax import Array, lax
from mjax.typing import ArrayLike
from mjax_ext.v1 import core
from mjax_ext.v1.interpreters import ad, batching, mlir

leaky_sum_p = core.Primitive("leaky_sum", params={"reverse": bool})


def leaky_sum(x: ArrayLike, decay: ArrayLike, *, reverse: bool = False) -> Array:
    """The leaky sum of a time series.

    Args:
      x: floating, of shape (..., n); the last axis is time.
      decay: the part of the sum that a step keeps; it broadcasts to the shape (...).
      reverse: whether time runs backwards, as for discounted rewards.

    Returns:
      An array of the shape of `x`.
    """
    x, decay = jnp.asarray(x), jnp.asarray(decay)
    dtype = jnp.result_type(x, decay, float)  # integers become floats
    decay = jnp.broadcast_to(decay.astype(dtype), x.shape[:-1])
    result: Array = leaky_sum_p.bind(x.astype(dtype), decay, reverse=reverse)
    return result


@leaky_sum_p.def_abstract_eval
def _type(x: core.ShapedArray, decay: core.ShapedArray, *, reverse: bool) -> core.ShapedArray:
    if not x.shape or x.shape[:-1] != decay.shape or x.dtype != decay.dtype:
        raise TypeError(f"leaky_sum takes a decay for each series, of its dtype: {x}, {decay}.")
    return core.ShapedArray(x.shape, x.dtype)


def _steps(x: Array, decay: Array, *, reverse: bool) -> Array:
    def step(total: Array, value: Array) -> tuple[Array, Array]:
        total = decay * total + value
        return total, total

    _, totals = lax.scan(step, jnp.zeros(decay.shape, x.dtype), jnp.moveaxis(x, -1, 0),
                         reverse=reverse)
    return jnp.moveaxis(totals, 0, -1)


# One lowering serves jit and evaluation, on all platforms.
mlir.register_lowering(leaky_sum_p, mlir.lower_fun(_steps, multiple_results=False))


def _before(y: Array, reverse: bool) -> Array:
    """The sums one step earlier, zero at the start."""
    start = jnp.zeros_like(y[..., :1])
    parts = [y[..., 1:], start] if reverse else [start, y[..., :-1]]
    return jnp.concatenate(parts, -1) if y.shape[-1] else y


def _jvp(primals: Sequence[Array], tangents: Sequence[Any], *, reverse: bool) -> Any:
    """dy[t] = decay * dy[t - 1] + (dx[t] + ddecay * y[t - 1]): a leaky sum again."""
    x, decay = primals
    dx, ddecay = tangents
    y = leaky_sum_p.bind(x, decay, reverse=reverse)
    added = dx
    if type(ddecay) is not ad.Zero:
        added = ad.add_tangents(dx, ddecay[..., None] * _before(y, reverse))
    return y, leaky_sum_p.bind(added, decay, reverse=reverse)


ad.primitive_jvps[leaky_sum_p] = _jvp


def _transpose(ct: Array, x: Any, decay: Any, *, reverse: bool) -> list[Array | None]:
    """It is linear in `x`; its transpose runs the other way."""
    assert ad.is_undefined_primal(x) and not ad.is_undefined_primal(decay)
    return [leaky_sum_p.bind(ct, decay, reverse=not reverse), None]


ad.primitive_transposes[leaky_sum_p] = _transpose


def _batch(args: Sequence[Array], dims: Sequence[int | None], *, reverse: bool) -> Any:
    """The batch axis goes to the front of both operands."""
    size = next(x.shape[dim] for x, dim in zip(args, dims, strict=True) if dim is not None)
    args = [batching.bdim_at_front(x, dim, size) for x, dim in zip(args, dims, strict=True)]
    return leaky_sum_p.bind(*args, reverse=reverse), 0


batching.primitive_batchers[leaky_sum_p] = _batch
