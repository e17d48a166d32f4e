"""Eigenvalues and eigenvectors of tridiagonal matrices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mjax._engine.control.branches.branching import cond
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.control.loops.looping import fori_loop, scan, while_loop
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import DTYPES
from mjax._engine.linalg.matrices import column, conj, dot, eye, real, real_of, row, swap
from mjax._engine.linalg.tridiagonal_solve import tridiagonal_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.reductions import reduce_max, reduce_min, reduce_or
from mjax._engine.primitives.shapes import reduce_sum
from mjax._numpy.core import broadcast_to, shape_of
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.padding import pad
from mjax._numpy.random.keys import key as make_key
from mjax._numpy.random.normal import normal
from mjax._numpy.selecting import where

_STATIC = ("eigvals_only", "select", "select_range")


@fused(static_argnames=_STATIC)
def eigh_tridiagonal(d: Any, e: Any, *, eigvals_only: bool = False, select: str = "a",
                     select_range: tuple[float, float] | None = None, tol: Any = None,
                     key: Any = None) -> Any:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian tridiagonal matrix.

    Args:
      d: the diagonal, of shape `(n,)`; only its real part is used.
      e: the diagonal above it, of shape `(n - 1,)` and the same dtype.
      eigvals_only: whether to return only the eigenvalues.
      select: `"a"`: all eigenvalues; `"i"`: those with indices in `select_range`.
      select_range: the first and the last index, from 0 up, in ascending order.
      tol: the tolerated absolute error of the eigenvalues; by default the machine epsilon times
        the norm of the matrix.
      key: the PRNG key of the start vectors of the inverse iteration.

    Returns:
      A pair: the eigenvalues, real and ascending, of shape `(k,)`, and the eigenvectors as columns,
      of shape `(n, k)`.

    Raises:
      TypeError: the dtypes differ, or are neither float32, float64, complex64 nor complex128.
      ValueError: the shapes do not match, `select` is unknown, or the range is missing or empty.
      NotImplementedError: `select` is `"v"`.

    Source: `scipy.linalg.eigh_tridiagonal`; W. Barth, R. Martin and J. Wilkinson, "Calculation of
    the eigenvalues of a symmetric tridiagonal matrix by the method of bisection", 1967; inverse
    iteration: I. Ipsen, "Computing an eigenvector with inverse iteration", 1997.

    Example:
      >>> values = mjax.scipy.linalg.eigh_tridiagonal(jnp.zeros(2), jnp.ones(1))[0]
      >>> bool(jnp.allclose(values, jnp.array([-1.0, 1.0])))
      True
    """
    d, e = asarray(d), asarray(e)
    _check_diagonals(d, e)
    n, dtype = shape_of(d)[0], typeof(d).dtype
    if n <= 1:
        return real(d) if eigvals_only else (real(d), eye(n, n, dtype))
    first, last = _numbers(n, select, select_range)
    start = None
    if not eigvals_only:
        start = _start(make_key(42) if key is None else key, last - first, n, dtype)
    out = _decomposed((first, last), real(d), e, tol, start)
    return out[0] if eigvals_only else out


def _check_diagonals(d: Any, e: Any) -> None:
    own, other = typeof(d), typeof(e)
    if own.dtype != other.dtype or own.dtype not in DTYPES:
        msg = (f"eigh_tridiagonal: d and e must have one dtype, float32, float64, complex64 or "
               f"complex128; got {own} and {other}.")
        raise TypeError(msg)
    if own.ndim != 1 or other.shape != (max(own.shape[0] - 1, 0),):
        msg = (f"eigh_tridiagonal: d and e must have shapes (n,) and (n - 1,), got {own.shape} "
               f"and {other.shape}; map over stacks with vmap.")
        raise ValueError(msg)


