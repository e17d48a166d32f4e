"""Keys: made of seeds, split, folded, and converted to and from raw data."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.keys import (
    KeyType,
    PRNGSpec,
    is_key_dtype,
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    resolve_impl,
    spec_of,
    unwrap,
    wrap,
)
from mjax._numpy.random.common import (
    as_given,
    is_raw_key,
    one_key,
    raw_key_impl,
    sampler,
    shape_argument,
    typed_keys,
)


def seed_argument(name: str, seed: Any, scalar: bool = True) -> Any:
    """The user's seed, or array of seeds, plus the setting `random_seed_offset`."""
    number, offset = _given_seed(name, seed, scalar), thread.settings.random_seed_offset
    if not offset or not dtypes.is_integer(typeof(number).dtype):
        return number
    # Integers wrap around; NumPy warns of that for scalars, but not for arrays.
    moved = np.full(1, offset).astype(typeof(number).dtype)
    if isinstance(number, np.ndarray):
        return (number.reshape(-1) + moved).reshape(number.shape)
    return add(number, np.broadcast_to(moved[0], typeof(number).shape))


def _given_seed(name: str, seed: Any, scalar: bool) -> Any:
    """A seed as an array of integers; Python ints are cut to 64 bits or, off x64, 32."""
    if type(seed) is int:
        try:
            return np.asarray(np.int64(seed)).astype(dtypes.canonicalize(np.dtype("int64")))
        except OverflowError:
            msg = f"{name}: the seed {seed} does not fit into 64 bits."
            raise OverflowError(msg) from None
    aval = typeof(seed)
    if is_key_dtype(aval.dtype):
        msg = f"{name} takes a scalar seed, but was given a PRNG key."
        raise TypeError(msg)
    if aval.shape and scalar:
        msg = (f"{name} takes a scalar seed, but was given an array of shape {aval.shape}; use "
               "mjax.vmap to map over it.")
        raise TypeError(msg)
    if not hasattr(seed, "aval"):
        # Outside of x64 mode NumPy's 64-bit integers are cut as Python's are.
        seed = np.asarray(seed).astype(aval.dtype)
    return convert(seed, np.dtype("int32")) if aval.dtype == np.bool_ else seed


