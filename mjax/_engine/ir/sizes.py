"""Questions that rules ask about sizes of axes, which may be symbolic dimensions."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from mjax._engine.base.errors import ConcretizationTypeError
from mjax._engine.base.util import listed
from mjax._engine.ir.dimensions import DimExpr, max_dim, min_dim, surely


def is_symbolic_dim(p: Any) -> bool:
    """Whether a size is symbolic.

    Args:
      p: a size of an axis.

    Returns:
      A bool.

    Example:
      >>> mjax.export.is_symbolic_dim(mjax.export.symbolic_shape("b")[0])
      True
    """
    return type(p) is DimExpr


def is_constant_shape(shape: Iterable[Any]) -> bool:
    """Whether no size of a shape is symbolic."""
    return not any(type(size) is DimExpr for size in shape)


def index(size: Any) -> Any:
    """`operator.index` of a size that may be symbolic."""
    return size if type(size) is DimExpr else operator.index(size)


def integers_of_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints; -1 is an unknown size.

    Raises:
      TypeError: it holds something else (a tracer, a float).
    """
    try:
        return tuple(map(operator.index, listed(shape)))
    except ConcretizationTypeError:  # its message says what to do
        raise
    except TypeError as error:
        if not hasattr(shape, "aval") and not is_constant_shape(listed(shape)):
            return tuple(map(index, listed(shape)))
        if "integer" in str(error) and not hasattr(shape, "aval"):
            msg = f"shapes must be sequences of integers, got {shape!r}."
            raise TypeError(msg) from None
        raise


def fits(given: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Whether a shape has the rank of another one, and its sizes where these are known."""
    return len(given) == len(wanted) and all(
        type(n) is DimExpr or n == m for m, n in zip(given, wanted, strict=True))


def beyond(size: Any, limit: int) -> bool:
    """Whether a size is greater than what indices of a dtype count to.

    Symbolic sizes are not: programs compute them as int32.
    """
    return size > limit if type(size) is int else surely(lambda: size > limit)


def is_size(x: Any) -> bool:
    """Whether a value is a Python int or a symbolic dimension."""
    return type(x) is int or type(x) is DimExpr


def dilated(size: Any, dilation: Any) -> Any:
    """The size of an axis with holes between its elements."""
    if type(size) is DimExpr and dilation != 1:
        return max_dim((size - 1) * dilation + 1, 0)
    return (size - 1) * dilation + 1 if size else 0


def count_of(start: Any, stop: Any, step: int) -> Any:
    """How many numbers `range(start, stop, step)` has."""
    span = stop - start if step > 0 else start - stop
    return max_dim((span + abs(step) - 1) // abs(step), 0)


def indices_of(item: slice, size: Any) -> tuple[Any, Any, int, Any]:
    """Start, stop and step of a slice of an axis, as `slice.indices` gives them, and how many
    indices these are.

    Raises:
      InconclusiveDimensionOperation: a bound is symbolic, and may or may not be negative.
    """
    if not any(type(x) is DimExpr for x in (size, item.start, item.stop)):
        start, stop, step = item.indices(size)
        return start, stop, step, len(range(start, stop, step))
    step = slice(None, None, item.step).indices(0)[2]  # refuses what is not a step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def bound(x: Any, default: Any) -> Any:
        if x is None:
            return default
        x = index(x)
        return min_dim(high, max_dim(low, x + size if x < 0 else x))

    start = bound(item.start, low if step > 0 else high)
    stop = bound(item.stop, high if step > 0 else low)
    return start, stop, step, count_of(start, stop, step)
