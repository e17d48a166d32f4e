"""Small neural networks for examples: layers. `combinators` joins them.

A layer is a pair of functions. `init_fun(rng, input_shape)` gives the output shape and the
parameters; `apply_fun(params, inputs, **kwargs)` gives the output. Layers that need random numbers
take a key as `rng`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.control.reduce import reduce_window
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add
from mjax._engine.primitives.arithmetic import max as maximum
from mjax._engine.primitives.conv_variants import (
    conv_general_shape_tuple,
    conv_transpose,
    conv_transpose_shape_tuple,
)
from mjax._engine.primitives.convolution import conv_general_dilated
from mjax._engine.primitives.sliding import padtype_to_pads
from mjax._engine.primitives.windows import reduce_window_shape_tuple
from mjax._library.combinators import Layer
from mjax._nn.initializers import normal, ones, zeros
from mjax._nn.named_initializers import glorot_normal
from mjax._nn.normalizing import log_softmax, softmax, standardize
from mjax._nn.rectifiers import elu, gelu, leaky_relu, relu, selu
from mjax._nn.sigmoids import sigmoid, softplus
from mjax._numpy.core import shape_of
from mjax._numpy.creation import ones as ones_of
from mjax._numpy.elementary import exp, tanh
from mjax._numpy.joining import concatenate
from mjax._numpy.products import dot
from mjax._numpy.random.keys import split
from mjax._numpy.random.uniform import bernoulli
from mjax._numpy.selecting import where
from mjax._numpy.shapes import expand_dims, reshape

# Older names.
glorot = glorot_normal
randn = normal
logsoftmax = log_softmax

_glorot, _small, _tiny = glorot_normal(), normal(), normal(1e-6)

_FRAGMENTS = {
    "window": """\
strides: the strides of the windows; by default 1.
padding: "VALID" or "SAME".""",
    "initializers": "W_init, b_init: initializers of the weights and of the bias.",
    "layer": "Returns:\n  `(init_fun, apply_fun)`.",
    "numbers": """\
dimension_numbers: the axes of inputs, filters and outputs, as `lax.conv_general_dilated`
  takes them: `("NHWC", "HWIO", "NHWC")`.""",
    "conv_raises": """\
