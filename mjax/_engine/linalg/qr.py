"""QR decompositions, with or without column pivoting: qr_p."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lu import lu_p, lu_solve
from mjax._engine.linalg.matrices import (
    INT32,
    adjoint,
    define_matrix_types,
    dot,
    eye,
    eye_like,
    over,
    row,
    tril,
    triu,
    zeros,
)
from mjax._engine.linalg.reflectors import geqp3_p, geqrf_p, householder_product_p
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.gather import take_along_axis
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import expand_dims
from mjax._engine.primitives.slicing import diagonal, pad, slice_in_dim
from mjax._engine.primitives.tangents import define_jvp_from_result, zero_tangent
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

qr_p = EnginePrimitive("qr", params={
    "pivoting": bool, "full_matrices": bool, "use_magma": Any}, multiple_results=True)


def _shapes(shape: tuple[int, ...], *, pivoting: bool, full_matrices: bool, **_: Any
            ) -> list[tuple[int, ...]]:
    m, n = shape
    k = m if full_matrices else min(m, n)
    return [(m, k), (k, n), *([(n,)] if pivoting else [])]


define_matrix_types(
    qr_p, (2,), "fc", _shapes,
    lambda dtype, *, pivoting, **_: [dtype, dtype, *([INT32] if pivoting else [])])


def _by_reflectors(a: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any) -> list[Any]:
    aval = typeof(a)
    m, n = aval.shape[-2:]
    stack, rows, columns = aval.shape[:-2], aval.ndim - 2, aval.ndim - 1
    if not m or not n:
        k = m if full_matrices else 0
        order = broadcasted_iota(INT32, (*stack, n), len(stack))
        return [over(eye(m, k, aval.dtype), (*stack, m, k)), zeros((*stack, k, n), aval.dtype),
                *([order] if pivoting else [])]
    order = []
    if pivoting:
        out, *order, taus = geqp3_p.bind(a)
    else:
        out, taus = geqrf_p.bind(a)
    vectors = out
    if m < n:
        vectors = slice_in_dim(out, 0, m, axis=columns)
    elif full_matrices and m > n:
        vectors = pad(out, constant_like(out, 0),
                      [(0, 0, 0)] * (aval.ndim - 1) + [(0, m - n, 0)])
    elif m > n:
        out = slice_in_dim(out, 0, n, axis=rows)
    return [householder_product_p.bind(vectors, taus), triu(out), *order]


qr_p.def_lowering(traced(_by_reflectors, multiple_results=True))


def _qr_tangents(t: Any, outs: Any, x: Any, *, full_matrices: bool, **_: Any) -> list[Any]:
    q, r, *order = outs
    m, n = typeof(x).shape[-2:]
    columns = typeof(x).ndim - 1
    if order:
        index = stretch(expand_dims(order[0], (columns - 1,)), typeof(x).shape)
        x, t = [take_along_axis(v, index, columns, mode="promise_in_bounds") for v in (x, t)]
    if m < n:
        # The first columns are decomposed by themselves; the others are q.H @ x.
        first, rest = [slice_in_dim(v, i, j, axis=columns) for v, i, j in (
            (t, 0, m), (t, m, n))]
        q_dot, r_dot = _thin(q, slice_in_dim(r, 0, m, axis=columns), first)
        rest = lax.add(dot(adjoint(q_dot), slice_in_dim(x, m, n, axis=columns)),
                       dot(adjoint(q), rest))
        r_dot = concatenate([r_dot, rest], columns)
    elif full_matrices and m > n:
        q_dot, r_dot = _full(q, r, t)
    else:
        q_dot, r_dot = _thin(q, r, t)
    return [q_dot, r_dot, *map(zero_tangent, order)]


define_jvp_from_result(qr_p, _qr_tangents)


def _thin(q: Any, r: Any, t: Any) -> tuple[Any, Any]:
    """Tangents of orthonormal columns and a square triangular factor.

    Source: S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with
    application in optimum experimental design", 2010.
    """
    t = triangular_solve(r, t)
    inner = dot(adjoint(q), t)
    # q.H @ q_dot is skew-Hermitian, and r_dot @ inv(r) upper triangular with a real diagonal.
    low = tril(inner, -1)
    skew = lax.sub(low, adjoint(low))
    if dtypes.is_complex(typeof(inner).dtype):
        angles = lax.imag(diagonal(inner))
        angles = lax.complex(lax.sub(angles, angles), angles)
        skew = lax.add(skew, lax.mul(eye_like(inner), stretch(row(angles), typeof(inner).shape)))
    triangle = lax.sub(inner, skew)
    return lax.sub(t, dot(q, triangle)), dot(triangle, r)


def _full(q: Any, r: Any, t: Any) -> tuple[Any, Any]:
    """Tangents of a square unitary matrix and a triangular factor above zeros.

    Source: D. Roberts and L. Roberts, "QR and LQ decomposition matrix backpropagation algorithms
    for square, wide, and deep matrices", 2020, extended to the columns that the matrix does not
    determine: those follow the others by the rotation that LAPACK's reflectors choose.
    """
    m, n = typeof(t).shape[-2:]
    rows, columns = typeof(t).ndim - 2, typeof(t).ndim - 1
    part = lambda x, i, j, axis: slice_in_dim(x, i, j, axis=axis)
    first, others = part(q, 0, n, columns), part(q, n, m, columns)
    first_dot, r_dot = _thin(first, part(r, 0, n, rows), t)
    head, tail = part(first, 0, n, rows), part(first, n, m, rows)
    head_dot, tail_dot = part(first_dot, 0, n, rows), part(first_dot, n, m, rows)
    # z = tail @ inv(head - 1)
    square = lax.sub(head, eye_like(head))
    factors, _, permutation = lu_p.bind(square)
    z_adjoint = lu_solve(factors, permutation, adjoint(tail), trans=2)
    z = adjoint(z_adjoint)
    others_dot = lax.sub(
        dot(first_dot, z_adjoint),
        dot(lax.add(first, dot(others, z)), adjoint(lax.sub(tail_dot, dot(z, head_dot)))))
    fill = zeros((*typeof(t).shape[:-2], m - n, n), typeof(t).dtype)
    return concatenate([first_dot, others_dot], columns), concatenate([r_dot, fill], rows)


@boundary
def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True,
       use_magma: bool | None = None) -> tuple[Any, ...]:
    """QR decomposition into orthonormal columns and an upper triangular matrix, `x = q @ r`.

    Args:
      x: matrices of shape `(..., m, n)`.
      pivoting: whether columns are exchanged so that absolute values on the diagonal of R
        decrease: `x[..., p] = q @ r`.
      full_matrices: whether Q is square; otherwise it has `k = min(m, n)` columns.
      use_magma: ignored; in JAX it chooses a library on GPU.

    Returns:
      `(q, r)`, or `(q, r, p)` if `pivoting`. Q has shape `(..., m, m)` or `(..., m, k)`, R
      `(..., m, n)` or `(..., k, n)`; `p` holds the order of the columns, int32 of shape
      `(..., n)`.

    Raises:
      TypeError: fewer than two axes, or a dtype that is not inexact.

    Source: LAPACK, `geqrf`, `geqp3`, `orgqr` and `ungqr`.

    Example:
      >>> q, r = mjax.lax.linalg.qr(jnp.array([[3.0, 0.0], [4.0, 5.0]]))
      >>> r
      Array([[-5., -4.],
             [ 0.,  3.]], dtype=float32)
    """
    return tuple(qr_p.bind(x, pivoting=bool(pivoting), full_matrices=bool(full_matrices),
                           use_magma=use_magma))
