"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

import functools
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import fold
from mjax._engine.control.custom.custom_linear_solve import custom_linear_solve
from mjax._engine.ir.types import typeof
from mjax._engine.linalg import cholesky as _cholesky
from mjax._engine.linalg.lu import lu_pivots_to_permutation
from mjax._engine.linalg.lu import lu_solve as _lu_solve
from mjax._engine.linalg.matrices import adjoint, column, dot
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives.shapes import array_of, squeeze
from mjax._engine.primitives.tangents import stop_gradient
from mjax._numpy import determinants
from mjax._numpy import systems as _numpy
from mjax._numpy.core import broadcast_shapes, broadcast_to, shape_of
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._scipy.linalg.arguments import check_matrix, documents, inexact, solved

_TRANS = {0: (False, False), "N": (False, False), 1: (True, False), "T": (True, False),
          2: (True, True), "C": (True, True)}


@fused(static_argnames=("trans", "lower", "unit_diagonal", "overwrite_b", "debug", "check_finite"))
@documents
def solve_triangular(a: Any, b: Any, trans: int | str = 0, lower: bool = False,
                     unit_diagonal: bool = False, overwrite_b: bool = False, debug: Any = None,
                     check_finite: bool = True) -> Any:
    """Solves systems of equations with triangular matrices, `a @ x = b`.

    Args:
      a: matrices of shape `(..., n, n)`; only one triangle is read.
      [right_sides]
      trans: 0 or `"N"`: solves `a @ x = b`; 1 or `"T"`: `a.T @ x = b`; 2 or `"C"`:
        `a.conj().T @ x = b`.
      lower: whether to read the lower triangle.
      unit_diagonal: whether to assume ones on the diagonal, without reading it.
      [ignored_b]
      debug: has no effect.

    [solutions]

    Raises:
      [not_fit]
      ValueError: `trans` is unknown.

    Source: `scipy.linalg.solve_triangular`.

    Example:
      >>> a = jnp.array([[2.0, 0.0], [1.0, 1.0]])
      >>> mjax.scipy.linalg.solve_triangular(a, jnp.array([2.0, 3.0]), lower=True)
      Array([1., 2.], dtype=float32)
    """
    if trans not in _TRANS:
        msg = f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}."
        raise ValueError(msg)
    a, b = inexact(a, b)
    transpose, conjugate = _TRANS[trans]
    f = functools.partial(triangular_solve, left_side=True, lower=lower, transpose_a=transpose,
                          conjugate_a=conjugate, unit_diagonal=unit_diagonal)
    return solved("solve_triangular", f, (a,), b)


def _by_cholesky(factor: Any, b: Any, lower: bool) -> Any:
    for first in (True, False):
        # First the system of the lower factor, then that of the upper one.
        turned = lower != first
        b = triangular_solve(factor, b, left_side=True, lower=lower, transpose_a=turned,
                             conjugate_a=turned)
    return b


def _pair(name: str, argument: str, value: Any, source: str) -> Any:
    """The result of `source`. A matrix is refused: of two rows, it would count as a pair."""
    if isinstance(value, tuple | list) and len(value) == 2:
        return value

    def text() -> str:
        given = (f"an array of shape {value.shape}" if hasattr(value, "shape") else
                 f"{len(value)} values" if isinstance(value, tuple | list) else
                 f"an object of type {type(value).__name__}")
        return f"{name}: {argument} must be the pair that {source}(a) returns, got {given}."

    raise LazyValueError(text)


@documents
def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False,
              check_finite: bool = True) -> Any:
    """Solves systems of equations by Cholesky factors.

    Args:
      c_and_lower: the result of `cho_factor`.
      [right_sides]
      [ignored_b]

    [solutions]

    Raises:
      [not_fit]

    Source: `scipy.linalg.cho_solve`.

    Example:
      >>> factor = mjax.scipy.linalg.cho_factor(jnp.array([[4.0, 2.0], [2.0, 2.0]]))
      >>> mjax.scipy.linalg.cho_solve(factor, jnp.array([6.0, 4.0]))
      Array([1., 1.], dtype=float32)
    """
    try:  # what `boundary` does, without packing the arguments
        factor, lower = _pair("cho_solve", "c_and_lower", c_and_lower, "cho_factor")
        return _cho_solve(factor, b, lower)
    except Exception as error:
        fold(error)
        raise


@fused(static_argnames=("lower",))
def _cho_solve(factor: Any, b: Any, lower: bool) -> Any:
    factor, b = inexact(factor, b)
    return solved("cho_solve", functools.partial(_by_cholesky, lower=lower), (factor,), b)