def _numbers(n: int, select: str, select_range: Any) -> tuple[int, int]:
    if select == "a":
        return 0, n
    if select == "v":
        msg = ("eigh_tridiagonal: select='v' is not supported, since the number of eigenvalues "
               "between bounds depends on values; take all, or select='i'.")
        raise NotImplementedError(msg)
    if select != "i":
        msg = f"eigh_tridiagonal: select must be 'a' or 'i', got {select!r}."
        raise ValueError(msg)
    if select_range is None or not 0 <= select_range[0] <= select_range[1] < n:
        msg = (f"eigh_tridiagonal: select='i' needs select_range=(first, last) with 0 <= first <= "
               f"last < {n}, got {select_range}.")
        raise ValueError(msg)
    return int(select_range[0]), int(select_range[1]) + 1


def _start(key: Any, count: int, n: int, dtype: Any) -> Any:
    v = convert(normal(key, (count, n), real_of(dtype)), dtype)
    return v / convert(_sizes(v), dtype)


def _sizes(v: Any) -> Any:
    """The lengths of the row vectors, as a column."""
    return column(lax.sqrt(reduce_sum(lax.square(lax.abs(v)), (1,))))


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _decomposed(numbers: tuple[int, int], d: Any, e: Any, tol: Any, start: Any
                ) -> tuple[Any, ...]:
    values = _bisected(numbers, d, e, tol)
    return (values,) if start is None else (values, swap(_vectors(d, e, values, start)))


@_decomposed.defjvp
def _decomposed_jvp(numbers: tuple[int, int], primals: Any, tangents: Any) -> Any:
    # First-order perturbation theory for distinct eigenvalues: x' = v.H t' v, and
    # (t - x) v' = -(t' - x') v, where v' is orthogonal to v.
    d, e, tol, start = primals
    d_dot, e_dot, *_ = tangents
    values_only = start is None
    if values_only:
        start = _start(make_key(42), numbers[1] - numbers[0], shape_of(d)[0], typeof(e).dtype)
    values, vectors = _decomposed(numbers, d, e, tol, start)
    v = swap(vectors)
    change = _product(d_dot, e_dot, v)
    values_dot = reduce_sum(real(lax.mul(conj(v), change)), (1,))
    if values_only:
        return (values,), (values_dot,)
    right = convert(column(values_dot), typeof(v).dtype) * v - change
    v_dot = _shifted_solve(d, e, values, right)
    inside = column(reduce_sum(lax.mul(conj(v), v_dot), (1,)))
    return (values, vectors), (values_dot, swap(v_dot - inside * v))


def _product(d: Any, e: Any, v: Any) -> Any:
    """The product of the matrix with each row vector."""
    after, before = [pad(x, [(0, 0), w]) for x, w in (
        (e * v[:, 1:], (0, 1)), (conj(e) * v[:, :-1], (1, 0)))]
    return d * v + after + before


def _bisected(numbers: tuple[int, int], d: Any, e: Any, tol: Any) -> Any:
    """Eigenvalues by bisection; a Sturm sequence counts those below a number."""
    dtype, n = typeof(d).dtype, shape_of(d)[0]
    info = np.finfo(dtype)
    sizes = lax.abs(e)
    squares = lax.square(sizes)
    # Bounds by Gershgorin's circles.
    around = pad(sizes, [(0, 1)]) + pad(sizes, [(1, 0)])
    low, high = reduce_min(d - around, (0,)), reduce_max(d + around, (0,))
    norm = lax.max(lax.abs(low), lax.abs(high))
    safe = max(1 / float(info.max), (1 + float(info.eps)) * float(info.tiny))
    least = lax.max(reduce_max(squares, (0,)), np.ones((), dtype)) * safe
    enough = norm * float(info.eps)
    if tol is not None:
        enough = lax.max(enough, convert(asarray(tol), dtype))
    slack = norm * (2.1 * n * float(info.eps)) + least * 4.2
    targets = np.arange(*numbers, dtype=np.int32)
    low, high = [broadcast_to(x, targets.shape) for x in (low - slack, high + slack)]

    def halve(state: Any) -> Any:
        step, low, high = state
        middle = (low + high) * 0.5
        below = _count_below(d, squares, least, middle) <= targets
        return step + 1, where(below, middle, low), where(below, high, middle)

    def goes_on(state: Any) -> Any:
        step, low, high = state
        return (step < info.nmant + 1) & (reduce_max(high - low, (0,)) > enough)

    _, low, high = while_loop(goes_on, halve, (np.int32(0), low, high))
    return (low + high) * 0.5


