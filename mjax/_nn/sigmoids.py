"""Sigmoid activations, and their integrals, the softplus family."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.arithmetic import maximum, minimum, sqrt, square
from mjax._numpy.core import check_array, choose, promote_args_inexact
from mjax._numpy.elementary import exp, expm1, log, log1p, logaddexp
from mjax._numpy.fused import fused
from mjax._numpy.selecting import clip, where

#: Docstring fragments shared by the activations.
shared = {
    "x": "x: array or scalar.",
    "floats": "x: array or scalar of floats or complex numbers.",
    "alpha": "alpha: scale of the exponential, a scalar or an array that broadcasts.",
    "same": "An array of the shape and dtype of `x`.",
    "float": "An array of the shape of `x`, and of its dtype; floats for integers.",
    "raises": "TypeError: `x` is not an array or a scalar.",
}


def operand(name: str, x: Any) -> Any:
    """The argument as an array, for its operators."""
    return array_of(check_array(name, x))


@boundary
@documented(**shared)
def identity(x: Any) -> Any:
    """The identity function.

    Args:
      [x]

    Returns:
      [same]

    Raises:
      [raises]

    Example:
      >>> mjax.nn.identity(jnp.array([-1.0, 2.0]))
      Array([-1.,  2.], dtype=float32)
    """
    return operand("identity", x)


# ---- from 0 to 1, or from -1 to 1 ------------------------------------------------------


@fused
@documented(**shared)
def sigmoid(x: Any) -> Any:
    """The logistic function, `1 / (1 + exp(-x))`.

    Args:
      [floats]

    Returns:
      [same]

    Raises:
      TypeError: `x` is not an array or a scalar of floats; convert integers with `astype`.

    Example:
      >>> mjax.nn.sigmoid(jnp.array([-100.0, 0.0, 100.0]))
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.logistic(operand("sigmoid", x))


@fused
@documented(**shared)
def log_sigmoid(x: Any) -> Any:
    """The logarithm of the logistic function, accurate for tiny values.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Example:
      >>> mjax.nn.log_sigmoid(jnp.array([-100.0, 100.0]))
      Array([-100.,   -0.], dtype=float32)
    """
    return -softplus(-operand("log_sigmoid", x))


