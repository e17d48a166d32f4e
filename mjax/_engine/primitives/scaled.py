"""Products of matrices with one scale per block of elements: scaled_dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.dtypes import asked_dtype
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import mul
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dot import dot_general, matmul_numbers
from mjax._engine.primitives.shapes import broadcast_in_dim, reshape

_BF16 = asked_dtype("bfloat16", "scaled_dot")


def _check_scale(side: str, shape: Sequence[int], scale: Sequence[int], blocked: Sequence[int]
                 ) -> None:
    """Refuses scales that do not fit an operand: blocks of at least two along contracted axes."""
    fits = len(scale) == len(shape) and all(
        s and not n % s and n // s >= 2 if i in blocked else n == s
        for i, (n, s) in enumerate(zip(shape, scale, strict=True)))
    if not fits:
        msg = (f"scaled_dot: {side}_scale of shape {tuple(scale)} must have the axes of {side}, of "
               f"shape {tuple(shape)}; along the contracted ones, {tuple(blocked)}, it has one "
               "element for each block of two or more.")
        raise TypeError(msg)


def _scaled(side: str, x: Any, scale: Any, blocked: Sequence[int]) -> Any:
    """An operand in bfloat16, each block times its scale."""
    shape = typeof(x).shape
    x = convert(x, _BF16)
    if scale is None:
        return x
    sizes = typeof(scale).shape
    _check_scale(side, shape, sizes, blocked)
    places: list[int] = []
    finer: list[int] = []
    for i, s in enumerate(sizes):
        places.append(len(finer))
        finer += (s, shape[i] // s) if i in blocked else (s,)
    spread = broadcast_in_dim(convert(scale, _BF16), finer, places)
    return mul(x, reshape(spread, shape))


def _axes(lhs: Sequence[int], dimension_numbers: Any) -> Any:
    """`dimension_numbers`, by default those of stacks of matrices."""
    if dimension_numbers is not None:
        return dimension_numbers
    ndim = len(lhs)
    if ndim < 2:
        msg = (f"scaled_dot multiplies matrices and stacks of them, got lhs of shape {lhs}; give "
               "dimension_numbers for other products.")
        raise TypeError(msg)
    return matmul_numbers(ndim)


@boundary
def scaled_dot(lhs: Any, rhs: Any, *, lhs_scale: Any = None, rhs_scale: Any = None,
               dimension_numbers: Any = None, preferred_element_type: Any = None) -> Any:
    """The product `(lhs * lhs_scale) @ (rhs * rhs_scale)`, with a scale per block of elements.

    Operands and scales are converted to bfloat16 before they are multiplied.

    Args:
      lhs: array of shape `(..., m, k)`.
      rhs: array of shape `(..., k, n)`, with the same leading axes.
      lhs_scale: array of shape `(..., m, blocks)`, where `blocks` divides k; None is 1.
      rhs_scale: array of shape `(..., blocks, n)`; None is 1.
      dimension_numbers: as in `dot_general`, for other products.
      preferred_element_type: dtype of the result; by default bfloat16.

    Returns:
      An array of shape `(..., m, n)`. It has derivatives, which JAX's does not.

    Raises:
      TypeError: shapes that do not fit, or blocks of a single element.

    Source: Open Compute Project 2023, "OCP microscaling formats (MX) specification", version 1.0.

    Example:
      >>> x = jnp.ones((2, 4))
      >>> lax.scaled_dot(x, x.T, lhs_scale=jnp.array([[1., 2], [3, 4]]))
      Array([[6, 6],
             [14, 14]], dtype=bfloat16)
    """
    left, right = typeof(lhs).shape, typeof(rhs).shape
    if len(left) != len(right):
        msg = f"scaled_dot: lhs of shape {left} and rhs of shape {right} must have equal ranks."
        raise TypeError(msg)
    numbers = _axes(left, dimension_numbers)
    (of_left, of_right), _ = numbers
    dtype = _BF16 if preferred_element_type is None else asked_dtype(
        preferred_element_type, "scaled_dot")
    return dot_general(_scaled("lhs", lhs, lhs_scale, of_left),
                       _scaled("rhs", rhs, rhs_scale, of_right), numbers,
                       preferred_element_type=np.dtype(dtype))
