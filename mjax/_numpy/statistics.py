"""Means, variances, averages, covariances."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type, inexact_dtype
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import clamp
from mjax._engine.primitives.dot import dot_general
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import (
    array_of,
    broadcast_in_dim_p,
    reduce_sum,
    reshape,
    scalar_of,
    transpose,
)
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    check_arrays,
    choose,
    common_shape,
    dtype_argument,
    promote_args,
    promote_dtypes_inexact,
    refuse_out,
    weak_type_of,
    wide_dtype,
    wide_sum,
)
from mjax._numpy.fused import fused
from mjax._numpy.reductions import keep_axes, mask_argument, masked, sum

_STATIC = ("axis", "dtype", "out", "keepdims")


def count_over(name: str, shape: tuple[int, ...], axes: tuple[int, ...], where: Any, dtype: Any
               ) -> Any:
    """The number of elements over axes that count."""
    if where is None:
        return scalar_of(ShapedArray((), dtype), math.prod(shape[i] for i in axes))
    where = mask_argument(name, where)
    if common_shape([shape, typeof(where).shape]) != shape:
        msg = (f"{name}: where of shape {typeof(where).shape} must broadcast to the shape of the "
               f"array, {shape}.")
        raise ValueError(msg)
    return reduce_sum(cast(broadcast_to(where, shape), dtype), axes)


def mean_over(name: str, a: Any, axes: tuple[int, ...], where: Any) -> Any:
    """The mean over axes of a value of the dtype of the computation."""
    aval = typeof(a)
    count = count_over(name, aval.shape, axes, where, dtypes.real_dtype(aval.dtype))
    return lax.div(reduce_sum(masked(name, a, where, 0), axes), cast(count, aval.dtype))


@fused(values=("a", "where"), static_argnames=_STATIC)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *,
         where: Any = None) -> Any:
    """Arithmetic mean over axes; NaN without elements.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result; by default that of `a`, the default float for integers.
      out: not supported.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.

    Returns:
      An array without the axes. Means of 16-bit floats are computed in 32 bits.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.mean`.

    Example:
      >>> jnp.mean(jnp.array([[1, 2], [3, 4]]), axis=0)
      Array([2., 3.], dtype=float32)
    """
    return mean_of("mean", a, axis, dtype, out, keepdims, where)


def mean_of(name: str, a: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, where: Any) -> Any:
    """`mean`, with another name in messages."""
    refuse_out(name, out)
    target = dtype_argument(dtype, name) or inexact_dtype(dtypes.canonicalize(typeof(a).dtype))
    a = cast(a, wide_dtype(target) if dtypes.is_inexact(target) else inexact_dtype(target))
    shape = typeof(a).shape
    axes = canonicalize_axes(axis, len(shape))
    result = mean_over(name, a, axes, where)
    return cast(keep_axes(result, shape, axes) if keepdims else result, target)


def _correction(name: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if not isinstance(ddof, Tracer) and ddof != 0:
        msg = f"{name}: give either ddof or correction, not both (ddof={ddof})."
        raise ValueError(msg)
    return correction


def variance(name: str, a: Any, axes: tuple[int, ...], correction: Any, where: Any, center: Any
             ) -> Any:
    """The variance over axes; NaN without degrees of freedom."""
    shape = typeof(a).shape
    if center is None:
        center = keep_axes(mean_over(name, a, axes, where), shape, axes)
    a, center = promote_args(name, a, cast(center, typeof(a).dtype))
    # Masked before squaring, so that masked elements have zero gradients.
    centered = masked(name, lax.sub(a, center), where, 0)
    square = (lax.real(lax.mul(centered, lax.conj(centered)))
              if dtypes.is_complex(typeof(a).dtype) else lax.square(centered))
    dtype = typeof(square).dtype
    total = reduce_sum(square, axes)
    count, correction = count_over(name, shape, axes, where, dtype), cast(
        check_array(name, correction), dtype)
    if isinstance(count, np.floating) and isinstance(correction, np.floating):
        freedom = count - correction
        if freedom > 0:
            return lax.div(total, freedom)
    freedom = lax.sub(count, correction)
    enough = lax.gt(freedom, _c(freedom, 0))
    # As in JAX, the gradient without degrees of freedom is 0 for nanvar, but NaN for var.
    divisor = choose(enough, freedom, _c(freedom, 1)) if name.startswith("nan") else freedom
    return choose(enough, lax.div(total, divisor), _c(total, np.nan))


def variance_of(name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: bool,
                where: Any, mean: Any, correction: Any = None) -> Any:
    """`var` with another name in messages; its square root for standard deviations."""
    refuse_out(name, out)
    own = inexact_dtype(dtypes.canonicalize(typeof(a).dtype))
    target = dtype_argument(dtype, name) or dtypes.real_dtype(own)
    is_root = name.endswith("std")
    if is_root and not dtypes.is_inexact(target):
        msg = f"{name}: dtype must be a float or complex one, got {target}; convert the result."
        raise ValueError(msg)
    a = cast(a, wide_dtype(own if dtypes.is_complex(own) else inexact_dtype(target)))
    shape = typeof(a).shape
    axes = canonicalize_axes(axis, len(shape))
    result = variance(name, a, axes, _correction(name, ddof, correction), where, mean)
    if keepdims:
        result = keep_axes(result, shape, axes)
    return cast(lax.sqrt(result) if is_root else result, target)


@fused(values=("a", "where", "mean"), static_argnames=(*_STATIC, "ddof", "correction"))
def var(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0,
        keepdims: bool = False, *, where: Any = None, mean: Any = None,
        correction: int | float | None = None) -> Any:
    """Variance over axes: the mean squared distance from the mean.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result; by default the real one of `a`, the default float for
        integers.
      out: not supported.
      ddof: the number subtracted from the number of elements in the divisor.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.
      mean: the mean, if it is known, with the axes kept.
      correction: another name of `ddof`.

    Returns:
      A real array without the axes; NaN if the divisor is not positive.

    Raises:
      ValueError: both `ddof` and `correction` are given.

    Source: `numpy.var`.

    Example:
      >>> jnp.var(jnp.array([1.0, 3.0]))
      Array(1., dtype=float32)
    """
    return variance_of("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@fused(values=("a", "where", "mean"), static_argnames=(*_STATIC, "ddof", "correction"))
def std(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: int = 0,
        keepdims: bool = False, *, where: Any = None, mean: Any = None,
        correction: int | float | None = None) -> Any:
    """Standard deviation over axes: the square root of the variance.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      dtype: dtype of the result; by default the real one of `a`, the default float for
        integers.
      out: not supported.
      ddof: the number subtracted from the number of elements in the divisor.
      keepdims: whether the axes stay, with size 1.
      where: mask of the elements that count.
      mean: the mean, if it is known, with the axes kept.
      correction: another name of `ddof`.

    Returns:
      A real array without the axes; NaN if the divisor is not positive.

    Raises:
      ValueError: both `ddof` and `correction` are given.

    Source: `numpy.std`.

    Example:
      >>> jnp.std(jnp.array([1.0, 3.0]))
      Array(1., dtype=float32)
    """
    return variance_of("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


# ---- average ---------------------------------------------------------------------------


@fused(values=("a", "weights"), static_argnames=("axis", "returned", "keepdims"))
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
            keepdims: bool = False) -> Any:
    """Weighted mean over axes.

    Args:
      a: array or scalar.
      axis: an axis or a sequence of them; None: all.
      weights: an array of the shape of `a`, or of one axis as long as `axis`; by default 1.
      returned: whether to return the sum of the weights too.
      keepdims: whether the axes stay, with size 1.

    Returns:
      An array without the axes, or a pair of it and the sums of weights.

    Raises:
      ValueError: the shape of the weights fits neither `a` nor the axis.

    Source: `numpy.average`.

    Example:
      >>> jnp.average(jnp.array([1.0, 2.0]), weights=jnp.array([3.0, 1.0]))
      Array(1.25, dtype=float32)
    """
    if weights is None:
        a, = promote_dtypes_inexact(a)
        result = mean(a, axis, keepdims=keepdims)
        total = _c(a, typeof(a).size / typeof(result).size if typeof(result).size else 1)
    else:
        a, weights = promote_dtypes_inexact(a, weights)
        dtype, weak = weak_type_of(a)
        a, weights = [cast(x, wide_dtype(dtype), weak) for x in (a, weights)]
        weights = _fitting_weights(weights, typeof(a).shape, axis)
        total = sum(weights, axis, keepdims=keepdims)
        result = lax.div(sum(lax.mul(a, weights), axis, keepdims=keepdims), total)
        result, total = [cast(x, dtype, weak) for x in (result, total)]
    return (result, broadcast_to(total, typeof(result).shape)) if returned else result


def _fitting_weights(weights: Any, shape: tuple[int, ...], axis: Any) -> Any:
    own = typeof(weights).shape
    if own == shape:
        return weights
    if axis is None:
        msg = f"average: weights of shape {own} for an array of shape {shape} need an axis."
        raise ValueError(msg)
    axes = canonicalize_axes(axis, len(shape))
    if own != tuple(shape[i] for i in axes):
        msg = (f"average: weights of shape {own} must have the sizes of axes {axes} of an array of "
               f"shape {shape}.")
        raise ValueError(msg)
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    weights = transpose(weights, order)
    return broadcast_in_dim_p.bind(weights, shape=shape, broadcast_dimensions=tuple(sorted(axes)))


# ---- covariance ------------------------------------------------------------------------


def _variables(name: str, m: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """Observations of all variables, one variable per row."""
    values = check_arrays(name, *([m] if y is None else [m, y]))
    values = [cast(x, dtype) for x in values] if dtype is not None else promote_dtypes_inexact(
        *values)
    rows = [_as_rows(name, x if typeof(x).shape else cast(x, typeof(x).dtype), rowvar)
            for x in values]
    if not typeof(rows[0]).shape[0]:
        return rows[0]  # NumPy and JAX also ignore further variables
    return rows[0] if len(rows) == 1 else concatenate(rows, 0)


def _observation_weights(name: str, weights: Any, count: int) -> Any:
    """The absolute values of the weights, one per observation; JAX also takes these."""
    weights = check_array("cov", weights, name)
    if typeof(weights).shape != (count,):
        msg = (f"cov: {name} of shape {typeof(weights).shape} must have the shape ({count},): one "
               "number for each observation.")
        raise RuntimeError(msg)
    if name == "fweights" and not dtypes.is_integer(typeof(weights).dtype):
        msg = f"cov: fweights must be integers, got {typeof(weights).dtype}; see aweights."
        raise TypeError(msg)
    return lax.abs(weights) if dtypes.kind(typeof(weights).dtype) in "ifc" else weights


def _as_rows(name: str, x: Any, rowvar: bool) -> Any:
    ndim = typeof(x).ndim
    if ndim > 2:
        msg = f"{name} needs arrays of at most two axes, got shape {typeof(x).shape}."
        raise ValueError(msg)
    if ndim < 2:
        return reshape(x, (1, typeof(x).size))
    return x if rowvar else transpose(x, (1, 0))


@fused(static_argnames=("rowvar", "bias", "ddof", "dtype"))
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: Any = None, aweights: Any = None, dtype: Any = None) -> Any:
    """Covariance matrix of variables.

    Args:
      m: array of observations, of shape `(variables, observations)` or `(observations,)`.
      y: observations of more variables.
      rowvar: whether variables are rows; else they are columns.
      bias: whether to divide by the number of observations instead of one less.
      ddof: the number subtracted from the number of observations, in place of `bias`.
      fweights: the count of each observation, integers; their absolute values are taken.
      aweights: relative weights of the observations; their absolute values are taken.
      dtype: dtype of the result; an inexact one.

    Returns:
      An array of shape `(variables, variables)`, or `()` for one variable.

    Raises:
      ValueError: arrays of more than two axes.
      RuntimeError: not one weight for each observation.
      TypeError: `fweights` are not integers.

    Source: `numpy.cov`.

    Example:
      >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
      Array([[ 1., -1.],
             [-1.,  1.]], dtype=float32)
    """
    x = _variables("cov", m, y, rowvar, dtype_argument(dtype, "cov"))
    if not typeof(x).shape[0]:
        return array_of(np.zeros((0, 0), dtypes.dtype_of_python(float)))
    ddof = (0 if bias else 1) if ddof is None else ddof
    fweights, aweights = [
        None if w is None else _observation_weights(name, w, typeof(x).shape[1])
        for name, w in (("fweights", fweights), ("aweights", aweights))]
    given = [w for w in (fweights, aweights) if w is not None]
    if dtype is None:
        x = cast(x, common_type(*map(weak_type_of, (x, *given)))[0])
    dtype = typeof(x).dtype
    x = cast(x, wide_dtype(dtype))
    given = [cast(w, typeof(x).dtype) for w in given]
    count = _c(x, typeof(x).shape[1])
    weights = functools.reduce(lax.mul, given) if given else None
    if weights is None:
        center = lax.div(wide_sum(x, (1,)), count)
        divisor = _c(x, max(typeof(x).shape[1] - ddof, 0))
    else:
        count = wide_sum(weights, (0,))
        center = lax.div(wide_sum(lax.mul(x, reshape(weights, (1, typeof(x).shape[1]))),
                                  (1,)), count)
        divisor = lax.sub(count, _c(x, ddof)) if aweights is None else lax.sub(
            count, lax.mul(_c(x, ddof), lax.div(wide_sum(lax.mul(
                weights, given[-1]), (0,)), count)))
        size = lax.real(divisor) if dtypes.is_complex(typeof(x).dtype) else divisor
        divisor = choose(lax.gt(size, _c(size, 0)), divisor, _c(divisor, 0))
    x = lax.sub(x, reshape(center, (typeof(x).shape[0], 1)))
    right = x if weights is None else lax.mul(x, reshape(weights, (1, typeof(x).shape[1])))
    if dtypes.is_complex(typeof(x).dtype):
        right = lax.conj(right)
    out = cast(lax.div(dot_general(x, right, (((1,), (1,)), ((), ()))), divisor), dtype)
    return reshape(out, ()) if typeof(out).shape == (1, 1) else out


@fused(static_argnames=("rowvar", "dtype"))
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """Correlation coefficients of variables.

    Args:
      x: array of observations, of shape `(variables, observations)` or `(observations,)`.
      y: observations of more variables.
      rowvar: whether variables are rows; else they are columns.
      dtype: dtype of the result; an inexact one.

    Returns:
      An array of shape `(variables, variables)`, or `()` for one variable.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.corrcoef`.

    Example:
      >>> jnp.corrcoef(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
      Array([[ 1., -1.],
             [-1.,  1.]], dtype=float32)
    """
    rows = _variables("corrcoef", x, y, rowvar, dtype_argument(dtype, "corrcoef"))
    dtype = typeof(rows).dtype
    wide = wide_dtype(dtype)
    if wide != dtype:  # variances of 16-bit floats may overflow
        return cast(corrcoef(rows, dtype=wide), dtype)
    covariance = cov(rows, dtype=dtype)
    if not typeof(covariance).shape:
        return lax.div(covariance, covariance)
    n = typeof(covariance).shape[0]
    index = np.arange(n)
    diagonal = reduce_sum(choose(index[:, None] == index, covariance, _c(covariance, 0)), (1,))
    scale = lax.sqrt(lax.real(diagonal) if dtypes.is_complex(typeof(diagonal).dtype) else diagonal)
    scale = cast(scale, typeof(covariance).dtype)
    out = lax.div(lax.div(covariance, reshape(scale, (n, 1))), reshape(scale, (1, n)))
    if dtypes.is_complex(typeof(out).dtype):
        return lax.complex(_to_unit(lax.real(out)), _to_unit(lax.imag(out)))
    return _to_unit(out)


def _to_unit(x: Any) -> Any:
    """Clips values that rounding has moved outside of [-1, 1]."""
    return array_of(clamp.clamp(_c(x, -1), x, _c(x, 1)))
