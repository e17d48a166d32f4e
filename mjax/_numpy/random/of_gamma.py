"""Distributions made of gamma-distributed numbers: beta, chi-square, Dirichlet, F, Student's t."""

from __future__ import annotations

from typing import Any

from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.reductions import reduce_max
from mjax._engine.primitives.shapes import expand_dims
from mjax._engine.primitives.tangents import stop_gradient
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.arithmetic import add, divide, multiply, power
from mjax._numpy.random.common import (
    documents,
    float_dtype,
    one_key,
    optional_shape,
    parameter,
    result_shape,
    safe_parameter,
    sampler,
    scalar,
    shape_argument,
    size_argument,
    spread,
)
from mjax._numpy.random.continuous import standard_exponential
from mjax._numpy.random.gamma import standard_gamma
from mjax._numpy.random.normal import standard_normal
from mjax._numpy.random.uniform import signs, split_key
from mjax._numpy.reductions import sum

# ---- beta, Dirichlet -------------------------------------------------------------------


@sampler(shape=optional_shape, dtype=float_dtype)
def _beta(key: Any, a: Any, b: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("beta", shape, a, b)
    keys = split_key(one_key("beta", key))
    logs = [standard_gamma(k, spread(safe_parameter("beta", p, dtype, shape), shape), True)
            for k, p in zip(keys, (a, b), strict=True)]
    # Both are scaled by the greater one, so that they are not both rounded to 0.
    greater = lax.max(*logs)
    first, second = [lax.exp(lax.sub(x, greater)) for x in logs]
    return lax.div(first, lax.add(first, second))


@lays_out
@documents
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the beta distribution: in [0, 1], with density ~ `x**(a - 1) (1 - x)**(b - 1)`.

    Args:
      [key]
      a: shape parameter, positive.
      b: shape parameter, positive; both broadcast to `shape`.
      [shape]
      [dtype]

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      [raises_safe]

    Source: Devroye 1986, "Non-uniform random variate generation", section IX.3.

    Example:
      >>> random.beta(random.key(0), 2.0, 2.0, (3,)).shape
      (3,)
    """
    return _beta(key, a, b, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _dirichlet(key: Any, alpha: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    own = typeof(alpha).shape
    if not own:
        msg = ("dirichlet takes parameters along the last axis of alpha, got a scalar; give an "
               "array.")
        raise ValueError(msg)
    batch = own[:-1] if shape is None else shape
    shape = result_shape("dirichlet", (*batch, own[-1]), alpha)
    last = len(batch)
    logs = standard_gamma(one_key("dirichlet", key),
                          spread(parameter(alpha, dtype, shape), shape), True)
    greatest = stop_gradient(expand_dims(reduce_max(logs, (last,)), (last,)))
    scaled = lax.exp(lax.sub(logs, spread(greatest, shape)))
    return lax.div(scaled, spread(sum(scaled, last, keepdims=True), shape))


@lays_out
@documents
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Vectors of the Dirichlet distribution: positive numbers whose sum is 1.

    Args:
      [key]
      alpha: positive parameters, along the last axis.
      shape: shape of the batch, to which the leading axes of `alpha` broadcast, and by default
        theirs.
      [dtype]

    Returns:
      An array of shape `(*shape, n)`, for n parameters.

    Raises:
      [raises]

    Source: Devroye 1986, "Non-uniform random variate generation", section XI.4.

    Example:
      >>> random.dirichlet(random.key(0), jnp.ones(3), (2,)).shape
      (2, 3)
    """
    return _dirichlet(key, alpha, shape=shape, dtype=dtype)


# ---- chi-square, F, t ------------------------------------------------------------------


def _chisquares(key: Any, df: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Sums of squares of normal numbers; for samplers."""
    two = scalar(dtype, 2)
    return lax.mul(lax.exp(standard_gamma(key, spread(lax.div(df, two), shape), True)), two)


@sampler(shape=optional_shape, dtype=float_dtype)
def _chisquare(key: Any, df: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("chisquare", shape, df)
    return _chisquares(one_key("chisquare", key), safe_parameter("chisquare", df, dtype, shape),
                       shape, dtype)


@lays_out
@documents
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the chi-square distribution: sums of squares of `df` normal ones.

    Args:
      [key]
      df: degrees of freedom, positive, broadcast to `shape`.
      [shape]
      [dtype]

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      [raises_safe]

    Example:
      >>> random.chisquare(random.key(0), 3.0, (1000,)).mean().round()
      Array(3., dtype=float32)
    """
    return _chisquare(key, df, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _f(key: Any, dfnum: Any, dfden: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("f", shape, dfnum, dfden)
    below, above = split_key(one_key("f", key))
    top, bottom = [
        lax.div(_chisquares(k, df, shape, dtype), spread(df, shape))
        for k, df in ((above, safe_parameter("f", dfnum, dtype, shape)),
                      (below, safe_parameter("f", dfden, dtype, shape)))]
    return lax.div(top, bottom)


@lays_out
@documents
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the F distribution: ratios of means of squares of normal ones.

    Args:
      [key]
      dfnum: degrees of freedom of the numerator, positive.
      dfden: degrees of freedom of the denominator, positive; both broadcast to `shape`.
      [shape]
      [dtype]

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      [raises_safe]

    Example:
      >>> random.f(random.key(0), 3.0, 5.0, (3,)).shape
      (3,)
    """
    return _f(key, dfnum, dfden, shape=shape, dtype=dtype)


@sampler(shape=optional_shape, dtype=float_dtype)
def _t(key: Any, df: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("t", shape, df)
    normal_key, gamma_key = split_key(one_key("t", key))
    numbers = standard_normal(normal_key, shape, dtype)
    half = spread(lax.div(safe_parameter("t", df, dtype, shape), scalar(dtype, 2)), shape)
    return lax.mul(numbers, lax.sqrt(lax.div(half, standard_gamma(gamma_key, half, False))))


@lays_out
@documents
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of Student's t distribution.

    Args:
      [key]
      df: degrees of freedom, positive, broadcast to `shape`.
      [shape]
      [dtype]

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      [raises_safe]

    Example:
      >>> random.t(random.key(0), 3.0, (3,)).shape
      (3,)
    """
    return _t(key, df, shape=shape, dtype=dtype)


# ---- generalized normal, points of a ball ----------------------------------------------


def _generalized_normals(key: Any, p: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers of density ~ `exp(-abs(x)**p)`; for samplers."""
    gamma_key, sign_key = split_key(key)
    power_of = divide(1, p)
    result_shape("generalized_normal", shape, p)
    numbers = standard_gamma(gamma_key, spread(parameter(power_of, dtype, shape), shape), False)
    return multiply(signs(sign_key, shape, dtype), power(numbers, power_of))


@sampler(shape=shape_argument, dtype=float_dtype)
def _generalized_normal(key: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return _generalized_normals(one_key("generalized_normal", key), p, shape, dtype)


@lays_out
@documents
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of the generalized normal distribution, of density ~ `exp(-abs(x)**p)`.

    Args:
      [key]
      p: shape parameter, positive: 1 gives the Laplace distribution, 2 a normal one of variance
        1/2.
      shape: shape of the result.
      [dtype]

    Returns:
      An array of shape `shape` and dtype `dtype`.

    Raises:
      [raises]

    Example:
      >>> random.generalized_normal(random.key(0), 4.0, (3,)).shape
      (3,)
    """
    return _generalized_normal(key, p, shape=shape, dtype=dtype)


@sampler(shape=shape_argument, dtype=float_dtype, d=size_argument)
def _ball(key: Any, p: Any, *, shape: tuple[int, ...], dtype: Any, d: int) -> Any:
    direction_key, length_key = split_key(one_key("ball", key))
    numbers = _generalized_normals(direction_key, p, (*shape, d), dtype)
    extra = standard_exponential(length_key, shape, dtype)
    total = add(sum(power(lax.abs(numbers), p), -1), extra)
    return divide(numbers, expand_dims(power(total, divide(1, p)), (len(shape),)))


@lays_out
@documents
def ball(key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None) -> Any:
    """Points that are uniformly distributed in the unit ball of the p-norm.

    Args:
      [key]
      d: number of dimensions; static under jit.
      p: the order of the norm, positive.
      shape: shape of the batch.
      [dtype]

    Returns:
      An array of shape `(*shape, d)`.

    Raises:
      TypeError: `key` is not a key, or `d` is not an integer.
      ValueError: another kind of dtype, or several keys.

    Source: Barthe, Guédon, Mendelson, Naor 2005, "A probabilistic approach to the geometry of the
    l_p^n-ball".

    Example:
      >>> bool(jnp.linalg.norm(random.ball(random.key(0), 3)) < 1)
      True
    """
    return _ball(key, p, shape=shape, dtype=dtype, d=d)


__all__ = ["ball", "beta", "chisquare", "dirichlet", "f", "generalized_normal", "t"]