Raises:
  TypeError: `dimension_numbers` or `filter_shape` is not a sequence. `init_fun` raises it for an
    invalid key, invalid sizes or strides; `apply_fun` for inputs of another rank or dtype.
  ValueError: there are not three dimension numbers, or those of the filters lack "I" or "O",
    which the default of `W_init` needs. `init_fun` raises it for an unknown padding or an
    `input_shape` of another rank; `apply_fun`, for another number of channels.
  AttributeError: `W_init` is not given, and the dimension numbers of the filters are neither a
    string nor a sequence.
  StopIteration: `init_fun` is called, and `filter_shape` has too few sizes.
  ZeroDivisionError: `init_fun` is called without `W_init`, and a size of the filters is 0.""",
}


# ---- layers with parameters ------------------------------------------------------------


@documented(**_FRAGMENTS)
def Dense(out_dim: int, W_init: Any = _glorot, b_init: Any = _small) -> Layer:
    """A dense layer: multiplies by a matrix and adds a bias.

    Args:
      out_dim: the size of the last axis of the output.
      [initializers]

    [layer]

    Raises:
      TypeError: `init_fun` is called with an invalid key, or with a last size that is negative
        or not an integer, or `out_dim` is such a size. `apply_fun` raises it if the inputs are
        not an array, or do not match the parameters.
      ValueError: `apply_fun` is called with fewer or more than two parameters.
      IndexError: `init_fun` is called with an empty shape.
      ZeroDivisionError: `init_fun` is called without `W_init`, and a size of the matrix is 0.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.serial(stax.Dense(3), stax.Relu, stax.Dense(1))
      >>> shape, params = init(random.key(0), (-1, 2))
      >>> shape, apply(params, jnp.ones((5, 2))).shape
      ((-1, 1), (5, 1))
    """

    def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
        of_matrix, of_vector = split(rng)
        params = W_init(of_matrix, (input_shape[-1], out_dim)), b_init(of_vector, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return dot(inputs, W) + b

    return init_fun, apply_fun


def _check_rank(layer: str, shape: Sequence[int], rank: int) -> None:
    if len(shape) != rank:
        msg = (f"init_fun of a {layer} of stax: input_shape must have {rank} sizes, those of batch "
               f"and channels included, got {tuple(shape)}. The size of the batch may be -1.")
        raise ValueError(msg)


def _convolution(shape_tuple: Any, convolve: Any, dimension_numbers: Any, out_chan: int,
                 filter_shape: Sequence[int], strides: Any, padding: str, W_init: Any,
                 b_init: Any) -> Layer:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
        _check_rank("convolution", input_shape, len(lhs_spec))
        sizes = iter(filter_shape)
        known = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        kernel = [known[c] if c in known else next(sizes) for c in rhs_spec]
        bias = [out_chan if c == "C" else 1 for c in out_spec]
        of_kernel, of_bias = split(rng)
        out = shape_tuple(input_shape, kernel, strides, padding, dimension_numbers)
        return out, (W_init(of_kernel, kernel), b_init(of_bias, bias))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return convolve(inputs, W, strides, padding, dimension_numbers=dimension_numbers) + b

    return init_fun, apply_fun


@documented(**_FRAGMENTS)
def GeneralConv(dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int],
                strides: Any = None, padding: str = "VALID", W_init: Any = None,
                b_init: Any = _tiny) -> Layer:
    """A convolution layer.

    Args:
      [numbers]
      out_chan: the number of output channels.
      filter_shape: the shape of the filters along the spatial axes.
      [window]
      [initializers]

    [layer]

    [conv_raises]

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.GeneralConv(("NHWC", "HWIO", "NHWC"), 8, (3, 3))
      >>> init(random.key(0), (1, 5, 5, 2))[0]
      (1, 3, 3, 8)
    """
    return _convolution(conv_general_shape_tuple, conv_general_dilated, dimension_numbers,
                        out_chan, filter_shape, strides, padding, W_init, b_init)


#: `GeneralConv` of images, channels last.
Conv: Callable[..., Layer] = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))


@documented(**_FRAGMENTS)
def GeneralConvTranspose(dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int],
                         strides: Any = None, padding: str = "VALID", W_init: Any = None,
                         b_init: Any = _tiny) -> Layer:
    """A transposed convolution layer.

    Args:
      [numbers]
      out_chan: the number of output channels.
      filter_shape: the shape of the filters along the spatial axes.
      [window]
      [initializers]

    [layer]

    [conv_raises]

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 8, (3, 3))
      >>> init(random.key(0), (1, 5, 5, 2))[0]
      (1, 7, 7, 8)
    """
    return _convolution(conv_transpose_shape_tuple, conv_transpose, dimension_numbers, out_chan,
                        filter_shape, strides, padding, W_init, b_init)


#: `GeneralConvTranspose` of sequences and of images, channels last.
Conv1DTranspose: Callable[..., Layer] = functools.partial(
    GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose: Callable[..., Layer] = functools.partial(
    GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


@documented(**_FRAGMENTS)
def BatchNorm(axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True,
              scale: bool = True, beta_init: Any = zeros, gamma_init: Any = ones) -> Layer:
    """A batch normalization layer: mean 0 and variance 1 over some axes.

    Args:
      axis: these axes.
      epsilon: added to the variances.
      center, scale: whether to add a learned offset, and to multiply by a learned scale.
      beta_init, gamma_init: initializers of offset and scale.

    [layer]

    Raises:
      TypeError: `init_fun` is called with an invalid key or shape. `apply_fun` raises it if the
        inputs are not an array or do not match the parameters, or an axis is not an integer.
      ValueError: `apply_fun` is called with fewer or more than two parameters, or with inputs that
        do not have one of the axes.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.BatchNorm(axis=0)
      >>> _, params = init(random.key(0), (2, 1))
      >>> apply(params, jnp.array([[1.0], [5.0]])).round(3)
      Array([[-1.],
             [ 1.]], dtype=float32)

    Source: S. Ioffe and C. Szegedy, "Batch normalization", 2015.
    """
    axes = (axis,) if np.ndim(axis) == 0 else axis

    def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
        shape = tuple([n for i, n in enumerate(input_shape) if i not in axes])
        of_beta, of_gamma = split(rng)
        beta = beta_init(of_beta, shape) if center else ()
        return input_shape, (beta, gamma_init(of_gamma, shape) if scale else ())

    def apply_fun(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        z = standardize(x, axes, epsilon=epsilon)
        kept = tuple([i for i in range(typeof(x).ndim) if i in axes])
        if scale:
            z = expand_dims(gamma, kept) * z
        return z + expand_dims(beta, kept) if center else z

    return init_fun, apply_fun


# ---- layers without parameters ---------------------------------------------------------


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that applies a function.

    Args:
      fun: maps the input array to an array of the same shape.
      fun_kwargs: further arguments of `fun`, by name.

    Returns:
      `(init_fun, apply_fun)`.

    Raises:
      Anything that `fun` raises, when `apply_fun` is called.
      TypeError: `apply_fun` is called, and `fun` is not a function or does not take `fun_kwargs`.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.elementwise(jnp.sqrt)
      >>> apply((), jnp.array([4.0, 9.0]))
      Array([2., 3.], dtype=float32)
    """
    return (lambda rng, input_shape: (input_shape, ()),
            lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs))


