"""Distributions sampled by inversion: uniform floats through the inverse distribution function."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from mjax._engine.base.folding import boundary
from mjax._engine.primitives.arithmetic import (
    abs,
    add,
    div,
    exp,
    ge,
    log,
    log1p,
    lt,
    mul,
    neg,
    pow,
    sign,
    sqrt,
    sub,
)
from mjax._engine.primitives.joining import unstack
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.trigonometric import tan
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.random.common import (
    float_dtype,
    one_key,
    one_of,
    optional_shape,
    parameter,
    result_shape,
    safe_parameter,
    sampler,
    scalar,
    shape_argument,
    spread,
    tiny,
    to_rank,
)
from mjax._numpy.random.uniform import between, unit

gumbel_mode = one_of("mode", None, "low", "high")


@sampler(shape=shape_argument, dtype=float_dtype, mode=gumbel_mode)
def _gumbel(key: Any, *, shape: tuple[int, ...], dtype: Any, mode: str | None) -> Any:
    return standard_gumbel(one_key("gumbel", key), shape, dtype, mode)


def standard_gumbel(key: Any, shape: tuple[int, ...], dtype: Any, mode: str | None = None) -> Any:
    """Gumbel-distributed floats; for samplers."""
    if mode != "high":
        floats = between(key, shape, dtype, scalar(dtype, tiny(dtype)), scalar(dtype, 1))
        return neg(log(neg(log(floats))))
    # Small floats get more bits, so that large results are as finely spaced as others.
    coarse, fine = unstack(unit(key, (2, *shape), dtype))
    finer = add(add(coarse, mul(scalar(dtype, ml_dtypes.finfo(dtype).eps), fine)),
                scalar(dtype, tiny(dtype)))
    floats = select_n(ge(coarse, scalar(dtype, 0.5)), finer, coarse)
    return neg(log(neg(log1p(neg(floats)))))


@lays_out
def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Numbers of the standard Gumbel distribution, `exp(-exp(-x))`.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float dtype; by default float32, or float64 in x64 mode.
      mode: `"high"` draws twice the bits, for the distribution's upper tail; None is `"low"`.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, an unknown mode, or several keys.

    Example:
      >>> random.gumbel(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _gumbel(key, shape=shape, dtype=dtype, mode=mode)


def standard_exponential(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Exponentially distributed floats; for samplers."""
    return neg(log1p(neg(unit(key, shape, dtype))))


