"""Constraints on the memory layouts of a program's values."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import check_order
from mjax._engine.ir.pytree import broadcast_prefix, tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.emit import ir, op
from mjax._engine.primitives.linear import define_linear
from mjax._engine.runtime.arrays.layouts import Layout
from mjax._engine.tracing.primitive import EnginePrimitive

layout_constraint_p = EnginePrimitive("layout_constraint", params={"layout": Layout})


@layout_constraint_p.def_abstract_eval
def _type(x: Any, *, layout: Layout) -> Any:
    check_order(layout.major_to_minor, x.ndim, "with_layout_constraint", layout)
    return x


@layout_constraint_p.def_lowering
def _lowering(ctx: Any, x: Any, *, layout: Layout) -> Any:
    order = ir.ArrayAttr.get([ir.DenseIntElementsAttr.get(
        np.array(layout.major_to_minor[::-1], np.int64), type=ir.IndexType.get())])
    return op("stablehlo.custom_call", ctx.out_types, [x], {
        "call_target_name": ir.StringAttr.get("LayoutConstraint"),
        "operand_layouts": order, "result_layouts": order})


define_linear(layout_constraint_p, lambda ct, x, *, layout: layout_constraint_p.bind(
    ct, layout=layout))


@layout_constraint_p.def_batch
def _batch(args: Any, dims: Any, *, layout: Layout) -> Any:
    """The batch axis varies slowest."""
    (dim,) = dims
    moved = [axis + (axis >= dim) for axis in layout.major_to_minor]
    return layout_constraint_p.bind(args[0], layout=Layout((dim, *moved), layout.tiling)), dim


@boundary
def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The same arrays; in a program XLA uses these layouts for them.

    Args:
      x: pytree of arrays.
      layouts: a `Layout`, or a tree of them with the structure of `x`, or a prefix of it.

    Returns:
      The same tree.

    Raises:
      ValueError: the layout does not name each axis once.

    Example:
      >>> mjax.jit(lambda x: with_layout_constraint(x, Layout((1, 0))) + 1)(jnp.ones((2, 2)))
      Array([[2., 2.],
             [2., 2.]], dtype=float32)
    """
    leaves, treedef = tree_flatten(x)
    for leaf in leaves:
        typeof(leaf)
    return treedef.unflatten([
        layout_constraint_p.bind(leaf, layout=layout)
        for leaf, layout in zip(leaves, broadcast_prefix(layouts, x), strict=True)])