#: Layers without parameters: the function of the name, of each element or along the last axis.
Tanh: Layer = elementwise(tanh)
Relu: Layer = elementwise(relu)
Exp: Layer = elementwise(exp)
LogSoftmax: Layer = elementwise(log_softmax, axis=-1)
Softmax: Layer = elementwise(softmax, axis=-1)
Softplus: Layer = elementwise(softplus)
Sigmoid: Layer = elementwise(sigmoid)
Elu: Layer = elementwise(elu)
LeakyRelu: Layer = elementwise(leaky_relu)
Selu: Layer = elementwise(selu)
Gelu: Layer = elementwise(gelu)


def _outer_axes(spec: str | None, rank: int) -> list[int]:
    """The axes of batches and of channels."""
    return [0, rank - 1] if spec is None else sorted([spec.index("N"), spec.index("C")])


def _pooling(reducer: Any, init_value: float, mean: bool) -> Callable[..., Layer]:
    @documented(**_FRAGMENTS)
    def PoolingLayer(window_shape: tuple[int, ...], strides: tuple[int, ...] | None = None,
                     padding: str = "VALID", spec: str | None = None) -> Layer:
        """A pooling layer: reduces windows of each channel.

        Args:
          window_shape: the shape of the windows along the spatial axes.
          [window]
          spec: the order of the input's axes; by default "NHWC".

        [layer]

        Raises:
          TypeError: `window_shape` or `strides` is not a sequence. The layer raises it if they do
            not hold positive integers; `apply_fun`, for inputs of another rank, or booleans.
          ValueError: `spec` lacks "N" or "C". The layer raises it if `padding` is an unknown name;
            `init_fun`, for an `input_shape` of another rank.
          AttributeError: `spec` is neither a string nor a sequence.

        Example:
          >>> from mjax.example_libraries import stax
          >>> init, apply = stax.MaxPool((2, 2), strides=(2, 2))
          >>> apply((), jnp.arange(16.0).reshape(1, 4, 4, 1)).squeeze()
          Array([[ 5.,  7.],
                 [13., 15.]], dtype=float32)
        """
        inner = tuple(window_shape), tuple(strides or (1,) * len(window_shape))
        window, steps = map(list, inner)
        batch = 0 if spec is None else spec.index("N")
        for i in _outer_axes(spec, len(window_shape) + 2):
            window.insert(i, 1)
            steps.insert(i, 1)

        def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
            _check_rank("pooling layer", input_shape, len(window))
            known = [0 if i == batch else n for i, n in enumerate(input_shape)]
            pads = padtype_to_pads(known, window, steps, padding)
            none = (1,) * len(window)
            out = list(reduce_window_shape_tuple(known, window, steps, pads, none, none))
            out[batch] = input_shape[batch]
            return tuple(out), ()

        def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
            out = reduce_window(inputs, init_value, reducer, tuple(window), tuple(steps), padding)
            return out / _window_sizes(inputs, inner, padding, spec) if mean else out

        return init_fun, apply_fun

    return PoolingLayer


