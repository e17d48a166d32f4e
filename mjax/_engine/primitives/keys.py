"""Typed PRNG keys: their dtype, `PRNGImpl`, and the primitives on keys.

A key array is an array of dtype `key<tag>`; each element is stored as an array of uint32 of
the generator's `key_shape`. A generator is a `PRNGImpl`: four functions on that storage. The
primitives work for every generator, and their lowerings are those functions, mapped over batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.config import checks
from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjax._engine.base.util import pickled_as, pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.dtypes import ExtendedDType, prng_key
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.source import here
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.elementwise import broadcast_types, define_elementwise_batching
from mjax._engine.primitives.shapes import broadcast_in_dim_p, canonical_shape, moveaxis
from mjax._engine.primitives.tangents import define_zero_jvp
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.rule_errors import applied_at, where

_uint32 = np.dtype("uint32")


class PRNGImpl:
    """A pseudo-random number generator, as functions on the storage of a key.

    Args:
      key_shape: the shape of the storage of a key, an array of uint32.
      seed: `(integer[]) -> key`.
      split: `(key, shape) -> keys[*shape, *key_shape]`.
      random_bits: `(key, bit_width, shape) -> unsigned integers[*shape]` of 8, 16, 32 or 64 bits.
      fold_in: `(key, uint32[]) -> key`.
      name: its name in messages.
      tag: its short name in `key<tag>`.
      takes_batches: whether the functions take keys (and seeds, and numbers to fold in) with more
        axes in front, which come first in results. Otherwise mjax maps them over these axes.

    Generators of equal arguments are one object.

    Raises:
      TypeError: a function is not callable; the shape does not consist of sizes.

    Example:
      >>> from mjax_ext.random import PRNGImpl
      >>> middle = PRNGImpl(
      ...     (1,), lambda seed: seed.astype("uint32")[None],
      ...     lambda key, shape: (key + jnp.arange(1, 1 + np.prod(shape, dtype=int),
      ...                                          dtype="uint32")).reshape(*shape, 1),
      ...     lambda key, bit_width, shape: jnp.full(shape, key[0]).astype(f"uint{bit_width}"),
      ...     lambda key, data: key * 31 + data, name="middle", tag="mid")
      >>> random.split(random.key(3, impl=middle))
      Array((2,), dtype=key<mid>) overlaying:
      [[4]
       [5]]

    Source: JAX, `jax.extend.random.PRNGImpl` of earlier releases.
    """

    __slots__ = ("fold_in", "key_shape", "name", "random_bits", "seed", "split", "tag",
                 "takes_batches")
    key_shape: tuple[int, ...]
    seed: Callable[[Any], Any]
    split: Callable[[Any, tuple[int, ...]], Any]
    random_bits: Callable[[Any, int, tuple[int, ...]], Any]
    fold_in: Callable[[Any, Any], Any]
    name: str
    tag: str
    takes_batches: bool

    def __new__(cls, key_shape: Sequence[int], seed: Callable[[Any], Any],
                split: Callable[[Any, tuple[int, ...]], Any],
                random_bits: Callable[[Any, int, tuple[int, ...]], Any],
                fold_in: Callable[[Any, Any], Any], name: str = "<unnamed>", tag: str = "?", *,
                takes_batches: bool = False) -> PRNGImpl:
        try:
            shape = canonical_shape(key_shape)
        except TypeError as error:
            msg = f"the key_shape of the generator {name!r}: {error}"
            raise TypeError(msg) from None
        values = (shape, seed, split, random_bits, fold_in, str(name), str(tag),
                  bool(takes_batches))
        for what, f in zip(("seed", "split", "random_bits", "fold_in"), values[1:5], strict=True):
            if not callable(f):
                msg = f"the {what} of the generator {name!r} must be a function, got {f!r}."
                raise TypeError(msg)
        known = _generators.get(values)
        if known is None:
            self = object.__new__(cls)
            for field, value in zip(_FIELDS, values, strict=True):
                object.__setattr__(self, field, value)
            known = _generators.setdefault(values, self)
        return known

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"a PRNGImpl is immutable: make another one with {name}={value!r}."
        raise AttributeError(msg)

    def __str__(self) -> str:
        return self.tag

    def __repr__(self) -> str:
        return f"PRNGImpl({self.name!r}, key_shape={self.key_shape})"

    def __reduce__(self) -> Any:
        if registry.get(self.name) is self:
            return _generator, (self.name,)
        return _generator, tuple([getattr(self, field) for field in _FIELDS])

    def __copy__(self) -> PRNGImpl:
        return self

    def __deepcopy__(self, memo: Any) -> PRNGImpl:
        return self

    def applied(self, rule: str, batch: tuple[int, ...], args: Sequence[Any],
                static: Sequence[Any], result: tuple[tuple[int, ...], Any]) -> Any:
        """One of its functions, on a batch of keys.

        Args:
          rule: the function's name.
          batch: the shape of the batch.
          args: operands; those of a batch begin with its shape.
          static: arguments behind them.
          result: the shape of the result for one key, and its dtype.

        Raises:
          TypeError: the function gives something else.
        """
        f, (shape, dtype) = getattr(self, rule), result
        if self.takes_batches:
            shape = (*batch, *shape)

        def one(*args: Any) -> Any:
            try:
                out = f(*args, *static)
            except Exception as error:
                if not is_engine_file(where(f).rpartition(":")[0]):
                    error.add_note(f"Raised in the {rule} of the generator {self.name!r} "
                                   f"({where(f)}).\n{applied_at(here())}")
                raise
            try:
                aval = typeof(out)
            except TypeError:
                aval = None
            if aval is None or aval.shape != shape or aval.dtype != dtype:
                raise LazyTypeError(lambda: (
                    f"the {rule} of the generator {self.name!r} must give an array of type "
                    f"{ShapedArray(shape, dtype)}, but gave "
                    f"{f'{out!r}' if aval is None else f'one of type {aval}'}."))
            return out

        if self.takes_batches:
            return one(*args)
        ranks = [len(typeof(a).shape) - (0 if rule in ("seed", "fold_in") and i == len(args) - 1
                                         else len(self.key_shape)) for i, a in enumerate(args)]
        for n in range(len(batch), 0, -1):
            one = sockets.over_batch(one, tuple([0 if rank >= n else None for rank in ranks]))
        return one(*args)


_FIELDS = ("key_shape", "seed", "split", "random_bits", "fold_in", "name", "tag", "takes_batches")
_generators: dict[tuple[Any, ...], PRNGImpl] = {}


@pickled_as("prng_impl_v1")
def _generator(*fields: Any) -> PRNGImpl:
    """A generator by its name, or of its functions; pickles of generators call this."""
    if len(fields) == 1:
        return resolve_impl(fields[0])
    return PRNGImpl(*fields[:-1], takes_batches=fields[-1])


@pickled_by("prng_spec_v1", "_impl")
class PRNGSpec:
    """Stands for a generator that is not registered, where a name is expected."""

    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl):
        self._impl = impl

    def __eq__(self, other: Any) -> bool:
        return type(other) is PRNGSpec and self._impl is other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"


class KeyType(ExtendedDType):
    """The dtype of keys of one generator, printed `key<tag>`. One object per generator.

    Args:
      impl: the generator.
    """

    _impl: PRNGImpl
    type = prng_key
    element_dtype = _uint32

    def __new__(cls, impl: PRNGImpl) -> KeyType:
        known = _key_types.get(impl)
        if known is None:
            self = object.__new__(cls)
            self._impl = impl
            self.element_shape = impl.key_shape
            self.name = f"key<{impl.tag}>"
            known = _key_types.setdefault(impl, self)
        return known

    @property
    def itemsize(self) -> int:
        """The number of bytes of one key."""
        return math.prod(self.element_shape) * 4

    def wrap(self, physical: Any) -> Any:
        """The keys stored in an array of uint32."""
        return random_wrap_p.bind(physical, impl=self._impl)

    def __reduce__(self) -> Any:
        impl = self._impl
        return _key_type, (impl.name if registry.get(impl.name) is impl else impl,)


@pickled_as("key_type_v1")
def _key_type(spec: str | PRNGImpl) -> KeyType:
    """The dtype of keys of a generator; pickles of these dtypes call this."""
    return KeyType(resolve_impl(spec))


_key_types: dict[PRNGImpl, KeyType] = {}

# ---- the registry ----------------------------------------------------------------------

#: Generators by name.
registry: dict[str, PRNGImpl] = {}
#: The names of the generators that register when `mjax.random` loads.
BUILT_IN = ("philox2x32", "philox4x32", "rbg", "threefry2x32", "threefry4x32", "unsafe_rbg")


def register_prng(impl: PRNGImpl) -> PRNGImpl:
    """Registers a generator under its name.

    Raises:
      ValueError: the name is taken.
    """
    if registry.setdefault(impl.name, impl) is not impl:
        msg = f"a PRNG implementation named {impl.name!r} is already registered."
        raise ValueError(msg)
    return impl


def resolve_impl(spec: Any = None) -> PRNGImpl:
    """The generator that an `impl` argument stands for.

    Args:
      spec: None (the setting `default_prng_impl`), a name, a `PRNGSpec`, a key
        dtype or a `PRNGImpl`.

    Raises:
      ValueError: no generator has this name.
      TypeError: it is not one of these.
    """
    if spec is None:
        spec = thread.settings.default_prng_impl
    if isinstance(spec, str):
        try:
            return registry[spec]
        except KeyError:
            msg = (f"unrecognized PRNG implementation {spec!r}. Known ones: "
                   f"{', '.join(map(repr, sorted(registry)))}.")
            raise ValueError(msg) from None
    if isinstance(spec, (PRNGSpec, KeyType)):
        return spec._impl
    if isinstance(spec, PRNGImpl):
        return spec
    msg = f"impl must be the name of a PRNG implementation or a key dtype, not {spec!r}."
    raise TypeError(msg)


def _check_default(spec: Any) -> None:
    try:
        if spec in BUILT_IN or (spec is not None and resolve_impl(spec)):
            return
    except (TypeError, ValueError):
        pass
    known = ", ".join(map(repr, sorted({*registry, *BUILT_IN})))
    msg = (f"default_prng_impl must be one of {known}, or a key "
           f"dtype; got {spec!r}.")
    raise ValueError(msg)


checks["default_prng_impl"] = _check_default


def spec_of(impl: PRNGImpl) -> str | PRNGSpec:
    """The name of a registered generator, else a `PRNGSpec`."""
    return impl.name if registry.get(impl.name) is impl else PRNGSpec(impl)


def is_key_dtype(dtype: Any) -> bool:
    """Whether a dtype is a key dtype."""
    return type(dtype) is KeyType


# ---- the primitives --------------------------------------------------------------------


def _check_keys(name: str, aval: Any) -> PRNGImpl:
    if not is_key_dtype(aval.dtype):
        msg = (f"{name} needs an array of PRNG keys, got {aval}: make keys with random.key, or of "
               "raw uint32 data with random.wrap_key_data.")
        raise TypeError(msg)
    return aval.dtype._impl


random_seed_p = EnginePrimitive("random_seed", params={"impl": PRNGImpl})


@random_seed_p.def_abstract_eval
def _random_seed_type(seeds: Any, *, impl: PRNGImpl) -> ShapedArray:
    if not dtypes.is_integer(seeds.dtype):
        msg = f"PRNG key seed must be an integer, got {seeds}."
        raise TypeError(msg)
    return ShapedArray(seeds.shape, KeyType(impl))


random_seed_p.def_lowering(traced(lambda seeds, *, impl: wrap(impl.applied(
    "seed", typeof(seeds).shape, (seeds,), (), (impl.key_shape, _uint32)), impl)))

random_split_p = EnginePrimitive("random_split", params={"shape": Ints})


@random_split_p.def_abstract_eval
def _random_split_type(keys: Any, *, shape: tuple[int, ...]) -> ShapedArray:
    _check_keys("random_split", keys)
    return ShapedArray((*keys.shape, *shape), keys.dtype)


@random_split_p.def_lowering
@traced
def _random_split_lowering(keys: Any, *, shape: tuple[int, ...]) -> Any:
    impl = keys.dtype._impl
    return wrap(impl.applied("split", keys.shape, (unwrap(keys),), (shape,),
                             ((*shape, *impl.key_shape), _uint32)), impl)


random_fold_in_p = EnginePrimitive("random_fold_in", params={})


@random_fold_in_p.def_abstract_eval
def _random_fold_in_type(keys: Any, data: Any) -> ShapedArray:
    _check_keys("random_fold_in", keys)
    if data.dtype != _uint32:
        msg = f"random_fold_in takes data of dtype uint32, not {data.dtype}."
        raise TypeError(msg)
    return ShapedArray(broadcast_types("random_fold_in", (keys, data)), keys.dtype)


@random_fold_in_p.def_lowering
@traced
def _random_fold_in_lowering(keys: Any, data: Any) -> Any:
    impl, storage = keys.dtype._impl, unwrap(keys)
    shape = broadcast_types("random_fold_in", (typeof(keys), typeof(data)))
    if keys.shape != shape:
        axes = range(len(shape) - len(keys.shape), len(shape) + len(impl.key_shape))
        storage = broadcast_in_dim_p.bind(
            storage, shape=(*shape, *impl.key_shape), broadcast_dimensions=tuple(axes))
    if data.shape not in ((), shape):
        data = broadcast_in_dim_p.bind(
            data, shape=shape, broadcast_dimensions=tuple(range(len(shape))))
    return wrap(impl.applied("fold_in", shape, (storage, data), (),
                             (impl.key_shape, _uint32)), impl)


random_bits_p = EnginePrimitive("random_bits", params={"bit_width": int, "shape": Ints})


@random_bits_p.def_abstract_eval
def _random_bits_type(keys: Any, *, bit_width: int, shape: tuple[int, ...]) -> ShapedArray:
    _check_keys("random_bits", keys)
    if bit_width not in (8, 16, 32, 64):
        msg = f"random_bits: bit_width must be 8, 16, 32 or 64, not {bit_width}."
        raise TypeError(msg)
    return ShapedArray((*keys.shape, *shape), f"uint{bit_width}")


@random_bits_p.def_lowering
@traced
def _random_bits_lowering(keys: Any, *, bit_width: int, shape: tuple[int, ...]) -> Any:
    impl, dtype = keys.dtype._impl, np.dtype(f"uint{bit_width}")
    return impl.applied("random_bits", keys.shape, (unwrap(keys),), (bit_width, shape),
                        (shape, dtype))


random_wrap_p = EnginePrimitive("random_wrap", params={"impl": PRNGImpl})


@random_wrap_p.def_abstract_eval
def _random_wrap_type(data: Any, *, impl: PRNGImpl) -> ShapedArray:
    rank = len(impl.key_shape)
    start = data.ndim - rank
    if data.dtype != _uint32 or start < 0 or data.shape[start:] != impl.key_shape:
        msg = (f"data of PRNG keys of implementation {impl.name!r} must have dtype uint32 and a "
               f"shape that ends with {impl.key_shape}, got {data}.")
        raise TypeError(msg)
    return ShapedArray(data.shape[:start], KeyType(impl))


# Keys are stored as this array.
random_wrap_p.def_lowering(lambda ctx, data, *, impl: [data])

random_unwrap_p = EnginePrimitive("random_unwrap", params={})


@random_unwrap_p.def_abstract_eval
def _random_unwrap_type(keys: Any) -> ShapedArray:
    impl = _check_keys("random_unwrap", keys)
    return ShapedArray((*keys.shape, *impl.key_shape), _uint32)


random_unwrap_p.def_lowering(lambda ctx, keys: [keys])

random_clone_p = EnginePrimitive("random_clone", params={})


@random_clone_p.def_abstract_eval
def _random_clone_type(keys: Any) -> ShapedArray:
    _check_keys("random_clone", keys)
    return keys


random_clone_p.def_lowering(lambda ctx, keys: [keys])


def wrap(data: Any, impl: PRNGImpl) -> Any:
    """Keys of a generator from their storage."""
    return random_wrap_p.bind(data, impl=impl)


def unwrap(keys: Any) -> Any:
    """The storage of keys."""
    return random_unwrap_p.bind(keys)


# ---- batching and derivatives ----------------------------------------------------------


def _define_batching(primitive: Primitive) -> None:
    # The axes of the keys come first in the result; new ones are appended.
    primitive.def_batch(lambda args, dims, **params: (primitive.bind(*args, **params), dims[0]))


for _primitive in (random_seed_p, random_split_p, random_bits_p, random_unwrap_p, random_clone_p):
    _define_batching(_primitive)
random_wrap_p.def_batch(lambda args, dims, *, impl: (
    wrap(moveaxis(args[0], dims[0], 0), impl), 0))
define_elementwise_batching(random_fold_in_p)
for _primitive in (random_seed_p, random_split_p, random_fold_in_p, random_bits_p, random_wrap_p,
                   random_unwrap_p, random_clone_p):
    define_zero_jvp(_primitive)
