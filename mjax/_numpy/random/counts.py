"""Distributions of counts: Poisson, binomial, multinomial."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import scan, while_loop
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.cumulative import cumsum
from mjax._engine.primitives.gather import take_on_axis
from mjax._engine.primitives.keys import random_split_p
from mjax._engine.primitives.reductions import reduce_or
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import full, moveaxis
from mjax._engine.primitives.special import lgamma
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.core import broadcast_to, check_array, choose, promote_dtypes_inexact
from mjax._numpy.random.common import (
    as_given,
    documents,
    fitting_shape,
    float_dtype,
    int_dtype,
    one_key,
    optional_shape,
    parameter,
    result_shape,
    sampler,
    scalar,
    spread,
)
from mjax._numpy.random.uniform import split_key, unit
from mjax._numpy.selecting import clip

_F32 = np.dtype(np.float32)


def _any(x: Any) -> Any:
    return reduce_or(x, tuple(range(typeof(x).ndim)))


def _is_nan(x: Any) -> Any:
    return lax.ne(x, x)


def _like(x: Any, value: Any) -> Any:
    """An array of one value, of the shape and dtype of another."""
    return full(typeof(x).shape, scalar(typeof(x).dtype, value))


def _drawn_ahead(key: Any, shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any, Any]:
    """A key and the two uniform numbers of the next round of a loop, which starts with zeros.

    Zeros are rejected. They are loop state since XLA would recompute them for each use.
    """
    key, *draws = split_key(key, 3)
    u, v = [unit(k, shape, dtype) for k in draws]
    return key, u, v


def _without_zeros(x: Any) -> tuple[Any, Any]:
    """A mask of zeros, which are rejected, and the numbers with ones in their place."""
    none = lax.eq(x, _like(x, 0))
    return none, select_n(none, x, _like(x, 1))


# ---- Poisson ---------------------------------------------------------------------------


def _by_products(key: Any, rate: Any, dtype: Any) -> Any:
    """Counts of small rates: the number of uniform factors with a product above `exp(-rate)`.

    Source: Knuth 1969, "Seminumerical algorithms", section 3.4.1.
    """
    shape, limit = typeof(rate).shape, lax.neg(rate)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, key, product = state
        key, draw = split_key(key)
        count = select_n(lax.gt(product, limit), count, lax.add(count, scalar(dtype, 1)))
        return count, key, lax.add(product, lax.log(unit(draw, shape, _F32)))

    start = (full(shape, scalar(dtype, 0)), key, _like(rate, 0))
    count = while_loop(lambda state: _any(lax.gt(state[2], limit)), step, start)[0]
    return lax.sub(count, scalar(dtype, 1))


def _by_rejection(key: Any, rate: Any, dtype: Any) -> Any:
    """Counts of large rates.

    Source: Hörmann 1993, "The transformed rejection method for generating Poisson random
    variables", algorithm PTRS.
    """
    shape = typeof(rate).shape
    log_rate = lax.log(rate)
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    bound = 0.9277 - 3.6224 / (b - 2.0)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        out, accepted, key, u, v = state
        u = u - 0.5
        inner = 0.5 - lax.abs(u)
        none, divisor = _without_zeros(inner)
        count = lax.floor((2.0 * a / divisor + b) * u + rate + 0.43)
        s = lax.log(v * inverse_alpha / (a / (divisor * divisor) + b))
        t = lax.neg(rate) + count * log_rate - lgamma(count + 1.0)
        quick = (inner >= 0.07) & (v <= bound)
        refused = none | (count < 0.0) | ((inner < 0.013) & (v > inner))
        accept = quick | (~refused & (s <= t))
        return (select_n(accept, out, count), accepted | accept, *_drawn_ahead(key, shape, _F32))

    start = (_like(rate, -1), full(shape, np.bool_(False)), key, _like(rate, 0), _like(rate, 0))
    return convert(while_loop(lambda state: _any(~state[1]), step, start)[0], dtype)


@sampler(shape=optional_shape, dtype=int_dtype)
def _poisson(key: Any, lam: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    key = one_key("poisson", key)
    shape = result_shape("poisson", shape, lam)
    rate = spread(parameter(lam, _F32, shape), shape)
    small = _is_nan(rate) | lax.lt(rate, scalar(_F32, 10))
    out = select_n(small, _by_rejection(key, select_n(small, rate, _like(rate, 1e5)), dtype),
                   _by_products(key, select_n(small, _like(rate, 0), rate), dtype))
    return select_n(lax.eq(rate, scalar(_F32, 0)), out, _like(out, 0))


@lays_out
@documents
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the Poisson distribution: counts of independent events.

    Args:
      [key]
      lam: the mean, not negative, broadcast to `shape`. The result is -1 if it is
        negative or NaN.
      shape: shape of the result; by default that of `lam`.
      dtype: an integer dtype; by default int32, or int64 in x64 mode.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      [raises]

    Source: Knuth 1969 below 10, Hörmann 1993 above.

    Example:
      >>> random.poisson(random.key(0), 3.0, (3,)).dtype
      dtype('int32')
    """
    return _poisson(key, lam, shape=shape, dtype=dtype)


