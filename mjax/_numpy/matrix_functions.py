"""Functions of `numpy.linalg` that `numpy` also has, as the Python array API defines them.

They work on the last axes, and refuse other arrays if they take vectors.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy import matrices, products
from mjax._numpy.core import check_arrays, shape_of


@boundary
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Cross products of vectors of three elements.

    Args:
      x1: array of shape `(..., 3, ...)`.
      x2: array of shape `(..., 3, ...)`; the other axes broadcast.
      axis: the axis of size 3.

    Returns:
      An array of the shape that `x1` and `x2` broadcast to.

    Raises:
      ValueError: the axis is out of range or has another size.

    Source: `numpy.linalg.cross`.

    Example:
      >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    shapes = list(map(shape_of, check_arrays("cross", x1, x2)))
    if any(shape[canonicalize_axis(axis, len(shape))] != 3 for shape in shapes):
        msg = (f"linalg.cross takes vectors of three elements, got shapes {shapes[0]} and "
               f"{shapes[1]} with axis {axis}.")
        raise ValueError(msg)
    return products.cross(x1, x2, axis=axis)


@boundary
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices.

    Args:
      x: array of shape `(..., m, n)`.
      offset: which diagonal: 0 is the main one, positive ones are above it.

    Returns:
      An array whose last axis holds the diagonals, in place of the last two.

    Raises:
      ValueError: fewer than two axes.

    Source: `numpy.linalg.diagonal`.

    Example:
      >>> jnp.linalg.diagonal(jnp.array([[[1, 2], [3, 4]]]))
      Array([[1, 4]], dtype=int32)
    """
    return matrices.diagonal(x, offset, -2, -1)


@boundary
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of diagonals of matrices.

    Args:
      x: array of shape `(..., m, n)`.
      offset: which diagonal: 0 is the main one, positive ones are above it.
      dtype: dtype of the result.

    Returns:
      An array without the last two axes.

    Raises:
      ValueError: fewer than two axes.

    Source: `numpy.linalg.trace`.

    Example:
      >>> jnp.linalg.trace(jnp.array([[[1, 2], [3, 4]]]))
      Array([5], dtype=int32)
    """
    return matrices.trace(x, offset, -2, -1, dtype)


@boundary
def matmul(x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
           ) -> Any:
    """Matrix product over the last axes; see `mjax.numpy.matmul`.

    Args:
      x1: array of shape `(..., m, k)` or `(k,)`.
      x2: array of shape `(..., k, n)` or `(k,)`.
      precision: as in `lax.dot_general`.
      preferred_element_type: as in `lax.dot_general`.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.linalg.matmul`.

    Example:
      >>> jnp.linalg.matmul(jnp.array([[1, 2]]), jnp.array([[3], [4]]))
      Array([[11]], dtype=int32)
    """
    return products.matmul(x1, x2, precision=precision,
                           preferred_element_type=preferred_element_type)


@boundary
def outer(x1: Any, x2: Any, /) -> Any:
    """Products of all pairs of elements of two vectors.

    Args:
      x1: vector of `m` elements.
      x2: vector of `n` elements.

    Returns:
      An array of shape `(m, n)`.

    Raises:
      ValueError: an argument is not a vector.

    Source: `numpy.linalg.outer`.

    Example:
      >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
      Array([[3, 4],
             [6, 8]], dtype=int32)
    """
    shapes = list(map(shape_of, check_arrays("outer", x1, x2)))
    if any(len(shape) != 1 for shape in shapes):
        msg = f"linalg.outer takes vectors, got shapes {shapes[0]} and {shapes[1]}."
        raise ValueError(msg)
    return products.outer(x1, x2)


@lays_out
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2, precision: Any = None,
              preferred_element_type: Any = None) -> Any:
    """Sums of products over several axes; see `mjax.numpy.tensordot`.

    Args:
      x1: array.
      x2: array.
      axes: the number of last axes of `x1` and first ones of `x2`; or a pair of sequences of axes.
      precision: as in `lax.dot_general`.
      preferred_element_type: as in `lax.dot_general`.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.linalg.tensordot`.

    Example:
      >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), axes=1).shape
      (2, 4)
    """
    return products.tensordot(x1, x2, axes, precision=precision,
                              preferred_element_type=preferred_element_type)


__all__ = ["cross", "diagonal", "matmul", "outer", "tensordot", "trace"]
