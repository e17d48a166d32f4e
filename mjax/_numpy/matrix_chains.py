"""Products of several matrices: multi_dot, matrix_power."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import eq
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.core import broadcast_to, cast, check_array, check_arrays, concrete_int, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.products import matmul
from mjax._numpy.systems import inv


@boundary
def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """Product of several matrices, in the order with the fewest multiplications.

    Args:
      arrays: matrices that can be multiplied; the first and the last may be vectors.
      precision: as in `dot`.

    Returns:
      An array.

    Raises:
      ValueError: no array is given, or one has another rank, or shapes do not fit.

    Source: `numpy.linalg.multi_dot`; the order by dynamic programming, Cormen et al.,
    "Introduction to Algorithms", section 15.2.

    Example:
      >>> jnp.linalg.multi_dot([jnp.ones((2, 9)), jnp.ones((9, 3)), jnp.ones(3)])
      Array([27., 27.], dtype=float32)
    """
    values = check_arrays("multi_dot", *arrays)
    shapes = [shape_of(x) for x in values]
    if not values or any(len(s) != 2 for s in shapes[1:-1]) or any(
            len(s) not in (1, 2) for s in (*shapes[:1], *shapes[-1:])):
        msg = ("multi_dot: input arrays must all be matrices, except for the first and the last "
               f"one, which may be vectors; got shapes {shapes}.")
        raise ValueError(msg)
    for s, t in itertools.pairwise(shapes):
        if s[-1] != t[0]:
            msg = f"multi_dot: shapes {s} and {t} of neighbours do not fit; got {shapes}."
            raise ValueError(msg)
    sizes = [shapes[0][0] if len(shapes[0]) == 2 else 1, *[s[0] for s in shapes[1:]],
             shapes[-1][1] if len(shapes[-1]) == 2 else 1]
    if len(values) == 1:
        return array_of(values[0])
    cuts = _cheapest_cuts(sizes)

    def product(i: int, j: int) -> Any:
        """The product of the arrays i to j."""
        if i == j:
            return values[i]
        k = cuts[i, j]
        return matmul(product(i, k), product(k + 1, j), precision=precision)

    return product(0, len(values) - 1)


def _cheapest_cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """The best cut of each chain i..j of matrices; matrix i has shape (sizes[i], sizes[i+1])."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cuts = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cuts[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j))
    return cuts


def check_square(name: str, a: Any) -> Any:
    """`a` as a value whose last two axes have one size.

    Raises:
      TypeError: they do not.
    """
    a = check_array(name, a)
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        msg = f"{name}: the last two axes of the array must be square, got shape {shape}."
        raise TypeError(msg)
    return a


@fused(static_argnames=("n",))
def matrix_power(a: Any, n: int) -> Any:
    """Power of a square matrix, by repeated squaring.

    Args:
      a: array of shape `(..., m, m)`.
      n: the exponent, static; negative ones are powers of the inverse.

    Returns:
      An array of the shape of `a`, inexact for negative exponents.

    Raises:
      TypeError: the matrices are not square, or `n` is not an integer.

    Source: `numpy.linalg.matrix_power`.

    Example:
      >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 5)
      Array([[1, 5],
             [0, 1]], dtype=int32)
    """
    a, n = check_square("matrix_power", a), concrete_int(n, "matrix_power: the exponent n")
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return broadcast_to(cast(_unit_matrix(shape_of(a)[-1]), typeof(a).dtype), shape_of(a))
    out = None
    while n:
        if n % 2:
            out = a if out is None else matmul(out, a)
        n //= 2
        a = matmul(a, a) if n else a
    return array_of(out)


def _unit_matrix(size: int) -> Any:
    rows, columns = [broadcasted_iota(np.int32, (size, size), i) for i in (0, 1)]
    return eq(rows, columns)


__all__ = ["check_square", "matrix_power", "multi_dot"]
