"""Rectifiers and gated activations: ReLU, ELU, GELU, SiLU, GLU and others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.special import erfc
from mjax._nn.sigmoids import hard_sigmoid, operand, relu6, shared, sigmoid, softplus
from mjax._numpy.arithmetic import maximum, minimum
from mjax._numpy.comparison import greater
from mjax._numpy.core import choose, promote_args_inexact
from mjax._numpy.elementary import expm1, tanh
from mjax._numpy.fused import fused
from mjax._numpy.selecting import where
from mjax._numpy.splitting import split

# ---- piecewise linear ------------------------------------------------------------------


@custom_jvp
def _relu(x: Any) -> Any:
    return maximum(x, 0)


_relu.defjvps(lambda t, out, x: choose(greater(x, 0), t, constant_like(t, 0)))


@fused
@documented(**shared)
def relu(x: Any) -> Any:
    """Rectified linear unit: `max(x, 0)`.

    Args:
      [x]

    Returns:
      An array of the shape and dtype of `x`. The derivative at 0 is 0.

    Raises:
      [raises]

    Source: Bertoin, Bolte, Gerchinovitz, Pauwels 2021, "Numerical influence of ReLU'(0) on
    backpropagation", for the derivative at 0.

    Example:
      >>> mjax.nn.relu(jnp.array([-2.0, 0.0, 2.0]))
      Array([0., 0., 2.], dtype=float32)
    """
    return _relu(operand("relu", x))


@fused
@documented(**shared)
def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """Rectified linear unit with a slope on the negative side: `x`, or `negative_slope * x`.

    Args:
      [x]
      negative_slope: the slope for negative numbers, a scalar or an array that broadcasts.

    Returns:
      An array of the shape and dtype of `x`. The derivative at 0 is 1.

    Raises:
      [raises]

    Source: Maas, Hannun, Ng 2013, "Rectifier nonlinearities improve neural network acoustic
    models".

    Example:
      >>> mjax.nn.leaky_relu(jnp.array([-2.0, 0.0, 2.0]), 0.5)
      Array([-1.,  0.,  2.], dtype=float32)
    """
    x = operand("leaky_relu", x)
    return where(x >= 0, x, negative_slope * x)


# ---- exponential on the negative side --------------------------------------------------


def _elu(x: Any, alpha: Any) -> Any:
    positive = x > 0
    # Avoids infinite exponentials: their derivative times 0 would be NaN.
    return where(positive, x, alpha * expm1(where(positive, 0.0, x)))


@fused
@documented(**shared)
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """Exponential linear unit: `x` if positive, else `alpha * (exp(x) - 1)`.

    Args:
      [x]
      [alpha]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Clevert, Unterthiner, Hochreiter 2015, "Fast and accurate deep network learning by
    exponential linear units".

    Example:
      >>> mjax.nn.elu(jnp.array([-100.0, 0.0, 2.0]))
      Array([-1.,  0.,  2.], dtype=float32)
    """
    return _elu(operand("elu", x), alpha)


@fused
@documented(**shared)
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """Exponential linear unit with a slope of 1 at 0: `x` if positive, else
    `alpha * (exp(x / alpha) - 1)`.

    Args:
      [x]
      [alpha]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Barron 2017, "Continuously differentiable exponential linear units".

    Example:
      >>> mjax.nn.celu(jnp.array([-100.0, 0.0, 2.0]), 3.0)
      Array([-3.,  0.,  2.], dtype=float32)
    """
    x = operand("celu", x)
    return maximum(x, 0.0) + alpha * expm1(minimum(x, 0.0) / alpha)


#: Constants with which layers preserve mean 0 and variance 1.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@fused
@documented(**shared)
def selu(x: Any) -> Any:
    """Scaled exponential linear unit: `scale * elu(x, alpha)` with alpha = 1.6733, scale = 1.0507.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Klambauer, Unterthiner, Mayr, Hochreiter 2017, "Self-normalizing neural networks".

    Example:
      >>> print(f"{mjax.nn.selu(1.0):.2f}")
      1.05
    """
    return _SELU_SCALE * _elu(operand("selu", x), _SELU_ALPHA)


# ---- smooth rectifiers -----------------------------------------------------------------


@fused(static_argnames=("approximate",))
@documented(**shared)
def gelu(x: Any, approximate: bool = True) -> Any:
    """Gaussian error linear unit: `x` times the normal distribution function at `x`.

    Args:
      [x]
      approximate: whether to use the tanh approximation, accurate to about three digits.

    Returns:
      [float]

    Raises:
      [raises]

    Source: Hendrycks, Gimpel 2016, "Gaussian error linear units", section 2.

    Example:
      >>> print(f"{mjax.nn.gelu(1.0, approximate=False):.2f}")
      0.84
    """
    x, = promote_args_inexact("gelu", x)
    x = operand("gelu", x)
    if approximate:
        linear, cubic = np.asarray(math.sqrt(2 / math.pi) * np.array([1, 0.044715]),
                                   typeof(x).dtype)
        # Not by x**3, whose slope overflows in 16 bits from 148 on.
        return x * (0.5 * (1.0 + tanh(x * (linear + cubic * x * x))))
    rate = np.asarray(math.sqrt(0.5), typeof(x).dtype)[()]
    return 0.5 * x * erfc(lax.neg(x) * rate)


@fused
@documented(**shared)
def silu(x: Any) -> Any:
    """Sigmoid linear unit, or swish: `x * sigmoid(x)`.

    Args:
      [floats]

    Returns:
      [same]

    Raises:
      [raises]

    Source: Elfwing, Uchibe, Doya 2017, "Sigmoid-weighted linear units for neural network function
    approximation in reinforcement learning".

    Example:
      >>> print(f"{mjax.nn.silu(1.0):.2f}")
      0.73
    """
    x = operand("silu", x)
    return x * sigmoid(x)


swish = silu


@fused
@documented(**shared)
def mish(x: Any) -> Any:
    """Self-regularized rectifier: `x * tanh(softplus(x))`.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Misra 2019, "Mish: a self regularized non-monotonic activation function".

    Example:
      >>> print(f"{mjax.nn.mish(1.0):.2f}")
      0.87
    """
    x = operand("mish", x)
    return x * tanh(softplus(x))


@fused
@documented(**shared)
def hard_silu(x: Any) -> Any:
    """Sigmoid linear unit with a piecewise linear sigmoid: `x * hard_sigmoid(x)`.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Howard and others 2019, "Searching for MobileNetV3", section 5.2.

    Example:
      >>> mjax.nn.hard_silu(jnp.array([-4.0, 0.0, 4.0]))
      Array([-0.,  0.,  4.], dtype=float32)
    """
    x = operand("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@fused(static_argnames=("axis",))
@documented(**shared)
def glu(x: Any, axis: int = -1) -> Any:
    """Gated linear unit: the first half along an axis times the sigmoid of the second half.

    Args:
      [floats]
      axis: the axis to halve.

    Returns:
      An array of the dtype of `x`, with half as many elements along the axis.

    Raises:
      TypeError: `x` is not an array of floats.
      ValueError: the size along the axis is odd, or the axis is out of range.

    Source: Dauphin, Fan, Auli, Grangier 2016, "Language modeling with gated convolutional
    networks".

    Example:
      >>> mjax.nn.glu(jnp.array([1.0, 2.0, 0.0, 0.0]))
      Array([0.5, 1. ], dtype=float32)
    """
    x = operand("glu", x)
    shape = typeof(x).shape
    axis = canonicalize_axis(axis, len(shape))
    if shape[axis] % 2:
        msg = (f"glu halves an axis, but axis {axis} of shape {shape} has an odd size; pad it, or "
               "give another axis.")
        raise ValueError(msg)
    first, second = split(x, 2, axis)
    return first * sigmoid(second)


__all__ = ["celu", "elu", "gelu", "glu", "hard_silu", "hard_swish", "leaky_relu", "mish", "relu",
           "relu6", "selu", "silu", "swish"]
