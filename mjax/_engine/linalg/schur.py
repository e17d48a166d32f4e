"""Unitary similarity transformations: schur_p, hessenberg_p, tridiagonal_p."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import GPUS, call_or_nan, hermitian
from mjax._engine.linalg.matrices import INT32, check_square, define_matrix_types, real_of
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

# ---- schur -----------------------------------------------------------------------------

schur_p = EnginePrimitive("schur", params={
    "compute_schur_vectors": bool, "sort_eig_vals": bool, "select_callable": Any},
    multiple_results=True)


def _schur_shapes(shape: tuple[int, ...], *, compute_schur_vectors: bool, **_: Any
                  ) -> list[tuple[int, ...]]:
    check_square("schur", shape)
    return [shape] * (1 + compute_schur_vectors)


define_matrix_types(schur_p, (2,), "fc", _schur_shapes)
schur_p.without("jvp", "The decomposition is not unique: differentiate eig, or eigh.")


def _by_gees(x: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any
             ) -> list[Any]:
    if sort_eig_vals:
        msg = "schur: sorting eigenvalues is not supported; leave sort_eig_vals out."
        raise NotImplementedError(msg)
    aval = typeof(x)
    n, dtype = aval.shape[-1], aval.dtype
    values = [((n,), dtype)] * (1 if dtypes.is_complex(dtype) else 2)
    outs = call_or_nan(
        "gees", (x,), [((n, n), dtype), ((n, n), dtype), *values, ((), INT32)], aval.ndim - 2,
        [(0, 0)], mode="V" if compute_schur_vectors else "N", sort="N")
    return outs[:1 + compute_schur_vectors]


schur_p.def_lowering(traced(_by_gees, multiple_results=True), "cpu")


@boundary
def schur(x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
          select_callable: Callable[..., Any] | None = None) -> list[Any]:
    """Schur decomposition: `x = z @ t @ z.conj().T` with Z unitary.

    Args:
      x: matrices of shape `(..., n, n)`.
      compute_schur_vectors: whether to return Z.
      sort_eig_vals: whether eigenvalues are sorted; not supported, as in JAX.
      select_callable: ignored, since eigenvalues are not sorted.

    Returns:
      A list: `t` and, if requested, `z`, of the shape and dtype of `x`. T is upper triangular for
      complex matrices; for real ones it has blocks of two rows for pairs of complex eigenvalues.

    Raises:
      ValueError: the matrices are not square.
      TypeError: the dtype is not inexact.
      NotImplementedError: `sort_eig_vals` is True.

    Source: LAPACK, `gees`.

    Example:
      >>> mjax.lax.linalg.schur(jnp.array([[2.0, 1.0], [0.0, 1.0]]))[0]
      Array([[2., 1.],
             [0., 1.]], dtype=float32)
    """
    return schur_p.bind(x, compute_schur_vectors=bool(compute_schur_vectors),
                        sort_eig_vals=bool(sort_eig_vals), select_callable=select_callable)


# ---- hessenberg ------------------------------------------------------------------------

hessenberg_p = EnginePrimitive("hessenberg", params={}, multiple_results=True)


def _hessenberg_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [shape, (max(check_square("hessenberg", shape) - 1, 0),)]


define_matrix_types(hessenberg_p, (2,), "fc", _hessenberg_shapes)
hessenberg_p.without("jvp", "The decomposition is not unique: differentiate eig or qr.")


def _by_gehrd(a: Any) -> list[Any]:
    aval = typeof(a)
    n = aval.shape[-1]
    return call_or_nan("gehrd", (a,), [((n, n), aval.dtype), ((max(n - 1, 0),), aval.dtype)],
                       aval.ndim - 2, [(0, 0)], low=1, high=n)


hessenberg_p.def_lowering(traced(_by_gehrd, multiple_results=True), "cpu")


@boundary
def hessenberg(a: Any) -> list[Any]:
    """Reduces square matrices to Hessenberg form, zero below the first subdiagonal.

    Args:
      a: matrices of shape `(..., n, n)`.

    Returns:
      A list of `a` and `taus`. `a` is the Hessenberg form; below its subdiagonal are the vectors
      of its reflectors. `taus`, of shape `(..., n - 1)`, are their factors, as
      `householder_product` takes them.

    Raises:
      ValueError: the matrices are not square.
      TypeError: the dtype is not inexact.

    Example:
      >>> mjax.lax.linalg.hessenberg(jnp.array([[1.0, 2.0], [3.0, 4.0]]))[0]
      Array([[1., 2.],
             [3., 4.]], dtype=float32)

    Source: LAPACK, `gehrd`.
    """
    return hessenberg_p.bind(a)


# ---- tridiagonal -----------------------------------------------------------------------

tridiagonal_p = EnginePrimitive("tridiagonal", params={"lower": bool}, multiple_results=True)


def _tridiagonal_shapes(shape: tuple[int, ...], *, lower: bool) -> list[tuple[int, ...]]:
    n = check_square("tridiagonal", shape)
    if not n:
        raise LazyValueError(lambda: f"tridiagonal: the matrix is empty: shape {shape}.")
    return [shape, (n,), (n - 1,), (n - 1,)]


define_matrix_types(
    tridiagonal_p, (2,), "fc", _tridiagonal_shapes,
    lambda dtype, **_: [dtype, real_of(dtype), real_of(dtype), dtype])
tridiagonal_p.without("jvp", "The decomposition is not unique: differentiate eigh.")


def _by_sytrd(a: Any, *, lower: bool, platform: str = "cpu") -> list[Any]:
    aval = typeof(a)
    n, dtype = aval.shape[-1], aval.dtype
    results = [((n, n), dtype), ((n,), real_of(dtype)), ((n - 1,), real_of(dtype)),
               ((n - 1,), dtype)]
    if platform in GPUS:
        return call_or_nan("sytrd", (a,), results, aval.ndim - 2, [(0, 0)], platform, lower=lower)
    return call_or_nan(hermitian("trd", dtype), (a,), results, aval.ndim - 2, [(0, 0)],
                       uplo="L" if lower else "U")


tridiagonal_p.def_lowering(traced(_by_sytrd, multiple_results=True), "cpu")
for _platform in GPUS:
    tridiagonal_p.def_lowering(traced(
        functools.partial(_by_sytrd, platform=_platform), multiple_results=True), _platform)


@boundary
def tridiagonal(a: Any, *, lower: bool = True) -> list[Any]:
    """Reduces symmetric or Hermitian matrices to real tridiagonal ones.

    Args:
      a: matrices of shape `(..., n, n)`, `n >= 1`.
      lower: whether the lower or the upper triangle is read.

    Returns:
      A list `a`, `d`, `e`, `taus`. `a` holds the vectors of the reflectors in that triangle.
      `d`, of shape `(..., n)`, and `e`, of shape `(..., n - 1)`, are the diagonal and the
      off-diagonal, both real. `taus`, of shape `(..., n - 1)`, are the factors of the reflectors.

    Raises:
      ValueError: the matrices are empty or not square.
      TypeError: the dtype is not inexact.

    Source: LAPACK, `sytrd` and `hetrd`.

    Example:
      >>> mjax.lax.linalg.tridiagonal(jnp.array([[2.0, 1.0], [1.0, 3.0]]))[1]
      Array([2., 3.], dtype=float32)
    """
    return tridiagonal_p.bind(a, lower=bool(lower))
