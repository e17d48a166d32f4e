"""Cholesky factors of positive definite matrices: cholesky_p, cholesky_update_p."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import fori_loop
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import call_or_nan, has_kernel
from mjax._engine.linalg.matrices import (
    INT32,
    check_square,
    column,
    define_matrix_types,
    dot,
    eye_like,
    row,
    swap,
    symmetrized,
    tril,
    triu,
)
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.emit import ir, op
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import reshape
from mjax._engine.primitives.tangents import define_jvp_from_result, instantiate
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

# ---- cholesky --------------------------------------------------------------------------

cholesky_p = EnginePrimitive("cholesky", params={})


def _square(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    check_square("cholesky", shape)
    return [shape]


define_matrix_types(cholesky_p, (2,), "fc", _square)


@cholesky_p.def_lowering
def _cholesky_lowering(ctx: Any, x: Any) -> Any:
    return op("stablehlo.cholesky", ctx.out_types, [x], {"lower": ir.BoolAttr.get(True)})


def _by_potrf(x: Any) -> Any:
    aval = typeof(x)
    return tril(call_or_nan("potrf", (x,), [(aval.shape[-2:], aval.dtype)], aval.ndim - 2,
                            [(0, 0)], uplo="L")[0])


def _cholesky_on_cpu(ctx: Any, x: Any) -> Any:
    rule = traced(_by_potrf) if has_kernel("potrf", ctx.avals_in[0].dtype) else _cholesky_lowering
    return rule(ctx, x)


cholesky_p.def_lowering(_cholesky_on_cpu, "cpu")


def _factor_tangent(factor: Any, t: Any) -> Any:
    """The tangent of the lower factor, for a tangent of the matrix.

    Source: I. Murray, "Differentiation of the Cholesky decomposition", 2016, section 3.1.
    """
    inner = triangular_solve(factor, t, lower=True, transpose_a=True, conjugate_a=True)
    inner = tril(triangular_solve(factor, inner, left_side=True, lower=True))
    halves = lax.add(eye_like(factor), constant_like(factor, 1))
    return dot(factor, lax.div(inner, halves))


define_jvp_from_result(cholesky_p, lambda t, factor, x: _factor_tangent(factor, t))


@boundary
def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """Cholesky factor of positive definite matrices: `x = l @ l.conj().T`.

    Args:
      x: matrices of shape `(..., n, n)`, symmetric, or Hermitian for complex dtypes.
      symmetrize_input: whether the mean of `x` and its adjoint is factored, with a symmetric
        derivative. Otherwise the upper triangle is not read.

    Returns:
      Lower triangular matrices of the shape and dtype of `x`; NaN for those that are not positive
      definite.

    Raises:
      ValueError: the matrices are not square.
      TypeError: the dtype is not inexact.

    Source: LAPACK, `potrf`.

    Example:
      >>> mjax.lax.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 2.0]]))
      Array([[2., 0.],
             [1., 1.]], dtype=float32)
    """
    if symmetrize_input:
        shape = typeof(x).shape
        if len(shape) >= 2:
            check_square("cholesky", shape[-2:])
            x = symmetrized(x)
    return cholesky_p.bind(x)


# ---- cholesky_update -------------------------------------------------------------------

cholesky_update_p = EnginePrimitive("cholesky_update", params={})


def _updated(r: tuple[int, ...], w: tuple[int, ...]) -> list[tuple[int, ...]]:
    if check_square("cholesky_update", r) != w[0]:
        raise LazyValueError(lambda: (
            f"cholesky_update: a factor of shape {r} takes a vector of {r[0]} elements, got shape "
            f"{w}."))
    return [r]


define_matrix_types(cholesky_update_p, (2, 1), "f", _updated)


def _by_rotations(r: Any, w: Any) -> Any:
    """Applies a Givens rotation to each row of the factor and the rest of the vector."""
    n, stack = typeof(w).shape[-1], typeof(w).shape[:-1]
    rows = broadcasted_iota(INT32, typeof(r).shape, len(stack))

    def at(x: Any, i: Any) -> Any:
        return dynamic_slice_in_dim(x, i, 1, len(stack))

    def step(i: Any, state: Any) -> Any:
        r, w = state
        line = reshape(at(r, i), (*stack, n))
        x, y = at(line, i), at(w, i)
        # Scaled, so that squares do not overflow; the rotation is the identity where y is 0.
        scale, turns = lax.max(lax.abs(x), lax.abs(y)), lax.ne(y, constant_like(y, 0))
        none, one = [stretch(constant_like(x, c), typeof(x).shape) for c in (0, 1)]
        x, y = select_n(turns, one, lax.div(x, scale)), select_n(turns, none, lax.div(y, scale))
        length = lax.sqrt(lax.add(lax.mul(x, x), lax.mul(y, y)))
        cos, sin = lax.div(x, length), lax.div(y, length)
        turned = lax.add(lax.mul(cos, line), lax.mul(sin, w))
        w = lax.sub(lax.mul(cos, w), lax.mul(sin, line))
        here = lax.eq(rows, convert(i, INT32))
        return select_n(here, r, stretch(row(turned), typeof(r).shape)), w

    return fori_loop(0, n, step, (triu(r), w))[0]


cholesky_update_p.def_lowering(traced(_by_rotations))


@cholesky_update_p.def_jvp
def _cholesky_update_jvp(primals: Any, tangents: Any) -> Any:
    (r, w), (r_dot, w_dot) = primals, map(instantiate, tangents)
    out = cholesky_update_p.bind(r, w)
    product = lax.add(dot(swap(triu(r_dot)), triu(r)), dot(column(w_dot), row(w)))
    return out, swap(_factor_tangent(swap(out), lax.add(product, swap(product))))


@boundary
def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """Cholesky factor after a rank-one update: that of `r.T @ r + outer(w, w)`.

    Args:
      r_matrix: real matrices of shape `(..., n, n)`; only the upper triangle is read.
      w_vector: vectors of shape `(..., n)`.

    Returns:
      Upper triangular matrices of the shape and dtype of `r_matrix`.

    Raises:
      ValueError: the matrices are not square, or the vectors do not fit.
      TypeError: the dtypes differ or are not real floats.

    Source: P. Gill, G. Golub, W. Murray and M. Saunders, "Methods for modifying matrix
    factorizations", 1974.

    Example:
      >>> r, w = jnp.array([[3.0, 0.0], [0.0, 1.0]]), jnp.array([4.0, 0.0])
      >>> mjax.lax.linalg.cholesky_update(r, w)
      Array([[5., 0.],
             [0., 1.]], dtype=float32)
    """
    return cholesky_update_p.bind(r_matrix, w_vector)
