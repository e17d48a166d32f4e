"""Cholesky, LU and QR factorizations."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import fold
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg import cholesky as _cholesky
from mjax._engine.linalg import qr as _qr
from mjax._engine.linalg.lu import lu_p
from mjax._engine.linalg.matrices import adjoint, column, dot, eye_like, row, swap, tril, triu
from mjax._engine.linalg.reflectors import geqp3, geqrf, ormqr
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import stretch
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._numpy.core import broadcast_shapes, broadcast_to, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.padding import pad
from mjax._numpy.shapes import ravel
from mjax._scipy.linalg.arguments import check_matrix, documents, inexact, matrix

_STATIC = ("lower", "overwrite_a", "check_finite")

# ---- cholesky --------------------------------------------------------------------------


@fused(static_argnames=_STATIC)
@documents
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
             ) -> Any:
    """Cholesky factor of positive definite matrices.

    Args:
      [hermitian]
      lower: whether to return the lower factor, `a = l @ l.conj().T`, or the upper one,
        `a = u.conj().T @ u`. Only that triangle of `a` is read.
      [ignored]

    Returns:
      Triangular matrices of the shape of `a`; NaN, where SciPy raises, for matrices that are not
      positive definite.

    Raises:
      [not_square]

    Source: `scipy.linalg.cholesky`.

    Example:
      >>> mjax.scipy.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 2.0]]))
      Array([[2., 1.],
             [0., 1.]], dtype=float32)
    """
    a = matrix("cholesky", a, square=True)
    factor = _cholesky.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


@documents
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
               ) -> tuple[Any, bool]:
    """Cholesky factor of positive definite matrices, for `cho_solve`.

    Args:
      [hermitian]
      lower: whether to return the lower or the upper factor. Only that triangle is read.
      [ignored]

    Returns:
      A pair of the factor and `lower`. The other triangle is 0; SciPy leaves it arbitrary.

    Raises:
      [not_square]

    Source: `scipy.linalg.cho_factor`.

    Example:
      >>> factor = mjax.scipy.linalg.cho_factor(jnp.array([[4.0, 2.0], [2.0, 2.0]]))
      >>> mjax.scipy.linalg.cho_solve(factor, jnp.array([6.0, 4.0]))
      Array([1., 1.], dtype=float32)
    """
    try:  # what `boundary` does, without packing the arguments
        return cholesky(a, lower), lower
    except Exception as error:
        fold(error)
        raise


# ---- lu --------------------------------------------------------------------------------


@fused(static_argnames=("overwrite_a", "check_finite"))
@documents
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """LU factors of matrices with row pivoting, for `lu_solve`.

    Args:
      [matrices]
      [ignored]

    Returns:
      A pair of the factors and the pivots. One matrix of the shape of `a` holds both factors; the
      unit diagonal of the lower one is not stored. The pivots, int32 of shape `(..., k)`, say with
      which row each row was exchanged.

    Raises:
      ValueError: fewer than two axes.

    Source: `scipy.linalg.lu_factor`.

    Example:
      >>> mjax.scipy.linalg.lu_factor(jnp.array([[1.0, 2.0], [2.0, 2.0]]))[1]
      Array([1, 1], dtype=int32)
    """
    factors, pivots, _ = lu_p.bind(matrix("lu_factor", a))
    return factors, pivots


@fused(static_argnames=("permute_l", "overwrite_a", "check_finite"))
@documents
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
       ) -> tuple[Any, ...]:
    """LU decomposition: `a = p @ l @ u` with P a permutation of the rows.

    Args:
      [matrices]
      permute_l: whether to return `p @ l` instead of both.
      [ignored]

    Returns:
      `(p, l, u)`, or `(p @ l, u)`. P is real, of shape `(..., m, m)`. L, of shape `(..., m, k)`, is
      lower triangular with ones on its diagonal; U, of shape `(..., k, n)`, is upper triangular.

    Raises:
      ValueError: fewer than two axes.

    Source: `scipy.linalg.lu`.

    Example:
      >>> p, l, u = mjax.scipy.linalg.lu(jnp.array([[1.0, 2.0], [2.0, 2.0]]))
      >>> l
      Array([[1. , 0. ],
             [0.5, 1. ]], dtype=float32)
    """
    a = matrix("lu", a)
    factors, _, order = lu_p.bind(a)
    (m, n), last = shape_of(a)[-2:], typeof(a).ndim - 1
    k, dtype = min(m, n), typeof(a).dtype
    lower = tril(slice_in_dim(factors, 0, k, axis=last), -1)
    lower = lax.add(lower, eye_like(lower))
    upper = triu(slice_in_dim(factors, 0, k, axis=last - 1))
    shape = (*shape_of(a)[:-2], m, m)
    p = lax.eq(stretch(row(order), shape), broadcasted_iota("int32", shape, last - 1))
    if permute_l:
        return dot(convert(p, dtype), lower), upper
    return convert(p, dtypes.real_dtype(dtype)), lower, upper


# ---- qr --------------------------------------------------------------------------------


@fused(static_argnames=("overwrite_a", "lwork", "mode", "pivoting", "check_finite"))
@documents
def qr(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full",
       pivoting: bool = False, check_finite: bool = True) -> tuple[Any, ...]:
    """QR decomposition: `a = q @ r` with orthonormal columns Q and an upper triangular R.

    Args:
      [matrices]
      lwork: has no effect.
      mode: `"full"`: Q is square; `"economic"`: Q has k columns; `"r"`: only R is returned.
      pivoting: whether to exchange columns, `a[..., p] = q @ r`, so that the diagonal of R
        decreases in absolute value.
      [ignored]

    Returns:
      `(q, r)`, or `(q, r, p)` if `pivoting`, P int32 of shape `(..., n)`; for `"r"` without Q.

    Raises:
      ValueError: an unknown mode, or fewer than two axes.

    Source: `scipy.linalg.qr`, which has one more mode, `"raw"`.

    Example:
      >>> mjax.scipy.linalg.qr(jnp.array([[3.0, 0.0], [4.0, 5.0]]), mode="r")
      (Array([[-5., -4.],
             [ 0.,  3.]], dtype=float32),)
    """
    if mode not in ("full", "r", "economic"):
        msg = f'qr: unknown mode {mode!r}; it is "full", "economic" or "r".'
        raise ValueError(msg)
    out = _qr.qr(matrix("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return out[1:] if mode == "r" else out


@fused(static_argnames=("mode", "pivoting", "conjugate", "overwrite_a", "overwrite_c"))
@documents
def qr_multiply(a: Any, c: Any, mode: str = "right", pivoting: bool = False,
                conjugate: bool = False, overwrite_a: bool = False, overwrite_c: bool = False
                ) -> tuple[Any, ...]:
    """Multiplies matrices by Q of a QR decomposition, without forming Q.

    Args:
      [matrices]
      c: matrices of shape `(..., p, m)`, or `(..., k, p)` for the mode `"left"`; or a vector.
      mode: `"right"`: the result is the first k columns of `c @ q`; `"left"`: `q @ c`.
      pivoting: whether to exchange columns; see `qr`.
      conjugate: whether Q is conjugated.
      overwrite_a, overwrite_c: have no effect.

    Returns:
      `(product, r)`, or `(product, r, p)` if `pivoting`: the product, of shape `(..., p, k)` or
      `(..., m, p)`, or a vector; R of shape `(..., k, n)`; P int32 of shape `(..., n)`.

    Raises:
      ValueError: `mode` is unknown, or the shapes do not match.

    Source: `scipy.linalg.qr_multiply`.

    Example:
      >>> a = jnp.array([[3.0, 0.0], [4.0, 5.0]])
      >>> jnp.round(mjax.scipy.linalg.qr_multiply(a, jnp.eye(2))[0], 3)
      Array([[-0.6, -0.8],
             [-0.8,  0.6]], dtype=float32)
    """
    a, c = inexact(a, c)
    check_matrix("qr_multiply", a)
    if mode not in ("right", "left"):
        msg = f"qr_multiply: mode must be 'right' or 'left', got {mode!r}."
        raise ValueError(msg)
    left = mode == "left"
    vector = typeof(c).ndim == 1
    if vector:
        c = column(c) if left else row(c)
    (m, n), size = shape_of(a)[-2:], shape_of(c)[-2:]
    k = min(m, n)
    if not size or size[0 if left else 1] != (k if left else m):
        msg = (f"qr_multiply: Q of matrices of shape {shape_of(a)} has {m} rows and {k} columns; "
               f"with mode={mode!r} c must have {k if left else m} {'rows' if left else 'columns'}"
               f", got shape {shape_of(c)}.")
        raise ValueError(msg)
    stack = broadcast_shapes(shape_of(a)[:-2], shape_of(c)[:-2])
    a, c = broadcast_to(a, (*stack, m, n)), broadcast_to(c, (*stack, *size))
    reflectors, *rest = geqp3(a) if pivoting else geqrf(a)
    if left and m > n:
        c = pad(c, [(0, 0)] * len(stack) + [(0, m - k), (0, 0)])
    # conj(q) @ c is the transposed c.T @ q.conj().T.
    product = ormqr(slice_in_dim(reflectors, 0, k, axis=len(stack) + 1), rest[-1],
                    swap(c) if conjugate else c, left=left != conjugate, transpose=conjugate)
    product = swap(product) if conjugate else product
    if not left:
        product = slice_in_dim(product, 0, k, axis=len(stack) + 1)
    upper = triu(slice_in_dim(reflectors, 0, k, axis=len(stack)))
    return (ravel(product) if vector else product, upper, *rest[:-1])


__all__ = ["cho_factor", "cholesky", "lu", "lu_factor", "qr", "qr_multiply"]
