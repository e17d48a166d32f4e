"""Singular value decompositions: svd_p."""

from __future__ import annotations

import enum
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import pickled_by
from mjax._engine.ir.dimensions import min_dim
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import call_or_nan, has_kernel
from mjax._engine.linalg.matrices import (
    adjoint,
    column,
    define_matrix_types,
    dot,
    eye,
    eye_like,
    over,
    real,
    real_of,
    row,
    scaled,
    subset_of,
    zeros,
)
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.slicing import diagonal, slice_in_dim
from mjax._engine.tracing.primitive import Primitive, traced


@pickled_by("svd_algorithm_v1")
class SvdAlgorithm(enum.Enum):
    """Algorithms of `svd`; on CPU there are QR iteration and divide-and-conquer, the default.

    Example:
      >>> x = jnp.array([[3.0, 0.0], [0.0, 4.0]])
      >>> mjax.lax.linalg.svd(x, compute_uv=False, algorithm=mjax.lax.linalg.SvdAlgorithm.QR)
      Array([4., 3.], dtype=float32)
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


svd_p = Primitive("svd", multiple_results=True)

Subset = tuple[int, int] | None


def _shapes(shape: tuple[int, ...], *, full_matrices: bool, compute_uv: bool,
            subset_by_index: Subset, algorithm: Any) -> list[tuple[int, ...]]:
    m, n = shape
    start, end = subset_by_index or (0, min_dim(m, n))
    count = end - start
    if not compute_uv:
        return [(count,)]
    return [(count,), (m, m if full_matrices else count), (n if full_matrices else count, n)]


define_matrix_types(
    svd_p, (2,), "fc", _shapes,
    lambda dtype, *, compute_uv, **_: [real_of(dtype), *([dtype, dtype] if compute_uv else [])])

_KERNELS = {None: "gesdd", SvdAlgorithm.DEFAULT: "gesdd",
            SvdAlgorithm.DIVIDE_AND_CONQUER: "gesdd", SvdAlgorithm.QR: "gesvd"}


def _by_gesdd(x: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Subset,
              algorithm: Any) -> list[Any]:
    aval = typeof(x)
    (m, n), stack = aval.shape[-2:], aval.shape[:-2]
    k = min_dim(m, n)
    if algorithm not in _KERNELS:
        msg = (f"svd: the algorithm {algorithm} does not exist on CPU; take SvdAlgorithm.QR or "
               "DIVIDE_AND_CONQUER.")
        raise NotImplementedError(msg)
    rows, columns = (m, n) if full_matrices else (k, k)
    if not k:
        out = [zeros((*stack, 0), real_of(aval.dtype))]
        if compute_uv:
            out += [over(eye(m, rows, aval.dtype), (*stack, m, rows)),
                    over(eye(columns, n, aval.dtype), (*stack, columns, n))]
        return out
    kernel = _KERNELS[algorithm] if has_kernel(_KERNELS[algorithm], aval.dtype) else "gesdd"
    _, s, u, vt = call_or_nan(
        kernel, (x,), [((m, n), aval.dtype), ((k,), real_of(aval.dtype)), ((m, rows), aval.dtype),
                       ((columns, n), aval.dtype)], len(stack), [(0, 0)],
        mode="N" if not compute_uv else "A" if full_matrices else "S")
    return _chosen(subset_by_index, s, *((u, vt) if compute_uv else ()))


svd_p.def_lowering(traced(_by_gesdd, multiple_results=True), "cpu")


@svd_p.def_jvp
def _svd_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (a,), (t,) = primals, tangents
    m, n = typeof(a).shape[-2:]
    subset, compute_uv = params["subset_by_index"], params["compute_uv"]
    if compute_uv and params["full_matrices"] and m != n:
        msg = ("svd: with full_matrices=True the derivative is not defined for matrices that are "
               f"not square, as those of {typeof(a)}: the additional columns are not unique. Use "
               "full_matrices=False.")
        raise NotImplementedError(msg)
    s, u, vt = svd_p.bind(a, **{**params, "full_matrices": False, "compute_uv": True,
                                "subset_by_index": None})
    inner = dot(adjoint(u), t, adjoint(vt))
    s_dot = diagonal(real(inner))
    if not compute_uv:
        return _chosen(subset, s), _chosen(subset, s_dot)
    u_dot, vt_dot = _tangents_of_vectors(t, s, u, vt, inner)
    return _chosen(subset, s, u, vt), _chosen(subset, s_dot, u_dot, vt_dot)


def _chosen(subset: Subset, s: Any, *vectors: Any) -> list[Any]:
    """A subset of singular values and, if present, of singular vectors."""
    if subset in (None, (0, typeof(s).shape[-1])):
        return [s, *vectors]
    values = typeof(s).ndim - 1
    return [slice_in_dim(x, *subset, axis=axis) for x, axis in zip(
        (s, *vectors), (values, values + 1, values), strict=False)]


def _tangents_of_vectors(t: Any, s: Any, u: Any, vt: Any, inner: Any) -> tuple[Any, Any]:
    """The tangents of U and of the adjoint of V, for distinct singular values.

    Args:
      t: the tangent of the matrices.
      s, u, vt: their decomposition, with `full_matrices=False`.
      inner: the tangent in the bases of U and V.

    Source: J. Townsend, "Differentiating the singular value decomposition", 2016.
    """
    v = adjoint(vt)
    (m, n), shape, dtype = typeof(t).shape[-2:], typeof(inner).shape, typeof(t).dtype
    one = eye_like(inner, typeof(s).dtype)
    across, down = stretch(row(s), shape), stretch(column(s), shape)
    gaps = lax.mul(lax.add(across, down), lax.sub(across, down))
    # Ones on the diagonal avoid divisions by zero there.
    factors = convert(lax.sub(lax.div(constant_like(gaps, 1), lax.add(gaps, one)), one), dtype)
    at_zero = convert(lax.eq(s, constant_like(s, 0)), typeof(s).dtype)
    inverse = lax.sub(lax.div(constant_like(s, 1), lax.add(s, at_zero)), at_zero)
    inverse = lax.mul(one, stretch(column(inverse), shape))
    right, left = lax.mul(convert(across, dtype), inner), lax.mul(convert(down, dtype), inner)
    skew = scaled(lax.mul(lax.sub(inner, adjoint(inner)), convert(inverse, dtype)), 0.5)
    u_dot = dot(u, lax.add(lax.mul(factors, lax.add(right, adjoint(right))), skew))
    v_dot = dot(v, lax.mul(factors, lax.add(left, adjoint(left))))
    if m > n:
        u_dot = lax.add(u_dot, _outside(dot(t, v), u, s))
    if n > m:
        v_dot = lax.add(v_dot, _outside(dot(adjoint(t), u), v, s))
    return u_dot, adjoint(v_dot)


def _outside(x: Any, basis: Any, s: Any) -> Any:
    """The part of vectors outside of the space of a basis, divided by the singular values."""
    x = lax.sub(x, dot(basis, dot(adjoint(basis), x)))
    return lax.div(x, stretch(row(convert(s, typeof(x).dtype)), typeof(x).shape))


@boundary
def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True,
        subset_by_index: Subset = None, algorithm: SvdAlgorithm | None = None) -> Any:
    """Singular value decomposition: `x = u @ diag(s) @ vh`.

    Args:
      x: matrices of shape `(..., m, n)`; `k = min(m, n)`.
      full_matrices: whether U and V are square; otherwise they have k columns.
      compute_uv: whether to return U and V.
      subset_by_index: `(start, end)`: the range of singular values to return, in descending order.
      algorithm: an `SvdAlgorithm`. CPUs have QR iteration and divide-and-conquer.

    Returns:
      `(u, s, vh)`, or `s` if not `compute_uv`. U has shape `(..., m, m)` or `(..., m, k)`, S, real
      and descending, `(..., k)`, and the adjoint of V `(..., n, n)` or `(..., k, n)`.

    Raises:
      ValueError: the subset is out of range, or requested with full matrices.
      TypeError: fewer than two axes, a dtype that is not inexact, or a subset that is not a pair
        of integers.
      NotImplementedError: an algorithm that the platform does not have.

    Source: LAPACK, `gesdd` and `gesvd`.

    Example:
      >>> mjax.lax.linalg.svd(jnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
      Array([4., 3.], dtype=float32)
    """
    shape = typeof(x).shape
    if subset_by_index is not None and len(shape) >= 2:
        every = min(shape[-2:])
        subset_by_index = subset_of("svd", f"singular values of matrices of shape {shape}",
                                    subset_by_index, every)
        if full_matrices and compute_uv and subset_by_index != (0, every):
            msg = "svd: subset_by_index needs full_matrices=False."
            raise ValueError(msg)
    s, *uv = svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv),
                        subset_by_index=subset_by_index, algorithm=algorithm)
    return (uv[0], s, uv[1]) if uv else s