# ---- binomial --------------------------------------------------------------------------


def _by_waiting(key: Any, trials: Any, p: Any, dtype: Any) -> Any:
    """Counts of few successes: the number of waiting times between them within the trials.

    Source: Devroye 1986, "Non-uniform random variate generation", section X.4.3.
    """
    shape, kind = typeof(p).shape, typeof(p).dtype
    log_q = lax.log1p(lax.neg(p))

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, passed, key = state
        draw, key = split_key(key)
        count = select_n(lax.le(passed, trials), count, lax.add(count, scalar(kind, 1)))
        wait = lax.ceil(lax.div(lax.log(unit(draw, shape, kind)), log_q))
        return count, lax.add(passed, wait), key

    start = (_like(p, 0), _like(p, 0), key)
    count = while_loop(lambda state: _any(lax.le(state[1], trials)), step, start)[0]
    return convert(lax.sub(count, scalar(kind, 1)), dtype)


#: The error of Stirling's approximation of log(k!), for k from 0 to 9.
_STIRLING = (0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
             0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
             0.00925546218271273, 0.00833056343336287)


def _stirling_rest(k: Any) -> Any:
    """The error of Stirling's approximation of `log(k!)`."""
    dtype = typeof(k).dtype
    few = lax.le(k, scalar(dtype, 9))
    k = lax.min(lax.max(k, scalar(dtype, 0)), scalar(dtype, 9))
    square = (k + 1.0) * (k + 1.0)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1.0)
    known = take_on_axis(np.asarray(_STIRLING, dtype), convert(lax.floor(k), np.dtype(np.int32)), 0)
    return select_n(few, series, known)


