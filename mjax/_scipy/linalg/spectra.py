"""Decompositions by unitary matrices: eigenvalues, singular values, Schur and Hessenberg forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.control.loops.looping import fori_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg import eigh as _eigh
from mjax._engine.linalg import svd as _svd
from mjax._engine.linalg.matrices import adjoint, dot, row, symmetrized, triu
from mjax._engine.linalg.qdwh import qdwh
from mjax._engine.linalg.reflectors import householder_product
from mjax._engine.linalg.schur import hessenberg_p, schur_p
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dynamic_slicing import (
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_slice_in_dim,
)
from mjax._numpy.core import broadcast_shapes, broadcast_to, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate, stack
from mjax._numpy.padding import pad
from mjax._numpy.selecting import where
from mjax._numpy.vectorizing import vectorize
from mjax._scipy.linalg.arguments import check_matrix, documents, inexact, matrix


@fused(static_argnames=("full_matrices", "compute_uv", "overwrite_a", "check_finite",
                        "lapack_driver"))
@documents
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
        check_finite: bool = True, lapack_driver: str = "gesdd") -> Any:
    """Singular value decomposition: `a = u @ diag(s) @ vh`.

    Args:
      [matrices]
      full_matrices: whether U and V are square; otherwise they have k columns.
      compute_uv: whether to return U and V.
      [ignored]
      lapack_driver: has no effect.

    Returns:
      `(u, s, vh)`, or `s` unless `compute_uv`: the singular values, real and descending, of shape
      `(..., k)`.

    Raises:
      ValueError: fewer than two axes.

    Source: `scipy.linalg.svd`.

    Example:
      >>> mjax.scipy.linalg.svd(jnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
      Array([4., 3.], dtype=float32)
    """
    return _svd.svd(matrix("svd", a), full_matrices=full_matrices, compute_uv=compute_uv)


@fused(static_argnames=("lower", "eigvals_only", "overwrite_a", "overwrite_b", "turbo", "eigvals",
                        "type", "check_finite"))
@documents
def eigh(a: Any, b: Any = None, lower: bool = True, eigvals_only: bool = False,
         overwrite_a: bool = False, overwrite_b: bool = False, turbo: bool = True,
         eigvals: None = None, type: int = 1, check_finite: bool = True) -> Any:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Args:
      [hermitian]
      b: must be None: generalized problems are not supported.
      lower: has no effect: the mean of `a` and its adjoint is factored.
      eigvals_only: whether to return only the eigenvalues.
      overwrite_a, overwrite_b, turbo, check_finite: have no effect.
      eigvals: must be None.
      type: must be 1.

    Returns:
      A pair: the eigenvalues, real and ascending, of shape `(..., n)`, and the eigenvectors as
      columns, of shape `(..., n, n)`.

    Raises:
      [not_square]
      NotImplementedError: `b` or `eigvals` is given, or `type` is not 1.

    Source: `scipy.linalg.eigh`.

    Example:
      >>> mjax.scipy.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]]), eigvals_only=True)
      Array([1., 2.], dtype=float32)
    """
    if b is not None or type != 1:
        msg = ("eigh: generalized problems (b, type) are not supported. For a positive "
               "definite b take its Cholesky factor l, and solve_triangular from both sides of a.")
        raise NotImplementedError(msg)
    if eigvals is not None:
        msg = "eigh: eigvals is not supported; select from the results."
        raise NotImplementedError(msg)
    vectors, values = _eigh.eigh(matrix("eigh", a, square=True), lower=lower)
    return values if eigvals_only else (values, vectors)


# ---- schur -----------------------------------------------------------------------------


@fused(static_argnames=("output",))
@documents
def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """Schur decomposition: `a = z @ t @ z.conj().T` with Z unitary.

    Args:
      [square]
      output: `"real"`, or `"complex"` for complex T and Z even of real matrices.

    Returns:
      A pair `(t, z)`. A complex T is upper triangular; a real T has a block of two rows for each
      pair of complex eigenvalues.

    Raises:
      [not_square]
      ValueError: `output` is unknown.
      NotImplementedError: a derivative is asked for.

    Source: `scipy.linalg.schur`.

    Example:
      >>> t, z = mjax.scipy.linalg.schur(jnp.array([[2.0, 1.0], [0.0, 1.0]]))
      >>> t
      Array([[2., 1.],
             [0., 1.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        msg = f"schur: output must be 'real' or 'complex', got {output!r}."
        raise ValueError(msg)
    a = matrix("schur", a, square=True)
    return complex_schur(a) if output == "complex" else _schur(a)


def _schur(a: Any) -> tuple[Any, Any]:
    form, vectors = schur_p.bind(a, compute_schur_vectors=True, sort_eig_vals=False,
                                 select_callable=None)
    return form, vectors


def complex_schur(a: Any) -> tuple[Any, Any]:
    """The Schur decomposition with an upper triangular factor."""
    return _schur(convert(a, dtypes.complex_dtype(typeof(a).dtype)))


@fused(static_argnames=("check_finite",))
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The complex Schur decomposition from the real one.

    Args:
      T: real Schur forms, of shape `(..., n, n)`.
      Z: the orthogonal factors, of that shape.
      check_finite: has no effect.

    Returns:
      A pair of complex arrays: upper triangular and unitary matrices.

    Raises:
      ValueError: the matrices are not square, or of different sizes.

    Source: `scipy.linalg.rsf2csf`; G. Golub and C. Van Loan, "Matrix Computations", 2013, 7.4.

    Example:
      >>> t, z = mjax.scipy.linalg.schur(jnp.array([[0.0, -1.0], [1.0, 0.0]]))
      >>> bool(jnp.allclose(jnp.diag(mjax.scipy.linalg.rsf2csf(t, z)[0]), jnp.array([1j, -1j])))
      True
    """
    t, z = inexact(T, Z)
    check_matrix("rsf2csf", t, square=True)
    check_matrix("rsf2csf", z, square=True)
    n = shape_of(t)[-1]
    if shape_of(z)[-1] != n:
        msg = (f"rsf2csf: T and Z must be matrices of one size, got shapes {shape_of(t)} and "
               f"{shape_of(z)}.")
        raise ValueError(msg)
    lead = broadcast_shapes(shape_of(t)[:-2], shape_of(z)[:-2])
    dtype = dtypes.complex_dtype(typeof(t).dtype)
    t, z = [broadcast_to(convert(x, dtype), (*lead, n, n)) for x in (t, z)]
    return fori_loop(1, n, lambda i, tz: _without_block(n - i, *tz), (t, z)) if n > 1 else (t, z)


def _without_block(m: Any, t: Any, z: Any) -> tuple[Any, Any]:
    """Zeroes the element left of the diagonal in row m, by a rotation of two rows."""
    ndim, n = typeof(t).ndim, shape_of(t)[-1]
    rows, columns = ndim - 2, ndim - 1
    block = dynamic_slice(t, (0,) * rows + (m - 1, m - 1), (*shape_of(t)[:-2], 2, 2))
    a, b, c, d = [block[..., i, j] for i in (0, 1) for j in (0, 1)]
    # An eigenvalue of the block, minus the lower diagonal element.
    half = (a - d) / 2
    root = half + lax.sqrt(half * half + b * c)
    size = lax.sqrt(lax.square(lax.abs(root)) + lax.square(lax.abs(c)))
    eps = float(np.finfo(typeof(t).dtype).eps)
    there = lax.abs(c) > eps * (lax.abs(a) + lax.abs(d))
    size = convert(where(there, size, 1), typeof(t).dtype)
    cosine, sine = where(there, root / size, 1), where(there, c / size, 0)
    turn = stack([stack([lax.conj(cosine), sine], -1), stack([-sine, cosine], -1)], -2)
    place = np.arange(n)
    pair = dynamic_slice_in_dim(t, m - 1, 2, rows)
    right = place >= m - 1
    pair = where(right, dot(turn, where(right, pair, 0)), pair)
    t = dynamic_update_slice_in_dim(t, pair, m - 1, rows)
    pair = dynamic_slice_in_dim(t, m - 1, 2, columns)
    above = place[:, None] < m + 1
    pair = where(above, dot(where(above, pair, 0), adjoint(turn)), pair)
    pair = where((place[:, None] == m) & np.array([True, False]), 0, pair)
    t = dynamic_update_slice_in_dim(t, pair, m - 1, columns)
    pair = dot(dynamic_slice_in_dim(z, m - 1, 2, columns), adjoint(turn))
    return t, dynamic_update_slice_in_dim(z, pair, m - 1, columns)


# ---- hessenberg ------------------------------------------------------------------------


@fused(static_argnames=("calc_q", "overwrite_a", "check_finite"))
@documents
def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False,
               check_finite: bool = True) -> Any:
    """Hessenberg form: `a = q @ h @ q.conj().T`, H zero below the first subdiagonal, Q unitary.

    Args:
      [square]
      calc_q: whether to return Q, too.
      [ignored]

    Returns:
      H, or `(h, q)`, of the shape of `a`.

    Raises:
      [not_square]
      NotImplementedError: a derivative is asked for.

    Source: `scipy.linalg.hessenberg`; LAPACK, `gehrd`.

    Example:
      >>> a = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [0.0, 8.0, 9.0]])
      >>> bool(jnp.all(mjax.scipy.linalg.hessenberg(a) == a))
      True
    """
    a = matrix("hessenberg", a, square=True)
    if not shape_of(a)[-1]:
        return (a, a) if calc_q else a
    out, taus = hessenberg_p.bind(a)
    form = triu(out, -1)
    if not calc_q:
        return form
    inner = householder_product(out[..., 1:, :-1], taus)
    ndim = typeof(a).ndim
    inner = pad(inner, [(0, 0)] * (ndim - 2) + [(1, 0)] * 2)
    first = np.zeros(shape_of(a)[-1], typeof(a).dtype)
    first[0] = 1
    top = broadcast_to(first, (*shape_of(a)[:-2], 1, shape_of(a)[-1]))
    return form, concatenate([top, inner[..., 1:, :]], ndim - 2)


