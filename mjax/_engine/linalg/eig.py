"""Eigenvalues and eigenvectors of general square matrices: eig_p."""

from __future__ import annotations

import enum
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import call_or_nan
from mjax._engine.linalg.lu import lu_p, lu_solve
from mjax._engine.linalg.matrices import (
    INT32,
    adjoint,
    check_square,
    column,
    conj,
    define_matrix_types,
    dot,
    eye_like,
    row,
    swap,
)
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.reductions import argmax
from mjax._engine.primitives.shapes import expand_dims, reduce_sum
from mjax._engine.primitives.slicing import diagonal
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive


@pickled_by("eig_implementation_v1")
class EigImplementation(enum.Enum):
    """Algorithms of `eig`; CPUs have LAPACK's.

    Example:
      >>> x = jnp.array([[2.0, 0.0], [0.0, 3.0]])
      >>> lapack = mjax.lax.linalg.EigImplementation.LAPACK
      >>> mjax.lax.linalg.eig(x, implementation=lapack)[0]
      Array([2.+0.j, 3.+0.j], dtype=complex64)
    """

    LAPACK = "lapack"
    CUSOLVER = "cusolver"
    MAGMA = "magma"


eig_p = EnginePrimitive("eig", params={
    "compute_left_eigenvectors": bool, "compute_right_eigenvectors": bool,
    "enable_eigvec_derivs": bool, "implementation": Any}, multiple_results=True)


def _shapes(shape: tuple[int, ...], *, compute_left_eigenvectors: bool,
            compute_right_eigenvectors: bool, **_: Any) -> list[tuple[int, ...]]:
    check_square("eig", shape)
    return [shape[:1]] + [shape] * (compute_left_eigenvectors + compute_right_eigenvectors)


define_matrix_types(
    eig_p, (2,), "fc", _shapes,
    lambda dtype, *, compute_left_eigenvectors, compute_right_eigenvectors, **_:
        [dtypes.complex_dtype(dtype)]
        * (1 + compute_left_eigenvectors + compute_right_eigenvectors))


def _by_geev(x: Any, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool,
             enable_eigvec_derivs: bool, implementation: Any) -> list[Any]:
    if implementation not in (None, EigImplementation.LAPACK):
        msg = (f"eig: the implementation {implementation} does not exist on CPU; leave it out, or "
               "take EigImplementation.LAPACK.")
        raise ValueError(msg)
    aval = typeof(x)
    n, dtype = aval.shape[-1], aval.dtype
    wide = dtypes.complex_dtype(dtype)
    parts = [((n,), dtype)] * (1 if dtypes.is_complex(dtype) else 2)
    mode = {True: "V", False: "N"}
    *parts, left, right = call_or_nan(
        "geev", (x,), [*parts, ((n, n), wide), ((n, n), wide)], aval.ndim - 2,
        compute_left=mode[compute_left_eigenvectors],
        compute_right=mode[compute_right_eigenvectors])
    values = parts[0] if len(parts) == 1 else lax.complex(*parts)
    asked = [(values, True), (left, compute_left_eigenvectors),
             (right, compute_right_eigenvectors)]
    return [out for out, wanted in asked if wanted]


eig_p.def_lowering(traced(_by_geev, multiple_results=True), "cpu")


