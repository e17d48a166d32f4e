"""The gamma distribution: the primitive `random_gamma`, with its implicit derivative."""

from __future__ import annotations

import functools
import math
from typing import Any

from mjax._engine.control.loops.looping import map, while_loop
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import (
    add,
    bitwise_and,
    bitwise_or,
    div,
    eq,
    exp,
    ge,
    le,
    log,
    mul,
    neg,
    pow,
    sqrt,
    sub,
)
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.keys import random_split_p
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import batch_size, batch_to_front, reshape
from mjax._engine.primitives.special import random_gamma_grad
from mjax._engine.primitives.tangents import ZERO, define_jvp_from_result
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.transforms.vmap import vmap
from mjax._numpy.random.common import (
    documents,
    flag,
    float_dtype,
    one_key,
    optional_shape,
    parameter,
    result_shape,
    sampler,
    scalar,
    spread,
    tiny,
)
from mjax._numpy.random.continuous import standard_exponential
from mjax._numpy.random.normal import standard_normal
from mjax._numpy.random.uniform import split_key, unit

# ---- one sample ------------------------------------------------------------------------


def _positive_cube_root(key: Any, c: Any) -> tuple[Any, Any]:
    """A normal number x with positive `1 + c x`, and that value."""
    dtype = typeof(c).dtype
    zero, one = scalar(dtype, 0), scalar(dtype, 1)

    def propose(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        key, draw = split_key(state[0])
        x = standard_normal(draw, (), dtype)
        return key, x, add(one, mul(x, c))

    # The initial state is one that is rejected.
    start = (key, zero, scalar(dtype, -1))
    _, x, root = while_loop(lambda state: le(state[2], zero), propose, start)
    return x, root


def _one(key: Any, a: Any, log_space: bool) -> Any:
    """A sample for a key and a parameter.

    Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
    """
    dtype = typeof(a).dtype
    one, half, third = [scalar(dtype, v) for v in (1, 0.5, 1 / 3)]
    # Their method needs parameters of at least 1: below, a sample for a + 1 is scaled.
    direct = ge(a, one)
    d = sub(select_n(direct, add(a, one), a), third)
    c = div(third, sqrt(d))

    def refused(state: tuple[Any, ...]) -> Any:
        _, square, cube, u = state
        quick = sub(one, mul(scalar(dtype, 0.0331), mul(square, square)))
        exact = add(mul(square, half), mul(d, add(sub(one, cube), log(cube))))
        return bitwise_and(ge(u, quick), ge(log(u), exact))

    def propose(state: tuple[Any, ...]) -> tuple[Any, ...]:
        key, normal_key, uniform_key = split_key(state[0], 3)
        x, root = _positive_cube_root(normal_key, c)
        return key, mul(x, x), mul(mul(root, root), root), unit(uniform_key, (), dtype)

    key, last = split_key(key)
    start = (key, scalar(dtype, 0), one, scalar(dtype, 2))
    cube = while_loop(refused, propose, start)[2]
    if not log_space:
        scale = pow(sub(one, unit(last, (), dtype)), div(one, a))
        return mul(mul(d, cube), select_n(direct, scale, one))
    logs = neg(standard_exponential(last, (), dtype))
    unscaled = bitwise_or(direct, eq(logs, scalar(dtype, 0)))
    scale = select_n(unscaled, mul(logs, div(one, a)), scalar(dtype, 0))
    return add(add(log(d), log(cube)), scale)


# ---- the primitive ---------------------------------------------------------------------

random_gamma_p = EnginePrimitive("random_gamma", params={"log_space": bool})


@random_gamma_p.def_abstract_eval
def _random_gamma_type(keys: Any, a: Any, *, log_space: bool) -> Any:
    return a


@random_gamma_p.def_lowering
@traced
def _random_gamma_lowering(keys: Any, a: Any, *, log_space: bool) -> Any:
    shape = typeof(a).shape
    each = random_split_p.bind(keys, shape=(math.prod(shape[typeof(keys).ndim:]),))
    each, flat = [reshape(x, (math.prod(shape),)) for x in (each, a)]
    sample = functools.partial(_one, log_space=log_space)
    # Under vmap, generators such as `rbg` draw the numbers of all elements from one key.
    if typeof(keys).dtype._impl.name == "threefry2x32":
        out = vmap(sample)(each, flat)
    else:
        out = map(lambda pair: sample(*pair), (each, flat))
    return reshape(out, shape)


@random_gamma_p.def_batch
def _random_gamma_batch(args: Any, dims: Any, *, log_space: bool) -> Any:
    size = batch_size(args, dims)
    keys, a = [batch_to_front(x, d, size) for x, d in zip(args, dims, strict=True)]
    return random_gamma_p.bind(keys, a, log_space=log_space), 0


def _implicit_derivative(t: Any, out: Any, keys: Any, a: Any, *, log_space: bool) -> Any:
    if not log_space:
        return mul(t, random_gamma_grad(a, out))
    # The derivative of the logarithm. A sample rounded to 0 counts as the least normal number.
    sample = exp(out)
    least = stretch(constant_like(sample, tiny(typeof(out).dtype)), typeof(out).shape)
    sample = select_n(eq(sample, constant_like(sample, 0)), sample, least)
    return mul(t, div(random_gamma_grad(a, sample), sample))


define_jvp_from_result(random_gamma_p, ZERO, _implicit_derivative)
random_gamma_p.deviates("jvp", "It is that of the distribution's quantiles, not that of the "
                        "sampler, which rejects numbers.")

# ---- the distribution ------------------------------------------------------------------


def standard_gamma(key: Any, a: Any, log_space: bool) -> Any:
    """A sample per element of a parameter, or the logarithm of one; for samplers."""
    return random_gamma_p.bind(key, a, log_space=log_space)


@sampler(shape=optional_shape, dtype=float_dtype, log_space=flag)
def _gamma(key: Any, a: Any, *, shape: tuple[int, ...] | None, dtype: Any, log_space: bool) -> Any:
    name = "loggamma" if log_space else "gamma"
    shape = result_shape(name, shape, a)
    return standard_gamma(one_key(name, key), spread(parameter(a, dtype, shape), shape), log_space)


@lays_out
@documents
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the gamma distribution of scale 1, with density `x**(a - 1) exp(-x) / Gamma(a)`.

    Args:
      [key]
      a: shape parameter, positive, broadcast to `shape`. Samples are differentiable in it, as
        quantiles of a fixed probability.
      shape: shape of the result; by default that of `a`.
      [dtype]

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      [raises]

    Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables"; Figurnov,
    Mohamed, Mnih 2018, "Implicit reparameterization gradients".

    Example:
      >>> random.gamma(random.key(0), 2.0, (1000,)).mean().round()
      Array(2., dtype=float32)
    """
    return _gamma(key, a, shape=shape, dtype=dtype, log_space=False)


@lays_out
@documents
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Logarithms of gamma-distributed numbers, which would be rounded to 0 for a small `a`.

    Args:
      [key]
      a: shape parameter, positive, broadcast to `shape`.
      shape: shape of the result; by default that of `a`.
      [dtype]

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      [raises]

    Source: as for `gamma`.

    Example:
      >>> bool(random.loggamma(random.key(0), 1e-4) < -100)
      True
    """
    return _gamma(key, a, shape=shape, dtype=dtype, log_space=True)


__all__ = ["gamma", "loggamma", "random_gamma_p", "standard_gamma"]
