"""Small neural networks for examples.

A layer is a pair of functions. `init_fun(rng, input_shape)` gives the shape of the output and the
parameters; the size of the batch may be -1. `apply_fun(params, inputs, **kwargs)` gives the output;
layers that need random numbers take a key as `rng`. `serial` and `parallel` join layers.

Example:
  >>> from mjax.example_libraries import optimizers, stax
  >>> init_fun, apply_fun = stax.serial(
  ...     stax.Conv(4, (3, 3)), stax.Relu, stax.Flatten, stax.Dense(2), stax.LogSoftmax)
  >>> shape, params = init_fun(random.key(0), (-1, 8, 8, 1))
  >>> apply_fun(params, jnp.ones((5, 8, 8, 1))).shape
  (5, 2)
"""

from mjax._engine.base.faces import face
from mjax._library.combinators import parallel, serial, shape_dependent
from mjax._library.stax import (
    AvgPool,
    BatchNorm,
    Conv,
    Conv1DTranspose,
    ConvTranspose,
    Dense,
    Dropout,
    Elu,
    Exp,
    FanInConcat,
    FanInSum,
    FanOut,
    Flatten,
    Gelu,
    GeneralConv,
    GeneralConvTranspose,
    Identity,
    LeakyRelu,
    LogSoftmax,
    MaxPool,
    Relu,
    Selu,
    Sigmoid,
    Softmax,
    Softplus,
    SumPool,
    Tanh,
    elementwise,
    glorot,
    logsoftmax,
    randn,
)
from mjax._nn.initializers import normal, ones, zeros
from mjax._nn.named_initializers import glorot_normal
from mjax._nn.normalizing import log_softmax, softmax, standardize
from mjax._nn.rectifiers import elu, gelu, leaky_relu, relu, selu
from mjax._nn.sigmoids import sigmoid, softplus

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout",
    "Elu", "Exp", "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv",
    "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu",
    "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "elu", "gelu", "glorot",
    "glorot_normal", "leaky_relu", "log_softmax", "logsoftmax", "normal", "ones", "parallel",
    "randn", "relu", "selu", "serial", "shape_dependent", "sigmoid", "softmax", "softplus",
    "standardize", "zeros",
]

face("mjax.example_libraries.stax")