@eig_p.def_jvp
def _eig_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (a,), (t,) = primals, tangents
    left_asked, right_asked = [params[f"compute_{side}_eigenvectors"] for side in ("left", "right")]
    if (left_asked or right_asked) and not params["enable_eigvec_derivs"]:
        msg = ("eig: derivatives of eigenvectors hold for matrices with distinct eigenvalues, "
               "which mjax cannot check. If yours are, pass enable_eigvec_derivs=True to "
               "lax.linalg.eig. Derivatives of eigenvalues alone do not need it.")
        raise NotImplementedError(msg)
    # Higher derivatives, even of eigenvalues alone, need derivatives of the eigenvectors.
    values, *left, right = eig_p.bind(
        a, **{**params, "compute_right_eigenvectors": True, "enable_eigvec_derivs": True})
    t = convert(t, typeof(right).dtype)
    if not (left_asked or right_asked):
        factors, _, order = lu_p.bind(right)
        inner = lax.mul(lu_solve(factors, order, t), swap(right))
        return [values], [reduce_sum(inner, (typeof(inner).ndim - 1,))]
    values_dot, right_dot = _vectors_tangent(values, right, t)
    outs, out_tangents = [values], [values_dot]
    if left_asked:
        outs += left
        out_tangents.append(_vectors_tangent(conj(values), left[0], adjoint(t))[1])
    if right_asked:
        outs.append(right)
        out_tangents.append(right_dot)
    return outs, out_tangents


def _vectors_tangent(values: Any, vectors: Any, t: Any) -> tuple[Any, Any]:
    """Tangents of eigenvalues and of right eigenvectors, by first-order perturbation theory.

    An eigenvector is fixed up to a complex factor. LAPACK chooses it so that the norm is 1 and the
    element of the greatest absolute value is real; the tangent keeps that.

    Source: M. Giles, "An extended collection of matrix derivative results for forward and reverse
    mode algorithmic differentiation", 2008.
    """
    shape, dtype = typeof(vectors).shape, typeof(vectors).dtype
    rows = len(shape) - 2
    one = eye_like(vectors)
    gaps = lax.sub(stretch(row(values), shape), stretch(column(values), shape))
    factors = lax.sub(lax.div(constant_like(gaps, 1), lax.add(gaps, one)), one)
    lu, _, order = lu_p.bind(vectors)
    inner = dot(lu_solve(lu, order, t), vectors)
    moved = dot(vectors, lax.mul(factors, inner))
    greatest = expand_dims(argmax(lax.abs(vectors), rows, INT32), (rows,))
    mask = convert(lax.eq(broadcasted_iota(INT32, shape, rows), stretch(greatest, shape)), dtype)
    total = lambda x: reduce_sum(x, (rows,))
    along = lax.neg(lax.real(total(lax.mul(conj(vectors), moved))))
    turn = lax.div(lax.imag(total(lax.mul(mask, moved))), lax.real(total(lax.mul(mask, vectors))))
    factor = row(lax.complex(along, lax.neg(turn)))
    return diagonal(inner), lax.add(moved, lax.mul(vectors, stretch(factor, shape)))


@boundary
def eig(x: Any, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
        enable_eigvec_derivs: bool = False, implementation: EigImplementation | None = None,
        use_magma: bool | None = None) -> list[Any]:
    """Eigenvalues and eigenvectors of square matrices, which need not be symmetric.

    Args:
      x: matrices of shape `(..., n, n)`.
      compute_left_eigenvectors: whether to return `vl` with `vl.conj().T @ x = w[:, None] *
        vl.conj().T`.
      compute_right_eigenvectors: whether to return `vr` with `x @ vr = vr * w`.
      enable_eigvec_derivs: whether eigenvectors may be differentiated; derivatives are correct if
        all eigenvalues differ.
      implementation: an `EigImplementation`; on CPU only `LAPACK`.
      use_magma: ignored; in JAX it chooses a library on GPU.

    Returns:
      A list: the eigenvalues, of shape `(..., n)`, then the left and the right eigenvectors as
      columns, if requested. All are complex.

    Raises:
      ValueError: the matrices are not square, or the implementation does not exist.
      TypeError: the dtype is not inexact.
      NotImplementedError: a derivative of eigenvectors without `enable_eigvec_derivs`.

    Source: LAPACK, `geev`.

    Example:
      >>> mjax.lax.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 1.0]]))[0]
      Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    return eig_p.bind(x, compute_left_eigenvectors=bool(compute_left_eigenvectors),
                      compute_right_eigenvectors=bool(compute_right_eigenvectors),
                      enable_eigvec_derivs=bool(enable_eigvec_derivs),
                      implementation=implementation)