@fused(static_argnames=("trans", "overwrite_b", "check_finite"))
@documents
def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False,
             check_finite: bool = True) -> Any:
    """Solves systems of equations by LU factors.

    Args:
      lu_and_piv: the result of `lu_factor`.
      [right_sides]
      trans: 0: solves `a @ x = b`; 1: `a.T @ x = b`; 2: `a.conj().T @ x = b`.
      [ignored_b]

    [solutions]

    Raises:
      [not_fit]
      ValueError: `trans` is unknown.

    Source: `scipy.linalg.lu_solve`.

    Example:
      >>> factors = mjax.scipy.linalg.lu_factor(jnp.array([[2.0, 0.0], [1.0, 1.0]]))
      >>> mjax.scipy.linalg.lu_solve(factors, jnp.array([2.0, 3.0]))
      Array([1., 2.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        msg = f"lu_solve: trans must be 0, 1 or 2, got {trans!r}."
        raise ValueError(msg)
    factors, pivots = _pair("lu_solve", "lu_and_piv", lu_and_piv, "lu_factor")
    factors, b = inexact(factors, b)
    check_matrix("lu_solve", factors, square=True)
    order = lu_pivots_to_permutation(asarray(pivots), shape_of(factors)[-1])
    return solved("lu_solve", functools.partial(_lu_solve, trans=trans), (factors, order), b)


_ASSUMED = ("gen", "sym", "her", "pos")


@fused(static_argnames=("lower", "overwrite_a", "overwrite_b", "debug", "check_finite",
                        "assume_a"))
@documents
def solve(a: Any, b: Any, lower: bool = False, overwrite_a: bool = False,
          overwrite_b: bool = False, debug: bool = False, check_finite: bool = True,
          assume_a: str = "gen") -> Any:
    """Solves systems of linear equations, `a @ x = b`.

    Args:
      [square]
      [right_sides]
      lower: which triangle of a positive definite matrix is read.
      overwrite_a, overwrite_b, debug, check_finite: have no effect.
      assume_a: the kind of matrix: `"pos"`, positive definite, is solved by Cholesky factors;
        `"gen"`, `"sym"` and `"her"` by LU factors.

    [solutions]

    Raises:
      [not_fit]
      ValueError: `assume_a` is unknown.

    Source: `scipy.linalg.solve`.

    Example:
      >>> a = jnp.array([[4.0, 2.0], [2.0, 2.0]])
      >>> mjax.scipy.linalg.solve(a, jnp.array([6.0, 4.0]), assume_a="pos")
      Array([1., 1.], dtype=float32)
    """
    if assume_a not in _ASSUMED:
        msg = f"solve: assume_a must be one of {', '.join(map(repr, _ASSUMED))}; got {assume_a!r}."
        raise ValueError(msg)
    return _positive(a, b, lower) if assume_a == "pos" else _numpy.solve(a, b)


def _positive(a: Any, b: Any, lower: bool) -> Any:
    a, b = inexact(a, b)
    check_matrix("solve", a, square=True)
    shape, right = shape_of(a), shape_of(b)
    n, vectors = shape[-1], len(right) == len(shape) - 1
    if len(right) not in (len(shape), len(shape) - 1) or right[len(shape) - 2] != n:
        msg = (f"solve: positive definite matrices of shape {shape} take right-hand sides of shape "
               f"(..., {n}) or (..., {n}, k) with as many leading axes, got {right}.")
        raise ValueError(msg)
    b = column(b) if vectors else b
    stack = broadcast_shapes(shape[:-2], shape_of(b)[:-2])
    a, b = broadcast_to(a, (*stack, n, n)), broadcast_to(b, (*stack, *shape_of(b)[-2:]))
    fixed = stop_gradient(a)
    factor = _cholesky.cholesky(fixed if lower else adjoint(fixed), symmetrize_input=False)
    out = custom_linear_solve(lambda x: dot(a, x), b, symmetric=True,
                              solve=lambda _, b: _by_cholesky(factor, b, True))
    return squeeze(out, (typeof(out).ndim - 1,)) if vectors else out


@fused(values=("a",), static_argnames=("overwrite_a", "check_finite"))
@documents
def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Inverse of square matrices.

    Args:
      [square]
      [ignored]

    Returns:
      Matrices of the same shape, with infinities or NaNs if singular.

    Raises:
      [not_square]

    Source: `scipy.linalg.inv`.

    Example:
      >>> mjax.scipy.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
      Array([[0.5 , 0.  ],
             [0.  , 0.25]], dtype=float32)
    """
    return _numpy.inv(array_of(a))


@fused(values=("a",), static_argnames=("overwrite_a", "check_finite"))
@documents
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Determinant of square matrices.

    Args:
      [square]
      [ignored]

    Returns:
      An array of shape `(...)`.

    Raises:
      [not_square]

    Source: `scipy.linalg.det`.

    Example:
      >>> mjax.scipy.linalg.det(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
      Array(8., dtype=float32)
    """
    return determinants.det(a)


__all__ = ["cho_solve", "det", "inv", "lu_solve", "solve", "solve_triangular"]
