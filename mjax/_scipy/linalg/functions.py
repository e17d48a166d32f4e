"""Matrix functions by Schur decomposition, and Sylvester's equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.control.custom.custom_linear_solve import custom_linear_solve
from mjax._engine.control.loops.looping import fori_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg import eig as _eig
from mjax._engine.linalg.matrices import (
    adjoint,
    column,
    dot,
    eye,
    real,
    real_of,
    row,
    swap,
    triu,
)
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.shapes import reduce_sum
from mjax._engine.primitives.slicing import diagonal
from mjax._engine.primitives.tangents import stop_gradient
from mjax._numpy.core import broadcast_shapes, broadcast_to, shape_of
from mjax._numpy.creation import asarray, zeros
from mjax._numpy.fused import fused
from mjax._numpy.reductions import any as any_of
from mjax._numpy.reductions import max as greatest
from mjax._numpy.reductions import min as least
from mjax._numpy.selecting import where
from mjax._numpy.systems import inv, solve_square
from mjax._scipy.linalg.arguments import inexact, matrix
from mjax._scipy.linalg.spectra import complex_schur

# ---- triangular recurrences ------------------------------------------------------------


def _column(x: Any, j: Any) -> Any:
    """Column j of matrices, as matrices of one column."""
    return dynamic_slice_in_dim(x, j, 1, typeof(x).ndim - 1)


def _entry(x: Any, j: Any) -> Any:
    """Element j of vectors, as matrices of one element."""
    return column(dynamic_slice_in_dim(x, j, 1, typeof(x).ndim - 1))


def _above(t: Any, shift: Any, right: Any, j: Any) -> Any:
    """Solves `(t + shift) x = right` for the first j elements; the others are 0.

    A zero pivot is replaced by 1, so its unknown is 0 if the right-hand side is.
    """
    n = shape_of(t)[-1]
    inside = np.arange(n) < j
    one = eye(n, n, typeof(t).dtype)
    pivots = column(diagonal(t)) + shift
    pivots = where(inside[:, None] & (pivots != 0), pivots, 1)
    a = where(inside[:, None] & inside & (np.arange(n)[:, None] != np.arange(n)), t, 0)
    return triangular_solve(a + one * pivots, where(inside[:, None], right, 0), left_side=True)


def _with_column(x: Any, new: Any, j: Any) -> Any:
    return where(np.arange(shape_of(x)[-1]) == j, new, x)


# ---- square roots ----------------------------------------------------------------------


@fused(values=("A",), static_argnames=("blocksize",))
def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """The principal square root of matrices.

    Args:
      A: square matrices of shape `(..., n, n)`.
      blocksize: must be 1.

    Returns:
      Complex matrices of the same shape; SciPy returns real ones if exact. Singular matrices
      without a root give infinities or NaNs.

    Raises:
      ValueError: the matrices are not square.
      NotImplementedError: `blocksize` is larger.

    Source: `scipy.linalg.sqrtm`; A. Björck and S. Hammarling, "A Schur method for the square root
    of a matrix", 1983.

    Example:
      >>> out = mjax.scipy.linalg.sqrtm(jnp.array([[4.0, 0.0], [0.0, 9.0]]))
      >>> bool(jnp.allclose(out, jnp.diag(jnp.array([2.0, 3.0]))))
      True
    """
    if blocksize > 1:
        msg = "sqrtm: blocks are not supported; leave blocksize out."
        raise NotImplementedError(msg)
    a = matrix("sqrtm", A, square=True)
    a = convert(a, dtypes.complex_dtype(typeof(a).dtype))
    return _root(a) if typeof(a).size else a


@custom_jvp
def _root(a: Any) -> Any:
    t, z = complex_schur(a)
    n = shape_of(t)[-1]
    roots = lax.sqrt(diagonal(t))

    def fill(j: Any, u: Any) -> Any:
        # From u u = t: (u + u[j, j]) u[:, j] = t[:, j] above the diagonal.
        right = _column(t, j)
        own = _entry(roots, j)
        x = _above(u, own, right, j)
        # A zero pivot with a nonzero remainder: the root does not exist.
        none = (column(diagonal(u)) + own == 0) & (x != 0)
        return _with_column(u, where(none, complex(np.nan, np.nan), x) + u, j)

    start = eye(n, n, typeof(t).dtype) * row(roots)
    return dot(z, fori_loop(0, n, fill, start), adjoint(z))


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> Any:
    # x x' + x' x = a': Sylvester's equation.
    (a,), (t,) = primals, tangents
    x = _root(a)
    return x, _sylvester(x, x, t, "schur")


# ---- Sylvester's equation --------------------------------------------------------------


@fused(static_argnames=("method",))
def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Any:
    """Solves Sylvester's equation, `A @ X + X @ B = C`.

    Args:
      A: square matrices of shape `(..., m, m)`.
      B: square matrices of shape `(..., n, n)`.
      C: matrices of shape `(..., m, n)`; leading axes broadcast.
      method: `"schur"`, or `"eigen"` for matrices that can be diagonalized.
      tol: the solution is NaN, as not unique, if an eigenvalue of A and one of B have a sum of
        smaller absolute value.

    Returns:
      The solutions, of shape `(..., m, n)`.

    Raises:
      ValueError: the shapes do not match, or `method` is unknown.

    Source: `scipy.linalg.solve_sylvester`; R. Bartels and G. Stewart, "Solution of the matrix
    equation AX + XB = C", 1972.

    Example:
      >>> a, b = jnp.array([[2.0]]), jnp.array([[1.0, 0.0], [0.0, 3.0]])
      >>> x = mjax.scipy.linalg.solve_sylvester(a, b, jnp.array([[6.0, 10.0]]))
      >>> bool(jnp.allclose(x, 2.0))
      True
    """
    a, b, c = inexact(A, B, C)
    shapes = [shape_of(x) for x in (a, b, c)]
    if min(map(len, shapes)) < 2 or shapes[0][-2:] != (shapes[2][-2],) * 2 or (
            shapes[1][-2:] != (shapes[2][-1],) * 2):
        msg = ("solve_sylvester: A, B and C must have shapes (..., m, m), (..., n, n) and (..., m, "
               f"n), got {shapes[0]}, {shapes[1]} and {shapes[2]}.")
        raise ValueError(msg)
    if method not in ("schur", "eigen"):
        msg = f"solve_sylvester: method must be 'schur' or 'eigen', got {method!r}."
        raise ValueError(msg)
    stack = broadcast_shapes(*[s[:-2] for s in shapes])
    a, b, c = [broadcast_to(x, (*stack, *s[-2:])) for x, s in zip((a, b, c), shapes, strict=True)]
    if not typeof(c).size:
        return c
    return _sylvester(a, b, c, method, tol)


def _sylvester(a: Any, b: Any, c: Any, method: str, tol: Any = None) -> Any:
    solver = _by_eigenvectors if method == "eigen" else _by_schur
    a_fixed, b_fixed = stop_gradient(a), stop_gradient(b)
    return custom_linear_solve(
        lambda x: dot(a, x) + dot(x, b), c,
        solve=lambda _, c: solver(a_fixed, b_fixed, c, tol),
        transpose_solve=lambda _, c: solver(swap(a_fixed), swap(b_fixed), c, tol))


def _unless_singular(x: Any, first: Any, second: Any, tol: Any, like: Any) -> Any:
    """The solutions in the equation's dtype; NaN where sums of eigenvalues are near 0."""
    x = x if dtypes.is_complex(typeof(like).dtype) else real(x)
    if tol is None:
        return x
    sums = lax.abs(column(first) + row(second))
    singular = any_of(sums < tol, (-2, -1), keepdims=True)
    return where(singular, np.nan, x)


