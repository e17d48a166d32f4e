"""LU factors with row pivots: lu_p, lu_pivots_to_permutation_p; linear systems solved by them."""

from __future__ import annotations

import functools
import operator
from typing import Any

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import fori_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.linalg.lapack import GPUS, INFO, call, xla_kernel
from mjax._engine.linalg.matrices import (
    INT32,
    define_matrix_types,
    define_stack_batching,
    dot,
    exchanged,
    eye,
    eye_like,
    nan_unless,
    over,
    tril,
    triu,
)
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dynamic_slicing import (
    dynamic_index_in_dim,
    dynamic_slice_in_dim,
    dynamic_update_slice_in_dim,
)
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.gather import take_along_axis
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.shapes import broadcast_in_dim_p, expand_dims
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._engine.primitives.sort import argsort
from mjax._engine.primitives.tangents import define_jvp_from_result, define_zero_jvp, zero_tangent
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

# ---- lu --------------------------------------------------------------------------------

lu_p = EnginePrimitive("lu", params={}, multiple_results=True)
define_matrix_types(
    lu_p, (2,), "fc", lambda shape: [shape, (min(shape),), shape[:1]],
    lambda dtype: [dtype, INT32, INT32])


def _by_getrf(x: Any, *, platform: str = "cpu") -> list[Any]:
    aval = typeof(x)
    m, n = aval.shape[-2:]
    out, pivots, info = call("getrf", (x,), [((m, n), aval.dtype), ((min(m, n),), INT32), INFO],
                             aval.ndim - 2, [(0, 0)], platform)
    # Singular matrices have factors too; the kernel fails only for invalid arguments.
    out = nan_unless(lax.ge(info, constant_like(info, 0)), out)
    pivots = lax.sub(pivots, constant_like(pivots, 1))
    return [out, pivots, _permutation(pivots, permutation_size=m)]


def _by_xla(x: Any) -> list[Any]:
    aval = typeof(x)
    *stack, m, n = aval.shape
    return xla_kernel("LuDecomposition", (x,), [
        (aval.shape, aval.dtype), ((*stack, min(m, n)), INT32), ((*stack, m), INT32)])


lu_p.def_lowering(traced(_by_getrf, multiple_results=True), "cpu")
lu_p.def_lowering(traced(_by_xla, multiple_results=True), "tpu")
for _platform in GPUS:
    lu_p.def_lowering(traced(
        functools.partial(_by_getrf, platform=_platform), multiple_results=True), _platform)


def _lu_tangents(t: Any, outs: Any, a: Any) -> list[Any]:
    # With l and u extended to square matrices, from  l' u + l u' = p a':
    # l' = l tril(m, -1) and u' = triu(m) u, where m = inv(l) p a' inv(u).
    # F. de Hoog, R. Anderssen and M. Lukas, "Differentiation of matrix functionals using
    # triangular factorization", 2011.
    out, pivots, permutation = outs
    lower, upper = _lower_of(out), _upper_of(out)
    inner = triangular_solve(lower, permuted(t, permutation), left_side=True, lower=True,
                             unit_diagonal=True)
    inner = triangular_solve(upper, inner)
    tangent = lax.add(dot(lower, tril(inner, -1)), dot(triu(inner), upper))
    return [tangent, zero_tangent(pivots), zero_tangent(permutation)]


define_jvp_from_result(lu_p, _lu_tangents)


def permuted(x: Any, permutation: Any) -> Any:
    """Permutes the rows of matrices."""
    ndim = typeof(x).ndim
    index = expand_dims(permutation, (ndim - 1,))
    return take_along_axis(x, stretch(index, typeof(x).shape), ndim - 2,
                           mode="promise_in_bounds")


def _padded(x: Any, rows: int, columns: int) -> Any:
    config = [(0, 0, 0)] * (typeof(x).ndim - 2) + [(0, rows, 0), (0, columns, 0)]
    return pad(x, constant_like(x, 0), config) if rows or columns else x


def _lower_of(out: Any) -> Any:
    """The lower factor, as a square matrix with ones on the diagonal."""
    m, n = typeof(out).shape[-2:]
    last, k = typeof(out).ndim - 1, min(m, n)
    lower = _padded(tril(slice_in_dim(out, 0, k, axis=last), -1), 0, m - k)
    return lax.add(lower, eye_like(lower))


def _upper_of(out: Any) -> Any:
    """The upper factor, extended to a square matrix with ones on the diagonal."""
    m, n = typeof(out).shape[-2:]
    rows, k = typeof(out).ndim - 2, min(m, n)
    upper = _padded(triu(slice_in_dim(out, 0, k, axis=rows)), n - k, 0)
    if n == k:
        return upper
    rest = pad(eye(n - k, n - k, typeof(out).dtype), constant_like(out, 0), [(k, 0, 0)] * 2)
    return lax.add(upper, over(rest, typeof(upper).shape))


