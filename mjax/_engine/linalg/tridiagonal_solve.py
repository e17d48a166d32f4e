"""Systems of equations with tridiagonal matrices: tridiagonal_solve_p."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import scan
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import call, call_or_nan, has_kernel
from mjax._engine.linalg.matrices import (
    column,
    define_matrix_types,
    define_solver_batching,
    nan_unless,
    real_of,
)
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.reductions import reduce_and, reduce_max
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import expand_dims, moveaxis, reshape
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._engine.primitives.tangents import add_tangents, instantiate, zero_tangent
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import Zero

tridiagonal_solve_p = EnginePrimitive("tridiagonal_solve", params={"perturb_singular": bool})


def _shapes(dl: tuple[int, ...], d: tuple[int, ...], du: tuple[int, ...], b: tuple[int, ...], *,
            perturb_singular: bool) -> list[tuple[int, ...]]:
    if not dl == d == du == b[:1]:
        raise LazyTypeError(lambda: (
            f"tridiagonal_solve: the three diagonals must have one shape (..., m), and the "
            f"right-hand sides (..., m, n); without leading axes they are {dl}, {d}, {du} and "
            f"{b}."))
    return [b]


define_matrix_types(tridiagonal_solve_p, (1, 1, 1, 2), "fc", _shapes)


def _on_cpu(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    aval = typeof(b)
    stack, kernel = aval.ndim - 2, "tridiagonal_solve_perturbed" if perturb_singular else "gtsv"
    if not aval.size:
        return b
    if not has_kernel(kernel, aval.dtype):
        return _by_elimination(dl, d, du, b, perturb_singular=perturb_singular)
    if perturb_singular:
        return call(kernel, (dl, d, du, b), [(aval.shape[-2:], aval.dtype)], stack)[0]
    line = (aval.shape[-2:-1], aval.dtype)
    return call_or_nan(kernel, (dl, d, du, b), [line, line, line, (aval.shape[-2:], aval.dtype)],
                       stack, [(i, i) for i in range(4)])[-1]


def _by_elimination(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    """Gaussian elimination with partial pivoting."""
    axis = typeof(d).ndim - 1
    if not typeof(b).size:
        return b
    pivots, above, second, right = _eliminated(*[moveaxis(x, axis, 0) for x in (dl, d, du, b)])
    if perturb_singular:
        pivots = _away_from_zero(pivots, above, second)
    out = moveaxis(_substituted(pivots, above, second, right), 0, axis)
    if perturb_singular:
        return out
    return nan_unless(reduce_and(lax.ne(pivots, constant_like(pivots, 0)), (0,)), out)


def _eliminated(dl: Any, d: Any, du: Any, b: Any) -> list[Any]:
    """The upper triangular system: pivots, two superdiagonals, and right-hand sides.

    Neighbouring rows are exchanged, which fills the second diagonal. Rows are on the first axis.
    """
    head = lambda x: reshape(slice_in_dim(x, 0, 1), typeof(x).shape[1:])

    def eliminate(carry: Any, line: Any) -> Any:
        pivot, above, right = carry
        low, middle, high, rhs = line
        stays = lax.ge(lax.abs(pivot), lax.abs(low))
        nothing = lax.sub(low, low)
        # A zero below the pivot does not need elimination, for any pivot.
        none = lax.eq(low, constant_like(low, 0))
        one = stretch(constant_like(low, 1), typeof(low).shape)
        factor = lax.div(select_n(stays, pivot, low),
                         select_n(none, select_n(stays, low, pivot), one))
        pick = lambda new, old: select_n(stays, new, old)
        row = (pick(low, pivot), pick(middle, above), pick(high, nothing),
               _chosen(stays, rhs, right))
        rest = (lax.sub(pick(above, middle), lax.mul(factor, pick(middle, above))),
                lax.sub(pick(nothing, high), lax.mul(factor, pick(high, nothing))),
                lax.sub(_chosen(stays, right, rhs),
                        lax.mul(_spread(factor, rhs), _chosen(stays, rhs, right))))
        return rest, row

    last, rows = scan(eliminate, (head(d), head(du), head(b)),
                      [slice_in_dim(x, 1, typeof(d).shape[0]) for x in (dl, d, du, b)])
    end = lax.sub(last[0], last[0])
    return [concatenate([x, expand_dims(y, (0,))], 0)
            for x, y in zip(rows, (last[0], end, end, last[2]), strict=True)]


def _substituted(pivots: Any, above: Any, second: Any, right: Any) -> Any:
    """The solution of the upper triangular system, by back substitution."""

    def substitute(carry: Any, line: Any) -> Any:
        after, second_after = carry
        pivot, above, second, right = line
        out = lax.sub(right, lax.add(lax.mul(_spread(above, right), after),
                                     lax.mul(_spread(second, right), second_after)))
        out = lax.div(out, _spread(pivot, right))
        return (out, after), out

    count, *shape = typeof(right).shape
    last = reshape(slice_in_dim(right, count - 1, count), tuple(shape))
    none = lax.sub(last, last)
    return scan(substitute, (none, none), (pivots, above, second, right), reverse=True)[1]


def _spread(x: Any, like: Any) -> Any:
    """One number per row, broadcast over all right-hand sides."""
    return stretch(column(x), typeof(like).shape)


def _chosen(stays: Any, new: Any, old: Any) -> Any:
    """Rows of right-hand sides: new ones where the pivot stays, else old ones."""
    return select_n(stretch(column(stays), typeof(new).shape), new, old)


def _away_from_zero(pivots: Any, *others: Any) -> Any:
    """Pivots, at least as large as the rounding error of the triangle's largest element."""
    sizes = [reduce_max(lax.abs(x), (0,)) for x in (pivots, *others)]
    largest = lax.max(lax.max(sizes[0], sizes[1]), sizes[2])
    eps = float(np.finfo(typeof(largest).dtype).eps) / 2
    least = lax.max(lax.mul(largest, constant_like(largest, eps)), constant_like(
        largest, float(np.finfo(typeof(largest).dtype).tiny)))
    least = stretch(expand_dims(least, (0,)), typeof(pivots).shape)
    dtype = typeof(pivots).dtype
    signed = convert(least, dtype)
    if real_of(dtype) == dtype:
        negative = lax.lt(pivots, constant_like(pivots, 0))
        signed = select_n(negative, signed, lax.neg(signed))
    return select_n(lax.lt(lax.abs(pivots), least), pivots, signed)