def _by_schur(a: Any, b: Any, c: Any, tol: Any) -> Any:
    (r, u), (s, v) = complex_schur(a), complex_schur(b)
    f = dot(adjoint(u), convert(c, typeof(u).dtype), v)
    first, second = diagonal(r), diagonal(s)

    def fill(j: Any, y: Any) -> Any:
        # (r + s[j, j]) y[:, j] = f[:, j] - y s[:, j], where y has columns left of j.
        right = _column(f, j) - dot(y, _column(s, j))
        return _with_column(y, _above(r, _entry(second, j), right, shape_of(r)[-1]), j)

    y = fori_loop(0, shape_of(s)[-1], fill, zeros(shape_of(f), typeof(f).dtype))
    return _unless_singular(dot(u, y, adjoint(v)), first, second, tol, c)


def _by_eigenvectors(a: Any, b: Any, c: Any, tol: Any) -> Any:
    (first, u), (second, v) = [_eig.eig(x, compute_left_eigenvectors=False) for x in (a, b)]
    f = solve_square(u, dot(convert(c, typeof(u).dtype), v))
    return _unless_singular(dot(u, f / (column(first) + row(second)), inv(v)), first, second, tol,
                            c)


# ---- funm ------------------------------------------------------------------------------


@boundary
def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """Applies a scalar function to a matrix.

    Args:
      A: a square matrix.
      func: the elementwise function, applied to the complex vector of eigenvalues.
      disp: whether to return only the matrix.

    Returns:
      A complex matrix; unless `disp`, a pair of the matrix and an estimate of its relative error
      in the 1-norm. Results may be inaccurate for equal eigenvalues.

    Raises:
      ValueError: `A` is not a square matrix.
      NotImplementedError: the function is differentiated.

    Source: `scipy.linalg.funm`; B. Parlett, "A recurrence among the elements of functions of
    triangular matrices", 1976.

    Example:
      >>> a = jnp.array([[1.0, 2.0], [0.0, 3.0]])
      >>> bool(jnp.allclose(mjax.scipy.linalg.funm(a, jnp.square), a @ a))
      True
    """
    a = asarray(A)
    if len(shape_of(a)) != 2 or shape_of(a)[0] != shape_of(a)[1]:
        msg = f"funm: A must be a square matrix, got shape {shape_of(a)}."
        raise ValueError(msg)
    t, z = _form(a)
    if not shape_of(a)[0]:
        return t if disp else (t, real(reduce_sum(t, (0, 1))))
    out, error = _parlett(t, z, func(diagonal(t)))
    return out if disp else (out, error)


