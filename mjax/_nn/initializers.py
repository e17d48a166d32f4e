"""Initializers: functions `(key, shape, dtype) -> array` that create the weights of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from mjax._engine.base.docs import documented
from mjax._engine.ir import dtypes
from mjax._engine.primitives.shapes import canonical_shape
from mjax._numpy.arithmetic import divide, multiply, sqrt
from mjax._numpy.core import dtype_argument
from mjax._numpy.creation import asarray, full
from mjax._numpy.creation import ones as ones_of
from mjax._numpy.creation import zeros as zeros_of
from mjax._numpy.elementary import exp, log
from mjax._numpy.random.keys import split
from mjax._numpy.random.normal import normal as normal_numbers
from mjax._numpy.random.normal import truncated_normal as truncated_numbers
from mjax._numpy.random.uniform import uniform as uniform_numbers

#: Inserts shared fragments into the docstrings of initializers.
shared = documented(
    dtype=("dtype: dtype of the arrays if the call does not give one; by default the default\n"
           "  float."),
    axes=("in_axis: axis, or axes, of the inputs.\n"
          "out_axis: axis, or axes, of the outputs.\n"
          "batch_axis: axis, or axes, to ignore. The remaining axes are those of a window."),
    column="column_axis: the axis whose slices are orthonormal, or the others if they are fewer.",
    initializer="An initializer: a function of a key, a shape, a dtype and a sharding.",
    named_raises=(
        "TypeError: the initializer is given an invalid key, shape or dtype, or an axis is not an\n"
        "  integer.\n"
        "ValueError: the shape has fewer than two axes, and `in_axis` is not given; the dtype is\n"
        "  one of integers or booleans; or the key is an array of keys.\n"
        "IndexError: an axis is out of range for the shape.\n"
        "ZeroDivisionError: an axis of the inputs, the outputs or the batch has size 0."),
)


@runtime_checkable
class Initializer(Protocol):
    """The type of initializers.

    Example:
      >>> def halves(key, shape, dtype=None, out_sharding=None):
      ...   return jnp.full(shape, 0.5, dtype)
      >>> init: mjax.nn.initializers.Initializer = halves
      >>> init(random.key(0), (2,), "float32")
      Array([0.5, 0.5], dtype=float32)
    """

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        """Creates an array.

        Args:
          key: a key.
          shape: shape of the array.
          dtype: its dtype.
          out_sharding: its sharding over several devices.
        """
        raise NotImplementedError


def settled(dtype: Any) -> Any:
    """The dtype of an initializer's arrays."""
    return dtype_argument(dtype, "initializer") or dtypes.dtype_of_python(float)