# ---- polar -----------------------------------------------------------------------------


@fused(static_argnames=("side", "method", "eps", "max_iterations"))
@documents
def polar(a: Any, side: str = "right", *, method: str = "qdwh", eps: float | None = None,
          max_iterations: int | None = None) -> tuple[Any, Any]:
    """Polar decomposition: `a = u @ p`, U with orthonormal columns, P positive semidefinite.

    Args:
      [matrices]
      side: `"right"`, or `"left"` for `a = p @ u`.
      method: `"qdwh"`, an iteration for matrices of full rank, or `"svd"`, by singular values.
      eps: the target relative error of the iteration; the machine epsilon by default.
      max_iterations: the limit of steps; 10 by default.

    Returns:
      `(u, p)`. U has the shape of `a`; if it has fewer rows than columns, its rows are orthonormal.
      P has shape `(..., n, n)`, or `(..., m, m)` on the left.

    Raises:
      ValueError: `a` has fewer than two axes, or `side` or `method` is unknown.

    Source: `scipy.linalg.polar`; see `lax.linalg.qdwh`.

    Example:
      >>> u, p = mjax.scipy.linalg.polar(jnp.array([[0.0, -2.0], [1.0, 0.0]]))
      >>> bool(jnp.allclose(p, jnp.diag(jnp.array([1.0, 2.0])), atol=1e-5))
      True
    """
    a = matrix("polar", a)
    if side not in ("right", "left"):
        msg = f"polar: side must be 'right' or 'left', got {side!r}."
        raise ValueError(msg)
    if method == "svd":
        return _polar_by_svd(a, side)
    if method != "qdwh":
        msg = f"polar: method must be 'qdwh' or 'svd', got {method!r}."
        raise ValueError(msg)
    m, n = shape_of(a)[-2:]

    def unitary(a: Any) -> Any:
        return qdwh(a, eps=eps, max_iterations=max_iterations)[0]

    if not m or not n:
        return a, dot(a, adjoint(a)) if side == "left" else dot(adjoint(a), a)
    u = vectorize(unitary, signature="(m,n)->(m,n)")(a if m >= n else adjoint(a))
    u = u if m >= n else adjoint(u)
    return u, symmetrized(dot(a, adjoint(u)) if side == "left" else dot(adjoint(u), a))


def _polar_by_svd(a: Any, side: str) -> tuple[Any, Any]:
    u, s, vh = _svd.svd(a, full_matrices=False)
    s = convert(row(s), typeof(u).dtype)
    p = dot(u * s, adjoint(u)) if side == "left" else dot(adjoint(vh) * s, vh)
    return dot(u, vh), p


__all__ = ["complex_schur", "eigh", "hessenberg", "polar", "rsf2csf", "schur", "svd"]
