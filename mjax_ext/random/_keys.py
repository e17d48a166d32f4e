"""Generators of one's own, and keys of a generator."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.keys import (
    PRNGImpl,
    PRNGSpec,
    random_seed_p,
    resolve_impl,
    unwrap,
    wrap,
)
from mjax._numpy.random.keys import seed_argument


@boundary
def define_prng_impl(*, key_shape: Sequence[int], seed: Callable[[Any], Any],
                     split: Callable[[Any, tuple[int, ...]], Any],
                     random_bits: Callable[[Any, int, tuple[int, ...]], Any],
                     fold_in: Callable[[Any, Any], Any], name: str = "<unnamed>",
                     tag: str = "?") -> Hashable:
    """A generator of random numbers, of functions of one key. mjax maps them over batches.

    Args:
      key_shape: the shape of the storage of a key, an array of uint32.
      seed: `(integer[]) -> uint32[*key_shape]`, makes a key of a seed.
      split: `(key, shape) -> uint32[*shape, *key_shape]`, makes new keys of one.
      random_bits: `(key, bit_width, shape) -> uint{bit_width}[*shape]`, for 8, 16, 32 and 64 bits.
      fold_in: `(key, uint32[]) -> key`, makes a key of one and a number.
      name: its name in messages.
      tag: its short name in `key<tag>`.

    Returns:
      A hashable for the argument `impl` of `mjax.random.key`, and the flag `default_prng_impl`.
      Equal arguments give equal ones.

    Raises:
      TypeError: a function is not callable; when it is used: a function gives an array of another
        type than above.

    Example:
      >>> from mjax_ext.random import define_prng_impl, threefry_prng_impl as fry
      >>> impl = define_prng_impl(
      ...     key_shape=(2,), seed=fry.seed, split=fry.split, fold_in=fry.fold_in,
      ...     random_bits=lambda key, width, shape: ~fry.random_bits(key, width, shape),
      ...     name="opposite", tag="opp")
      >>> key = random.key(0, impl=impl)
      >>> key.dtype, random.uniform(key).dtype
      (key<opp>, dtype('float32'))

    Source: JAX, `jax.extend.random.define_prng_impl`.
    """
    return PRNGSpec(PRNGImpl(key_shape, seed, split, random_bits, fold_in, name, tag))


@boundary
def random_seed(seeds: Any, impl: Any) -> Any:
    """Keys of a generator, from seeds.

    Args:
      seeds: an integer, or an array of integers of any shape.
      impl: a `PRNGImpl`, or anything that `mjax.random.key` takes as `impl`.

    Returns:
      Keys of the shape of `seeds`.

    Raises:
      TypeError: a seed is not an integer, or `impl` is not a generator.

    Example:
      >>> from mjax_ext.random import random_seed, threefry_prng_impl
      >>> random_seed(jnp.arange(3), threefry_prng_impl).shape
      (3,)

    Source: JAX, `jax.extend.random.random_seed`.
    """
    return random_seed_p.bind(seed_argument("random_seed", seeds, scalar=False),
                              impl=resolve_impl(impl))


@boundary
def seed_with_impl(impl: Any, seed: Any) -> Any:
    """`random_seed` with its arguments in the other order.

    Args:
      impl: a `PRNGImpl`, or anything that `mjax.random.key` takes as `impl`.
      seed: an integer, or an array of integers.

    Returns:
      Keys of the shape of `seed`.

    Raises:
      TypeError: a seed is not an integer, or `impl` is not a generator.

    Example:
      >>> from mjax_ext.random import seed_with_impl, threefry_prng_impl
      >>> seed_with_impl(threefry_prng_impl, 0) == random.key(0)
      Array(True, dtype=bool)

    Source: JAX, `jax.extend.random.seed_with_impl`.
    """
    return random_seed(seed, impl)


@boundary
def random_wrap(base_arr: Any, *, impl: Any) -> Any:
    """Keys from their storage.

    Args:
      base_arr: an array of uint32, of shape `(*shape, *impl.key_shape)`.
      impl: a `PRNGImpl`, or anything that `mjax.random.key` takes as `impl`.

    Returns:
      Keys of shape `shape`.

    Raises:
      TypeError: dtype or shape of the array do not fit.

    Example:
      >>> from mjax_ext.random import random_wrap, threefry_prng_impl
      >>> random_wrap(jnp.zeros((3, 2), "uint32"), impl=threefry_prng_impl).shape
      (3,)

    Source: JAX, `random_wrap` of its module of generators.
    """
    return wrap(base_arr, resolve_impl(impl))


@boundary
def random_unwrap(keys: Any) -> Any:
    """The storage of keys, an array of uint32.

    Args:
      keys: an array of keys.

    Returns:
      An array of shape `(*keys.shape, *impl.key_shape)`.

    Raises:
      TypeError: it is not an array of keys.

    Example:
      >>> from mjax_ext.random import random_unwrap
      >>> random_unwrap(random.key(3))
      Array([0, 3], dtype=uint32)

    Source: JAX, `random_unwrap` of its module of generators.
    """
    typeof(keys)  # refuses values that are not arrays
    return unwrap(keys)
