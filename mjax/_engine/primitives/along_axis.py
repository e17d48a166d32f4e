"""Batching of primitives that work along an axis of operands of equal rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import batch_at, batch_size
from mjax._engine.tracing.primitive import Primitive


def batched_alike(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Sequence[Any], int]:
    """Operands of equal rank with their batch axes at one position, and that position."""
    dim = next(d for d in dims if d is not None)
    if all(d == dim for d in dims):
        return args, dim
    size = batch_size(args, dims)
    return [batch_at(x, d, dim, size) for x, d in zip(args, dims, strict=True)], dim


def define_batching_along(primitive: Primitive, name: str) -> None:
    """Sets the batching rule of a primitive that works along an axis and keeps it.

    Args:
      primitive: its operands and results have equal rank.
      name: the param that holds the axis.
    """

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        args, dim = batched_alike(args, dims)
        axis = canonicalize_axis(params[name], typeof(args[0]).ndim - 1)
        params[name] = axis + (axis >= dim)
        out = primitive.bind(*args, **params)
        return out, [dim] * len(out) if primitive.multiple_results else dim

    primitive.define("batch", batch, derived=True)
