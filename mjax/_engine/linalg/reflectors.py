"""Products of Householder reflectors: geqrf_p, geqp3_p, householder_product_p, ormqr_p.

A reflector is `1 - tau * v * v.conj().T`. LAPACK stores the vectors below the diagonal of a
matrix, without their first elements, which are 1. The upper triangle holds the reflected matrix.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import fori_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lapack import GPUS, call, has_kernel, unitary, xla_kernel
from mjax._engine.linalg.matrices import (
    INT32,
    adjoint,
    column,
    conj,
    define_matrix_types,
    dot,
    exchanged,
    eye_like,
    real,
    row,
    scaled,
    tril,
    triu,
    zeros,
)
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert, reduce_precision
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.reductions import argmax, reduce_max
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import broadcast_in_dim_p, expand_dims, reduce_sum, reshape
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

# ---- geqrf: the reflectors of a QR decomposition ---------------------------------------

geqrf_p = EnginePrimitive("geqrf", params={}, multiple_results=True)
define_matrix_types(geqrf_p, (2,), "fc", lambda shape: [shape, (min(shape),)])
geqrf_p.without("jvp", "It is a part of a decomposition: differentiate qr.")


def _by_geqrf(a: Any, *, platform: str = "cpu") -> list[Any]:
    aval = typeof(a)
    m, n = aval.shape[-2:]
    return call("geqrf", (a,), [((m, n), aval.dtype), ((min(m, n),), aval.dtype)], aval.ndim - 2,
                [(0, 0)], platform)


def _by_xla(a: Any) -> list[Any]:
    aval = typeof(a)
    *stack, m, n = aval.shape
    return xla_kernel("Qr", (a,), [(aval.shape, aval.dtype), ((*stack, min(m, n)), aval.dtype)])


geqrf_p.def_lowering(traced(_by_geqrf, multiple_results=True), "cpu")
geqrf_p.def_lowering(traced(_by_xla, multiple_results=True), "tpu")
for _platform in GPUS:
    geqrf_p.def_lowering(traced(
        functools.partial(_by_geqrf, platform=_platform), multiple_results=True), _platform)


@boundary
def geqrf(a: Any) -> tuple[Any, Any]:
    """The reflectors of a QR decomposition, for `householder_product` and `ormqr`.

    Args:
      a: matrices of shape `(..., m, n)`.

    Returns:
      `(a, taus)`: R in the upper triangle and the vectors of the reflectors below it; their
      factors, of shape `(..., min(m, n))`.

    Raises:
      TypeError: fewer than two axes, or a dtype that is not inexact.

    Source: LAPACK, `geqrf`.
    """
    out, taus = geqrf_p.bind(a)
    return out, taus


# ---- geqp3: the same with column pivoting ----------------------------------------------

geqp3_p = EnginePrimitive("geqp3", params={}, multiple_results=True)
define_matrix_types(
    geqp3_p, (2,), "fc", lambda shape: [shape, shape[1:], (min(shape),)],
    lambda dtype: [dtype, INT32, dtype])
geqp3_p.without("jvp", "Its pivots jump as the matrix changes: differentiate qr.")


def _pivoted(a: Any) -> list[Any]:
    aval = typeof(a)
    m, n = aval.shape[-2:]
    stack = aval.shape[:-2]
    if not has_kernel("geqp3", aval.dtype) or not aval.size:  # the kernel divides by the size
        return _without_kernel(a)
    out, pivots, taus = call(
        "geqp3", (a, zeros((*stack, n), INT32)),
        [((m, n), aval.dtype), ((n,), INT32), ((min(m, n),), aval.dtype)], len(stack),
        [(0, 0), (1, 1)])
    return [out, lax.sub(pivots, constant_like(pivots, 1)), taus]


def _magnitude(a: Any) -> Any:
    """A power of two near the greatest element of each matrix; 1 for matrices of zeros.

    A matrix divided by it has columns whose squares neither overflow nor all vanish.
    """
    parts = [lax.abs(f(a)) for f in ((lax.real, lax.imag) if dtypes.is_complex(typeof(a).dtype)
                                     else (real,))]
    greatest = parts[0] if len(parts) == 1 else lax.max(*parts)
    last = typeof(a).ndim - 1
    greatest = reduce_max(greatest, (last - 1, last))
    half = reduce_precision(scaled(greatest, 0.5), np.finfo(typeof(greatest).dtype).nexp, 0)
    usual = lax.bitwise_and(lax.gt(half, constant_like(half, 0)), lax.is_finite(half))
    return stretch(expand_dims(
        convert(select_n(usual, stretch(constant_like(half, 1), typeof(half).shape), half),
                typeof(a).dtype), (last - 1, last)), typeof(a).shape)


def _without_kernel(a: Any) -> list[Any]:
    """Repeatedly reflects the remaining column of the greatest norm."""
    aval = typeof(a)
    m, n = aval.shape[-2:]
    if not m * n:
        stack = aval.shape[:-2]
        return [a, broadcasted_iota(INT32, (*stack, n), len(stack)),
                zeros((*stack, min(m, n)), aval.dtype)]
    magnitude = _magnitude(a)
    out, order, taus = _without_kernel_scaled(lax.div(a, magnitude))
    return [lax.add(tril(out, -1), triu(lax.mul(out, magnitude))), order, taus]


def _without_kernel_scaled(a: Any) -> list[Any]:
    """`_without_kernel` for matrices whose elements are neither huge nor tiny."""
    aval = typeof(a)
    m, n = aval.shape[-2:]
    stack, last = aval.shape[:-2], aval.ndim - 1
    rows, columns = [broadcasted_iota(INT32, aval.shape, axis) for axis in (last - 1, last)]
    places = broadcasted_iota(INT32, (*stack, n), len(stack))
    steps = broadcasted_iota(INT32, (*stack, min(m, n)), len(stack))

    def step(i: Any, state: Any) -> Any:
        a, order, taus = state
        here = broadcast_in_dim_p.bind(convert(i, INT32), shape=(*stack, 1),
                                       broadcast_dimensions=())
        i = stretch(column(here), aval.shape)
        nothing = stretch(constant_like(a, 0), aval.shape)
        rest = select_n(lax.ge(rows, i), nothing, a)
        sizes = reduce_sum(real(lax.mul(rest, conj(rest))), (last - 1,))
        sizes = select_n(lax.ge(places, stretch(here, (*stack, n))),
                         stretch(constant_like(sizes, -1), (*stack, n)), sizes)
        other = expand_dims(argmax(sizes, len(stack), INT32), (len(stack),))
        a = exchanged(a, columns, column(here), column(other))
        order = exchanged(order, places, here, other)
        a, tau = _reflect(a, rows, columns, i)
        at = lax.eq(steps, stretch(here, (*stack, min(m, n))))
        return a, order, select_n(at, taus, stretch(column(tau), typeof(taus).shape))

    return list(fori_loop(0, min(m, n), step,
                          (a, places, zeros((*stack, min(m, n)), aval.dtype))))


def _reflect(a: Any, rows: Any, columns: Any, i: Any) -> tuple[Any, Any]:
    """One step of the decomposition: reflects the rest of column i to a multiple of a unit vector.

    Args:
      a: matrices.
      rows, columns, i: row indices, column indices and the number of the step, in the shape of
        `a`.

    Returns:
      The matrices after the reflection, with its vector in the column; the factors.
    """
    aval = typeof(a)
    last = aval.ndim - 1
    nothing = stretch(constant_like(a, 0), aval.shape)

    def total(where: Any, x: Any, axes: tuple[int, ...]) -> Any:
        return reduce_sum(select_n(where, stretch(constant_like(x, 0), aval.shape), x), axes)

    both = (last - 1, last)
    in_column = lax.eq(columns, i)
    pivot = total(lax.bitwise_and(in_column, lax.eq(rows, i)), a, both)
    below = lax.bitwise_and(in_column, lax.gt(rows, i))
    tail = total(below, real(lax.mul(a, conj(a))), both)
    size = lax.sqrt(lax.add(tail, real(lax.mul(pivot, conj(pivot)))))
    done = lax.eq(tail, constant_like(tail, 0))
    if dtypes.is_complex(aval.dtype):
        done = lax.bitwise_and(done, lax.eq(lax.imag(pivot), constant_like(tail, 0)))
    negative = lax.lt(real(pivot), constant_like(size, 0))
    beta = convert(select_n(negative, lax.neg(size), size), aval.dtype)
    # Columns without a reflection get ones as divisors, and the factor 0.
    one = stretch(constant_like(beta, 1), typeof(beta).shape)
    none = stretch(constant_like(beta, 0), typeof(beta).shape)
    tau = select_n(done, lax.div(lax.sub(beta, pivot), select_n(done, beta, one)), none)
    scale = select_n(done, lax.sub(pivot, beta), one)
    spread = lambda x: stretch(expand_dims(x, (last - 1, last)), aval.shape)
    vector = reduce_sum(select_n(below, nothing, lax.div(a, spread(scale))), (last,))
    ones = convert(lax.eq(rows, i), aval.dtype)
    vector = lax.add(vector, reshape(slice_in_dim(ones, 0, 1, axis=last), aval.shape[:-1]))
    products = dot(row(conj(vector)), a)
    reflected = lax.sub(a, lax.mul(spread(conj(tau)), dot(column(vector), products)))
    # The columns to the left are finished: their vectors stay.
    right = lax.gt(columns, i)
    a = select_n(right, a, reflected)
    kept = select_n(lax.eq(rows, i), stretch(column(vector), aval.shape),
                    spread(select_n(done, beta, pivot)))
    changed = lax.bitwise_and(in_column, lax.ge(rows, i))
    return select_n(changed, a, kept), tau


geqp3_p.def_lowering(traced(_pivoted, multiple_results=True), "cpu")


def geqp3(a: Any) -> tuple[Any, Any, Any]:
    """The reflectors of a QR decomposition with column pivoting: `(a, order, taus)`."""
    out, order, taus = geqp3_p.bind(a)
    return out, order, taus


# ---- householder_product ---------------------------------------------------------------

householder_product_p = EnginePrimitive("householder_product", params={})


def _check_product(a: tuple[int, ...], taus: tuple[int, ...]) -> list[tuple[int, ...]]:
    if a[0] < a[1]:
        raise LazyValueError(lambda: (
            f"householder_product: the matrix must have at least as many rows as columns, got "
            f"shape {a}."))
    if taus[0] > a[1]:
        raise LazyValueError(lambda: (
            f"householder_product: there are {taus[0]} factors for the {a[1]} columns of a matrix "
            f"of shape {a}."))
    return [a]


define_matrix_types(householder_product_p, (2, 1), "fc", _check_product)
householder_product_p.without("jvp", "It is a part of a decomposition: differentiate qr.")


def _by_orgqr(a: Any, taus: Any, *, platform: str = "cpu") -> Any:
    aval = typeof(a)
    name = "orgqr" if platform in GPUS else unitary("gqr", aval.dtype)
    return call(name, (a, taus), [(aval.shape[-2:], aval.dtype)], aval.ndim - 2, [(0, 0)],
                platform)[0]


def _product_by_xla(a: Any, taus: Any) -> Any:
    aval = typeof(a)
    return xla_kernel("ProductOfElementaryHouseholderReflectors", (a, taus),
                      [(aval.shape, aval.dtype)])[0]


householder_product_p.def_lowering(traced(_by_orgqr), "cpu")
householder_product_p.def_lowering(traced(_product_by_xla), "tpu")
for _platform in GPUS:
    householder_product_p.def_lowering(
        traced(functools.partial(_by_orgqr, platform=_platform)), _platform)


@boundary
def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of a product of Householder reflectors.

    Args:
      a: matrices of shape `(..., m, n)`, `m >= n`, with the vectors of the reflectors below their
        diagonals, as `geqrf` and `hessenberg` return them.
      taus: the factors of the reflectors, of shape `(..., k)`, `k <= n`.

    Returns:
      Matrices of the shape and dtype of `a` with orthonormal columns.

    Raises:
      ValueError: more columns than rows, or more factors than columns.
      TypeError: the dtypes differ or are not inexact.

    Source: LAPACK, `orgqr` and `ungqr`.

    Example:
      >>> mjax.lax.linalg.householder_product(jnp.array([[1.0], [0.5]]), jnp.array([1.6]))
      Array([[-0.6],
             [-0.8]], dtype=float32)
    """
    return householder_product_p.bind(a, taus)


