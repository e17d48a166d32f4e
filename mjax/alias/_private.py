"""Private names of jax that libraries use and that mjax has under no name of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from mjax._engine.base import folding
from mjax._engine.ir import dtypes
from mjax._engine.primitives.threefry import threefry_prng
from mjax._engine.runtime.effects.tokens import effects_barrier
from mjax._engine.runtime.processes import clusters, distributed
from mjax._library.gradient_checks import assert_close
from mjaxlib_shim.trees import is_node_type

#: The default generator, as functions on the storage of a key.
threefry_random_bits = threefry_prng.random_bits
threefry_seed = threefry_prng.seed
threefry_split = threefry_prng.split

#: For annotations.
DType = np.dtype


class _Registry:
    """The classes that are containers of pytrees: `class in registry`."""

    def __contains__(self, node_type: type) -> bool:
        return is_node_type(node_type)


_registry = _Registry()


class _ExcludePaths:
    """The paths that tracebacks leave out, as far as libraries use that list."""

    def __iter__(self) -> Iterator[str]:
        return iter(folding.exclusions())

    def __contains__(self, path: str) -> bool:
        return os.path.abspath(path) in folding.exclusions()

    def append(self, path: str) -> None:
        """Leaves a path out."""
        folding.register_exclusion(path)

    def remove(self, path: str) -> None:
        """Shows it again; ValueError if it is not there."""
        folding.unregister_exclusion(path)


_exclude_paths = _ExcludePaths()


def _layout() -> clusters.Layout:
    session = distributed.session()
    return session.layout if session else clusters.Layout()


class State:
    """The processes of this computation: what `mjax.distributed.initialize` was told or found."""

    @property
    def process_id(self) -> int:
        """The number of this process, 0 before `initialize`."""
        return _layout().process_id or 0

    @property
    def num_processes(self) -> int:
        """How many there are, 1 before `initialize`."""
        return _layout().num_processes or 1

    @property
    def coordinator_address(self) -> str | None:
        """Where the first process listens."""
        return _layout().coordinator_address

    @property
    def client(self) -> Any:
        """jaxlib's client of the key-value store; None before `initialize`."""
        session = distributed.session()
        return session.client if session else None


global_state = State()

#: For annotations: the result of a checked function.
Out = TypeVar("Out")


class TypedNdArray:
    """Arrays among the constants of a program that are not `Array`s: mjax does not make any.

    So `isinstance(x, TypedNdArray)` is always false, which is the use that libraries have for it.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TypedNdArray:
        raise TypeError(f"mjax does not have a {cls.__name__}: constants of programs are NumPy's, "
                        "or `Array`s")


class TypedInt(TypedNdArray, int):
    """A weakly typed int of a known dtype."""


class TypedFloat(TypedNdArray, float):
    """A weakly typed float of a known dtype."""


class TypedComplex(TypedNdArray, complex):
    """A weakly typed complex number of a known dtype."""


def check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Asserts that two trees have equal shapes, and values within the tolerances.

    Args:
      xs, ys: the trees.
      atol, rtol: tolerances, by dtype or for all; None: those of `mjax.test_util`.
      err_msg: said by the error.

    Raises:
      AssertionError: they are not close.
    """
    assert_close(xs, ys, atol, rtol, err_msg)


def supports_inf(dtype: Any) -> bool:
    """Whether a float dtype has infinities."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isinf(np.asarray(np.inf, dtypes.as_dtype(dtype)).astype(np.float32)))


def to_complex_dtype(dtype: Any) -> Any:
    """The complex dtype whose parts have a float dtype, complex64 at least."""
    return dtypes.complex_dtype(dtypes.as_dtype(dtype))


def wait_for_tokens() -> None:
    """Waits until the side effects of this thread's computations have happened."""
    effects_barrier()