def _by_btrs(key: Any, n: Any, p: Any, dtype: Any) -> Any:
    """Counts of many successes.

    Source: Hörmann 1993, "The generation of binomial random variates", algorithm BTRS.
    """
    shape, kind = typeof(p).shape, typeof(p).dtype
    deviation = lax.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = n * p + 0.5
    bound = 0.92 - 4.2 / b
    odds = p / (1.0 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = lax.floor((n + 1.0) * p)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        out, accepted, key, u, v = state
        u = u - 0.5
        inner = 0.5 - lax.abs(u)
        none, divisor = _without_zeros(inner)
        quick = (inner >= 0.07) & (v <= bound)
        k = lax.floor((2.0 * a / divisor + b) * u + center)
        refused = none | (k < 0.0) | (k > n)
        v = lax.log(v * alpha / (a / (divisor * divisor) + b))
        upper = (
            (mode + 0.5) * lax.log((mode + 1.0) / (odds * (n - mode + 1.0)))
            + (n + 1.0) * lax.log((n - mode + 1.0) / (n - k + 1.0))
            + (k + 0.5) * lax.log(odds * (n - k + 1.0) / (k + 1.0))
            + _stirling_rest(mode) + _stirling_rest(n - mode)
            - _stirling_rest(k) - _stirling_rest(n - k))
        accept = quick | (~refused & (v <= upper))
        return (select_n(accept, out, k), accepted | accept, *_drawn_ahead(key, shape, kind))

    start = (_like(p, -1), full(shape, np.bool_(False)), key, _like(p, 0), _like(p, 0))
    return convert(while_loop(lambda state: _any(~state[1]), step, start)[0], dtype)


def _binomials(key: Any, n: Any, p: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Binomially distributed counts; for samplers."""
    p, = promote_dtypes_inexact(p)
    kind = typeof(p).dtype
    zero, one = scalar(kind, 0), scalar(kind, 1)
    n, p = [spread(parameter(x, kind, shape), shape) for x in (n, p)]
    # The rarer outcome is drawn; its count is subtracted from `n` if that is failure.
    rare = lax.lt(p, scalar(kind, 0.5))
    q = select_n(rare, lax.sub(one, p), p)
    q_nan, q_negative = _is_nan(q), lax.lt(q, zero)
    q = select_n(q_nan | q_negative, q, _like(q, 0.01))
    no_number = _is_nan(n) | lax.lt(n, zero)
    infinite = lax.eq(lax.abs(n), scalar(kind, np.inf))
    few = no_number | lax.le(lax.mul(n, q), scalar(kind, 10))
    n = lax.floor(n)
    out = select_n(
        few, _by_btrs(key, select_n(few, n, _like(n, 1e4)), select_n(few, q, _like(q, 0.5)), dtype),
        _by_waiting(key, select_n(few, _like(n, 0), n), q, dtype))
    bad = q_negative | q_nan | no_number
    out = select_n(bad, out, _like(out, np.nan))
    out = select_n(infinite & ~bad, out, _like(out, np.inf))
    return select_n(rare | no_number | q_nan | infinite, lax.sub(convert(n, dtype), out), out)


@sampler(shape=optional_shape, dtype=float_dtype)
def _binomial(key: Any, n: Any, p: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("binomial", shape, n, p)
    return _binomials(one_key("binomial", key), n, p, shape, dtype)


@boundary
@documents
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the binomial distribution: counts of successes.

    Args:
      [key]
      n: the number of trials; fractions are dropped.
      p: the probability of success of each; both broadcast to `shape`.
      [shape]
      [dtype]

    Returns:
      An array of floats: inf where `n` is infinite, NaN where a parameter is out of its range.

    Raises:
      [raises]

    Source: Devroye 1986, section X.4.3, where few successes are expected; else Hörmann 1993.

    Example:
      >>> random.binomial(random.key(0), 10, 0.5, (3,)).dtype
      dtype('float32')
    """
    return _binomial(key, check_array("binomial", n, 1), check_array("binomial", p, 2), shape=shape,
                     dtype=dtype)


# ---- multinomial -----------------------------------------------------------------------


@sampler(shape=optional_shape, dtype=float_dtype, unroll=as_given)
def _multinomial(key: Any, n: Any, p: Any, *, shape: tuple[int, ...] | None, dtype: Any, unroll: Any
                 ) -> Any:
    key = one_key("multinomial", key)
    n, p = promote_dtypes_inexact(n, p)
    shape = fitting_shape("multinomial", shape, [typeof(p).shape])
    fitting_shape("multinomial", shape[:-1], [typeof(n).shape])
    n = broadcast_to(n, shape[:-1])
    p = moveaxis(broadcast_to(p, shape), -1, 0)
    kind = typeof(p).dtype
    rest = cumsum(p, 0, reverse=True)
    none = lax.eq(rest, scalar(kind, 0))
    # The probability of each outcome, given that no earlier one occurs.
    ratios = lax.div(p, choose(none, scalar(kind, 1), rest))

    def step(left: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
        ratio, key = given
        count = _binomials(key, left, clip(ratio, 0, 1), typeof(left).shape, kind)
        return lax.sub(left, count), count

    keys = random_split_p.bind(key, shape=(typeof(ratios).shape[0],))
    counts = scan(step, n, (ratios, keys), unroll=unroll)[1]
    return convert(moveaxis(counts, 0, -1), dtype)


@boundary
@documents
def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None,
                unroll: int | bool = 1) -> Any:
    """Numbers of the multinomial distribution: the counts of several outcomes.

    Args:
      [key]
      n: the number of trials, broadcast to the shape of the batch.
      p: probabilities of the outcomes, along the last axis.
      shape: shape of the result, the axis of the outcomes included, to which `p` is broadcast; by
        default that of `p`.
      [dtype]
      unroll: `unroll` of the `lax.scan` over the outcomes.

    Returns:
      An array of counts, whose sums along the last axis are `n`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, parameters that do not fit the shape, or several keys.

    Source: Davis 1993, "The computer generation of multinomial random variates".

    Example:
      >>> random.multinomial(random.key(0), 10, jnp.array([0.2, 0.3, 0.5])).sum()
      Array(10., dtype=float32)
    """
    return _multinomial(key, check_array("multinomial", n, 1), check_array("multinomial", p, 2),
                        shape=shape, dtype=dtype, unroll=unroll)


__all__ = ["binomial", "multinomial", "poisson"]
