"""XLA's own random generators: rng_bit_generator, rng_uniform, key types rbg and unsafe_rbg.

They are faster than threefry on some hardware. Their values may differ between platforms and XLA
versions, and under `vmap` one key generates for the whole batch.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType, Ints
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import bitwise_xor
from mjax._engine.primitives.emit import constant, hlo, ir, ir_type, op, values_ir
from mjax._engine.primitives.joining import concatenate, split, unstack
from mjax._engine.primitives.keys import PRNGImpl, register_prng
from mjax._engine.primitives.shapes import canonical_shape, moveaxis, reshape, transpose, zeros_of
from mjax._engine.primitives.tangents import define_zero_jvp
from mjax._engine.primitives.threefry import threefry_fold_in, threefry_seed, threefry_split
from mjax._engine.tracing.primitive import EnginePrimitive

_uint32, _uint64 = np.dtype("uint32"), np.dtype("uint64")


@pickled_by("random_algorithm_v1")
class RandomAlgorithm(enum.IntEnum):
    """The generator that `rng_bit_generator` uses; the platform chooses the default one.

    Example:
      >>> key = jnp.arange(4, dtype="uint32")
      >>> key, bits = lax.rng_bit_generator(key, (2,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)
      >>> bits.shape
      (2,)
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


# ---- rng_bit_generator -----------------------------------------------------------------

rng_bit_generator_p = EnginePrimitive("rng_bit_generator", params={
    "shape": Ints, "dtype": AnyDType, "algorithm": RandomAlgorithm}, multiple_results=True)


@rng_bit_generator_p.def_abstract_eval
def _rng_bit_generator_type(key: Any, *, shape: tuple[int, ...], dtype: Any, algorithm: Any
                            ) -> list[ShapedArray]:
    if (key.shape, key.dtype) not in (((4,), _uint32), ((2,), _uint64)):
        msg = f"rng_bit_generator takes a key of type uint32[4] or uint64[2], got {key}."
        raise TypeError(msg)
    if dtype not in map(np.dtype, ("uint8", "uint16", "uint32", "uint64")):
        msg = (f"rng_bit_generator makes unsigned integers of 8, 16, 32 or 64 bits, not {dtype}; "
               "convert the result.")
        raise TypeError(msg)
    return [key.strip_weak_type(), ShapedArray(shape, dtype)]


@rng_bit_generator_p.def_lowering
def _rng_bit_generator_lowering(ctx: Any, key: Any, *, shape: Any, dtype: Any, algorithm: Any
                                ) -> Any:
    narrow = ctx.avals_in[0].dtype == _uint32
    pairs, wide = [ir_type(ShapedArray(s, d)) for s, d in (((2, 2), _uint32), ((2,), _uint64))]
    if narrow:
        key = op("stablehlo.bitcast_convert", [wide], [hlo.reshape(pairs, key)])[0]
    name = algorithm.name.removeprefix("RNG_")
    chosen = {"rng_algorithm": hlo.RngAlgorithmAttr.get(name)}
    if is_constant_shape(shape):
        state, bits = op("stablehlo.rng_bit_generator", [wide, ctx.out_types[1]], [key], chosen)
    else:
        target = ir.StringAttr.get("stablehlo.dynamic_rng_bit_generator")
        state, bits = op("stablehlo.custom_call", [wide, ctx.out_types[1]],
                         [key, values_ir(shape, np.int64)], {**chosen, "call_target_name": target})
    if narrow:
        state = hlo.reshape(ctx.out_types[0], op("stablehlo.bitcast_convert", [pairs], [state])[0])
    return [state, bits]


define_zero_jvp(rng_bit_generator_p)


@rng_bit_generator_p.def_batch
def _rng_bit_generator_batch(args: Any, dims: Any, *, shape: Any, **params: Any) -> Any:
    """The first key generates the whole batch; only that key is advanced, as in JAX."""
    keys = moveaxis(args[0], dims[0], 0)
    size = typeof(keys).shape[0]
    if size == 0:
        return [keys, zeros_of(ShapedArray((0, *shape), params["dtype"]))], [0, 0]
    first, rest = split(keys, (1, size - 1), axis=0)
    advanced, bits = rng_bit_generator_p.bind(reshape(first, typeof(keys).shape[1:]),
                                              shape=(size, *shape), **params)
    return [concatenate([reshape(advanced, typeof(first).shape), rest], 0), bits], [0, 0]


rng_bit_generator_p.deviates("batch", "The first key generates the numbers of the whole batch.")


@boundary
def rng_bit_generator(key: Any, shape: Sequence[int], dtype: Any = _uint32,
                      algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT) -> tuple[Any, Any]:
    """Random unsigned integers from one of XLA's generators.

    Args:
      key: state of the generator: `uint32[4]` or `uint64[2]`.
      shape: shape of the numbers.
      dtype: their dtype, an unsigned one.
      algorithm: the generator.

    Returns:
      The next state, and the numbers.

    Raises:
      TypeError: a key or dtype of another type.

    Example:
      >>> key, bits = lax.rng_bit_generator(jnp.arange(4, dtype="uint32"), (2, 3))
      >>> bits.shape, bits.dtype
      ((2, 3), dtype('uint32'))

    Source: StableHLO `rng_bit_generator`.
    """
    new_key, bits = rng_bit_generator_p.bind(
        key, shape=canonical_shape(shape), dtype=dtypes.asked_dtype(dtype, "rng_bit_generator"),
        algorithm=RandomAlgorithm(algorithm))
    return new_key, bits


# ---- rng_uniform -----------------------------------------------------------------------

rng_uniform_p = EnginePrimitive("rng_uniform", params={"shape": Ints})


@rng_uniform_p.def_abstract_eval
def _rng_uniform_type(a: Any, b: Any, *, shape: tuple[int, ...]) -> ShapedArray:
    if a.dtype != b.dtype:
        msg = f"rng_uniform: the bounds must have one dtype, got {a.dtype} and {b.dtype}."
        raise ValueError(msg)
    if a.shape or b.shape:
        msg = f"rng_uniform: the bounds must be scalars, got shapes {a.shape} and {b.shape}."
        raise ValueError(msg)
    return ShapedArray(shape, a.dtype, a.weak_type and b.weak_type)


@rng_uniform_p.def_lowering
def _rng_uniform_lowering(ctx: Any, a: Any, b: Any, *, shape: tuple[int, ...]) -> Any:
    return [hlo.rng(a, b, constant(np.array(shape, np.int64)),
                    hlo.RngDistributionAttr.get("UNIFORM"))]


rng_uniform_p.deviates("determinism", "Its numbers come from a state of the device.")
for _rule in "jvp", "batch":
    rng_uniform_p.without(_rule, "Its numbers come from a state of the device: draw from the "
                          "standard interval, outside of the transformation, and scale them.")


@boundary
def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Any:
    """Uniformly distributed numbers from XLA's stateful generator, without a key.

    The values may change from call to call, platform to platform and compilation to
    compilation; use `mjax.random` for reproducible ones.

    Args:
      a: scalar, the lower bound, included.
      b: scalar of the same dtype, the upper bound, excluded.
      shape: shape of the result.

    Returns:
      An array of shape `shape` and the dtype of `a` and `b`.

    Raises:
      ValueError: bounds that are not scalars of one dtype.

    Example:
      >>> lax.rng_uniform(0.0, 1.0, (2, 3)).shape
      (2, 3)

    Source: StableHLO `rng`.
    """
    return rng_uniform_p.bind(a, b, shape=canonical_shape(shape))


# ---- key types -------------------------------------------------------------------------


def _halves(keys: Any) -> Any:
    """A key of four words as two threefry keys."""
    return reshape(keys, (*typeof(keys).shape[:-1], 2, 2))


def rbg_seed(seeds: Any) -> Any:
    """A threefry key, twice."""
    half = threefry_seed(seeds)
    return concatenate([half, half], typeof(half).ndim - 1)


def rbg_split(keys: Any, shape: tuple[int, ...]) -> Any:
    """Splits both halves as threefry does."""
    batch = typeof(keys).ndim - 1
    halves = threefry_split(_halves(keys), shape)
    # (*batch, half, *shape, word) -> (*batch, *shape, half, word)
    axes = range(typeof(halves).ndim)
    halves = transpose(halves, (*axes[:batch], *axes[batch + 1 : -1], batch, axes[-1]))
    return reshape(halves, (*typeof(keys).shape[:-1], *shape, 4))


def rbg_fold_in(keys: Any, data: Any) -> Any:
    """Folds into both halves as threefry does."""
    halves = _halves(keys)
    shape = typeof(data).shape
    halves = threefry_fold_in(halves, reshape(data, (*shape, 1)) if shape else data)
    return reshape(halves, (*typeof(halves).shape[:-2], 4))


def rbg_random_bits(keys: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Bits from XLA's generator; the first key of a batch generates for all."""
    batch = typeof(keys).shape[:-1]
    dtype = np.dtype(f"uint{bit_width}")
    count = math.prod(batch)
    if count == 0:
        return zeros_of(ShapedArray((*batch, *shape), dtype))
    first, _ = split(reshape(keys, (4 * count,)), (4, 4 * (count - 1)))
    return rng_bit_generator_p.bind(first, shape=(*batch, *shape), dtype=dtype,
                                    algorithm=RandomAlgorithm.RNG_DEFAULT)[1]


#: `unsafe_rbg` uses one in this many consecutive keys, because neighbours are correlated.
_STRIDE = 10


def unsafe_rbg_split(keys: Any, shape: tuple[int, ...]) -> Any:
    """Keys from XLA's generator itself."""
    count = math.prod(shape)
    words = rbg_random_bits(keys, 32, (count, _STRIDE, 4))
    kept = unstack(words, axis=-2)[0]
    return reshape(kept, (*typeof(keys).shape[:-1], *shape, 4))


def unsafe_rbg_fold_in(keys: Any, data: Any) -> Any:
    """Xors keys with bits that XLA's generator computes from the data."""
    words = unstack(rbg_random_bits(rbg_seed(data), 32, (_STRIDE, 4)), axis=-2)[-1]
    # One number folded into a batch of keys has one row of words.
    rank = typeof(keys).ndim - typeof(words).ndim
    words = reshape(words, (*(1,) * rank, *typeof(words).shape))
    return bitwise_xor(keys, words)


rbg_prng: PRNGImpl = register_prng(PRNGImpl(
    (4,), rbg_seed, rbg_split, rbg_random_bits, rbg_fold_in, "rbg", "rbg", takes_batches=True))
unsafe_rbg_prng: PRNGImpl = register_prng(PRNGImpl(
    (4,), rbg_seed, unsafe_rbg_split, rbg_random_bits, unsafe_rbg_fold_in, "unsafe_rbg", "urbg",
    takes_batches=True))
