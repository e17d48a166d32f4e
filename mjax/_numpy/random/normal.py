"""The normal distribution, and distributions made of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.primitives.arithmetic import (
    add,
    complex,
    div,
    exp,
    integer_pow,
    le,
    log,
    max,
    min,
    mul,
    nextafter,
    sqrt,
    sub,
)
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import reduce_sum
from mjax._engine.primitives.special import erf, erf_inv
from mjax._engine.primitives.tangents import stop_gradient
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.random.common import (
    float_dtype,
    inexact_dtype,
    one_key,
    optional_shape,
    parameter,
    result_shape,
    safe_parameter,
    sampler,
    scalar,
    shape_argument,
    spread,
)
from mjax._numpy.random.uniform import between, signs, split_key, unit


def standard_normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Normally distributed floats or complex numbers; for samplers."""
    if dtypes.is_complex(dtype):
        real = dtypes.real_dtype(dtype)
        parts = [standard_normal(k, shape, real) for k in split_key(key)]
        return div(complex(*parts), scalar(dtype, math.sqrt(2)))
    # The open interval: the inverse error function is infinite at -1 and 1.
    low = np.nextafter(scalar(dtype, -1), scalar(dtype, 0), dtype=dtype)
    floats = between(key, shape, dtype, low, scalar(dtype, 1))
    return mul(scalar(dtype, math.sqrt(2)), erf_inv(floats))


