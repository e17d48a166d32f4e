"""Roots of polynomials, and polynomials fitted to points."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.matrices import dot, swap
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy.arithmetic import divide, multiply, sqrt, subtract
from mjax._numpy.comparison import less
from mjax._numpy.core import cast, check_array, concrete_int, promote_dtypes_inexact, shape_of
from mjax._numpy.decompositions import eigvals
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.polynomials import vander
from mjax._numpy.products import outer
from mjax._numpy.ranges import arange
from mjax._numpy.reductions import argmax
from mjax._numpy.reductions import sum as total
from mjax._numpy.reordering import roll
from mjax._numpy.selecting import where
from mjax._numpy.shapes import expand_dims
from mjax._numpy.sorting import argsort
from mjax._numpy.systems import inv, lstsq
from mjax._numpy.taking import take

# ---- roots -----------------------------------------------------------------------------


@boundary
def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The roots of a polynomial.

    Args:
      p: coefficients, from the highest power down; a scalar is a single one.
      strip_zeros: whether leading zeros are dropped. The number of roots then depends on the
        values, which must not be traced. Otherwise there are `len(p) - 1` roots, with NaN for
        missing ones.

    Returns:
      A complex vector, unordered: the eigenvalues of the companion matrix. NumPy's vector is real
      if all roots are.

    Raises:
      ValueError: `p` has several axes.
      ConcretizationTypeError: `p` is traced and `strip_zeros` is True.

    Source: `numpy.roots`; R. Horn and C. Johnson, "Matrix Analysis", 1999, pp. 146-147.

    Example:
      >>> jnp.roots(jnp.array([0.0, 1.0, -3.0]))
      Array([3.+0.j], dtype=complex64)
    """
    p, = promote_dtypes_inexact(check_array("roots", p))
    shape = shape_of(p)
    if len(shape) > 1:
        msg = f"roots: the coefficients must be a vector, got {typeof(p)}."
        raise ValueError(msg)
    if not shape or shape[0] < 2:
        return array_of(np.zeros(0, dtypes.complex_dtype(typeof(p).dtype)))
    if not strip_zeros:
        return _roots_or_nan(p)
    if isinstance(p, Tracer):
        raise ConcretizationTypeError(
            "roots: the number of roots depends on the values of the coefficients, which are "
            "traced. Give roots(p, strip_zeros=False), whose missing roots are NaN.")
    places = np.nonzero(np.asarray(p))[0]
    return _eigenvalues(slice_in_dim(p, int(places[0]) if len(places) else shape[0], None))


@fused
def _eigenvalues(p: Any) -> Any:
    n, dtype = shape_of(p)[0] - 1, typeof(p).dtype
    if n < 1:
        return array_of(np.zeros(0, dtypes.complex_dtype(dtype)))
    p = cast(p, dtype)
    first = lax.neg(divide(slice_in_dim(p, 1, None), slice_in_dim(p, 0, 1)))
    return eigvals(concatenate([expand_dims(first, 0), np.eye(n - 1, n, dtype=dtype)]))


@fused
def _roots_or_nan(p: Any) -> Any:
    size = shape_of(p)[0]
    present = lax.ne(p, np.zeros((), typeof(p).dtype))
    # If all coefficients are 0, the matrix below is NaN, and so are its eigenvalues.
    missing = argmax(present)
    found = _eigenvalues(roll(p, lax.neg(missing)))
    # Zeros moved from the front to the end have roots 0, which are last in this order.
    found = take(found, argsort(lax.neg(lax.abs(found))))
    exists = less(arange(size - 1), subtract(size - 1, missing))
    return where(exists, found, np.asarray(complex(np.nan, np.nan), typeof(found).dtype))


# ---- polyfit ---------------------------------------------------------------------------


