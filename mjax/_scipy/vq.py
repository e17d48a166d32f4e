"""Vector quantization: `vq`."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.errors import LazyArgumentError, LazyValueError
from mjax._engine.ir.types import typeof
from mjax._numpy.core import check_arrays, promote_dtypes_inexact, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.norms import norm
from mjax._numpy.reductions import argmin
from mjax._numpy.shapes import expand_dims
from mjax._numpy.taking import take_along_axis


@fused(static_argnames=("check_finite",))
def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The nearest code of each observation.

    Args:
      obs: observations, of shape `(m, n)`, or numbers, of shape `(m,)`.
      code_book: codes, of shape `(k, n)` or `(k,)`.
      check_finite: has no effect.

    Returns:
      `(code, dist)`, of shape `(m,)`: the index of the nearest code, the first of several, and
      its Euclidean distance. Derivatives hold the chosen code fixed.

    Raises:
      TypeError: an argument is not an array.
      ValueError: the arguments are not both matrices or both vectors.
      TypeError, ValueError: the numbers of components differ.

    Source: `scipy.cluster.vq.vq`.

    Example:
      >>> from mjax.scipy.cluster.vq import vq
      >>> vq(jnp.array([0.5, 7.0, 2.0]), jnp.array([0.0, 2.0, 5.0]))
      (Array([0, 2, 1], dtype=int32), Array([0.5, 2. , 0. ], dtype=float32))
    """
    obs, code_book = promote_dtypes_inexact(*check_arrays("vq", obs, code_book))
    shapes = shape_of(obs), shape_of(code_book)
    if len(shapes[0]) != len(shapes[1]) or len(shapes[0]) not in (1, 2):
        raise LazyValueError(lambda: (
            f"vq: obs and code_book must both be matrices, a row for each vector, or both be "
            f"vectors of numbers, got shapes {shapes[0]} and {shapes[1]}."))
    if len(shapes[0]) == 1:
        obs, code_book = expand_dims(obs, 1), expand_dims(code_book, 1)
    elif shapes[0][1] != shapes[1][1] and 1 not in (shapes[0][1], shapes[1][1]):
        raise LazyArgumentError(lambda: (
            f"vq: observations and codes must have equally many components, got shapes {shapes[0]} "
            f"and {shapes[1]}."))
    distances = norm(expand_dims(obs, 1) - expand_dims(code_book, 0), axis=-1)
    code = argmin(distances, axis=-1)
    nearest = take_along_axis(distances, expand_dims(code, 1), 1, mode="promise_in_bounds")
    return code, nearest.reshape(typeof(code).shape)


__all__ = ["vq"]
