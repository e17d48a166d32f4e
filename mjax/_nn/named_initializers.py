"""Glorot, LeCun and He initializers, and orthogonal ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mjax._nn.initializers import Initializer, settled, shared, variance_scaling
from mjax._numpy.arithmetic import multiply
from mjax._numpy.creation import asarray
from mjax._numpy.creation import zeros as zeros_of
from mjax._numpy.random.vectors import orthogonal as orthogonal_matrices
from mjax._numpy.shapes import moveaxis, reshape


@shared
def glorot_uniform(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1,
                   batch_axis: int | Sequence[int] = (), dtype: Any = None) -> Initializer:
    """The Glorot, or Xavier, initializer: `variance_scaling(1.0, "fan_avg", "uniform")`.

    Args:
      [axes]
      [dtype]

    Returns:
      [initializer]

    Raises:
      [named_raises]

    Source: Glorot, Bengio 2010, "Understanding the difficulty of training deep feedforward neural
    networks".

    Example:
      >>> mjax.nn.initializers.glorot_uniform()(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


@shared
def glorot_normal(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1,
                  batch_axis: int | Sequence[int] = (), dtype: Any = None) -> Initializer:
    """The Glorot, or Xavier, initializer: `variance_scaling(1.0, "fan_avg", "truncated_normal")`.

    Args:
      [axes]
      [dtype]

    Returns:
      [initializer]

    Raises:
      [named_raises]

    Source: Glorot, Bengio 2010, "Understanding the difficulty of training deep feedforward neural
    networks".

    Example:
      >>> mjax.nn.initializers.glorot_normal()(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis,
                            dtype)


@shared
def lecun_uniform(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1,
                  batch_axis: int | Sequence[int] = (), dtype: Any = None) -> Initializer:
    """The LeCun initializer: `variance_scaling(1.0, "fan_in", "uniform")`.

    Args:
      [axes]
      [dtype]

    Returns:
      [initializer]

    Raises:
      [named_raises]

    Source: LeCun, Bottou, Orr, Müller 1998, "Efficient BackProp".

    Example:
      >>> mjax.nn.initializers.lecun_uniform()(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


@shared
def lecun_normal(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1,
                 batch_axis: int | Sequence[int] = (), dtype: Any = None) -> Initializer:
    """The LeCun initializer: `variance_scaling(1.0, "fan_in", "truncated_normal")`.

    Args:
      [axes]
      [dtype]

    Returns:
      [initializer]

    Raises:
      [named_raises]

    Source: LeCun, Bottou, Orr, Müller 1998, "Efficient BackProp".

    Example:
      >>> mjax.nn.initializers.lecun_normal()(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


@shared
def he_uniform(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1,
               batch_axis: int | Sequence[int] = (), dtype: Any = None) -> Initializer:
    """The He, or Kaiming, initializer: `variance_scaling(2.0, "fan_in", "uniform")`.

    Args:
      [axes]
      [dtype]

    Returns:
      [initializer]

    Raises:
      [named_raises]

    Source: He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers".

    Example:
      >>> mjax.nn.initializers.he_uniform()(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


@shared
def he_normal(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1,
              batch_axis: int | Sequence[int] = (), dtype: Any = None) -> Initializer:
    """The He, or Kaiming, initializer: `variance_scaling(2.0, "fan_in", "truncated_normal")`.

    Args:
      [axes]
      [dtype]

    Returns:
      [initializer]

    Raises:
      [named_raises]

    Source: He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers".

    Example:
      >>> mjax.nn.initializers.he_normal()(random.key(0), (2, 3)).shape
      (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal

# ---- orthogonal ones -------------------------------------------------------------------


def _refuse_sharding(name: str, out_sharding: Any) -> None:
    if out_sharding is not None:
        msg = f"{name}: out_sharding is not supported; move the result with device_put."
        raise NotImplementedError(msg)


@shared
def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Makes an initializer that gives orthogonal matrices, uniformly distributed.

    Args:
      scale: factor of the matrices.
      [column]
      [dtype]

    Returns:
      [initializer]
      The axes other than `column_axis` together form the rows of a matrix.

    Raises:
      TypeError: the initializer is given an invalid key, shape or dtype, or `column_axis` is not an
        integer.
      ValueError: the shape has fewer than two axes, the dtype is one of integers or booleans, the
        key is an array of keys, or `scale` is a string or None.
      IndexError: `column_axis` is out of range for the shape.
      NotImplementedError: the initializer is given a sharding, or a dtype that LAPACK does not
        compute in, such as float16.

    Source: Saxe, McClelland, Ganguli 2013, "Exact solutions to the nonlinear dynamics of learning
    in deep linear neural networks".

    Example:
      >>> q = mjax.nn.initializers.orthogonal()(random.key(0), (3, 3))
      >>> bool(jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-5))
      True
    """
    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        _refuse_sharding("orthogonal", out_sharding)
        dtype = settled(dtype)
        if len(shape) < 2:
            msg = f"orthogonal: the shape must have two axes at least, got {tuple(shape)}."
            raise ValueError(msg)
        if 0 in shape:
            return zeros_of(shape, dtype)
        columns = shape[column_axis]
        matrix = orthogonal_matrices(key, math.prod(shape) // columns, (), dtype, columns)
        others = list(shape)
        del others[column_axis]
        return multiply(asarray(scale, dtype),
                        moveaxis(reshape(matrix, (*others, columns)), -1, column_axis))

    return init


@shared
def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Makes an initializer of convolution kernels: an orthogonal matrix at the center, else 0.

    Args:
      scale: factor of the matrix.
      [column]
      [dtype]

    Returns:
      [initializer]
      The last two axes are those of the matrix; the one to three others form the window.

    Raises:
      TypeError: the initializer is given an invalid key, shape or dtype, or `column_axis` is not an
        integer.
      ValueError: the shape does not have 3 to 5 axes, or has more inputs than outputs. The dtype is
        one of integers or booleans, the key is an array of keys, or `scale` is a string or None.
      IndexError: `column_axis` is out of range for a matrix, or the window is empty.
      NotImplementedError: the initializer is given a sharding, or a dtype that LAPACK does not
        compute in, such as float16.

    Source: Xiao and others 2018, "Dynamical isometry and a mean field theory of CNNs".

    Example:
      >>> mjax.nn.initializers.delta_orthogonal()(random.key(0), (3, 2, 2))[0].any()
      Array(False, dtype=bool)
    """
    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        _refuse_sharding("delta_orthogonal", out_sharding)
        dtype = settled(dtype)
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            msg = ("delta_orthogonal: the shape must be a window of 1 to 3 axes, inputs, and "
                   f"outputs, not fewer than the inputs; got {tuple(shape)}.")
            raise ValueError(msg)
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        center = tuple((n - 1) // 2 for n in shape[:-2])
        return zeros_of(shape, dtype).at[center].set(matrix)

    return init


__all__ = ["delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
           "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "orthogonal",
           "xavier_normal", "xavier_uniform"]
