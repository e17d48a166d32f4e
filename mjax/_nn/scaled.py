"""Matrix products of narrow floats with block-wise scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.dot import dot_general
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.core import cast, check_array, dtype_argument
from mjax._numpy.fused import fused
from mjax._numpy.joining import repeat

_F32 = np.dtype(np.float32)


def _unscaled(x: Any, scales: Any) -> Any:
    """The values in float32: each block along the last axis times its scale."""
    size, blocks = typeof(x).shape[-1], typeof(scales).shape[-1]
    factors = repeat(cast(scales, _F32), size // blocks, axis=-1) if blocks else cast(scales, _F32)
    return cast(x, _F32) * factors


@fused(static_argnames=("dtype",))
def _product(lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, dtype: Any) -> Any:
    left, right = _unscaled(lhs, lhs_scales), _unscaled(rhs, rhs_scales)
    return cast(dot_general(left, right, (((2,), (2,)), ((0,), (0,)))), dtype)


@boundary
def scaled_matmul(lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any,
                  preferred_element_type: Any = np.float32) -> Any:
    """Products of matrices whose blocks along the last axis share a scale.

    Args:
      lhs: array of shape `(batch, m, k)`.
      rhs: array of shape `(batch, n, k)`.
      lhs_scales: array of shape `(batch, m, blocks)`, where `blocks` divides k.
      rhs_scales: array of shape `(batch, n, blocks)`.
      preferred_element_type: dtype of the result.

    Returns:
      An array of shape `(batch, m, n)`: the products over the last axes, computed in float32.

    Raises:
      TypeError: an argument is not an array.
      ValueError: the shapes do not match.

    Source: Open Compute Project 2023, "OCP microscaling formats (MX) specification", version 1.0.

    Example:
      >>> x = jnp.ones((1, 2, 4))
      >>> mjax.nn.scaled_matmul(x, x, jnp.full((1, 2, 2), 0.5), jnp.ones((1, 2, 2)))
      Array([[[2., 2.],
              [2., 2.]]], dtype=float32)
    """
    args = [array_of(check_array("scaled_matmul", x, i)) for i, x in enumerate(
        (lhs, rhs, lhs_scales, rhs_scales))]
    shapes = [typeof(x).shape for x in args]
    left, right, of_left, of_right = shapes
    fits = all(len(s) == 3 for s in shapes) and (
        left[0] == right[0] == of_left[0] == of_right[0] and left[2] == right[2]
        and of_left[2] == of_right[2] and of_left[1] == left[1] and of_right[1] == right[1]
        and (left[2] % of_left[2] == 0 if of_left[2] else not left[2]))
    if not fits:
        msg = ("scaled_matmul takes shapes (batch, m, k), (batch, n, k), (batch, m, blocks), "
               f"(batch, n, blocks), where blocks divides k; got {', '.join(map(str, shapes))}.")
        raise ValueError(msg)
    return _product(*args, dtype=dtype_argument(preferred_element_type, "scaled_matmul"))


__all__ = ["scaled_matmul"]