tridiagonal_solve_p.def_lowering(traced(_by_elimination))
tridiagonal_solve_p.def_lowering(traced(_on_cpu), "cpu")


@tridiagonal_solve_p.def_jvp
def _tridiagonal_solve_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    *diagonals, _ = primals
    *diagonal_tangents, right = tangents
    out = tridiagonal_solve_p.bind(*primals, **params)
    if any(type(t) is not Zero for t in diagonal_tangents):
        dl, d, du = map(instantiate, diagonal_tangents)
        product = _product(dl, d, du, out)
        right = add_tangents(right, lax.neg(product))
    if type(right) is Zero:
        return out, zero_tangent(out)
    return out, tridiagonal_solve_p.bind(*diagonals, right, **params)


def _moved(x: Any, steps: int, axis: int) -> Any:
    """Shifts along an axis, to higher indices for positive steps, with zeros filled in."""
    config = [(0, 0, 0)] * typeof(x).ndim
    config[axis] = (steps, -steps, 0)
    return pad(x, constant_like(x, 0), config)


def _product(dl: Any, d: Any, du: Any, x: Any) -> Any:
    """The product of a tridiagonal matrix and another one."""
    rows, shape = typeof(x).ndim - 2, typeof(x).shape
    dl, d, du = [stretch(column(v), shape) for v in (dl, d, du)]
    return lax.add(lax.mul(d, x), lax.add(lax.mul(dl, _moved(x, 1, rows)),
                                          lax.mul(du, _moved(x, -1, rows))))


@tridiagonal_solve_p.def_transpose
def _tridiagonal_solve_transpose(ct: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any) -> Any:
    axis = typeof(d).ndim - 1
    return [None, None, None, tridiagonal_solve_p.bind(
        _moved(du, 1, axis), d, _moved(dl, -1, axis), ct, **params)]


define_solver_batching(tridiagonal_solve_p)


@boundary
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """Solves systems of equations with tridiagonal matrices.

    Args:
      dl: the subdiagonal, of shape `(..., m)`: `dl[i]` is in row i; `dl[0]` is ignored.
      d: the diagonal, of shape `(..., m)`.
      du: the superdiagonal, of shape `(..., m)`: `du[i]` is in row i; the last one is ignored.
      b: right-hand sides of shape `(..., m, n)`.
      perturb_singular: whether pivots near zero are perturbed, so that solutions of singular
        systems are finite, as inverse iteration requires.

    Returns:
      The solutions, of the shape and dtype of `b`; NaN for singular systems, unless
      `perturb_singular`.

    Raises:
      TypeError: the shapes do not fit, or the dtypes differ or are not inexact.

    Source: LAPACK, `gtsv`; with `perturb_singular`, `lagts`.

    Example:
      >>> one, b = jnp.ones(3), jnp.array([[3.0], [4.0], [3.0]])
      >>> mjax.lax.linalg.tridiagonal_solve(one, 2 * one, one, b)[:, 0]
      Array([1., 1., 1.], dtype=float32)
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))