@boundary
def lu(x: Any) -> list[Any]:
    """LU factors of matrices with partial pivoting: `x[permutation] = l @ u`.

    Args:
      x: matrices of shape `(..., m, n)`.

    Returns:
      A list of three: `lu`, `pivots`, `permutation`. `lu` has the shape and dtype of `x`: the upper
      factor on and above the diagonal, the lower one, without its ones, below it. `pivots`, of
      shape `(..., min(m, n))`, are the rows with which each row was exchanged, in
      order. `permutation`, of shape `(..., m)`, is the resulting order of the rows. Both are int32.

    Raises:
      TypeError: fewer than two axes, or a dtype that is not inexact.

    Source: LAPACK, `getrf`.

    Example:
      >>> mjax.lax.linalg.lu(jnp.array([[1.0, 2.0], [2.0, 2.0]]))
      [Array([[2. , 2. ],
             [0.5, 1. ]], dtype=float32), Array([1, 1], dtype=int32), Array([1, 0], dtype=int32)]
    """
    return lu_p.bind(x)


# ---- lu_pivots_to_permutation ----------------------------------------------------------

lu_pivots_to_permutation_p = EnginePrimitive("lu_pivots_to_permutation", params={
    "permutation_size": int})


@lu_pivots_to_permutation_p.def_abstract_eval
def _permutation_type(pivots: Any, *, permutation_size: int) -> ShapedArray:
    if not dtypes.is_integer(pivots.dtype) or not pivots.ndim:
        raise LazyTypeError(lambda: (
            f"lu_pivots_to_permutation: pivots must be integers with at least one axis, got "
            f"{pivots}."))
    if pivots.shape[-1] > permutation_size:
        raise LazyValueError(lambda: (
            f"lu_pivots_to_permutation: {pivots.shape[-1]} pivots, of {pivots}, exceed "
            f"permutation_size={permutation_size}, the number of rows."))
    return ShapedArray((*pivots.shape[:-1], permutation_size), pivots.dtype)


def _permutation(pivots: Any, *, permutation_size: int) -> Any:
    """Applies the pivots, in order, to the numbers 0, 1, 2, ..."""
    aval = typeof(pivots)
    last = aval.ndim - 1
    shape = (*aval.shape[:-1], permutation_size)
    places = broadcasted_iota(aval.dtype, shape, last)
    if not aval.size:
        return places

    def exchange(i: Any, order: Any) -> Any:
        here = broadcast_in_dim_p.bind(convert(i, aval.dtype), shape=(*aval.shape[:-1], 1),
                                       broadcast_dimensions=())
        return exchanged(order, places, here, dynamic_slice_in_dim(pivots, i, 1, last))

    def exchange_two(i: Any, order: Any) -> Any:
        j = dynamic_index_in_dim(pivots, i, keepdims=False)
        first, second = [dynamic_slice_in_dim(order, k, 1) for k in (i, j)]
        order = dynamic_update_slice_in_dim(order, second, i, 0)
        return dynamic_update_slice_in_dim(order, first, j, 0)

    # In a stack each matrix has its own j. A mask over all places is then faster than a scatter.
    return fori_loop(0, aval.shape[-1], exchange if last else exchange_two, places)


lu_pivots_to_permutation_p.def_lowering(traced(_permutation))
define_zero_jvp(lu_pivots_to_permutation_p)
define_stack_batching(lu_pivots_to_permutation_p)


@boundary
def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation of rows that a sequence of exchanges results in.

    Args:
      pivots: for each row, in order, the row with which it is exchanged: integers of shape
        `(..., k)`.
      permutation_size: the number of rows, at least `k`.

    Returns:
      A permutation of the rows, of shape `(..., permutation_size)` and the dtype of `pivots`.

    Raises:
      TypeError: the pivots are not integers.
      ValueError: there are more pivots than rows.

    Source: LAPACK, `laswp`.

    Example:
      >>> mjax.lax.linalg.lu_pivots_to_permutation(jnp.array([2, 2, 2]), 3)
      Array([2, 0, 1], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind(
        pivots, permutation_size=operator.index(permutation_size))


# ---- systems of equations --------------------------------------------------------------


def lu_solve(out: Any, permutation: Any, b: Any, trans: int = 0) -> Any:
    """Solves `a x = b` (trans 0), `a.T x = b` (1) or `a.conj().T x = b` (2) with the factors of a.

    Args:
      out, permutation: results of `lu` for square matrices.
      b: matrices with as many rows, stacked alike.
      trans: which system.
    """
    lower = {"lower": True, "unit_diagonal": True}
    if trans == 0:
        x = triangular_solve(out, permuted(b, permutation), left_side=True, **lower)
        return triangular_solve(out, x, left_side=True)
    turned = {"left_side": True, "transpose_a": True, "conjugate_a": trans == 2}
    x = triangular_solve(out, b, **turned)
    x = triangular_solve(out, x, **lower, **turned)
    return permuted(x, argsort(permutation))