def _count_below(d: Any, squares: Any, least: Any, x: Any) -> Any:
    """The number of eigenvalues smaller than each of these numbers."""
    def step(state: Any, entries: Any) -> tuple[Any, None]:
        pivot, count = state
        own, square = entries
        pivot = own - x - square / pivot
        small = pivot <= least
        return (where(small, lax.min(pivot, -broadcast_to(least, shape_of(x))), pivot),
                count + convert(small, np.dtype(np.int32))), None

    start = (broadcast_to(np.ones((), typeof(d).dtype), shape_of(x)),
             broadcast_to(np.zeros((), np.int32), shape_of(x)))
    (_, count), _ = scan(step, start, (d, pad(squares, [(1, 0)])), unroll=8)
    return count


def _shifted_solve(d: Any, e: Any, values: Any, right: Any) -> Any:
    """Solves `(t - value) x = right` for each value, nearly singular; vectors are rows."""
    dtype, shape = typeof(right).dtype, shape_of(right)
    below, above = [broadcast_to(pad(x, [w]), shape) for x, w in (
        (conj(e), (1, 0)), (e, (0, 1)))]
    middle = convert(row(d) - column(values), dtype)
    out = tridiagonal_solve(below, middle, above, column(right), perturb_singular=True)
    return out[..., 0]


def _vectors(d: Any, e: Any, values: Any, start: Any) -> Any:
    """Eigenvectors, in rows, by inverse iteration."""
    real_dtype = typeof(values).dtype
    norm = lax.max(lax.abs(values[0]), lax.abs(values[-1]))
    # The distance below which LAPACK's `stein` orthogonalizes vectors.
    close = values[1:] - values[:-1] < norm * 1e-3

    def step(state: Any) -> Any:
        count, v, growth, _ = state
        new = _shifted_solve(d, e, values, v)
        sizes = _sizes(new)
        new = new / convert(sizes, typeof(v).dtype)
        new = cond(reduce_or(close, (0,)), lambda v: _orthogonal(_orthogonal(v, close), close),
                   lambda v: v, new)
        return count + 1, new, sizes, growth

    def goes_on(state: Any) -> Any:
        count, _, growth, before = state
        return (count < 5) & reduce_or(growth >= before * 1.1, (0, 1))

    ones = broadcast_to(np.ones((), real_dtype), (shape_of(values)[0], 1))
    return while_loop(goes_on, step, (np.int32(0), start, ones, ones * 0))[1]


def _orthogonal(v: Any, close: Any) -> Any:
    """Orthogonalizes each vector against earlier ones in its cluster of close eigenvalues."""
    count = shape_of(v)[0]
    # The index of each eigenvalue's cluster.
    chain = concatenate([np.zeros(1, np.int32),
                         convert(lax.bitwise_not(close), np.dtype(np.int32))]).cumsum()
    places = np.arange(count)

    def step(i: Any, v: Any) -> Any:
        own = dynamic_slice_in_dim(v, i, 1, 0)
        same = (chain == dynamic_slice_in_dim(chain, i, 1)) & (places < i)
        parts = where(same[:, None], dot(conj(v), swap(own)), 0)
        own = own - dot(swap(parts), v)
        own = own / convert(_sizes(own), typeof(v).dtype)
        return where(places[:, None] == i, own, v)

    return fori_loop(1, count, step, v)


__all__ = ["eigh_tridiagonal"]
