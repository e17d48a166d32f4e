"""The softmax family, and standardization to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.arithmetic import square, subtract
from mjax._numpy.core import cast, weak_type_of, wide_dtype
from mjax._numpy.elementary import log
from mjax._numpy.fused import fused
from mjax._numpy.reductions import keep_axes
from mjax._numpy.selecting import clip
from mjax._numpy.statistics import count_over
from mjax._numpy.statistics import mean as mean_of
from mjax._scipy.special.sums import (
    log_softmax_over,
    logsumexp,
    softmax_arguments,
    softmax_over,
)

_shared = documented(
    x="x: array; integers and booleans are converted to floats.",
    axis="axis: an axis or a tuple of them; None: all.",
    where="where: mask of the elements to include; it broadcasts with `x`.",
    raises=("TypeError: `x` is not an array.\n"
            "ValueError: an axis is out of range."),
)


# ---- softmax ---------------------------------------------------------------------------


@fused(values=("x", "where"), static_argnames=("axis",))
@_shared
def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """Exponentials divided by their sum: positive numbers whose sum along the axis is 1.

    Args:
      [x]
      [axis]
      [where]

    Returns:
      A float array of the shape of `x`; 0 where the mask is false. An infinite element makes the
      whole slice NaN.

    Raises:
      [raises]

    Example:
      >>> mjax.nn.softmax(jnp.array([0.0, 0.0, 1000.0, 1000.0]))
      Array([0. , 0. , 0.5, 0.5], dtype=float32)
    """
    x, where = softmax_arguments("softmax", x, where)
    return softmax_over(x, axis, where)


@fused(values=("x", "where"), static_argnames=("axis",))
@_shared
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """The logarithm of `softmax`, accurate for tiny probabilities.

    Args:
      [x]
      [axis]
      [where]

    Returns:
      A float array of the shape of `x`; -inf where the mask is false. An infinite element makes
      the whole slice NaN.

    Raises:
      [raises]

    Example:
      >>> print(f"{mjax.nn.log_softmax(jnp.array([0.0, 100.0, 100.0]))[1]:.2f}")
      -0.69
    """
    x, where = softmax_arguments("log_softmax", x, where)
    return log_softmax_over(x, axis, where)


@fused(values=("x", "where"), static_argnames=("axis", "keepdims"))
@_shared
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of the mean of exponentials, without overflow.

    Args:
      [x]
      [axis]
      [where]
      keepdims: whether to keep the axes, with size 1.

    Returns:
      `logsumexp(x) - log(n)` for n included elements: a float array without the axes.

    Raises:
      [raises]

    Example:
      >>> mjax.nn.logmeanexp(jnp.array([1000.0, 1000.0]))
      Array(1000., dtype=float32)
    """
    total = logsumexp(x, axis=axis, keepdims=keepdims, where=where)
    shape = typeof(x).shape
    axes = canonicalize_axes(axis, len(shape))
    count = count_over("logmeanexp", shape, axes, where, typeof(total).dtype)
    if keepdims and where is not None:
        count = keep_axes(count, shape, axes)
    return total - log(count)


# ---- standardize -----------------------------------------------------------------------


@fused(values=("x", "mean", "variance", "where"), static_argnames=("axis", "algorithm"))
@_shared
def standardize(x: Any, axis: Any = -1, mean: Any = None, variance: Any = None,
                epsilon: Any = 1e-5, where: Any = None, *, algorithm: str = "fast") -> Any:
    """Shifts and scales `x` to mean 0 and variance 1 along axes.

    Args:
      [x]
      [axis]
      mean: the mean; by default that of `x` along the axes.
      variance: the variance; by default that of `x` along the axes.
      epsilon: added to the variance before the division by its root.
      where: mask of the elements to include in mean and variance.
      algorithm: `"fast"` computes the variance in one pass, as the mean of squares less the square
        of the mean. It loses digits if the mean is large; `"stable"`, in two passes, does not.

    Returns:
      `(x - mean) / sqrt(variance + epsilon)`, a float array of the shape of `x`.

    Raises:
      TypeError: `x` is not an array.
      ValueError: `algorithm` is unknown, or an axis is out of range.

    Source: Ioffe, Szegedy 2015, "Batch normalization".

    Example:
      >>> print(f"{mjax.nn.standardize(jnp.array([1.0, 2.0, 3.0]))[2]:.2f}")
      1.22
    """
    if mean is None or variance is None:
        given = [v for v in (x, mean, variance, epsilon) if v is not None]
        dtype, weak = common_type(*map(weak_type_of, given))
        if dtypes.is_float(dtype) and wide_dtype(dtype) != dtype:
            # Squares of 16-bit floats overflow, and their mean has few digits of the variance.
            x = cast(x, wide_dtype(dtype))
            return cast(standardize(x, axis, mean, variance, epsilon, where, algorithm=algorithm),
                        dtype, weak)
    if mean is None:
        mean = mean_of(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = _variance(x, axis, mean, where, algorithm)
    return subtract(x, mean) * lax.rsqrt(variance + epsilon)


def _variance(x: Any, axis: Any, mean: Any, mask: Any, algorithm: str) -> Any:
    if algorithm == "stable":
        return mean_of(square(subtract(x, mean)), axis, keepdims=True, where=mask)
    if algorithm == "fast":
        # Rounding may make the variance negative and its root NaN.
        return clip(mean_of(square(x), axis, keepdims=True, where=mask) - square(mean), 0)
    msg = f'standardize: unknown algorithm {algorithm!r}; it is "fast" or "stable".'
    raise ValueError(msg)


__all__ = ["log_softmax", "logmeanexp", "softmax", "standardize"]
