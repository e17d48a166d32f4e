"""Random generators that count their draws in a reference: `stateful_rng`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir.dtypes import is_extended
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.tree_registration import register_dataclass
from mjax._numpy.core import broadcast_shapes, check_array, dtype_argument, shape_of
from mjax._numpy.creation import astype, zeros
from mjax._numpy.random.keys import fold_in, split
from mjax._numpy.random.keys import key as key_of
from mjax._numpy.random.normal import normal
from mjax._numpy.random.uniform import randint, uniform
from mjax._numpy.references import addupdate, new_ref

Size = int | Sequence[int] | None


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class StatefulPRNG:
    """A stateful generator of random numbers; `stateful_rng` creates one.

    It is a pytree of a key and a reference. Jitted functions may take it as an argument or close
    over it. Like references, it must not be returned from them or carried by loops.

    Args:
      _base_key: a typed key; several for a generator that was split.
      _counter: a reference to the number of draws so far, for each key.

    Raises:
      ValueError: `_base_key` is not a typed key, or `_counter` is not a reference to integers.

    Example:
      >>> from mjax.experimental.random import stateful_rng
      >>> rng = stateful_rng(0)
      >>> rng.integers(10, size=3), rng.integers(10, size=3)
      (Array([1, 1, 7], dtype=int32), Array([2, 2, 6], dtype=int32))

    Source: the public interface of `jax.experimental.random`.
    """

    _base_key: Any
    _counter: Any

    def __post_init__(self) -> None:
        dtype = getattr(self._base_key, "dtype", None)
        if dtype is not None and not is_extended(dtype):
            msg = ("StatefulPRNG: the key must be a typed one, as mjax.random.key returns; got "
                   f"an array of dtype {dtype}.")
            raise ValueError(msg)
        aval = getattr(self._counter, "aval", None)
        if isinstance(self._counter, (int, float)) or (aval is not None and not (
                is_reference(aval) and aval.dtype.kind in "iu")):
            msg = ("StatefulPRNG: the counter must be a reference to integers, "
                   f"mjax.new_ref(0); got {self._counter!r}.")
            raise ValueError(msg)

    @boundary
    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of them; see `mjax.random`.

        Args:
          shape: the shape of the array.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> from mjax.experimental.random import stateful_rng
          >>> stateful_rng(0).key((2, 3)).shape
          (2, 3)
        """
        if shape_of(self._base_key):
            msg = (f"a generator that was split into {shape_of(self._base_key)} cannot be used "
                   "as a whole: map a function of one of them over it with mjax.vmap, or take "
                   "a list of generators, rng.spawn(n).")
            raise ValueError(msg)
        key = fold_in(self._base_key, self._counter[...])
        addupdate(self._counter, None, 1)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return split(key, shape) if shape else key

    @boundary
    def random(self, size: Size = None, dtype: Any = float) -> Any:
        """Floats uniformly distributed in `[0, 1)`.

        Args:
          size: the shape; None: a scalar.
          dtype: a float dtype.

        Raises:
          ValueError: the generator was split, or the dtype is not one of floats.
        """
        return uniform(self.key(), _shape(size), dtype)

    @boundary
    def uniform(self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Floats uniformly distributed in `[low, high)`.

        Args:
          low, high: arrays that broadcast to the shape.
          size: the shape; None: that of `low` and `high`, broadcast.
          dtype: a float dtype.

        Raises:
          ValueError: the generator was split, the dtype is not one of floats, or the shapes do not
            fit.

        Example:
          >>> from mjax.experimental.random import stateful_rng
          >>> bool(1 <= stateful_rng(3).uniform(1, 2) < 2)
          True
        """
        return uniform(self.key(), _shape(size, low, high), dtype, low, high)

    @boundary
    def normal(self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Normally distributed floats.

        Args:
          loc, scale: mean and standard deviation, which broadcast to the shape.
          size: the shape; None: that of `loc` and `scale`, broadcast.
          dtype: a float or complex dtype.

        Raises:
          ValueError: the generator was split, the dtype is not one of floats, or the shapes do not
            fit.

        Example:
          >>> from mjax.experimental.random import stateful_rng
          >>> stateful_rng(3).normal(size=(2, 2)).shape
          (2, 2)
        """
        dtype = dtype_argument(dtype, "normal")
        numbers = normal(self.key(), _shape(size, loc, scale), dtype)
        return astype(loc, dtype) + astype(scale, dtype) * numbers

    @boundary
    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Any:
        """Integers uniformly distributed in `[low, high)`.

        Args:
          low, high: arrays that broadcast to the shape; without `high` they are in `[0, low)`.
          size: the shape; None: that of `low` and `high`, broadcast.
          dtype: an integer dtype.

        Raises:
          ValueError: the generator was split, or the shapes do not fit.
          TypeError: the dtype is not one of integers.
        """
        if high is None:
            low, high = 0, low
        return randint(self.key(), _shape(size, low, high), low, high, dtype)

    @boundary
    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Independent generators as one batched object, for `vmap`.

        Args:
          num: the number of generators, or their shape.

        Raises:
          ValueError: the generator was split before.

        Example:
          >>> from mjax.experimental.random import stateful_rng
          >>> mjax.vmap(lambda rng: rng.integers(10))(stateful_rng(0).split(3))
          Array([3, 2, 0], dtype=int32)
        """
        keys = split(self.key(), num if isinstance(num, int) else tuple(num))
        return StatefulPRNG(keys, new_ref(zeros(keys.shape, np.int32)))

    @boundary
    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of independent generators.

        Args:
          n_children: the number of generators.

        Raises:
          ValueError: the generator was split.
        """
        return [StatefulPRNG(key, new_ref(0)) for key in split(self.key(), n_children)]


def _shape(size: Size, *args: Any) -> tuple[int, ...]:
    """The shape of a draw: the given size, or the broadcast shape of its parameters."""
    if size is None:
        return broadcast_shapes(*(shape_of(check_array("size", x)) for x in args)) if args else ()
    return (size,) if isinstance(size, int) else tuple(size)


@boundary
def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A random generator that keeps its own state, like NumPy's.

    Args:
      seed: an integer; None: a random one from NumPy's generator, outside of traced functions.
      impl: the generator of keys; see `mjax.random.key`.

    Returns:
      A `StatefulPRNG`. Draw n equals that of `mjax.random` with the key `fold_in(key(seed), n)`.

    Raises:
      TypeError: the seed is not an integer, or is missing in a traced function.

    Example:
      >>> from mjax.experimental.random import stateful_rng
      >>> rng = stateful_rng(42)
      >>> draw = mjax.jit(lambda: rng.uniform())
      >>> float(draw()) != float(draw())
      True

    Source: the public interface of `jax.experimental.random`.
    """
    if seed is None:
        if thread.interpreter.parent is not None:
            msg = ("stateful_rng needs a seed in a traced function: a seed from NumPy would be the "
                   "same in each call. Give one, or take the generator as an argument.")
            raise TypeError(msg)
        seed = int(np.random.randint(0, 2 ** 32, dtype=np.uint32))  # obeys numpy.random.seed
    return StatefulPRNG(key_of(seed, impl=impl), new_ref(0))


__all__ = ["StatefulPRNG", "stateful_rng"]
