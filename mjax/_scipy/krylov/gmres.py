"""The method of generalized minimal residuals: `gmres`.

Each step makes an orthonormal basis of the Krylov space of the residual (Arnoldi's iteration). In
that basis the matrix is small and has Hessenberg form. The step then takes the vector with the
least residual. The arrays below hold the columns of the small matrix as rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes

from mjax._engine.base.docs import documented
from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import fori_loop, while_loop
from mjax._engine.ir.pytree import tree_leaves, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.cholesky import cholesky
from mjax._engine.linalg.triangular import triangular_solve
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.comparison import isnan
from mjax._numpy.core import cast, concrete_int, size_of
from mjax._numpy.creation import zeros
from mjax._numpy.elementary import hypot
from mjax._numpy.joining import concatenate
from mjax._numpy.matrices import eye
from mjax._numpy.ranges import arange
from mjax._numpy.rounding import conj
from mjax._numpy.selecting import where
from mjax._numpy.ufuncs import maximum, minimum
from mjax._scipy.krylov import vectors
from mjax._scipy.krylov.problems import FRAGMENTS, size_of_tree, solved
from mjax._scipy.krylov.vectors import add, dot, norm, sub

Linear = Callable[[Any], Any]


def _normalized(x: Any, least: Any = None) -> tuple[Any, Any]:
    """The normalized vector and its norm; zeros if the norm is at most `least`, by default the
    machine epsilon."""
    size = norm(x)
    if least is None:
        least = float(ml_dtypes.finfo(typeof(size).dtype).eps)
    counts = size > least
    unit = tree_map(lambda y: where(counts, y / cast(size, typeof(y).dtype), 0), x)
    return unit, where(counts, size, 0)


def _flat(basis: Any) -> Any:
    """The basis vectors as the columns of a matrix."""
    shape = typeof(basis).shape
    return basis.reshape(size_of(shape[:-1]), shape[-1])


def _combined(basis: Any, weights: Any) -> Any:
    """The weighted sum of the basis vectors, which are on the last axes."""
    return tree_map(lambda v: dot(v, cast(weights, typeof(v).dtype)), basis)


def _next_vector(k: Any, A: Linear, M: Linear, basis: Any) -> tuple[Any, Any, Any]:
    """One step of Arnoldi's iteration.

    Returns:
      The basis with one more vector, the next column of the small matrix, and whether the Krylov
      space is complete.
    """
    v = M(A(tree_map(lambda x: x[..., k], basis)))
    before = norm(v)
    parts = tree_map(lambda x, y: dot(conj(_flat(x)).T, y.ravel()), basis, v)
    column = sum(tree_leaves(parts)[1:], tree_leaves(parts)[0])
    eps = float(ml_dtypes.finfo(typeof(before).dtype).eps)
    unit, size = _normalized(sub(v, _combined(basis, column)), eps * before)
    basis = tree_map(lambda x, y: x.at[..., k + 1].set(y), basis, unit)
    return basis, column.at[k + 1].set(cast(size, typeof(column).dtype)), size == 0


def _with_room(unit: Any, count: int) -> Any:
    """A basis of one vector, padded with zeros for later vectors."""
    return tree_map(lambda x: concatenate([x[..., None], zeros(
        (*typeof(x).shape, count), typeof(x).dtype)], axis=-1), unit)


def _by_least_squares(A: Linear, M: Linear, unit: Any, size: Any, least: Any, count: int) -> Any:
    """The change of the solution: one least-squares problem in the whole space."""
    dtype = vectors.common(unit)[0]
    # The part that is not reached becomes an identity, which keeps the matrix regular.
    columns = eye(count, count + 1, dtype=dtype)

    def goes_on(state: Any) -> Any:
        return (state[2] < count) & ~state[3]

    def advanced(state: Any) -> Any:
        basis, columns, k, _ = state
        basis, column, complete = _next_vector(k, A, M, basis)
        return basis, columns.at[k].set(column), k + 1, complete

    basis, columns, _, _ = while_loop(
        goes_on, advanced, (_with_room(unit, count), columns, 0, False))
    # The normal equations; the right-hand side is a multiple of the first unit vector.
    factor = cholesky(dot(conj(columns), columns.T))
    right = conj(columns[:, :1]) * cast(size, dtype)
    halfway = triangular_solve(factor, right, left_side=True, lower=True)
    weights = triangular_solve(factor, halfway, left_side=True, lower=True, transpose_a=True,
                               conjugate_a=True)
    return _combined(tree_map(lambda v: v[..., :-1], basis), weights[:, 0])


def _turned(x: Any, k: Any, turn: Any) -> Any:
    """Applies a rotation to elements `k` and `k + 1` of a vector."""
    c, s = turn[0], turn[1]
    first, second = x[k], x[k + 1]
    return (x.at[k].set(conj(c) * first - conj(s) * second)
            .at[k + 1].set(s * first + c * second))


def _turn(a: Any, b: Any, dtype: Any) -> Any:
    """The rotation that makes `b` zero: cosine and sine."""
    size = hypot(absolute(a), absolute(b))
    safe = where(size == 0, 1, size)
    parts = [where(size == 0, 1, a / safe), -b / safe]
    return concatenate([cast(p, dtype)[None] for p in parts])


def _by_rotations(A: Linear, M: Linear, unit: Any, size: Any, least: Any, count: int) -> Any:
    """The change of the solution, by Givens rotations.

    They keep the growing small matrix triangular and reveal the residual, so the iteration stops
    early.
    """
    dtype = vectors.common(unit)[0]

    def goes_on(state: Any) -> Any:
        return (state[4] < count) & (state[5] > least)

    def advanced(state: Any) -> Any:
        basis, columns, turns, right, k, _ = state
        basis, column, _ = _next_vector(k, A, M, basis)
        column = fori_loop(0, k, lambda i, x: _turned(x, i, turns[i]), column)
        turn = _turn(column[k], column[k + 1], dtype)
        columns = columns.at[k].set(_turned(column, k, turn))
        right = _turned(right, k, turn)
        return (basis, columns, turns.at[k].set(turn), right, k + 1,
                cast(absolute(right[k + 1]), typeof(size).dtype))

    right = zeros(count + 1, dtype).at[0].set(cast(size, dtype))
    basis, columns, _, right, k, _ = while_loop(goes_on, advanced, (
        _with_room(unit, count), eye(count, count + 1, dtype=dtype), zeros((count, 2), dtype),
        right, 0, size))
    right = where(arange(count) < k, right[:-1], 0)
    weights = triangular_solve(columns[:, :-1].T, right[:, None], left_side=True)
    return _combined(tree_map(lambda v: v[..., :-1], basis), weights[:, 0])


class _Method(NamedTuple):
    """GMRES with a way to find the best vector of a Krylov space of `restart` dimensions."""

    change: Callable[..., Any]
    dimensions: int

    def __call__(self, A: Linear, b: Any, x0: Any, M: Linear, *, tol: Any, atol: Any,
                 maxiter: Any) -> Any:
        size = norm(b)
        allowed = maximum(tol * size, atol)
        # For b = 0 the quotient is NaN, and no dimension of a space is left out.
        none = size == 0
        least = norm(M(b)) * minimum(1.0, where(none, 0, allowed) / where(none, 1, size))
        residual = lambda x: _normalized(M(sub(b, A(x))))

        def goes_on(state: Any) -> Any:
            return (state[1] < maxiter) & (state[3] > allowed)

        def advanced(state: Any) -> Any:
            x, spaces, unit, size = state
            x = add(x, self.change(A, M, unit, size, least, self.dimensions))
            return x, spaces + 1, *residual(x)

        return while_loop(goes_on, advanced, (x0, 0, *residual(x0)))[0]


_WAYS = {"batched": _by_least_squares, "incremental": _by_rotations}


@boundary
@documented(**FRAGMENTS)
def gmres(A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, restart: int = 20,
          maxiter: Any = None, M: Any = None, solve_method: str = "batched") -> tuple[Any, Any]:
    """Solves `A x = b`, with any `A`, by generalized minimal residuals.

    [derivatives]

    Args:
      [A]
      [b]
      [x0]
      [tol]
      restart: the dimension of the Krylov space, after which the method restarts.
      maxiter: the limit of restarts, by default ten per element of `b`.
      [M]
      solve_method: "batched" builds the whole space and solves one least-squares problem in it.
        "incremental" updates the residual with each vector and stops when it is small enough;
        it is more accurate.

    Returns:
      `(x, info)`: a tree like `b`, and 0, or -1 if the solution has NaNs.

    [raises]

    Source: `scipy.sparse.linalg.gmres`; Y. Saad and M. Schultz, "GMRES: a generalized minimal
    residual algorithm for solving nonsymmetric linear systems", 1986.

    Example:
      >>> from mjax.scipy.sparse.linalg import gmres
      >>> x, info = gmres(jnp.array([[0.0, 2.0], [1.0, 0.0]]), jnp.array([4.0, 1.0]))
      >>> np.allclose(x, [1, 2]), int(info)
      (True, 0)
    """
    if solve_method not in _WAYS:
        msg = f"gmres: solve_method must be one of {', '.join(_WAYS)}, got {solve_method!r}."
        raise ValueError(msg)
    if concrete_int(restart, "gmres: restart") < 1:
        msg = f"gmres: restart, the dimension of the Krylov space, must be positive, got {restart}."
        raise ValueError(msg)
    size = size_of_tree(b)
    method = _Method(_WAYS[solve_method], min(restart, size))
    x = solved("gmres", method, A, b, x0, M, False, tol=tol, atol=atol,
               maxiter=10 * size if maxiter is None else maxiter)
    return x, where(isnan(norm(x)), -1, 0)


__all__ = ["gmres"]