# ---- constants -------------------------------------------------------------------------


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """An initializer that gives zeros.

    Args:
      key: ignored.
      shape: shape of the array.
      dtype: its dtype; by default the default float.
      out_sharding: its sharding over several devices.

    Returns:
      An array of zeros.

    Raises:
      TypeError: `shape`, `dtype` or `out_sharding` is invalid.
      ValueError: `out_sharding` does not name devices.

    Example:
      >>> mjax.nn.initializers.zeros(random.key(0), (2,))
      Array([0., 0.], dtype=float32)
    """
    return zeros_of(shape, settled(dtype), out_sharding=out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """An initializer that gives ones.

    Args:
      key: ignored.
      shape: shape of the array.
      dtype: its dtype; by default the default float.
      out_sharding: its sharding over several devices.

    Returns:
      An array of ones.

    Raises:
      TypeError: `shape`, `dtype` or `out_sharding` is invalid.
      ValueError: `out_sharding` does not name devices.

    Example:
      >>> mjax.nn.initializers.ones(random.key(0), (2,))
      Array([1., 1.], dtype=float32)
    """
    return ones_of(shape, settled(dtype), out_sharding=out_sharding)


@shared
def constant(value: Any, dtype: Any = None) -> Initializer:
    """Makes an initializer that gives one value.

    Args:
      value: the value, which broadcasts to the shape.
      [dtype]

    Returns:
      [initializer]

    Raises:
      TypeError: `value` is not an array or a number, or the initializer is given an invalid
        shape, dtype or sharding.
      ValueError: `value` does not broadcast to the shape that the initializer is given, or the
        sharding does not name devices.

    Example:
      >>> mjax.nn.initializers.constant(7)(random.key(0), (2,))
      Array([7., 7.], dtype=float32)
    """
    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        return full(shape, value, settled(dtype), out_sharding=out_sharding)

    return init


# ---- one distribution ------------------------------------------------------------------


@shared
def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Makes an initializer that gives uniformly distributed numbers in `[0, scale)`.

    Args:
      scale: the upper bound.
      [dtype]

    Returns:
      [initializer]

    Raises:
      TypeError: the initializer is given an invalid key, shape, dtype or sharding, or `scale` does
        not broadcast with the shape.
      ValueError: the dtype is not a float dtype, the key is an array of keys, the sharding does not
        name devices, or `scale` is a string or None.

    Example:
      >>> bool((mjax.nn.initializers.uniform(3.0)(random.key(0), (2, 3)) < 3).all())
      True
    """
    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        dtype = settled(dtype)
        numbers = uniform_numbers(key, shape, dtype, out_sharding=out_sharding)
        return multiply(numbers, asarray(scale, dtype))

    return init


@shared
def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Makes an initializer that gives normally distributed numbers of mean 0.

    Args:
      stddev: the standard deviation.
      [dtype]

    Returns:
      [initializer]

    Raises:
      TypeError: the initializer is given an invalid key, shape, dtype or sharding, or `stddev` does
        not broadcast with the shape.
      ValueError: the dtype is one of integers or booleans, the key is an array of keys, the
        sharding does not name devices, or `stddev` is a string or None.

    Example:
      >>> mjax.nn.initializers.normal(3.0)(random.key(0), (2, 3)).shape
      (2, 3)
    """
    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        dtype = settled(dtype)
        numbers = normal_numbers(key, shape, dtype, out_sharding=out_sharding)
        return multiply(numbers, asarray(stddev, dtype))

    return init


@shared
def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
                     ) -> Initializer:
    """Makes an initializer that gives numbers of a truncated normal distribution of mean 0.

    Args:
      stddev: the standard deviation before the truncation.
      [dtype]
      lower: lower bound, in standard deviations.
      upper: upper bound, in standard deviations.

    Returns:
      [initializer]

    Raises:
      TypeError: the initializer is given an invalid key, shape, dtype or sharding, or `stddev` does
        not broadcast with the shape, or a bound is not an array or a number.
      ValueError: the dtype is not a float dtype, the key is an array of keys, the sharding does not
        name devices, or `stddev` is a string or None.

    Example:
      >>> bool((abs(mjax.nn.initializers.truncated_normal(3.0)(random.key(0), (2, 3))) < 6).all())
      True
    """
    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        dtype = settled(dtype)
        numbers = truncated_numbers(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return multiply(numbers, asarray(stddev, dtype))

    return init


# ---- variance scaled by the shape ------------------------------------------------------


def _size(shape: Sequence[int], axes: int | Sequence[int]) -> int:
    return shape[axes] if isinstance(axes, int) else math.prod([shape[i] for i in axes])


def _fans(shape: Sequence[int], in_axis: Any, out_axis: Any, batch_axis: Any
          ) -> tuple[float, float]:
    """The fan-in and the fan-out: inputs per output and outputs per input, windows included."""
    if isinstance(in_axis, int) and in_axis == -2 and len(shape) < 2:
        msg = (f"variance_scaling: weights of shape {tuple(shape)} do not have an axis -2 for the "
               "inputs; "
               "give a shape with two axes at least, or in_axis.")
        raise ValueError(msg)
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    window = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * window, outputs * window


_MEANS = {
    "fan_in": lambda inputs, outputs: inputs,
    "fan_out": lambda inputs, outputs: outputs,
    "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2,
    "fan_geo_avg": lambda inputs, outputs: (inputs * outputs) ** 0.5,
}
#: Standard deviations of normal numbers within 2, real ones and complex ones.
_REAL_DEVIATION, _COMPLEX_DEVIATION = 0.8796256610342398, 0.9531116438049121


def _in_disk(key: Any, shape: Any, dtype: Any, squares: Any, out_sharding: Any) -> Any:
    """Complex numbers of uniformly distributed angle.

    Args:
      key: a key.
      shape: shape of the array.
      dtype: its complex dtype.
      squares: maps uniform numbers to the squares of the magnitudes.
      out_sharding: the sharding of the array, or None.
    """
    real = dtypes.real_dtype(dtype)
    of_size, of_angle = (uniform_numbers(part, shape, real, out_sharding=out_sharding)
                         for part in split(key))
    size = sqrt(squares(of_size))
    angle = 2 * math.pi * of_angle.astype(dtype)
    return size.astype(dtype) * exp(1j * angle)


def _normal_squares(dtype: Any) -> Any:
    """Squared magnitudes of complex normal numbers truncated at 2, from uniform numbers."""
    range_ = 1 - exp(asarray(-4, dtype))
    return lambda u: -log(1 - range_ * u.astype(dtype))


def _scaled(key: Any, shape: Any, dtype: Any, distribution: str, variance: Any, out_sharding: Any
            ) -> Any:
    """Random numbers of mean 0 and this variance."""
    place = {"out_sharding": out_sharding}
    is_real = not dtypes.is_complex(dtype)
    if distribution == "normal":
        return normal_numbers(key, shape, dtype, **place) * sqrt(variance)
    if distribution == "truncated_normal":
        deviation = _REAL_DEVIATION if is_real else _COMPLEX_DEVIATION
        deviation = divide(sqrt(variance), asarray(deviation, dtype))
        if is_real:
            return truncated_numbers(key, -2, 2, shape, dtype, **place) * deviation
        return _in_disk(key, shape, dtype, _normal_squares(dtype), out_sharding) * deviation
    if distribution == "uniform":
        if is_real:
            return uniform_numbers(key, shape, dtype, -1, **place) * sqrt(3 * variance)
        return _in_disk(key, shape, dtype, lambda u: 2 * u, out_sharding) * sqrt(variance)
    msg = (f"variance_scaling: unknown distribution {distribution!r}; it is 'truncated_normal', "
           "'normal' or 'uniform'.")
    raise ValueError(msg)


@shared
def variance_scaling(scale: Any, mode: str, distribution: str, in_axis: int | Sequence[int] = -2,
                     out_axis: int | Sequence[int] = -1, batch_axis: int | Sequence[int] = (),
                     dtype: Any = None) -> Initializer:
    """Makes an initializer that gives numbers of mean 0 and of variance `scale / n`.

    Args:
      scale: a positive number.
      mode: the meaning of n: `"fan_in"`, the inputs of an output; `"fan_out"`, the outputs of an
        input; `"fan_avg"`, their mean; `"fan_geo_avg"`, their geometric mean.
      distribution: `"truncated_normal"`, at 2 standard deviations; `"normal"`; `"uniform"`, in an
        interval or, for complex dtypes, in a disk.
      [axes]
      [dtype]

    Returns:
      [initializer]

    Raises:
      TypeError: the initializer is given an invalid key, shape or dtype, `scale` is not a number or
        an array, or an axis is not an integer.
      ValueError: the mode or the distribution is unknown, or the shape has fewer than two axes and
        `in_axis` is not given. The dtype is one of integers or booleans, or the key is an array of
        keys.
      IndexError: an axis is out of range for the shape.
      ZeroDivisionError: an axis of the inputs, the outputs or the batch has size 0.

    Source: He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers", section 2.2.

    Example:
      >>> init = mjax.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
      >>> init(random.key(0), (2, 3)).shape
      (2, 3)
    """
    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        shape, dtype = canonical_shape(shape), settled(dtype)
        fans = _fans(shape, in_axis, out_axis, batch_axis)
        if mode not in _MEANS:
            msg = (f"variance_scaling: unknown mode {mode!r}; it is "
                   f"{', '.join(map(repr, _MEANS))}.")
            raise ValueError(msg)
        variance = asarray(scale / _MEANS[mode](*fans), dtype)
        return _scaled(key, shape, dtype, distribution, variance, out_sharding)

    return init


__all__ = ["Initializer", "constant", "normal", "ones", "settled", "shared", "truncated_normal",
           "uniform", "variance_scaling", "zeros"]