@fused
def _form(a: Any) -> tuple[Any, Any]:
    return complex_schur(inexact(a)[0])


@fused
def _parlett(t: Any, z: Any, values: Any) -> tuple[Any, Any]:
    n, dtype = shape_of(t)[-1], typeof(t).dtype
    values, own = convert(asarray(values), dtype), diagonal(t)

    def fill(j: Any, f: Any) -> Any:
        # f and t commute: (t - t[j, j]) f[:, j] = f t[:, j] - f[j, j] t[:, j] above the diagonal.
        right = dot(f, where(np.arange(n)[:, None] < j, _column(t, j), 0)) - (
            _entry(values, j) * _column(t, j))
        # Equal eigenvalues: the pivot is 1, where the recurrence has -1.
        x = _above(t, -_entry(own, j), right, j)
        x = where(own[:, None] == _entry(own, j), -x, x)
        return _with_column(f, x + f, j)

    start = eye(n, n, dtype) * row(values)
    f = dot(z, fori_loop(0, n, fill, start), adjoint(z))
    eps = float(ml_dtypes.finfo(dtype).eps)
    gaps = where(np.arange(n)[:, None] < np.arange(n), lax.abs(row(own) - column(own)), np.inf)
    smallest = least(gaps, initial=np.inf)
    smallest = lax.min(smallest, lax.abs(own[0]))
    smallest = where(smallest == 0, eps, smallest)
    size = greatest(reduce_sum(lax.abs(triu(t, 1)), (0,)), initial=0)
    error = lax.min(lax.max(eps / smallest * size, np.asarray(eps, real_of(dtype))),
                    np.asarray(1, real_of(dtype)))
    return f, where(any_of(lax.abs(f) == np.inf), np.inf, error)


__all__ = ["funm", "solve_sylvester", "sqrtm"]
