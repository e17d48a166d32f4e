"""Singular value decompositions: svd_p."""

from __future__ import annotations

import enum
import functools
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import pickled_by
from mjax._engine.ir.dimensions import min_dim, surely
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.eigh import eigh_p
from mjax._engine.linalg.lapack import GPUS, call_or_nan, has_kernel
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
from mjax._engine.linalg.qdwh import qdwh
from mjax._engine.linalg.qr import qr_p
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.slicing import diagonal, slice_in_dim
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.transforms.vmap import vmap


@pickled_by("svd_algorithm_v1")
class SvdAlgorithm(enum.Enum):
    """Algorithms of `svd`. CPUs have QR iteration and divide-and-conquer, the default; GPUs the
    Jacobi method, the default of matrices of up to 1024 rows and columns, and QR iteration; TPUs
    the polar decomposition.

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


svd_p = EnginePrimitive("svd", params={
    "full_matrices": bool, "compute_uv": bool, "subset_by_index": tuple[int, int] | None,
    "algorithm": Any}, multiple_results=True)

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
    _check("CPU", algorithm, SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER)
    rows, columns = (m, n) if full_matrices else (k, k)
    if not k:
        return _empty(x, rows, columns, compute_uv)
    kernel = _KERNELS[algorithm] if has_kernel(_KERNELS[algorithm], aval.dtype) else "gesdd"
    _, s, u, vt = call_or_nan(
        kernel, (x,), [((m, n), aval.dtype), ((k,), real_of(aval.dtype)), ((m, rows), aval.dtype),
                       ((columns, n), aval.dtype)], len(stack), [(0, 0)],
        mode="N" if not compute_uv else "A" if full_matrices else "S")
    return _chosen(subset_by_index, s, *((u, vt) if compute_uv else ()))


def _check(platform: str, algorithm: Any, *known: SvdAlgorithm) -> None:
    if algorithm not in (None, SvdAlgorithm.DEFAULT, *known):
        msg = (f"svd: the algorithm {algorithm} does not exist on {platform}; leave it out, or "
               f"take {' or '.join(map(str, known))}.")
        raise NotImplementedError(msg)


def _empty(x: Any, rows: int, columns: int, compute_uv: bool) -> list[Any]:
    """The decomposition of matrices without rows, or without columns."""
    *stack, m, n = typeof(x).shape
    dtype = typeof(x).dtype
    out = [zeros((*stack, 0), real_of(dtype))]
    return [*out, over(eye(m, rows, dtype), (*stack, m, rows)),
            over(eye(columns, n, dtype), (*stack, columns, n))] if compute_uv else out


def _by_solver(x: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Subset,
               algorithm: Any, platform: str) -> list[Any]:
    m, n = typeof(x).shape[-2:]
    _check("GPU", algorithm, SvdAlgorithm.JACOBI, SvdAlgorithm.QR)
    if not min_dim(m, n):
        return _empty(x, m if full_matrices else 0, n if full_matrices else 0, compute_uv)
    small = surely(lambda: m <= 1024 and n <= 1024)
    if algorithm is SvdAlgorithm.QR or not (small or algorithm is SvdAlgorithm.JACOBI):
        found = _by_gesvd(x, full_matrices, compute_uv, platform)
    else:
        found = _by_gesvdj(x, full_matrices, compute_uv, platform)
    return _chosen(subset_by_index, *(found if compute_uv else found[:1]))


def _by_gesvdj(x: Any, full_matrices: bool, compute_uv: bool, platform: str) -> list[Any]:
    """The Jacobi method. For small matrices the kernel has no economic form."""
    aval = typeof(x)
    (m, n), last = aval.shape[-2:], aval.ndim - 1
    k = min_dim(m, n)
    economic = not full_matrices and surely(lambda: m > 32 and n > 32)
    _, s, u, v = call_or_nan(
        "gesvdj", (x,), [((m, n), aval.dtype), ((k,), real_of(aval.dtype)),
                         ((m, k if economic else m), aval.dtype),
                         ((n, k if economic else n), aval.dtype)],
        aval.ndim - 2, [(0, 0)], platform, full_matrices=not economic, compute_uv=compute_uv)
    if not full_matrices and not economic:
        u, v = (slice_in_dim(vectors, 0, k, axis=last) for vectors in (u, v))
    return [s, u, adjoint(v)]


def _by_gesvd(x: Any, full_matrices: bool, compute_uv: bool, platform: str) -> list[Any]:
    """QR iteration, by a kernel for at least as many rows as columns."""
    aval = typeof(x)
    m, n = aval.shape[-2:]
    if not surely(lambda: m >= n):
        s, u, vt = _by_gesvd(adjoint(x), full_matrices, compute_uv, platform)
        return [s, adjoint(vt), adjoint(u)]
    u = ((m, m if full_matrices else n) if compute_uv else (0, 0), aval.dtype)
    vt = ((n, n) if compute_uv else (0, 0), aval.dtype)
    return call_or_nan(
        "gesvd", (x,), [((m, n), aval.dtype), ((n,), real_of(aval.dtype)), u, vt], aval.ndim - 2,
        [(0, 0)], platform, full_matrices=full_matrices, compute_uv=compute_uv,
        transposed=False)[1:]


def _by_polar(x: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Subset,
              algorithm: Any) -> list[Any]:
    _check("TPU", algorithm, SvdAlgorithm.POLAR)
    m, n = typeof(x).shape[-2:]
    if not min(m, n):
        return _empty(x, m if full_matrices else 0, n if full_matrices else 0, compute_uv)
    s, u, vt = _of_rectangle(x, full_matrices)
    return _chosen(subset_by_index, *((s, u, vt) if compute_uv else (s,)))


def _of_rectangle(x: Any, full_matrices: bool) -> list[Any]:
    """The decomposition from that of the triangular factor, which is square."""
    aval = typeof(x)
    (m, n), rows, columns = aval.shape[-2:], aval.ndim - 2, aval.ndim - 1
    if m < n:
        s, u, vt = _of_rectangle(adjoint(x), full_matrices)
        return [s, adjoint(vt), adjoint(u)]
    q, r = qr_p.bind(x, pivoting=False, full_matrices=full_matrices, use_magma=None)
    decompose = _of_square
    for _ in range(rows):
        decompose = vmap(decompose)
    s, u, vt = decompose(slice_in_dim(r, 0, n, axis=rows))
    u = dot(slice_in_dim(q, 0, n, axis=columns), u)
    if full_matrices and m > n:
        u = concatenate([u, slice_in_dim(q, n, m, axis=columns)], columns)
    return [s, u, vt]


def _of_square(x: Any) -> list[Any]:
    """From the polar decomposition `x = w h`, and the eigenvectors of h.

    Source: Y. Nakatsukasa and N. Higham, "Stable and efficient spectral divide and conquer
    algorithms for the symmetric eigenvalue decomposition and the SVD", 2013.
    """
    w, h, _, _ = qdwh(x)
    v, s = eigh_p.bind(h, lower=True, sort_eigenvalues=True, subset_by_index=None, algorithm=None)
    v, s = rev(v, (1,)), lax.max(rev(s, (0,)), constant_like(s, 0))
    # Columns of w v for zero singular values may not be orthonormal. Those of q are.
    q, r = qr_p.bind(dot(w, v), pivoting=False, full_matrices=False, use_magma=None)
    d = diagonal(r)
    signs = select_n(lax.eq(d, constant_like(d, 0)), lax.sign(d),
                     stretch(constant_like(d, 1), typeof(d).shape))
    return [s, lax.mul(q, stretch(row(signs), typeof(q).shape)), adjoint(v)]


svd_p.def_lowering(traced(_by_gesdd, multiple_results=True), "cpu")
svd_p.def_lowering(traced(_by_polar, multiple_results=True), "tpu")
for _platform in GPUS:
    svd_p.def_lowering(traced(
        functools.partial(_by_solver, platform=_platform), multiple_results=True), _platform)


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
      algorithm: an `SvdAlgorithm` that the platform has.

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
