"""One-hot encoding of indices."""

from __future__ import annotations

import operator
from typing import Any

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.source import warn
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._numpy.comparison import equal
from mjax._numpy.core import cast, concrete_size, dtype_argument
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.named_axes import axis_index, axis_size
from mjax._numpy.shapes import expand_dims


@boundary
def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Any:
    """One-hot encodes indices: each becomes a row with 1 at the index and 0 elsewhere.

    Args:
      x: array of integers, or nested lists of them. Indices outside `[0, num_classes)` give rows
        of zeros. Floats are deprecated.
      num_classes: the length of the rows. Must be static under jit.
      dtype: dtype of the result; the default float by default.
      axis: the axis of the result that holds the rows. The name of a `vmap` or `shard_map` axis of
        size `num_classes` distributes the rows over it.

    Returns:
      An array of the shape of `x` with the new axis.

    Raises:
      TypeError: `num_classes` is not an integer, or is negative; `x` is an array of booleans.
      ValueError: the axis is out of range, or the named axis does not have that size.
      NameError: no axis of that name is in scope.

    Example:
      >>> mjax.nn.one_hot(jnp.array([0, 2, 3]), 3)
      Array([[1., 0., 0.],
             [0., 0., 1.],
             [0., 0., 0.]], dtype=float32)
    """
    count = concrete_size(num_classes, "one_hot: num_classes, which is static under jit,")
    x = asarray(x)
    given = typeof(x).dtype
    if count < 0 or dtypes.is_extended(given) or dtypes.kind(given) == "b":
        raise LazyArgumentError(lambda: (
            f"one_hot takes indices and a number of classes, got an array of dtype {given} and "
            f"num_classes={count}; convert booleans with astype(int)."))
    if not dtypes.is_integer(given):
        warn(f"one_hot takes integers, got an array of dtype {given}: convert it with astype(int).",
             DeprecationWarning)
    target = dtype_argument(dtype, "one_hot") or dtypes.dtype_of_python(float)
    try:
        axis = operator.index(axis)
    except TypeError:
        return _along_a_name(x, count, target, axis)
    return _along_an_axis(x, count, target, axis)


def _along_a_name(x: Any, count: int, dtype: Any, name: Any) -> Any:
    size = axis_size(name)
    if count != size:
        msg = f"one_hot: num_classes is {count}, but the size of the axis {name!r} is {size}."
        raise ValueError(msg)
    return cast(equal(x, axis_index(name)), dtype)


@fused(static_argnames=("count", "dtype", "axis"))
def _along_an_axis(x: Any, count: int, dtype: Any, axis: int) -> Any:
    rank = typeof(x).ndim + 1
    axis = canonicalize_axis(axis, rank)
    shape = [1] * rank
    shape[axis] = count
    classes = broadcasted_iota(typeof(x).dtype, shape, axis)
    return cast(equal(expand_dims(x, axis), classes), dtype)


__all__ = ["one_hot"]