@fused
@documented(**shared)
def sparse_sigmoid(x: Any) -> Any:
    """Linear from 0 at -1 to 1 at 1, constant outside: the derivative of `sparse_plus`.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Blondel, Martins, Niculae 2019, "Learning with Fenchel-Young losses", section 6.2.

    Example:
      >>> mjax.nn.sparse_sigmoid(jnp.array([-2.0, 0.0, 0.5]))
      Array([0.  , 0.5 , 0.75], dtype=float32)
    """
    return 0.5 * clip(operand("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


@custom_jvp
def _relu6(x: Any) -> Any:
    return minimum(maximum(x, 0), 6.0)


def _relu6_slope(t: Any, out: Any, x: Any) -> Any:
    inside = lax.bitwise_and(lax.gt(x, constant_like(x, 0)), lax.lt(x, constant_like(x, 6)))
    return choose(inside, t, constant_like(t, 0))


_relu6.defjvps(_relu6_slope)


@fused
@documented(**shared)
def relu6(x: Any) -> Any:
    """Rectified linear unit capped at 6: `min(max(x, 0), 6)`.

    Args:
      [x]

    Returns:
      An array of the shape of `x`, and of its dtype; floats for integers. The derivative is
      0 at 0 and at 6.

    Raises:
      [raises]

    Source: Krizhevsky 2010, "Convolutional deep belief networks on CIFAR-10".

    Example:
      >>> mjax.nn.relu6(jnp.array([-2.0, 2.0, 8.0]))
      Array([0., 2., 6.], dtype=float32)
    """
    return _relu6(operand("relu6", x))


@fused
@documented(**shared)
def hard_sigmoid(x: Any) -> Any:
    """Linear from 0 at -3 to 1 at 3, constant outside.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Howard and others 2019, "Searching for MobileNetV3", section 5.2.

    Example:
      >>> mjax.nn.hard_sigmoid(jnp.array([-4.0, 0.0, 4.0]))
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    return _relu6(operand("hard_sigmoid", x) + 3.0) / 6.0


@fused
@documented(**shared)
def hard_tanh(x: Any) -> Any:
    """The identity between -1 and 1, constant outside.

    Args:
      [x]

    Returns:
      An array of the shape and dtype of `x`. The derivative at -1 and at 1 is 1.

    Raises:
      [raises]

    Example:
      >>> mjax.nn.hard_tanh(jnp.array([-2.0, 0.5, 2.0]))
      Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = operand("hard_tanh", x)
    return where(x > 1, 1, where(x < -1, -1, x))


@fused
@documented(**shared)
def soft_sign(x: Any) -> Any:
    """`x / (1 + abs(x))`.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Turian, Bergstra, Bengio 2009, "Quadratic features and deep architectures for chunking".

    Example:
      >>> mjax.nn.soft_sign(jnp.array([-1.0, 0.0, 3.0]))
      Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    x = operand("soft_sign", x)
    return x / (abs(x) + 1)


# ---- their integrals -------------------------------------------------------------------


@custom_jvp
def _softplus(x: Any) -> Any:
    return lax.add(lax.max(x, constant_like(x, 0)), lax.log1p(lax.exp(lax.neg(lax.abs(x)))))


_softplus.defjvps(lambda t, out, x: lax.mul(t, lax.logistic(x)))


@fused
@documented(**shared)
def softplus(x: Any) -> Any:
    """A smooth rectifier, `log(1 + exp(x))`: the integral of the logistic function.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Example:
      >>> print(f"{mjax.nn.softplus(0.0):.2f}")
      0.69
    """
    x, zero = promote_args_inexact("softplus", x, 0)
    return logaddexp(x, zero) if dtypes.is_complex(typeof(x).dtype) else _softplus(x)


@fused
@documented(**shared)
def sparse_plus(x: Any) -> Any:
    """A smooth rectifier that is 0 up to -1, `(x + 1)**2 / 4` up to 1, and `x` beyond.

    Args:
      [x]

    Returns:
      [float]

    Raises:
      [raises]

    Source: Blondel, Martins, Niculae 2019, "Learning with Fenchel-Young losses", section 6.2.

    Example:
      >>> mjax.nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
      Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = operand("sparse_plus", x)
    return where(x <= -1.0, 0.0, where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@fused
@documented(**shared)
def squareplus(x: Any, b: Any = 4) -> Any:
    """An algebraic smooth rectifier, `(x + sqrt(x**2 + b)) / 2`.

    Args:
      [x]
      b: how round the corner at 0 is, a scalar or an array that broadcasts.

    Returns:
      [float]

    Raises:
      [raises]

    Source: Barron 2021, "Squareplus: a softplus-like algebraic rectifier".

    Example:
      >>> mjax.nn.squareplus(jnp.array([-1.5, 0.0, 1.5]))
      Array([0.5, 1. , 2. ], dtype=float32)
    """
    x = operand("squareplus", x)
    return (x + sqrt(square(x) + b)) / 2


# ---- log1mexp --------------------------------------------------------------------------


@custom_jvp
def _log1mexp(x: Any) -> Any:
    # Each branch is accurate on its side of log 2.
    return where(x < math.log(2), log(-expm1(-x)), log1p(-exp(-x)))


_log1mexp.defjvps(lambda t, out, x: t / expm1(x))


@fused
@documented(**shared)
def log1mexp(x: Any) -> Any:
    """`log(1 - exp(-x))` for `x > 0`, accurate for small and large `x`.

    Args:
      [x]

    Returns:
      An array of the shape of `x`, and of its dtype; floats for integers. It is -inf at 0, and NaN
      for negative numbers.

    Raises:
      [raises]

    Source: Mächler 2012, "Accurately computing log(1 - exp(-|a|))".

    Example:
      >>> print(f"{mjax.nn.log1mexp(1e-10):.2f}")
      -23.03
    """
    return _log1mexp(operand("log1mexp", x))


__all__ = ["hard_sigmoid", "hard_tanh", "identity", "log1mexp", "log_sigmoid", "operand", "relu6",
           "shared", "sigmoid", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid",
           "squareplus"]
