"""Values of a program, made of the arrays that its devices hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.token_types import AbstractToken, token_buffer_aval
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.assembling import assembled
from mjax._engine.runtime.arrays.resharding import layout_of
from mjax._engine.runtime.arrays.token_values import Token
from mjax._tools.api_util import safe_zip

#: Makes a value of the arrays on each device.
Handler = Callable[[Sequence[Array]], Any]


def _array(aval: ShapedArray, sharding: Any, committed: bool) -> Handler:
    physical = physical_aval(aval)

    def make(arrays: Sequence[Array]) -> Array:
        whole = assembled("global_result_handlers", physical.shape, physical.dtype, sharding,
                          arrays, committed)
        if physical is aval:
            return whole
        return Array(whole._existing(), layout_of(aval, sharding, committed).placement)

    return make


def _token(aval: AbstractToken, sharding: Any, committed: bool) -> Handler:
    make = _array(token_buffer_aval, sharding, committed)
    return lambda arrays: Token(make(arrays))


#: Class of types -> `(type, sharding, committed) -> handler`, which makes values of buffers.
global_result_handlers: Mapping[type, Callable[[Any, Any, bool], Handler]] = MappingProxyType(
    {ShapedArray: _array, AbstractToken: _token})


@boundary
def global_aval_to_result_handler(aval: Any, out_sharding: Any, committed: bool) -> Handler:
    """A function that makes one value of the arrays on each device.

    Args:
      aval: the type of the value.
      out_sharding: which device holds which part.
      committed: whether the value stays on these devices.

    Returns:
      A function of a list of arrays, one for each device of this process. It copies nothing. Its
      errors are those of `mjax.make_array_from_single_device_arrays`.

    Raises:
      TypeError: values of this type are not arrays, keys or tokens.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> x = jnp.ones(2)
      >>> pxla.global_aval_to_result_handler(mjax.typeof(x), x.sharding, True)([x])
      Array([1., 1.], dtype=float32)

    Source: JAX, `jax.interpreters.pxla.global_aval_to_result_handler`.
    """
    make = global_result_handlers.get(type(aval))
    if make is None:
        raise LazyTypeError(lambda: (
            f"values of type {aval!r} are not made of one array on each device: "
            f"{type(aval).__name__} is not in global_result_handlers. Make the value of the arrays "
            "of aval.physical()."))
    return make(aval, out_sharding, committed)


class ResultsHandler:
    """Makes the values of a program of the arrays on each device.

    Args:
      handlers: one function per value, which takes the arrays.
      out_shardings: the shardings of the values.
      out_avals: their types.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> x = jnp.ones(2)
      >>> results = pxla.global_avals_to_results_handler([mjax.typeof(x)], [x.sharding], True)
      >>> results([[x]])
      [Array([1., 1.], dtype=float32)]

    Source: JAX, `jax._src.interpreters.pxla.ResultsHandler`.
    """

    __slots__ = ("handlers", "out_avals", "out_shardings")
    handlers: Sequence[Handler]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]

    def __init__(self, handlers: Sequence[Handler], out_shardings: Sequence[Any],
                 out_avals: Sequence[Any]):
        self.handlers = handlers
        self.out_shardings = out_shardings
        self.out_avals = out_avals

    def __call__(self, out_bufs: Sequence[Sequence[Array]]) -> list[Any]:
        return [make(arrays) for make, arrays in safe_zip(self.handlers, out_bufs)]


def global_avals_to_results_handler(global_out_avals: Sequence[Any], shardings: Sequence[Any],
                                    committed: bool) -> ResultsHandler:
    """A function that makes all values of a program; see `global_aval_to_result_handler`.

    Args:
      global_out_avals: the types of the values.
      shardings: their shardings.
      committed: whether the values stay on these devices.

    Returns:
      `buffers of all results -> list of values`.

    Raises:
      TypeError: values of a type are not arrays, keys or tokens.
      ValueError: there are more or fewer shardings than types.

    Example:
      >>> from mjax_ext.interpreters import pxla
      >>> pxla.global_avals_to_results_handler([], [], True)([])
      []

    Source: JAX, `jax.interpreters.pxla.global_avals_to_results_handler`.
    """
    handlers = [global_aval_to_result_handler(aval, sharding, committed)
                for aval, sharding in safe_zip(global_out_avals, shardings)]
    return ResultsHandler(handlers, shardings, global_out_avals)
