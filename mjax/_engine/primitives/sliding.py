"""Sliding windows: padding, strides, dilations, and the sizes that follow.

Shared by `convolution` and `windows`. An array dilated by `d` along an axis has `d - 1` holes
between any two elements; a dilated window skips as many elements.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.dimensions import max_dim
from mjax._engine.ir.sizes import dilated, index
from mjax._engine.primitives.emit import ir

#: (low, high) for each axis; negative ones remove elements.
Padding = tuple[tuple[int, int], ...]
Sizes = tuple[int, ...]


def dilated_shape(shape: Sequence[int], dilation: Sequence[int]) -> Sizes:
    """`dilated`, axis by axis."""
    return tuple(map(dilated, shape, dilation))


def slid(size: int, window: int, stride: int) -> int:
    """The number of positions of a window along an axis."""
    return max_dim((size - window) // stride + 1, 0)


def index_tuple(name: str, argument: str, values: Any, count: int, axes: str,
                error: type[Exception] = TypeError) -> Sizes:
    """An argument with one integer for each axis; None means ones.

    Args:
      name: of the operation.
      argument: of the argument.
      values: the user's argument.
      count: the number of axes.
      axes: their name in messages.
      error: the exception for another number of integers.

    Raises:
      TypeError: it is not a sequence of integers.
      error: its length is not `count`.
    """
    if values is None:
        return (1,) * count
    try:
        found = tuple(map(operator.index, values))
    except TypeError:
        if hasattr(values, "aval"):
            raise
        msg = f"{name}: {argument} must be a sequence of integers, got {values!r}."
        raise TypeError(msg) from None
    if len(found) != count:
        msg = f"{name}: {argument} {found} must hold one number for each of the {count} {axes}."
        raise error(msg)
    return found


def check_positive(name: str, argument: str, values: Sequence[int],
                   error: type[Exception] = TypeError) -> None:
    """Refuses window sizes, strides and dilations below 1."""
    if any(v < 1 for v in values):
        msg = f"{name}: {argument} {tuple(values)} must be positive."
        raise error(msg)


def positive_tuple(name: str, argument: str, values: Any, count: int, axes: str) -> Sizes:
    """`index_tuple` of window sizes, strides or dilations; refuses those below 1."""
    found = index_tuple(name, argument, values, count, axes)
    check_positive(name, argument, found)
    return found


def explicit_padding(name: str, padding: Any, count: int) -> Padding:
    """Pairs of integers that a `padding` argument which is not a string stands for.

    Raises:
      ValueError: it is not a sequence of pairs.
      TypeError: there are not `count` of them.
    """
    try:
        pairs = tuple([(index(low), index(high)) for low, high in padding])
    except (TypeError, ValueError):
        msg = (f"{name}: padding must be 'SAME', 'SAME_LOWER', 'VALID' or a sequence of (low, "
               f"high) pairs of integers, got {padding!r}.")
        raise ValueError(msg) from None
    if len(pairs) != count:
        msg = f"{name}: padding {pairs} must hold one pair for each of the {count} axes."
        raise TypeError(msg)
    return pairs


def pads_of(name: str, padding: Any, shape: Sequence[int], window: Sequence[int],
            strides: Sequence[int]) -> Padding:
    """The pairs that a `padding` argument stands for.

    Args:
      name: of the operation.
      padding: `'SAME'`, `'SAME_LOWER'`, `'VALID'`, or pairs.
      shape: sizes of the axes, holes included.
      window: sizes of the windows, holes included.
      strides: positive.
    """
    if not isinstance(padding, str):
        return explicit_padding(name, padding, len(shape))
    mode = padding.upper()
    if mode == "VALID":
        return ((0, 0),) * len(shape)
    if mode not in ("SAME", "SAME_LOWER"):
        msg = f"{name}: padding must be 'SAME', 'SAME_LOWER' or 'VALID', got {padding!r}."
        raise ValueError(msg)
    pairs = []
    for size, width, stride in zip(shape, window, strides, strict=True):
        missing = max_dim((-(-size // stride) - 1) * stride + width - size, 0)
        less, more = missing // 2, missing - missing // 2
        pairs.append((less, more) if mode == "SAME" else (more, less))
    return tuple(pairs)


def slid_shape(name: str, shape: Sequence[int], window: Sequence[int], strides: Sequence[int],
               padding: Padding, base_dilation: Sequence[int], window_dilation: Sequence[int]
               ) -> Sizes:
    """The number of positions of a window along each axis.

    Raises:
      ValueError: the padding removes more elements than there are.
    """
    holed = dilated_shape(shape, base_dilation)
    padded = [low + n + high for n, (low, high) in zip(holed, padding, strict=True)]
    if any(n < 0 for n in padded):
        msg = (f"{name}: padding {padding} takes more elements away than there are along axes of "
               f"sizes {tuple(holed)}.")
        raise ValueError(msg)
    return tuple(map(slid, padded, dilated_shape(window, window_dilation), strides))


def transposed_padding(shape: Sequence[int], out_shape: Sequence[int], window: Sequence[int],
                       strides: Sequence[int], padding: Padding, base_dilation: Sequence[int],
                       window_dilation: Sequence[int]) -> Padding:
    """The padding with which windows slide over a cotangent to give that of the array.

    The cotangent is dilated by `strides`, windows are those of the forward pass, mirrored, and
    slide in steps of `base_dilation`.
    """
    pairs = []
    for size, out, width, stride, (low, _), holes, step in zip(
            shape, out_shape, window, strides, padding, base_dilation, window_dilation,
            strict=True):
        # Element x of the array is at x * holes + low. The window of element y of the result
        # starts at y * stride, maybe before the first element, if its other end reaches it.
        before = dilated(width, step) - 1 - low
        behind = dilated(size, holes) + low - dilated(out, stride)
        pairs.append((before, behind))
    return tuple(pairs)


def pairs_attr(padding: Padding) -> Any:
    """The attribute for a padding."""
    pairs = np.array(padding, np.int64).reshape(len(padding), 2)
    return ir.DenseIntElementsAttr.get(
        pairs, type=ir.IntegerType.get_signless(64), shape=pairs.shape)


@boundary
def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any, padding: Any
                    ) -> list[tuple[int, int]]:
    """The padding that a name stands for.

    Args:
      in_shape: sizes of the axes.
      window_shape: sizes of the windows along them.
      window_strides: steps of the windows along them.
      padding: `'VALID'`: none; `'SAME'`: as much as gives the result the size
        `ceil(size / stride)`, half of it, rounded down, before the axis and the rest after;
        `'SAME_LOWER'`: the other way round.

    Returns:
      A list of `(low, high)`, one for each axis.

    Raises:
      ValueError: the name is not one of these.
      TypeError: `padding` is not a string, or the numbers of windows, strides and axes differ.

    Example:
      >>> lax.padtype_to_pads((5, 6), (3, 2), (2, 1), "SAME")
      [(1, 1), (0, 1)]
    """
    if not isinstance(padding, str):
        msg = f"padtype_to_pads: padding must be a string, got {padding!r}."
        raise TypeError(msg)
    shape, window, strides = [tuple(map(operator.index, v))
                              for v in (in_shape, window_shape, window_strides)]
    if not len(shape) == len(window) == len(strides):
        msg = (f"padtype_to_pads: in_shape {shape}, window_shape {window} and window_strides "
               f"{strides} must be of one length.")
        raise TypeError(msg)
    check_positive("padtype_to_pads", "window_strides", strides)
    return list(pads_of("padtype_to_pads", padding, shape, window, strides))