@fused(values=("x", "y", "w"), static_argnames=("deg", "rcond", "full", "cov"))
def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False,
            w: Any = None, cov: bool | str = False) -> Any:
    """Fits a polynomial to points by least squares.

    Args:
      x: coordinates, a vector of shape `(m,)`.
      y: values there, of shape `(m,)`, or `(m, k)` for k polynomials.
      deg: the degree.
      rcond: singular values of the scaled matrix of powers below `rcond` times the greatest count
        as zero; by default `m` times the machine epsilon.
      full: whether the results of `linalg.lstsq` are returned too.
      w: weights of the distances (not of their squares), of shape `(m,)`.
      cov: whether the covariance of the coefficients is returned too, scaled by the residuals;
        `"unscaled"` for an unscaled one. Ignored with `full`.

    Returns:
      The coefficients, of shape `(deg + 1,)` or `(deg + 1, k)`, from the highest power
      down. With `full`, `(coefficients, residuals, rank, singular values, rcond)`. With `cov`,
      `(coefficients, covariance)`, the latter of shape `(deg + 1, deg + 1)`, or `(deg + 1, deg + 1,
      k)`. Unlike NumPy, mjax does not warn of deficient ranks.

    Raises:
      ValueError: `deg` is negative, or the points are too few for a scaled covariance.
      TypeError: `x`, `y` or `w` is of another shape, or empty.

    Source: `numpy.polyfit`.

    Example:
      >>> x = jnp.arange(4.0)
      >>> jnp.round(jnp.polyfit(x, 2 * x + 1, 1), 3)
      Array([2., 1.], dtype=float32)
    """
    degree = concrete_int(deg, "polyfit: deg", truncate=True)
    _check_points(degree, shape_of(x), shape_of(y))
    (x,), (y,) = promote_dtypes_inexact(x), promote_dtypes_inexact(y)
    m = shape_of(x)[0]
    rcond = m * float(ml_dtypes.finfo(typeof(x).dtype).eps) if rcond is None else float(rcond)
    powers = vander(x, degree + 1)
    if w is not None:
        w, = promote_dtypes_inexact(w)
        if shape_of(w) != (m,):
            msg = f"polyfit: the weights w must have the shape of x, ({m},), got {typeof(w)}."
            raise TypeError(msg)
        powers = multiply(powers, expand_dims(w, 1))
        y = multiply(y, w if typeof(y).ndim == 1 else expand_dims(w, 1))
    scale = sqrt(total(multiply(powers, powers), 0))
    powers = divide(powers, scale)
    out, residuals, rank, s = lstsq(powers, y, rcond)
    out = divide(out, scale if typeof(y).ndim == 1 else expand_dims(scale, 1))
    if full:
        return out, residuals, rank, s, array_of(rcond)
    return (out, _covariance(powers, scale, residuals, y, cov)) if cov else out


def _check_points(degree: int, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    if degree < 0:
        msg = f"polyfit: deg must not be negative, got {degree}."
        raise ValueError(msg)
    if len(x) != 1 or not x[0]:
        msg = f"polyfit: x must be a non-empty vector, got shape {x}."
        raise TypeError(msg)
    if len(y) not in (1, 2) or y[0] != x[0]:
        msg = (f"polyfit: for {x[0]} elements of x the values y must have shape ({x[0]},) or "
               f"({x[0]}, k), got {y}.")
        raise TypeError(msg)


def _covariance(powers: Any, scale: Any, residuals: Any, y: Any, cov: bool | str) -> Any:
    m, order = shape_of(powers)
    base = divide(inv(dot(swap(powers), powers)), outer(scale, scale))
    several = typeof(y).ndim == 2
    if cov == "unscaled":
        return expand_dims(base, 2) if several else base
    if m <= order:
        msg = (f"polyfit: a covariance that is scaled by the residuals needs more than {order} "
               f"points, got {m}; cov='unscaled' does not.")
        raise ValueError(msg)
    factor = divide(residuals, m - order)
    return multiply(expand_dims(base, 2) if several else base, factor)


__all__ = ["polyfit", "roots"]