@boundary
def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A PRNG key made of a seed.

    Args:
      seed: an integer scalar, static or traced.
      impl: the generator: `"threefry2x32"`, `"threefry4x32"`, `"philox2x32"`, `"philox4x32"`,
        `"rbg"`, `"unsafe_rbg"` or the name of another; by default the setting
        `default_prng_impl`.
      dtype: a key dtype, in place of `impl`.

    Returns:
      An array of shape `()` and dtype `key<...>`.

    Raises:
      TypeError: the seed is not an integer scalar.
      ValueError: the generator does not exist, or `impl` and `dtype` are both given.
      OverflowError: a Python int of more than 64 bits.

    Example:
      >>> random.key(0).dtype
      key<fry>
    """
    if dtype is not None:
        if impl is not None:
            msg = "key: give impl or dtype, not both."
            raise ValueError(msg)
        impl = dtype
    return random_seed_p.bind(seed_argument("key", seed), impl=resolve_impl(impl))


@sampler(impl=as_given)
def _raw_key(seed: Any, *, impl: Any) -> Any:
    return unwrap(random_seed_p.bind(seed, impl=impl))


@boundary
def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """The raw data of `key(seed)`, an old form of keys: an array of uint32.

    Args:
      seed: an integer scalar, static or traced.
      impl: the generator, as in `key`.

    Returns:
      An array of uint32, of shape `(2,)` for threefry. All functions take it as a key of the
      default generator.

    Raises:
      TypeError: the seed is not an integer scalar.
      ValueError: the generator does not exist.

    Example:
      >>> random.PRNGKey(0)
      Array([0, 0], dtype=uint32)
    """
    return _raw_key(seed_argument("PRNGKey", seed), impl=resolve_impl(impl))


@sampler(num=shape_argument)
def _split(key: Any, *, num: tuple[int, ...]) -> Any:
    out = random_split_p.bind(one_key("split", key), shape=num)
    return unwrap(out) if is_raw_key(key) else out


@boundary
def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """New keys, independent of each other; the old one must not be used again.

    Args:
      key: a key.
      num: the number of keys, or the shape of their array.

    Returns:
      An array of keys of shape `(num,)` or `num`; raw data if `key` is raw.

    Raises:
      TypeError: `key` is not a key, or `num` is not a shape.
      ValueError: `key` is an array of several keys.

    Example:
      >>> key, subkey = random.split(random.key(0))
    """
    return _split(key, num=num)


@sampler()
def _fold_in(key: Any, data: Any) -> Any:
    aval = typeof(data)
    if aval.shape or is_key_dtype(aval.dtype):
        msg = f"fold_in takes a scalar as data, but was given {aval}; use mjax.vmap for arrays."
        raise TypeError(msg)
    data = convert(data, np.dtype("uint32"))
    out = random_fold_in_p.bind(one_key("fold_in", key), data)
    return unwrap(out) if is_raw_key(key) else out


@boundary
def fold_in(key: Any, data: Any) -> Any:
    """A new key made of a key and a number, such as the number of a step.

    Args:
      key: a key.
      data: an integer scalar; a Python int must be in [0, 2**32).

    Returns:
      A key, raw data if `key` is raw.

    Raises:
      TypeError: `key` is not a key, or `data` is not a scalar, or complex.
      ValueError: `key` is an array of several keys, or `data` is NaN.
      OverflowError: a Python number out of range.

    Example:
      >>> random.fold_in(random.key(0), 7).shape
      ()
      >>> bool(random.fold_in(random.key(0), 7) == random.key(0))
      False
    """
    if type(data) is complex:
        msg = f"fold_in takes an integer as data, got {data}."
        raise TypeError(msg)
    if type(data) is float:
        data = int(data)  # refuses NaN
    if type(data) is int:
        if not 0 <= data < 2**32:
            msg = f"fold_in: data must be in [0, 2**32), got {data}."
            raise OverflowError(msg)
        data = np.uint32(data)
    return _fold_in(key, data)


@boundary
def key_data(keys: Any) -> Any:
    """The raw data of keys.

    Args:
      keys: an array of keys; raw data is returned unchanged.

    Returns:
      An array of uint32 of shape `(*keys.shape, 2)` for threefry.

    Raises:
      TypeError: `keys` holds no keys.

    Example:
      >>> random.key_data(random.key(42))
      Array([ 0, 42], dtype=uint32)
    """
    if is_raw_key(keys):
        raw_key_impl("key_data", keys)
        return keys
    return unwrap(keys)


@boundary
def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Keys from their raw data; the inverse of `key_data`.

    Args:
      key_bits_array: array of uint32 whose shape ends with the generator's `key_shape`.
      impl: the generator, as in `key`.
      dtype: a key dtype, in place of `impl`.

    Returns:
      An array of keys.

    Raises:
      TypeError: dtype or shape of the data do not fit.
      ValueError: the generator does not exist, or `impl` and `dtype` are both given.

    Example:
      >>> random.wrap_key_data(jnp.array([0, 42], "uint32")) == random.key(42)
      Array(True, dtype=bool)
    """
    if dtype is not None:
        if impl is not None:
            msg = "wrap_key_data: give impl or dtype, not both."
            raise ValueError(msg)
        impl = dtype
    return wrap(key_bits_array, resolve_impl(impl))


@boundary
def key_impl(keys: Any) -> str | PRNGSpec:
    """The generator of keys, in a form that `key(..., impl=...)` takes.

    Args:
      keys: a key array of any shape, or raw uint32 keys.

    Returns:
      The name of a generator that is registered; for others a `PRNGSpec`.

    Raises:
      TypeError: `keys` holds no keys.

    Example:
      >>> random.key_impl(random.key(0))
      'threefry2x32'
    """
    aval = typeof(keys)
    if is_key_dtype(aval.dtype):
        return spec_of(aval.dtype._impl)
    return spec_of(raw_key_impl("key_impl", keys))


@boundary
def key_dtype(impl_spec: Any = None) -> KeyType:
    """The dtype of a generator's keys.

    Args:
      impl_spec: the generator, as `impl` in `key`.

    Returns:
      A dtype of keys.

    Raises:
      TypeError: `impl_spec` is neither a name nor a dtype of keys.
      ValueError: no generator has this name.

    Example:
      >>> random.key_dtype("rbg")
      key<rbg>
    """
    return KeyType(resolve_impl(impl_spec))


@sampler()
def _clone(key: Any) -> Any:
    out = random_clone_p.bind(typed_keys("clone", key))
    return unwrap(out) if is_raw_key(key) else out


@boundary
def clone(key: Any) -> Any:
    """A copy of keys, for code that uses them twice on purpose.

    Args:
      key: keys, or an array of them.

    Returns:
      Keys of the same shape and generator.

    Raises:
      TypeError: `key` holds no keys.

    Example:
      >>> key = random.key(0)
      >>> bool(random.clone(key) == key)
      True
    """
    return _clone(key)


__all__ = ["PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split",
           "wrap_key_data"]
