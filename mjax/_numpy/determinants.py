"""Determinants, ranks and condition numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lu import lu_p, permuted
from mjax._engine.linalg.matrices import INT32, real, zeros
from mjax._engine.linalg.reflectors import geqrf_p
from mjax._engine.linalg.triangular import triangular_solve_p
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.cumulative import cumprod_p
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.reductions import reduce_and, reduce_max, reduce_or, reduce_prod
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import broadcast_in_dim_p, expand_dims, reduce_sum
from mjax._engine.primitives.slicing import diagonal, index_in_dim, slice_in_dim
from mjax._numpy.core import (
    broadcast_values,
    cast,
    promote_dtypes_inexact,
    shape_of,
)
from mjax._numpy.decompositions import operand, svd, svdvals
from mjax._numpy.fused import fused
from mjax._numpy.norms import norm
from mjax._numpy.systems import inv, solve_square

if TYPE_CHECKING:
    from mjax._engine.runtime.arrays.array import Array


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Array
    logabsdet: Array


# ---- parts -----------------------------------------------------------------------------


def _element(x: Any, i: int, j: int) -> Any:
    """One element of each matrix."""
    ndim = typeof(x).ndim
    return index_in_dim(index_in_dim(x, i, ndim - 2, keepdims=False), j, ndim - 2, keepdims=False)


def _trace(x: Any) -> Any:
    return reduce_sum(diagonal(x), (typeof(x).ndim - 2,))


def _two(a: Any, b: Any | None = None) -> Any:
    """The determinant of matrices of two rows; its derivative in the direction of others."""
    e = lambda i, j, x=a: _element(x, i, j)
    if b is None:
        return lax.sub(lax.mul(e(0, 0), e(1, 1)), lax.mul(e(0, 1), e(1, 0)))
    d = lambda i, j: _element(b, i, j)
    return lax.sub(lax.add(lax.mul(d(0, 0), e(1, 1)), lax.mul(e(0, 0), d(1, 1))),
                   lax.add(lax.mul(d(0, 1), e(1, 0)), lax.mul(e(0, 1), d(1, 0))))


def _three(a: Any) -> Any:
    """The determinant of matrices of three rows, by the rule of Sarrus."""
    e = lambda i, j: _element(a, i, j)
    product = lambda *columns: lax.mul(
        lax.mul(e(0, columns[0]), e(1, columns[1])), e(2, columns[2]))
    even = [product(0, 1, 2), product(1, 2, 0), product(2, 0, 1)]
    odd = [product(2, 1, 0), product(0, 2, 1), product(1, 0, 2)]
    total = lambda terms: lax.add(lax.add(terms[0], terms[1]), terms[2])
    return lax.sub(total(even), total(odd))


def _exchanges(pivots: Any) -> Any:
    """The number of row exchanges."""
    places = broadcasted_iota(typeof(pivots).dtype, shape_of(pivots), typeof(pivots).ndim - 1)
    return reduce_sum(convert(lax.ne(pivots, places), INT32), (typeof(pivots).ndim - 1,))


def _parity(count: Any, dtype: Any) -> Any:
    """1 for even numbers, -1 for odd ones."""
    odd = lax.bitwise_and(count, constant_like(count, 1))
    return convert(lax.sub(constant_like(odd, 1), lax.add(odd, odd)), dtype)


# ---- slogdet ---------------------------------------------------------------------------


@custom_jvp
def _slogdet(a: Any) -> tuple[Any, Any]:
    n = shape_of(a)[-1]
    if n in (1, 2):
        value = _element(a, 0, 0) if n == 1 else _two(a)
        return lax.sign(value), lax.log(lax.abs(value))
    out, pivots, _ = lu_p.bind(a)
    entries, dtype = diagonal(out), typeof(a).dtype
    last = typeof(entries).ndim - 1
    count = _exchanges(pivots)
    sizes = lax.abs(entries)
    if dtypes.is_complex(dtype):
        sign = reduce_prod(lax.div(entries, convert(sizes, dtype)), (last,))
        sign = lax.mul(sign, _parity(count, dtype))
    else:
        negative = convert(lax.lt(entries, constant_like(entries, 0)), INT32)
        sign = _parity(lax.add(count, reduce_sum(negative, (last,))), dtype)
    singular = reduce_or(lax.eq(entries, constant_like(entries, 0)), (last,))
    log = cast(reduce_sum(lax.log(sizes), (last,)), typeof(sizes).dtype)
    fill = lambda x, c: stretch(constant_like(x, c), shape_of(x))
    return (select_n(singular, sign, fill(sign, 0)),
            select_n(singular, log, fill(log, -np.inf)))


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    sign, log = _slogdet(a)
    n = shape_of(a)[-1]
    if n == 1:
        change = lax.div(_element(t, 0, 0), _element(a, 0, 0))
    elif n == 2:
        change = lax.div(_two(a, t), _two(a))
    else:
        change = _trace(solve_square(a, t))
    return (sign, log), (_turned(change, sign), real(change))


def _turned(change: Any, sign: Any) -> Any:
    """The tangent of the sign: a rotation on the unit circle."""
    if not dtypes.is_complex(typeof(change).dtype):
        return zeros(shape_of(sign), typeof(sign).dtype)
    angle = lax.imag(change)
    return lax.mul(lax.complex(lax.sub(angle, angle), angle), sign)


@custom_jvp
def _slogdet_by_qr(a: Any) -> tuple[Any, Any]:
    out, taus = geqrf_p.bind(a)
    entries, n = diagonal(out), shape_of(a)[-1]
    last = typeof(entries).ndim - 1
    taus = slice_in_dim(taus, 0, max(n - 1, 0), axis=last)
    reflections = reduce_sum(convert(lax.ne(taus, constant_like(taus, 0)), INT32), (last,))
    sign = lax.mul(reduce_prod(lax.sign(entries), (last,)),
                   _parity(reflections, typeof(a).dtype))
    return sign, reduce_sum(lax.log(lax.abs(entries)), (last,))


@_slogdet_by_qr.defjvp
def _slogdet_by_qr_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    sign, log = _slogdet_by_qr(a)
    change = _trace(solve_square(a, t))
    return (sign, log), (_turned(change, sign), real(change))


@fused(values=("a",), static_argnames=("method",))
def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Sign and logarithm of the absolute value of determinants, which do not overflow.

    Args:
      a: matrices of shape `(..., n, n)`.
      method: `"lu"`, the default, or `"qr"`, for real matrices.

    Returns:
      A pair of shape `(...)` each: `sign`, on the unit circle for complex matrices and 0 for
      singular ones, and `logabsdet`, real.

    Raises:
      ValueError: the matrices are not square, or the method is unknown.
      NotImplementedError: the method `"qr"` for complex matrices.

    Source: `numpy.linalg.slogdet`.

    Example:
      >>> jnp.linalg.slogdet(jnp.array([[0.0, 1.0], [1.0, 0.0]]))
      SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    a = operand("slogdet", a)
    if method in (None, "lu"):
        return SlogdetResult(*_slogdet(a))
    if method != "qr":
        msg = f'slogdet: unknown method {method!r}; it is "lu" or "qr".'
        raise ValueError(msg)
    if dtypes.is_complex(typeof(a).dtype):
        msg = 'slogdet: the method "qr" is for real matrices; take "lu" for complex ones.'
        raise NotImplementedError(msg)
    return SlogdetResult(*_slogdet_by_qr(a))


# ---- det -------------------------------------------------------------------------------


@custom_jvp
def _det(a: Any) -> Any:
    sign, log = _slogdet(a)
    return lax.mul(sign, convert(lax.exp(log), typeof(sign).dtype))


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    det, solved = _times_inverse(a, t)
    return det, _trace(solved)


def _times_inverse(a: Any, b: Any) -> tuple[Any, Any]:
    """The determinant, and its product with `inv(a) @ b`, which exists for singular matrices too.

    The last pivot of the LU factors is a divisor of the inverse and a factor of the determinant.
    It is left out of both, so that a rank of n - 1 is enough. With a lower rank the product is 0.

    Source: M. Giles, "An extended collection of matrix derivative results for forward and reverse
    mode algorithmic differentiation", 2008, with the division by the last pivot taken out.
    """
    n, shape = shape_of(a)[-1], shape_of(a)
    rows = len(shape) - 2
    if n < 2:
        return (_element(a, 0, 0), b) if n else (_det(a), b)
    out, pivots, order = lu_p.bind(a)
    entries = diagonal(out)
    sign = _parity(_exchanges(pivots), typeof(a).dtype)
    partial = lax.mul(cumprod_p.bind(entries, axis=rows, reverse=False),
                      stretch(expand_dims(sign, (rows,)), shape_of(entries)))
    det, before = [index_in_dim(partial, i, rows, keepdims=False) for i in (n - 1, n - 2)]
    spread = lambda x: stretch(expand_dims(x, (rows, rows + 1)), shape)
    corner = lax.bitwise_and(*[lax.eq(broadcasted_iota(INT32, shape, i), np.int32(n - 1))
                               for i in (rows, rows + 1)])
    replaced = select_n(corner, out, spread(lax.div(constant_like(before, 1), before)))
    solve = {"left_side": True, "transpose_a": False, "conjugate_a": False}
    ones = stretch(constant_like(out, 1), (*shape[:-1], 1))
    test = triangular_solve_p.bind(replaced, ones, lower=False, unit_diagonal=False, **solve)
    finite = reduce_and(_is_finite(test), (rows, rows + 1))
    finite = broadcast_in_dim_p.bind(finite, shape=shape_of(b),
                                     broadcast_dimensions=tuple(range(rows)))
    nothing = stretch(constant_like(b, 0), shape_of(b))
    x = permuted(select_n(finite, nothing, b), order)
    x = triangular_solve_p.bind(out, x, lower=True, unit_diagonal=True, **solve)
    last = lax.eq(broadcasted_iota(INT32, shape_of(b), rows), np.int32(n - 1))
    x = select_n(last, lax.mul(x, stretch(expand_dims(det, (rows, rows + 1)), shape_of(b))), x)
    x = triangular_solve_p.bind(replaced, x, lower=False, unit_diagonal=False, **solve)
    return det, select_n(finite, nothing, x)


def _is_finite(x: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.is_finite(x)


@fused(values=("a",))
def det(a: Any) -> Any:
    """Determinants of square matrices.

    Args:
      a: matrices of shape `(..., n, n)`.

    Returns:
      Their determinants, of shape `(...)`.

    Raises:
      ValueError: the matrices are not square.

    Source: `numpy.linalg.det`.

    Example:
      >>> jnp.linalg.det(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array(-2., dtype=float32)
    """
    a = operand("det", a)
    n = shape_of(a)[-1]
    return _two(a) if n == 2 else _three(a) if n == 3 else _det(a)


# ---- rank, condition -------------------------------------------------------------------


@fused(values=("M", "rtol", "tol"), static_argnames=("hermitian",))
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """The number of singular values above a threshold.

    Args:
      M: matrices of shape `(..., m, n)`; a vector or a number has rank 1 unless it is 0.
      rtol: the threshold; an array broadcasts with the stack of matrices. By default the greatest
        singular value times `max(m, n)` times the machine epsilon.
      hermitian: whether the matrices are Hermitian, which is faster.
      tol: another name of `rtol`.

    Returns:
      Integers of shape `(...)`.

    Raises:
      ValueError: both `rtol` and `tol` are given, or neither is and the matrices are empty.
      TypeError: `M` or the threshold is not an array.

    Source: `numpy.linalg.matrix_rank`.

    Example:
      >>> jnp.linalg.matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
      Array(1, dtype=int32)
    """
    if tol is not None:
        if rtol is not None:
            msg = "matrix_rank: rtol and tol are names of one argument: give one of them."
            raise ValueError(msg)
        rtol = tol
    (a,) = promote_dtypes_inexact(M)
    if typeof(a).ndim < 2:
        nonzero = lax.ne(a, constant_like(a, 0))
        return convert(reduce_or(nonzero, tuple(range(typeof(a).ndim))), INT32)
    s = svd(a, full_matrices=False, compute_uv=False, hermitian=hermitian)
    last = typeof(s).ndim - 1
    if rtol is None:
        if not shape_of(s)[-1]:
            msg = (f"matrix_rank: matrices of shape {shape_of(a)} do not have singular values; "
                   "give rtol.")
            raise ValueError(msg)
        factor = max(shape_of(a)[-2:]) * float(ml_dtypes.finfo(typeof(s).dtype).eps)
        limit = lax.mul(reduce_max(s, (last,)), constant_like(s, factor))
    else:
        limit = cast(rtol, typeof(s).dtype)
    s, limit = broadcast_values("matrix_rank", s, expand_dims(limit, (typeof(limit).ndim,)))
    counted = convert(lax.gt(s, limit), dtypes.dtype_of_python(int))
    return reduce_sum(counted, (typeof(counted).ndim - 1,))


@fused(values=("x",), static_argnames=("p",))
def cond(x: Any, p: Any = None) -> Any:
    """Condition numbers: the factors by which solutions of linear systems magnify errors.

    Args:
      x: matrices of shape `(..., m, n)`, square unless `p` is None, 2 or -2.
      p: the order of the norm, as in `norm`; by default 2.

    Returns:
      Real numbers of shape `(...)`; infinite for singular matrices.

    Raises:
      ValueError: the matrices are empty or not square, or the norm does not exist.

    Source: `numpy.linalg.cond`.

    Example:
      >>> jnp.linalg.cond(jnp.array([[4.0, 0.0], [0.0, 2.0]]))
      Array(2., dtype=float32)
    """
    a = operand("cond", x, square=p not in (None, 2, -2))
    if 0 in shape_of(a)[-2:]:
        msg = f"cond: the matrices are empty, of shape {shape_of(a)}."
        raise ValueError(msg)
    if p in (None, 2, -2):
        s = svdvals(a)
        last = typeof(s).ndim - 1
        ends = [index_in_dim(s, i, last, keepdims=False) for i in (0, -1)]
        out = lax.div(*(ends[::-1] if p == -2 else ends))
        if p != -2:
            return out
    else:
        out = lax.mul(norm(a, p, (-2, -1)), norm(inv(a), p, (-2, -1)))
    undefined = lax.ne(out, out)
    given = lax.ne(a, a)
    given = reduce_or(given, (typeof(a).ndim - 2, typeof(a).ndim - 1))
    singular = lax.bitwise_and(undefined, lax.bitwise_not(given))
    return select_n(singular, out, stretch(constant_like(out, np.inf), shape_of(out)))


__all__ = ["SlogdetResult", "cond", "det", "matrix_rank", "slogdet"]
