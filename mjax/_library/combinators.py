"""Combinators of small neural networks: layers in sequence, in parallel, or by shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any

from mjax._engine.base.errors import LazyArgumentError
from mjax._numpy.core import shape_of
from mjax._numpy.random.keys import split

#: `(init_fun, apply_fun)`.
Layer = tuple[Callable[..., Any], Callable[..., Any]]


def _keys(rng: Any, count: int) -> Any:
    return (None,) * count if rng is None else split(rng, count)


def _pairs(name: str, layers: Sequence[Layer]) -> tuple[Any, Any]:
    """The functions `init_fun` and `apply_fun` of some layers."""
    if not layers:
        msg = f"stax.{name}: give at least one layer, such as stax.Dense(3)."
        raise ValueError(msg)
    for layer in layers:
        if not isinstance(layer, tuple | list) or len(layer) != 2:
            found = getattr(layer, "__name__", type(layer).__name__)
            msg = (f"stax.{name}: a layer must be a pair (init_fun, apply_fun), got {found}. A "
                   "function that makes layers must be called, as stax.Dense(3).")
            raise LazyArgumentError(msg)
    return tuple(init for init, _ in layers), tuple(apply for _, apply in layers)


def _check_items(name: str, what: str, items: Any, count: int) -> None:
    if isinstance(items, Sized) and len(items) != count:
        msg = (f"stax.{name}: {what} must have an item for each of the {count} layers, got "
               f"{len(items)}.")
        raise ValueError(msg)


def serial(*layers: Layer) -> Layer:
    """A layer that applies several layers in sequence.

    Args:
      layers: pairs `(init_fun, apply_fun)`.

    Returns:
      `(init_fun, apply_fun)`; the parameters are the list of the layers' parameters.

    Raises:
      Anything that a layer raises.
      ValueError: `layers` is empty, or holds something other than a pair. `apply_fun` raises it if
        the parameters are fewer or more than the layers.
      TypeError: a layer is not a sequence, or a key is invalid.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.serial(stax.Dense(4), stax.Relu)
      >>> shape, params = init(random.key(0), (2, 3))
      >>> shape, apply(params, jnp.ones((2, 3))).shape
      ((2, 4), (2, 4))
    """
    inits, applies = _pairs("serial", layers)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        params = []
        for init in inits:
            rng, key = split(rng)
            input_shape, param = init(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        _check_items("serial", "the parameters", params, len(layers))
        rngs = _keys(kwargs.pop("rng", None), len(layers))
        for apply, param, rng in zip(applies, params, rngs, strict=True):
            inputs = apply(param, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """A layer that applies several layers in parallel, each to its own input.

    Args:
      layers: pairs `(init_fun, apply_fun)`.

    Returns:
      `(init_fun, apply_fun)`; inputs, outputs and parameters are sequences with one item for
      each layer.

    Raises:
      Anything that a layer raises.
      ValueError: `layers` is empty, or holds something other than a pair. The functions raise it if
        the shapes, inputs or parameters are fewer or more than the layers.
      TypeError: a layer is not a sequence, or a key is invalid.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.serial(stax.FanOut(2), stax.parallel(stax.Identity, stax.Exp))
      >>> _, params = init(random.key(0), (2,))
      >>> apply(params, jnp.zeros(2))
      [Array([0., 0.], dtype=float32), Array([1., 1.], dtype=float32)]
    """
    inits, applies = _pairs("parallel", layers)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        _check_items("parallel", "the shapes of the inputs", input_shape, len(layers))
        rngs = split(rng, len(layers))
        return zip(*[init(key, shape) for init, key, shape in zip(
            inits, rngs, input_shape, strict=True)], strict=True)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        _check_items("parallel", "the parameters", params, len(layers))
        _check_items("parallel", "the inputs", inputs, len(layers))
        rngs = _keys(kwargs.pop("rng", None), len(layers))
        return [apply(param, x, rng=rng, **kwargs) for apply, param, x, rng in zip(
            applies, params, inputs, rngs, strict=True)]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that depends on the shape of its input.

    Args:
      make_layer: a function from the shape of the input to a pair `(init_fun, apply_fun)`.

    Returns:
      `(init_fun, apply_fun)`.

    Raises:
      Anything that `make_layer` or a function of its layer raises, when the layer is called.
      TypeError: the layer is called, and `make_layer` is not a function, or the input of
        `apply_fun` is not an array.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1]))
      >>> init(random.key(0), (1, 3))[0]
      (1, 6)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(shape_of(inputs))[1](params, inputs, **kwargs)

    return init_fun, apply_fun
