"""Approximate search for the greatest or least elements: approx_max_k, approx_min_k.

Approximate searches pay on TPUs only, so `approx_top_k` searches exactly on all platforms.
The parameters that say how good the search must be are kept in the equation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.along_axis import define_batching_along
from mjax._engine.primitives.arithmetic import neg
from mjax._engine.primitives.elementwise import in_lax
from mjax._engine.primitives.sort import top_k_p, top_tangents
from mjax._engine.primitives.tangents import define_jvp_from_result
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

approx_top_k_p = EnginePrimitive("approx_top_k", params={
    "k": int, "reduction_dimension": int, "recall_target": float, "is_max_k": bool,
    "reduction_input_size_override": int, "aggregate_to_topk": bool}, multiple_results=True,
    exact_params=("recall_target",))


@approx_top_k_p.def_abstract_eval
def _approx_top_k_type(x: Any, *, k: int, reduction_dimension: int, recall_target: float,
                       is_max_k: bool, reduction_input_size_override: int,
                       aggregate_to_topk: bool) -> list[ShapedArray]:
    name = "approx_max_k" if is_max_k else "approx_min_k"
    axis = canonicalize_axis(reduction_dimension, x.ndim)  # JAX's equations have negative ones
    if not dtypes.is_float(x.dtype):
        msg = f"{name} searches among floats, not {x.dtype}; lax.top_k takes other dtypes."
        raise ValueError(msg)
    if not 0 < k <= x.shape[axis]:
        msg = (f"{name}: k={k} must be positive and at most {x.shape[axis]}, the size of axis "
               f"{axis} of an operand of shape {x.shape}.")
        raise ValueError(msg)
    if not 0 < recall_target <= 1:
        msg = f"{name}: recall_target={recall_target} must be in the range from 0, excluded, to 1."
        raise ValueError(msg)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [ShapedArray(shape, dtype, x.weak_type) for dtype in (x.dtype, np.dtype(np.int32))]


def _exactly(x: Any, *, k: int, reduction_dimension: int, is_max_k: bool, **params: Any
             ) -> list[Any]:
    axis = canonicalize_axis(reduction_dimension, typeof(x).ndim)
    values, indices = top_k_p.bind(x if is_max_k else neg(x), k=k, axis=axis)
    return [values if is_max_k else neg(values), indices]


approx_top_k_p.def_lowering(traced(_exactly, multiple_results=True))


define_jvp_from_result(approx_top_k_p, lambda t, outs, x, *, reduction_dimension, **_: top_tangents(
    t, outs, canonicalize_axis(reduction_dimension, typeof(x).ndim)))
define_batching_along(approx_top_k_p, "reduction_dimension")


def _define_search(name: str, is_max_k: bool, which: str, example: str) -> Callable[..., Any]:
    @boundary
    def function(operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True
                 ) -> list[Any]:
        axis = canonicalize_axis(reduction_dimension, typeof(operand).ndim)
        outs: list[Any] = approx_top_k_p.bind(
            operand, k=operator.index(k), reduction_dimension=axis,
            recall_target=float(recall_target), is_max_k=is_max_k,
            reduction_input_size_override=operator.index(reduction_input_size_override),
            aggregate_to_topk=bool(aggregate_to_topk))
        return outs

    return in_lax(
        function, name, f"""The {which} elements along an axis and their indices, or most of them.

    Args:
      operand: array of floats.
      k: how many.
      reduction_dimension: the axis; negative ones count from the end.
      recall_target: the share of them that should be found, on average.
      reduction_input_size_override: if positive, the size to which that share refers, for an
        operand that is a part of something larger.
      aggregate_to_topk: whether the results are exactly `k` elements, in order; else there may
        be more.

    Returns:
      Two arrays with size `k` along the axis: elements, the {which} first, and their indices
      (int32). All are found: the search is exact.

    Raises:
      ValueError: the axis, `k` or `recall_target` is out of range, or the dtype is not a float.

    Example:
      >>> lax.{name}(jnp.array([1.0, 5.0, 3.0]), 2)
      {example}
    """)


approx_max_k = _define_search(
    "approx_max_k", True, "greatest",
    "[Array([5., 3.], dtype=float32), Array([1, 2], dtype=int32)]")
approx_min_k = _define_search(
    "approx_min_k", False, "least",
    "[Array([1., 3.], dtype=float32), Array([0, 2], dtype=int32)]")