# ---- ormqr -----------------------------------------------------------------------------

ormqr_p = EnginePrimitive("ormqr", params={"left": bool, "transpose": bool})


def _check_multiply(a: tuple[int, ...], taus: tuple[int, ...], c: tuple[int, ...], *, left: bool,
                    transpose: bool) -> list[tuple[int, ...]]:
    if c[0 if left else 1] != a[0]:
        raise LazyValueError(lambda: (
            f"ormqr: with left={left} a matrix c of shape {c} must have as many "
            f"{'rows' if left else 'columns'} as the reflectors of a, of shape {a}, have rows."))
    return [c]


define_matrix_types(ormqr_p, (2, 1, 2), "fc", _check_multiply)
ormqr_p.without("jvp", "It is a part of a decomposition: differentiate qr, and the product.")


def _multiplied(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    aval = typeof(c)
    name = unitary("mqr", aval.dtype)
    if has_kernel(name, aval.dtype):
        return call(name, (a, taus, c), [(aval.shape[-2:], aval.dtype)], aval.ndim - 2, [(2, 0)],
                    left=left, transpose=transpose)[0]
    return _one_by_one(a, taus, c, left=left, transpose=transpose)


def _one_by_one(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    """Applies each reflector to the matrix; their product is not formed."""
    count, last = typeof(taus).shape[-1], typeof(a).ndim - 1
    vectors = slice_in_dim(a, 0, count, axis=last)
    vectors = lax.add(tril(vectors, -1), eye_like(vectors))
    factors = conj(taus) if transpose else taus

    def step(i: Any, c: Any) -> Any:
        if left != transpose:  # the last reflector first
            i = lax.sub(constant_like(i, count - 1), i)
        vector = dynamic_slice_in_dim(vectors, i, 1, last)
        factor = column(dynamic_slice_in_dim(factors, i, 1, last - 1))
        change = (dot(vector, dot(adjoint(vector), c)) if left
                  else dot(dot(c, vector), adjoint(vector)))
        return lax.sub(c, lax.mul(stretch(factor, typeof(c).shape), change))

    return fori_loop(0, count, step, c)


ormqr_p.def_lowering(traced(_one_by_one))
ormqr_p.def_lowering(traced(_multiplied), "cpu")


@boundary
def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Multiplies matrices by a product of Householder reflectors, Q, that is not formed.

    Args:
      a: matrices of shape `(..., m, k)` with the vectors of the reflectors below their diagonals,
        as `geqrf` returns them.
      taus: the factors of the reflectors, of shape `(..., k)`.
      c: matrices of shape `(..., m, n)` if `left`, else `(..., n, m)`.
      left: whether to return `Q @ c` or `c @ Q`.
      transpose: whether Q is replaced by its adjoint.

    Returns:
      Matrices of the shape and dtype of `c`.

    Raises:
      ValueError: the shapes do not fit.
      TypeError: the dtypes differ or are not inexact.

    Source: LAPACK, `ormqr` and `unmqr`.

    Example:
      >>> a, taus = jnp.array([[1.0], [0.5]]), jnp.array([1.6])
      >>> mjax.lax.linalg.ormqr(a, taus, jnp.eye(2))
      Array([[-0.6, -0.8],
             [-0.8,  0.6]], dtype=float32)
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))
