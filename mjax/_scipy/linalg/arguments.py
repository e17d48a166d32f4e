"""Arguments of `scipy.linalg`: matrices, right-hand sides, and shared docstring fragments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.ir.source import warn
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.matrices import check_square, column
from mjax._engine.primitives.shapes import array_of, squeeze
from mjax._numpy.core import promote_dtypes_inexact, shape_of
from mjax._numpy.creation import asarray
from mjax._numpy.vectorizing import vectorize

#: Inserts the shared fragments into docstrings.
documents = documented(
    square="a: square matrices of shape `(..., n, n)`.",
    matrices="a: matrices of shape `(..., m, n)`; `k = min(m, n)`.",
    hermitian="a: symmetric or Hermitian matrices of shape `(..., n, n)`.",
    ignored="overwrite_a, check_finite: have no effect; arrays are immutable, and values\n"
            "  are not looked at.",
    ignored_b="overwrite_b, check_finite: have no effect; arrays are immutable, and values\n"
              "  are not looked at.",
    right_sides="b: a vector of shape `(n,)`, or right-hand sides of shape `(..., n, k)`; leading\n"
                "  axes broadcast.",
    solutions="Returns:\n  The solutions, of the shape of `b` with the leading axes of both.",
    not_square="ValueError: the matrices are not square, or have fewer than two axes.",
    not_fit="ValueError: the matrices are not square, or `b` does not match them.",
)


def inexact(*args: Any) -> list[Any]:
    """Arguments, nested lists too, as arrays of one inexact dtype."""
    return [array_of(x) for x in promote_dtypes_inexact(*map(asarray, args))]


def matrix(name: str, a: Any, square: bool = False) -> Any:
    """Matrices, or nested lists, in an inexact dtype.

    Raises:
      ValueError: there are fewer than two axes, or the last two are not equal and `square`.
    """
    (a,) = inexact(a)
    check_matrix(name, a, square)
    return a


def check_matrix(name: str, a: Any, square: bool = False) -> None:
    """Checks the shape of matrices.

    Raises:
      ValueError: there are fewer than two axes, or the last two are not equal and `square`.
    """
    shape = shape_of(a)
    if len(shape) < 2:
        raise LazyArgumentError(lambda: (
            f"{name}: a matrix has at least two axes, got shape {shape}."))
    if square:
        check_square(name, shape[-2:])


def solved(name: str, f: Callable[..., Any], factors: tuple[Any, ...], b: Any) -> Any:
    """Solves stacked systems by their factors.

    Args:
      name: the function's name, for messages.
      f: `(*factors, right-hand sides)`, all stacked alike: `(..., n, n)`, vectors `(..., n)` for
        the other factors, and `(..., n, k)`.
      factors: matrices, and vectors if there are more.
      b: a vector, or right-hand sides; or a vector for each matrix, which is deprecated.

    Raises:
      ValueError: the matrices are not square, or the right-hand sides do not match them.
    """
    a = factors[0]
    check_matrix(name, a, square=True)
    shape, right = shape_of(a), shape_of(b)
    n = shape[-1]
    vectors = len(right) == 1
    if len(right) > 1 and len(shape) == len(right) + 1 and n == right[-1]:
        warn(f"{name}: right-hand sides of shape {right} count as one vector for each of the "
             f"matrices, of shape {shape}. This is deprecated; they will be matrices. Give vectors "
             "as columns, b[..., None].", FutureWarning)
        vectors = True
    if not right or right[-1 if vectors else -2] != n:
        msg = (f"{name}: matrices of shape {shape} take right-hand sides of shape ({n},) or "
               f"(..., {n}, k), got {right}.")
        raise ValueError(msg)
    b = column(b) if vectors else b
    if shape[:-2] != shape_of(b)[:-2]:
        others = ",(n)" * (len(factors) - 1)
        f = vectorize(f, signature=f"(n,n){others},(n,k)->(n,k)")
    out = f(*factors, b)
    return squeeze(out, (typeof(out).ndim - 1,)) if vectors else out
