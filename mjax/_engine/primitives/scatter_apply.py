"""scatter_apply: applies a function to windows of an array at computed places."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.program_caches import programs_of
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.gather import GatherScatterMode
from mjax._engine.primitives.scatter import (
    ARGUMENTS,
    ScatterDimensionNumbers,
    define_scatter,
    emit_scatter,
    scatter_mode,
)
from mjax._engine.primitives.shapes import canonical_shape, full
from mjax._engine.tracing.stage import trace_to_jaxpr

scatter_apply_p = define_scatter("scatter-apply", "biufc", lambda lowering, old, new: [new],
                                 {"update_jaxpr": Jaxpr})


@scatter_apply_p.def_lowering
def _scatter_apply_lowering(lowering: Any, operand: Any, indices: Any, updates: Any, *,
                            update_jaxpr: Any, **params: Any) -> Any:
    return emit_scatter(lowering, operand, indices, updates,
                        lambda old, new: lowering.inline(update_jaxpr, old), **params)


scatter_apply_p.without("jvp", "It applies the function again for repeated indices. For others "
                        "it is x.at[i].set(f(x[i])), which has derivatives.")


def _trace_update(func: Callable[[Any], Any], dtype: Any) -> Any:
    """The jaxpr of a function of one scalar, made once for each function and dtype."""
    cache, aval = programs_of(func), ShapedArray((), dtype)
    key = ("scatter_apply", aval, thread.settings)
    known = cache.get(key)
    if known is None:
        jaxpr = trace_to_jaxpr(lambda x: [func(x)], [aval])
        if jaxpr.consts or jaxpr.effects:
            msg = "scatter_apply: func must not close over arrays or have effects."
            raise TypeError(msg)
        if jaxpr.out_avals[0].strip_weak_type() is not aval:
            msg = (f"scatter_apply: func must return a scalar of the operand's dtype, of type "
                   f"{aval}, but returned {jaxpr.out_avals[0]}.")
            raise TypeError(msg)
        known = cache.put(key, jaxpr)
    return known


@boundary
def scatter_apply(operand: Any, scatter_indices: Any, func: Callable[[Any], Any],
                  dimension_numbers: ScatterDimensionNumbers, *,
                  update_shape: Sequence[int] = (), indices_are_sorted: bool = False,
                  unique_indices: bool = False, mode: str | GatherScatterMode | None = None
                  ) -> Any:
    dtype = typeof(operand).dtype
    placeholder = full(canonical_shape(update_shape), 0, dtype)
    return scatter_apply_p.bind(
        operand, scatter_indices, placeholder, dimension_numbers=dimension_numbers,
        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
        mode=scatter_mode(mode), update_jaxpr=_trace_update(func, dtype))


scatter_apply.__doc__ = inspect.cleandoc("""
    Applies a function to the elements of windows of an array at computed places. It is applied
    several times to elements of overlapping windows.""" + ARGUMENTS.format(
        updates="func: maps a scalar of the operand's dtype to another; must not close over "
        "arrays.\n      ",
        more="update_shape: the shape that updates would have.\n      ",
        example="scatter_apply(x, i, lax.neg, dims, update_shape=(2,))\n"
        "      Array([-5,  6, -7], dtype=int32)"))
