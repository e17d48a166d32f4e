"""Systems of equations with triangular matrices: triangular_solve_p.

The primitive is linear in its second operand, the right-hand sides.
"""

from __future__ import annotations

import functools
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import call, has_kernel
from mjax._engine.linalg.matrices import (
    check_square,
    conj,
    define_matrix_types,
    define_solver_batching,
    dot,
    swap,
    tril,
    triu,
)
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.emit import hlo, ir, op
from mjax._engine.primitives.shapes import expand_dims, squeeze
from mjax._engine.primitives.tangents import define_jvp_from_result
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

triangular_solve_p = EnginePrimitive("triangular_solve", params={
    "left_side": bool, "lower": bool, "transpose_a": bool, "conjugate_a": bool,
    "unit_diagonal": bool})


def _shapes(a: tuple[int, ...], b: tuple[int, ...], *, left_side: bool, **_: Any
            ) -> list[tuple[int, ...]]:
    n = check_square("triangular_solve", a)
    if b[0 if left_side else 1] != n:
        raise LazyValueError(lambda: (
            f"triangular_solve: a matrix of shape {a} does not fit right-hand sides of shape "
            f"{b}: with left_side={left_side} these must have {n} "
            f"{'rows' if left_side else 'columns'}."))
    return [b]


define_matrix_types(triangular_solve_p, (2, 2), "fc", _shapes)


@triangular_solve_p.def_lowering
def _triangular_solve_lowering(ctx: Any, a: Any, b: Any, *, left_side: bool, lower: bool,
                               transpose_a: bool, conjugate_a: bool, unit_diagonal: bool) -> Any:
    if conjugate_a and not transpose_a:
        a = op("chlo.conj", [a.type], [a])[0]
    kind = ("ADJOINT" if conjugate_a else "TRANSPOSE") if transpose_a else "NO_TRANSPOSE"
    return op("stablehlo.triangular_solve", ctx.out_types, [a, b], {
        "left_side": ir.BoolAttr.get(left_side), "lower": ir.BoolAttr.get(lower),
        "unit_diagonal": ir.BoolAttr.get(unit_diagonal),
        "transpose_a": hlo.TransposeAttr.get(kind)})


def _by_trsm(a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool,
             conjugate_a: bool, unit_diagonal: bool) -> Any:
    if conjugate_a and not transpose_a:
        a, conjugate_a = conj(a), False
    aval = typeof(b)
    return call(
        "trsm", (a, b), [(aval.shape[-2:], aval.dtype)], aval.ndim - 2, [(1, 0)],
        side="L" if left_side else "R", uplo="L" if lower else "U",
        trans_x=("C" if conjugate_a else "T") if transpose_a else "N",
        diag="U" if unit_diagonal else "N")[0]


def _triangular_solve_on_cpu(ctx: Any, a: Any, b: Any, **params: Any) -> Any:
    rule = (traced(_by_trsm) if has_kernel("trsm", ctx.avals_in[0].dtype)
            else _triangular_solve_lowering)
    return rule(ctx, a, b, **params)


triangular_solve_p.def_lowering(_triangular_solve_on_cpu, "cpu")


def _matrix_tangent(t: Any, x: Any, a: Any, b: Any, **params: Any) -> Any:
    """From a x = b: a dx = db - da x, with the triangle of `da` that is read."""
    unit = int(params["unit_diagonal"])
    t = tril(t, -unit) if params["lower"] else triu(t, unit)
    t = swap(t) if params["transpose_a"] else t
    t = lax.neg(conj(t) if params["conjugate_a"] else t)
    solved = functools.partial(triangular_solve_p.bind, a, **params)
    # The order of products that solves fewer systems.
    rows, columns = typeof(b).shape[-2:]
    if params["left_side"]:
        return solved(dot(t, x)) if rows > columns else dot(solved(t), x)
    return solved(dot(x, t)) if rows < columns else dot(x, solved(t))


define_jvp_from_result(
    triangular_solve_p, _matrix_tangent,
    lambda t, x, a, b, **params: triangular_solve_p.bind(a, t, **params))


@triangular_solve_p.def_transpose
def _triangular_solve_transpose(ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any
                                ) -> Any:
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


define_solver_batching(triangular_solve_p)


@boundary
def triangular_solve(a: Any, b: Any, *, left_side: bool = False, lower: bool = False,
                     transpose_a: bool = False, conjugate_a: bool = False,
                     unit_diagonal: bool = False) -> Any:
    """Solves systems of equations with triangular matrices.

    Args:
      a: matrices of shape `(..., n, n)`. Only the triangle is read.
      b: right-hand sides of shape `(..., n, k)` if `left_side`, else `(..., k, n)`; or, with one
        axis less than `a`, one for each matrix.
      left_side: whether `op(a) x = b` is solved, or `x op(a) = b`.
      lower: whether `a` is lower or upper triangular.
      transpose_a: whether `op` transposes `a`.
      conjugate_a: whether `op` conjugates `a`.
      unit_diagonal: whether the diagonal is assumed to be 1 and not read.

    Returns:
      The solutions, of the shape and dtype of `b`.

    Raises:
      ValueError: `a` is not square, or does not fit `b`.
      TypeError: the dtypes differ or are not inexact; the matrices are stacked differently.

    Source: BLAS, `trsm`.

    Example:
      >>> a = jnp.array([[2.0, 0.0], [1.0, 1.0]])
      >>> mjax.lax.linalg.triangular_solve(a, jnp.array([2.0, 3.0]), left_side=True, lower=True)
      Array([1., 2.], dtype=float32)
    """
    conjugate_a = bool(conjugate_a) and dtypes.is_complex(typeof(a).dtype)
    vectors = typeof(b).ndim == typeof(a).ndim - 1
    axis = typeof(a).ndim - (1 if left_side else 2)
    if vectors:
        b = expand_dims(b, (axis,))
    out = triangular_solve_p.bind(
        a, b, left_side=bool(left_side), lower=bool(lower), transpose_a=bool(transpose_a),
        conjugate_a=conjugate_a, unit_diagonal=bool(unit_diagonal))
    return squeeze(out, (axis,)) if vectors else out
