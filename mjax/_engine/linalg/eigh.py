"""Eigenvalues and eigenvectors of Hermitian matrices: eigh_p."""

from __future__ import annotations

import enum
import functools
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import pickled_by
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import GPUS, call_or_nan, hermitian, xla_kernel
from mjax._engine.linalg.matrices import (
    adjoint,
    check_square,
    column,
    define_matrix_types,
    dot,
    eye_like,
    real,
    real_of,
    row,
    subset_of,
    symmetrized,
)
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import stretch
from mjax._engine.primitives.slicing import diagonal, slice_in_dim
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive


@pickled_by("eigh_implementation_v1")
class EighImplementation(enum.Enum):
    """Algorithms of `eigh`; CPUs have LAPACK's, which `QR` also names, GPUs `QR` and `JACOBI`,
    TPUs `JACOBI`.

    Example:
      >>> x = jnp.array([[2.0, 0.0], [0.0, 3.0]])
      >>> qr = mjax.lax.linalg.EighImplementation.QR
      >>> mjax.lax.linalg.eigh(x, implementation=qr)[1]
      Array([2., 3.], dtype=float32)
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


eigh_p = EnginePrimitive("eigh", params={
    "lower": bool, "sort_eigenvalues": bool, "subset_by_index": tuple[int, int] | None,
    "algorithm": Any}, multiple_results=True)


def _shapes(shape: tuple[int, ...], *, subset_by_index: tuple[int, int] | None, **_: Any
            ) -> list[tuple[int, ...]]:
    n = check_square("eigh", shape)
    count = n if subset_by_index is None else subset_by_index[1] - subset_by_index[0]
    return [(n, count), (count,)]


define_matrix_types(eigh_p, (2,), "fc", _shapes, lambda dtype, **_: [dtype, real_of(dtype)])


def _by_syevd(x: Any, *, lower: bool, sort_eigenvalues: bool,
              subset_by_index: tuple[int, int] | None, algorithm: Any) -> list[Any]:
    aval = typeof(x)
    n = aval.shape[-1]
    _check("CPU", algorithm, EighImplementation.QR)
    return _chosen(subset_by_index, *call_or_nan(
        hermitian("evd", aval.dtype), (x,), [((n, n), aval.dtype), ((n,), real_of(aval.dtype))],
        aval.ndim - 2, [(0, 0)], mode="V", uplo="L" if lower else "U"))


def _by_solver(x: Any, *, lower: bool, sort_eigenvalues: bool,
               subset_by_index: tuple[int, int] | None, algorithm: Any, platform: str) -> list[Any]:
    aval = typeof(x)
    n = aval.shape[-1]
    names = (None, EighImplementation.QR, EighImplementation.JACOBI)
    _check("GPU", algorithm, *names[1:])
    return _chosen(subset_by_index, *call_or_nan(
        "syevd", (x,), [((n, n), aval.dtype), ((n,), real_of(aval.dtype))], aval.ndim - 2,
        [(0, 0)], platform, algorithm=chr(names.index(algorithm)), lower=lower))


#: Sweeps of the Jacobi method on TPUs, and its tolerance.
_SWEEPS = "100,1e-6"


def _by_xla(x: Any, *, lower: bool, sort_eigenvalues: bool,
            subset_by_index: tuple[int, int] | None, algorithm: Any) -> list[Any]:
    aval = typeof(x)
    _check("TPU", algorithm, EighImplementation.JACOBI)
    return _chosen(subset_by_index, *xla_kernel(
        "Eigh", (x,), [(aval.shape, aval.dtype), (aval.shape[:-1], real_of(aval.dtype))],
        f"{lower:d},{sort_eigenvalues or subset_by_index is not None:d},{_SWEEPS}"))


def _check(platform: str, algorithm: Any, *known: EighImplementation) -> None:
    if algorithm not in (None, *known):
        msg = (f"eigh: the implementation {algorithm} does not exist on {platform}; leave it out, "
               f"or take {' or '.join(map(str, known))}.")
        raise NotImplementedError(msg)


def _chosen(subset: tuple[int, int] | None, vectors: Any, values: Any) -> list[Any]:
    """The eigenvectors and eigenvalues of a subset."""
    last = typeof(values).ndim - 1
    if subset in (None, (0, typeof(values).shape[last])):
        return [vectors, values]
    return [slice_in_dim(vectors, *subset, axis=last + 1), slice_in_dim(values, *subset, axis=last)]


eigh_p.def_lowering(traced(_by_syevd, multiple_results=True), "cpu")
eigh_p.def_lowering(traced(_by_xla, multiple_results=True), "tpu")
for _platform in GPUS:
    eigh_p.def_lowering(traced(
        functools.partial(_by_solver, platform=_platform), multiple_results=True), _platform)


@eigh_p.def_jvp
def _eigh_jvp(primals: Any, tangents: Any, *, subset_by_index: tuple[int, int] | None,
              **params: Any) -> Any:
    # First-order perturbation theory for distinct eigenvalues: M. Giles, "An extended collection
    # of matrix derivative results for forward and reverse mode algorithmic differentiation", 2008.
    (a,), (t,) = primals, tangents
    vectors, values = eigh_p.bind(a, subset_by_index=None, **params)
    outs = _chosen(subset_by_index, vectors, values)
    inner = dot(adjoint(vectors), t, vectors)
    shape = typeof(inner).shape
    one = eye_like(inner, typeof(values).dtype)
    gaps = lax.sub(stretch(row(values), shape), stretch(column(values), shape))
    # Ones on the diagonal avoid divisions by zero there.
    factors = lax.sub(lax.integer_pow(lax.add(gaps, one), -1), one)
    vectors_dot = dot(vectors, lax.mul(convert(factors, typeof(inner).dtype), inner))
    return outs, _chosen(subset_by_index, vectors_dot, diagonal(real(inner)))


@boundary
def eigh(x: Any, *, lower: bool = True, symmetrize_input: bool = True,
         sort_eigenvalues: bool = True, subset_by_index: tuple[int, int] | None = None,
         implementation: EighImplementation | None = None) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues of symmetric or Hermitian matrices.

    Args:
      x: matrices of shape `(..., n, n)`.
      lower: which triangle is read, if `symmetrize_input` is False.
      symmetrize_input: whether the mean of `x` and its adjoint is decomposed.
      sort_eigenvalues: whether they must be in ascending order; LAPACK's always are.
      subset_by_index: `(start, end)`: the range of eigenvalues to return, in ascending order.
      implementation: an `EighImplementation` that the platform has.

    Returns:
      `(v, w)`: the eigenvectors as columns, of shape `(..., n, n)`, and the eigenvalues, real and
      ascending, of shape `(..., n)`; with `subset_by_index`, `end - start` of them.

    Raises:
      ValueError: the matrices are not square; the subset is out of range.
      TypeError: the dtype is not inexact, or the subset is not a pair of integers.
      NotImplementedError: an implementation that the platform does not have.

    Source: LAPACK, `syevd` and `heevd`.

    Example:
      >>> mjax.lax.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]]))[1]
      Array([1., 2.], dtype=float32)
    """
    shape = typeof(x).shape
    if len(shape) >= 2:
        n = check_square("eigh", shape[-2:])
        if subset_by_index is not None:
            subset_by_index = subset_of("eigh", f"eigenvalues of matrices of shape {shape}",
                                        subset_by_index, n)
        if symmetrize_input:
            x = symmetrized(x)
    vectors, values = eigh_p.bind(
        x, lower=bool(lower), sort_eigenvalues=bool(sort_eigenvalues),
        subset_by_index=subset_by_index, algorithm=implementation)
    return vectors, values
