"""Vectorization: batching rules.

- `primitive_batchers[p] = rule`: `rule(args, dims, **params) -> result, dim`, lists of them with
  multiple results. `dims[i]` is the batch axis of `args[i]`, or `not_mapped` (None) if the
  operand is the same for the whole batch; the result's dim likewise.
- `fancy_primitive_batchers[p] = rule`: `rule(axis_data, args, dims, **params)`, for primitives that
  need the axis (collectives) or hold jaxprs. It takes precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.primitives.elementwise import align_batches
from mjax._engine.primitives.shapes import batch_size, broadcast_in_dim, moveaxis
from mjax._engine.primitives.shapes import batch_to_front as bdim_at_front
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.symbolic import not_mapped
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax_ext._tables import Rule, RuleTable

__all__ = [
    # tables
    "axis_primitive_batchers", "fancy_primitive_batchers", "primitive_batchers",
    # arguments of rules, and helpers to write them
    "AxisData", "batch_jaxpr", "bdim_at_front", "broadcast", "moveaxis", "not_mapped",
    # makers of rules
    "defbroadcasting", "defreducer", "defvectorized",
]

primitive_batchers = RuleTable("batch")
fancy_primitive_batchers = RuleTable("axis_batch")


class _AxisPrimitiveBatchers:
    """The older spelling of `fancy_primitive_batchers`: write only.

    Rules are `rule(axis_size, axis_name, None, args, dims, **params)`.
    """

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        def axis_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
            return rule(axis.size, axis.name, None, args, dims, **params)

        axis_batch.__wrapped__ = rule  # type: ignore[attr-defined]
        fancy_primitive_batchers[primitive] = axis_batch


axis_primitive_batchers = _AxisPrimitiveBatchers()


def broadcast(x: Any, sz: int, axis: int) -> Any:
    """`sz` copies of an array along a new axis.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.broadcast(jnp.ones(2), 3, 0).shape
      (3, 2)
    """
    shape = [*getattr(x, "shape", ())]
    shape.insert(axis, sz)
    return broadcast_in_dim(x, shape, [d for d in range(len(shape)) if d != axis])


def defvectorized(primitive: Primitive) -> None:
    """Batches a primitive whose operands and results have one shape, element by element."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        dim = dims[0]
        if any(d != dim for d in dims):
            size = batch_size(args, dims)
            args = [bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]
            dim = 0
        return primitive.bind(*args, **params), dim

    primitive.define("batch", batch, derived=True)


def defbroadcasting(primitive: Primitive) -> None:
    """Batches an elementwise primitive that itself stretches scalars and axes of size 1."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        args, dim = align_batches(args, dims)
        return primitive.bind(*args, **params), dim

    primitive.define("batch", batch, derived=True)


def defreducer(primitive: Primitive) -> None:
    """Batches a primitive of one operand that removes the axes in its parameter `axes`."""

    def batch(args: Sequence[Any], dims: Sequence[int], *, axes: Sequence[int], **params: Any
              ) -> Any:
        (dim,) = dims
        out_dim = dim - sum(a < dim for a in axes)
        return primitive.bind(*args, axes=tuple(a + (a >= dim) for a in axes), **params), out_dim

    primitive.define("batch", batch, derived=True)


def __dir__() -> list[str]:
    return sorted(__all__)
