"""Polar decompositions by QR-based dynamically weighted Halley iteration."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import fori_loop, while_loop
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.cholesky import cholesky_p
from mjax._engine.linalg.matrices import INT32, adjoint, dot, eye, real_of, scaled, symmetrized
from mjax._engine.linalg.qr import qr_p
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dynamic_slicing import (
    dynamic_index_in_dim,
    dynamic_slice_in_dim,
    dynamic_update_slice_in_dim,
)
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.reductions import reduce_max
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import as_settled, reduce_sum
from mjax._engine.primitives.slicing import index_in_dim, pad, slice_in_dim

#: Weights above this make the matrices of the Cholesky variant ill-conditioned.
_CUTOFF = 100.0


def _weights(eps: float, most: int) -> tuple[list[Any], list[Any]]:
    """The weights of the steps by QR decomposition, then of those by Cholesky factors.

    They follow from a lower bound of the singular values, which each step moves towards 1.
    """
    bound, by_qr, by_cholesky = eps, list[Any](), list[Any]()
    while bound + 5 * eps < 1 and len(by_qr) + len(by_cholesky) < most:
        square = bound * bound
        d = (4 * (1 / square - 1) / square) ** (1 / 3)
        root = (1 + d) ** 0.5
        a = root + (2 - d + 2 * (2 - square) / (square * root)) ** 0.5
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        bound *= (a + b * square) / (1 + c * square)
        if c > _CUTOFF:
            by_qr.append(((a - b / c) / c**0.5, c**0.5, b / c))
        else:
            by_cholesky.append((a - b / c, c, b / c))
    return by_qr, by_cholesky


class _Padded:
    """A matrix that may be padded: elements outside of its true shape are ignored.

    Args:
      x: the matrix.
      shape: the true numbers of rows and columns, which may be traced; None: its own.
    """

    def __init__(self, x: Any, shape: tuple[Any, Any] | None):
        self.rows, self.columns = typeof(x).shape
        self.dtype = typeof(x).dtype
        self.shape = shape

    def inside(self, x: Any, rows: Any, columns: Any, otherwise: Any = None) -> Any:
        """The matrix with zeros, or another value, outside of its true shape."""
        if self.shape is None:
            return x
        shape = typeof(x).shape
        within = [lax.lt(broadcasted_iota(INT32, shape, axis),
                         stretch(convert(bound, INT32), shape))
                  for axis, bound in enumerate((rows, columns))]
        if otherwise is None:
            otherwise = stretch(constant_like(x, 0), shape)
        return select_n(lax.bitwise_and(*within), otherwise, x)

    def by_qr(self, u: Any, weights: Sequence[Any]) -> Any:
        """A step by the QR decomposition of the matrix above the identity."""
        factor, root, rest = weights
        m, n = self.shape or (self.rows, self.columns)
        identity = eye(self.columns, self.columns, self.dtype)
        above = lax.mul(u, root)
        if self.shape is None:
            both = concatenate([above, identity], 0)
        else:
            both = dynamic_update_slice_in_dim(
                pad(above, constant_like(u, 0), [(0, self.columns, 0), (0, 0, 0)]), identity, m, 0)
        q, _ = qr_p.bind(both, pivoting=False, full_matrices=False, use_magma=None)
        upper = self.inside(slice_in_dim(q, 0, self.rows), m, n)
        lower = (slice_in_dim(q, self.rows, self.rows + self.columns) if self.shape is None
                 else dynamic_slice_in_dim(q, m, self.columns, 0))
        product = dot(upper, adjoint(self.inside(lower, n, n)))
        return lax.add(lax.mul(u, rest), lax.mul(product, factor))

    def by_cholesky(self, u: Any, weights: Sequence[Any]) -> Any:
        """The same step by a Cholesky factor, for small weights."""
        factor, weight, rest = weights
        n = self.columns if self.shape is None else self.shape[1]
        identity = eye(self.columns, self.columns, self.dtype)
        square = lax.add(lax.mul(dot(adjoint(u), u), weight), identity)
        lower = cholesky_p.bind(self.inside(square, n, n, identity))
        z = triangular_solve(lower, adjoint(u), left_side=True, lower=True)
        z = triangular_solve(lower, z, left_side=True, lower=True, transpose_a=True,
                             conjugate_a=True)
        return lax.add(lax.mul(u, rest), lax.mul(adjoint(z), factor))


def _norms(x: Any) -> tuple[Any, Any]:
    """The 1-norm and the infinity norm: the greatest absolute column sum and row sum."""
    sizes = lax.abs(x)
    return reduce_max(reduce_sum(sizes, (0,)), (0,)), reduce_max(reduce_sum(sizes, (1,)), (0,))


def _moves(new: Any, old: Any, tolerance: float) -> Any:
    """Whether a step changed the matrix by more than a tolerance, in the Frobenius norm."""
    step = lax.abs(lax.sub(new, old))
    size = lax.sqrt(reduce_sum(lax.mul(step, step), (0, 1)))
    return lax.gt(size, constant_like(size, tolerance))


def _iterated(step: Callable[[Any, Any], Any], state: Any, weights: Sequence[Any], dtype: Any
              ) -> Any:
    """Takes one step for each row of weights."""
    if not weights:
        return state
    table = np.asarray(weights, real_of(dtype)).astype(dtype)

    def body(k: Any, state: Any) -> Any:
        row = dynamic_index_in_dim(table, k, keepdims=False)
        return step(state, [index_in_dim(row, i, keepdims=False) for i in range(3)])

    return fori_loop(0, len(weights), body, state)


@boundary
def qdwh(x: Any, *, is_hermitian: bool = False, max_iterations: int | None = None,
         eps: float | None = None, dynamic_shape: tuple[Any, Any] | None = None
         ) -> tuple[Any, Any, Any, Any]:
    """Polar decomposition: `x = u @ h` with orthonormal columns U and H positive semidefinite.

    Args:
      x: a matrix of shape `(m, n)`, `m >= n`, of full rank.
      is_hermitian: ignored.
      max_iterations: the maximum number of steps; 10 by default.
      eps: the target relative error; by default the dtype's machine epsilon.
      dynamic_shape: `(rows, columns)`: the true shape of a padded `x`; the numbers may be
        traced.

    Returns:
      `(u, h, num_iters, is_converged)`: U of shape `(m, n)`, H `(n, n)`, the number of steps, and
      whether the last one changed the result within tolerance.

    Raises:
      ValueError: `x` is not a matrix, or has more columns than rows.

    Source: Y. Nakatsukasa, Z. Bai and F. Gygi, "Optimizing Halley's iteration for computing the
    matrix polar decomposition", 2010.

    Example:
      >>> u, h, count, converged = mjax.lax.linalg.qdwh(jnp.array([[0.0, -2.0], [1.0, 0.0]]))
      >>> bool(converged), bool(jnp.allclose(h, jnp.diag(jnp.array([1.0, 2.0])), atol=1e-5))
      (True, True)
    """
    shape = typeof(x).shape
    if len(shape) != 2 or shape[0] < shape[1]:
        raise LazyValueError(lambda: (
            f"qdwh: the matrix must have at least as many rows as columns, got {typeof(x)}; take "
            "its adjoint."))
    most = 10 if max_iterations is None else operator.index(max_iterations)
    dtype = typeof(x).dtype
    eps = float(ml_dtypes.finfo(real_of(dtype)).eps if eps is None else eps)
    padded = _Padded(x, dynamic_shape)
    if dynamic_shape is not None:
        x = padded.inside(x, *dynamic_shape)
    # The product of these norms is at least the square of the largest singular value.
    first, second = _norms(x)
    scale = lax.mul(lax.rsqrt(first), lax.rsqrt(second))
    scale = select_n(lax.eq(first, constant_like(first, 0)), scale, constant_like(scale, 1))
    u = lax.mul(x, convert(scale, dtype))
    tolerance = float(np.cbrt(5 * eps))

    def checked(state: Any, weights: Any) -> Any:
        new = padded.by_cholesky(state[0], weights)
        return new, _moves(new, state[0], tolerance)

    by_qr, by_cholesky = _weights(eps, most)
    u = _iterated(padded.by_qr, u, by_qr, dtype)
    state = _iterated(checked, (u, as_settled(np.True_)), by_cholesky, dtype)
    # In the limit the weights are those of Halley's method.
    limit = [constant_like(x, w) for w in (8 / 3, 3.0, 1 / 3)]
    count, u, moves = while_loop(
        lambda s: lax.bitwise_and(s[2], lax.lt(s[0], constant_like(s[0], most))),
        lambda s: (lax.add(s[0], constant_like(s[0], 1)), *checked(s[1:], limit)),
        (len(by_qr) + len(by_cholesky), *state))
    # One Newton-Schulz step for the last digits.
    u = lax.sub(scaled(u, 1.5), scaled(dot(u, dot(adjoint(u), u)), 0.5))
    return u, symmetrized(dot(adjoint(u), x)), count, lax.bitwise_not(moves)