@sampler(shape=shape_argument, dtype=float_dtype)
def _exponential(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return standard_exponential(one_key("exponential", key), shape, dtype)


@lays_out
def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of the exponential distribution of rate 1.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float dtype; by default float32, or float64 in x64 mode.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> random.exponential(random.key(0), (1000,)).mean().round()
      Array(1., dtype=float32)
    """
    return _exponential(key, shape=shape, dtype=dtype)


@sampler(shape=shape_argument, dtype=float_dtype)
def _laplace(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    low = scalar(dtype, -1 + float(ml_dtypes.finfo(dtype).epsneg))
    floats = between(one_key("laplace", key), shape, dtype, low, scalar(dtype, 1))
    return mul(sign(floats), log1p(neg(abs(floats))))


@lays_out
def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of the Laplace distribution of scale 1.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float dtype; by default float32, or float64 in x64 mode.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> random.laplace(random.key(0), (3,), "float16").dtype
      dtype('float16')
    """
    return _laplace(key, shape=shape, dtype=dtype)


@sampler(shape=shape_argument, dtype=float_dtype)
def _logistic(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    floats = between(one_key("logistic", key), shape, dtype, scalar(dtype, tiny(dtype)),
                     scalar(dtype, 1))
    return sub(log(floats), log1p(neg(floats)))


@lays_out
def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of the logistic distribution of scale 1.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float dtype; by default float32, or float64 in x64 mode.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> random.logistic(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _logistic(key, shape=shape, dtype=dtype)


@sampler(shape=shape_argument, dtype=float_dtype)
def _cauchy(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    low = scalar(dtype, ml_dtypes.finfo(dtype).eps)
    floats = between(one_key("cauchy", key), shape, dtype, low, scalar(dtype, 1))
    return tan(mul(scalar(dtype, math.pi), sub(floats, scalar(dtype, 0.5))))


@lays_out
def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of the Cauchy distribution of scale 1.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: a float dtype; by default float32, or float64 in x64 mode.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, or `key` is an array of several keys.

    Example:
      >>> random.cauchy(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _cauchy(key, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _pareto(key: Any, b: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("pareto", shape, b)
    numbers = standard_exponential(one_key("pareto", key), shape, dtype)
    return exp(div(numbers, safe_parameter("pareto", b, dtype, shape)))


@lays_out
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the Pareto distribution: at least 1, with density `b / x**(b + 1)`.

    Args:
      key: a key.
      b: shape parameter, broadcast to `shape`.
      shape: shape of the result; by default that of `b`.
      dtype: a float dtype.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, a `b` that does not fit the shape, or several keys.

    Example:
      >>> bool((random.pareto(random.key(0), 2.0, (1000,)) >= 1).all())
      True
    """
    return _pareto(key, b, shape=shape, dtype=dtype)


@sampler(shape=shape_argument, dtype=float_dtype)
def _weibull_min(key: Any, scale: Any, concentration: Any, *, shape: tuple[int, ...], dtype: Any
                 ) -> Any:
    numbers = standard_exponential(one_key("weibull_min", key), shape, dtype)
    # As in JAX, `shape` is that of the numbers drawn, which broadcast with the parameters.
    out = result_shape("weibull_min", None, numbers, scale, concentration)
    numbers = to_rank(numbers, len(out))
    exponent = div(scalar(dtype, 1), parameter(concentration, dtype, out))
    return mul(pow(numbers, exponent), parameter(scale, dtype, out))


@boundary
def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
                ) -> Any:
    """Numbers of the Weibull distribution.

    Args:
      key: a key.
      scale: scale.
      concentration: exponent.
      shape: shape of the numbers drawn, which broadcast with the parameters. Pass the shape of the
        result to draw an independent number for each element.
      dtype: a float dtype.

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, parameters that do not broadcast, or several keys.

    Example:
      >>> random.weibull_min(random.key(0), 1.0, 2.0, (3,)).shape
      (3,)
    """
    return _weibull_min(key, scale, concentration, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _triangular(key: Any, left: Any, mode: Any, right: Any, *, shape: tuple[int, ...] | None,
                dtype: Any) -> Any:
    shape = result_shape("triangular", shape, left, mode, right)
    floats = unit(one_key("triangular", key), shape, dtype)
    left, mode, right = [spread(safe_parameter("triangular", p, dtype, shape), shape)
                         for p in (left, mode, right)]
    width = sub(right, left)
    rising, falling = sub(mode, left), sub(right, mode)
    below = add(left, sqrt(mul(mul(floats, width), rising)))
    above = sub(right, sqrt(mul(mul(sub(scalar(dtype, 1), floats), width), falling)))
    return select_n(lt(floats, div(rising, width)), above, below)


@lays_out
def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None
               ) -> Any:
    """Numbers of the triangular distribution.

    Args:
      key: a key.
      left: least value.
      mode: most probable value.
      right: greatest value; parameters broadcast to `shape`.
      shape: shape of the result; by default that of the parameters together.
      dtype: a float dtype.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, parameters that do not fit the shape, or several keys.

    Example:
      >>> random.triangular(random.key(0), 0.0, 5.0, 7.0, (1000,)).mean().round()
      Array(4., dtype=float32)
    """
    return _triangular(key, left, mode, right, shape=shape, dtype=dtype)


__all__ = ["cauchy", "exponential", "gumbel", "gumbel_mode", "laplace", "logistic", "pareto",
           "standard_exponential", "standard_gumbel", "triangular", "weibull_min"]