@sampler(shape=shape_argument, dtype=inexact_dtype)
def _normal(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return standard_normal(one_key("normal", key), shape, dtype)


@lays_out
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Normally distributed numbers of mean 0 and variance 1.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float or complex dtype; by default float32, or float64 in x64 mode. Complex
        numbers have parts of variance 1/2.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key, or `shape` is not a shape.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> random.normal(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _normal(key, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _truncated_normal(key: Any, lower: Any, upper: Any, *, shape: tuple[int, ...] | None,
                      dtype: Any) -> Any:
    key = one_key("truncated_normal", key)
    shape = result_shape("truncated_normal", shape, lower, upper)
    low, high = [parameter(bound, dtype, shape) for bound in (lower, upper)]
    root = scalar(dtype, math.sqrt(2))
    floats = between(key, shape, dtype, erf(div(low, root)), erf(div(high, root)))
    out = mul(root, erf_inv(floats))
    # Rounding must not move a value to the bounds or beyond.
    infinity, low, high = scalar(dtype, np.inf), stop_gradient(low), stop_gradient(high)
    return min(max(out, nextafter(low, infinity)), nextafter(high, scalar(dtype, -np.inf)))


@lays_out
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None
                     ) -> Any:
    """Normally distributed numbers of mean 0 and variance 1, given that they lie in an interval.

    Args:
      key: a key.
      lower: lower bound, excluded.
      upper: upper bound, excluded; bounds broadcast to `shape`.
      shape: shape of the result; by default that of the bounds together.
      dtype: a float dtype; by default float32, or float64 in x64 mode.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, bounds that do not fit the shape, or several keys.

    Example:
      >>> x = random.truncated_normal(random.key(0), -1.0, 2.0, (1000,))
      >>> bool((x > -1).all() and (x < 2).all())
      True
    """
    return _truncated_normal(key, lower, upper, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=inexact_dtype)
def _lognormal(key: Any, sigma: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("lognormal", shape, sigma)
    numbers = standard_normal(one_key("lognormal", key), shape, dtype)
    return exp(mul(numbers, safe_parameter("lognormal", sigma, dtype, shape)))


@lays_out
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers whose logarithm is normally distributed with mean 0.

    Args:
      key: a key.
      sigma: standard deviation of the logarithm, broadcast to `shape`.
      shape: shape of the result; by default that of `sigma`.
      dtype: a float or complex dtype.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, a `sigma` that does not fit the shape, or several keys.

    Example:
      >>> bool((random.lognormal(random.key(0), 0.5, (1000,)) > 0).all())
      True
    """
    return _lognormal(key, sigma, shape=shape, dtype=dtype)


def _speeds(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Lengths of normally distributed vectors in three dimensions."""
    vectors = standard_normal(key, (*shape, 3), dtype)
    return sqrt(reduce_sum(mul(vectors, vectors), (len(shape),)))


@sampler(shape=shape_argument, dtype=float_dtype)
def _maxwell(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return _speeds(one_key("maxwell", key), shape, dtype)


@lays_out
def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of the Maxwell-Boltzmann distribution: lengths of normal vectors in 3 dimensions.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float dtype.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> random.maxwell(random.key(0), (3,)).shape
      (3,)
    """
    return _maxwell(key, shape=shape, dtype=dtype)


@sampler(shape=shape_argument, dtype=float_dtype)
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, *, shape: tuple[int, ...], dtype: Any
                          ) -> Any:
    together = result_shape("double_sided_maxwell", None, loc, scale)
    shape = (*(shape or together), *together)
    speed_key, sign_key = split_key(one_key("double_sided_maxwell", key))
    speeds = mul(signs(sign_key, shape, dtype), _speeds(speed_key, shape, dtype))
    return add(mul(speeds, parameter(scale, dtype, shape)), parameter(loc, dtype, shape))


@boundary
def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
                         ) -> Any:
    """Numbers of the Maxwell-Boltzmann distribution with random signs, scaled and shifted.

    Args:
      key: a key.
      loc: center.
      scale: scale; broadcasts with `loc`.
      shape: shape of the batch; the result has this shape followed by that of the parameters.
      dtype: a float dtype.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, parameters that do not broadcast, or several keys.

    Example:
      >>> random.double_sided_maxwell(random.key(0), 5.0, 1.0, (1000,)).mean().round()
      Array(5., dtype=float32)
    """
    return _double_sided_maxwell(key, loc, scale, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _rayleigh(key: Any, scale: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("rayleigh", shape, scale)
    floats = unit(one_key("rayleigh", key), shape, dtype)
    numbers = sqrt(mul(log(floats), scalar(dtype, -2)))
    return mul(safe_parameter("rayleigh", scale, dtype, shape), numbers)


@lays_out
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the Rayleigh distribution: lengths of normal vectors in the plane.

    Args:
      key: a key.
      scale: standard deviation of the vectors' components, broadcast to `shape`.
      shape: shape of the result; by default that of `scale`.
      dtype: a float dtype.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, a `scale` that does not fit the shape, or several keys.

    Example:
      >>> random.rayleigh(random.key(0), jnp.array([1.0, 2.0])).shape
      (2,)
    """
    return _rayleigh(key, scale, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _wald(key: Any, mean: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("wald", shape, mean)
    normal_key, choice_key = split_key(one_key("wald", key))
    mean = spread(safe_parameter("wald", mean, dtype, shape), shape)
    squares = integer_pow(standard_normal(normal_key, shape, dtype), 2)
    choices = unit(choice_key, shape, dtype)
    # One of the two roots of the quadratic equation for a chi-square variable, at random.
    two = scalar(dtype, 2)
    mean_squared = integer_pow(mean, 2)
    root = sqrt(add(mul(mul(scalar(dtype, 4), mean), squares),
                    mul(mean_squared, integer_pow(squares, 2))))
    lower = sub(add(mean, div(mul(mean_squared, squares), two)), mul(div(mean, two), root))
    return select_n(le(choices, div(mean, add(mean, lower))), div(mean_squared, lower), lower)


@lays_out
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the Wald (inverse Gaussian) distribution of scale 1.

    Args:
      key: a key.
      mean: mean, broadcast to `shape`.
      shape: shape of the result; by default that of `mean`.
      dtype: a float dtype.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, a `mean` that does not fit the shape, or several keys.

    Example:
      >>> random.wald(random.key(0), 2.0, (3,)).shape
      (3,)

    Source: Michael, Schucany and Haas 1976.
    """
    return _wald(key, mean, shape=shape, dtype=dtype)


__all__ = ["double_sided_maxwell", "lognormal", "maxwell", "normal", "rayleigh",
           "standard_normal", "truncated_normal", "wald"]