def _window_sizes(inputs: Any, inner: Any, padding: str, spec: str | None) -> Any:
    """The number of elements in each window; fewer at the edges."""
    axes = _outer_axes(spec, typeof(inputs).ndim)
    spatial = [n for i, n in enumerate(shape_of(inputs)) if i not in axes]
    window, steps = inner
    sizes = reduce_window(ones_of(spatial, typeof(inputs).dtype), 0.0, add, window, steps, padding)
    return expand_dims(sizes, axes)


MaxPool: Callable[..., Layer] = _pooling(maximum, -np.inf, False)
SumPool: Callable[..., Layer] = _pooling(add, 0.0, False)
AvgPool: Callable[..., Layer] = _pooling(add, 0.0, True)

#: Flattens all axes but the first.
Flatten: Layer = (
    lambda rng, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ()),
    lambda params, inputs, **kwargs: reshape(inputs, (shape_of(inputs)[0], -1)))
#: The identity.
Identity: Layer = elementwise(lambda x: x)


def FanOut(num: int) -> Layer:
    """A layer that repeats its input.

    Args:
      num: the number of copies.

    Returns:
      `(init_fun, apply_fun)`; the output is a list of `num` arrays.

    Raises:
      TypeError: the layer cannot multiply a list by `num`, as by a float or a string.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.FanOut(2)
      >>> apply((), jnp.ones(3))
      [Array([1., 1., 1.], dtype=float32), Array([1., 1., 1.], dtype=float32)]
    """
    return (lambda rng, input_shape: ([input_shape] * num, ()),
            lambda params, inputs, **kwargs: [inputs] * num)


#: Adds its inputs.
FanInSum: Layer = (lambda rng, input_shape: (input_shape[0], ()),
                   lambda params, inputs, **kwargs: functools.reduce(operator.add, inputs))


def FanInConcat(axis: int = -1) -> Layer:
    """A layer that concatenates its inputs along an axis.

    Args:
      axis: the axis.

    Returns:
      `(init_fun, apply_fun)`; the input is a list of arrays, the output one array.

    Raises:
      TypeError: `axis` is a string, a float or a tuple; the layer says so when it is called.
        `apply_fun` also raises it if shapes do not match, or an input is not an array.
      ValueError: `apply_fun` is called without inputs, or with too few axes.
      IndexError: `init_fun` is called without shapes, or with too few axes.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.FanInConcat()
      >>> apply((), [jnp.ones(2), jnp.zeros(1)])
      Array([1., 1., 0.], dtype=float32)
    """

    def init_fun(rng: Any, input_shape: Sequence[Sequence[int]]) -> Any:
        out = list(input_shape[0])
        out[axis] = sum([shape[axis] for shape in input_shape])
        return tuple(out), ()

    return init_fun, lambda params, inputs, **kwargs: concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """A dropout layer, which zeroes random elements; its `apply_fun` takes `rng`.

    Args:
      rate: the probability of keeping an element; kept elements are divided by it.
      mode: "train"; any other mode keeps all elements.

    Returns:
      `(init_fun, apply_fun)`.

    Raises:
      ValueError: `apply_fun` is called without `rng`, or draws with an array of keys.
      TypeError: `apply_fun` is called in mode "train", and `rng` is not a key, `rate` is not a
        float, or the inputs are not an array.

    Example:
      >>> from mjax.example_libraries import stax
      >>> init, apply = stax.Dropout(0.5)
      >>> x = apply((), jnp.ones(100), rng=random.key(0))
      >>> bool(((x == 0) | (x == 2)).all())
      True

    Source: N. Srivastava and others, "Dropout: a simple way to prevent neural networks from
    overfitting", 2014.
    """

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            msg = ("a Dropout layer needs a key: call apply_fun(params, inputs, rng=key), with a "
                   "key from mjax.random.key.")
            raise ValueError(msg)
        if mode != "train":
            return inputs
        return where(bernoulli(rng, rate, shape_of(inputs)), inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply_fun
