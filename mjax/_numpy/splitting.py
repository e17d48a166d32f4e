"""Splitting arrays: split, array_split, vsplit, hsplit, dsplit."""

from __future__ import annotations

import itertools
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.joining import (
    split_p,
)
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._numpy.core import (
    check_array,
    concrete_int,
    shape_of,
)


def _split(name: str, ary: Any, where: Any, axis: int, equal: bool) -> list[Any]:
    ary = check_array(name, ary)
    axis = canonicalize_axis(axis, typeof(ary).ndim)
    size = shape_of(ary)[axis]
    if isinstance(where, (list, tuple)) or (hasattr(where, "ndim") and where.ndim > 0):
        cuts = [concrete_int(i, f"{name}: each index") for i in where]
        bounds = [0, *(_cut(i, size) for i in cuts), size]
        if bounds == sorted(bounds):
            sizes = tuple(b - a for a, b in itertools.pairwise(bounds))
            return split_p.bind(ary, sizes=sizes, axis=axis)
        return [slice_in_dim(ary, a, max(a, b), axis=axis)
                for a, b in itertools.pairwise(bounds)]
    sections = concrete_int(where, f"{name}: the number of sections", truncate=True)
    if sections <= 0:
        msg = f"{name}: the number of sections must be positive, got {sections}."
        raise ValueError(msg)
    part, rest = divmod(size, sections)
    if rest and equal:
        msg = (f"{name}: array split does not result in an equal division: axis {axis} of size "
               f"{size} cannot be cut into {sections} equal parts; array_split makes unequal ones.")
        raise ValueError(msg)
    sizes = (part + 1,) * rest + (part,) * (sections - rest)
    return split_p.bind(ary, sizes=sizes, axis=axis)


def _cut(i: int, size: int) -> int:
    return min(max(i + size if i < 0 else i, 0), size)


@boundary
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Cuts an array along an axis.

    Args:
      ary: array.
      indices_or_sections: the number of parts, which must divide the size of the axis; or the
        static indices at which to cut.
      axis: the axis.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the parts would not be equal, or the axis is out of range.

    Source: `numpy.split`.

    Example:
      >>> jnp.split(jnp.array([1, 2, 3, 4]), [1, 3])
      [Array([1], dtype=int32), Array([2, 3], dtype=int32), Array([4], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


@boundary
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Cuts an array along an axis, into parts whose sizes differ by at most 1.

    Args:
      ary: array.
      indices_or_sections: the number of parts, or the static indices at which to cut.
      axis: the axis.

    Returns:
      A list of arrays; the longer ones come first.

    Raises:
      ValueError: the number of parts is not positive, or the axis is out of range.

    Source: `numpy.array_split`.

    Example:
      >>> jnp.array_split(jnp.array([1, 2, 3]), 2)
      [Array([1, 2], dtype=int32), Array([3], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


@boundary
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Cuts an array along the first axis; see `split`.

    Args:
      ary: array of one axis at least.
      indices_or_sections: the number of equal parts, or the indices at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the array has no axes, or parts that are not equal.

    Source: `numpy.vsplit`.

    Example:
      >>> [a.shape for a in jnp.vsplit(jnp.ones((4, 3)), 2)]
      [(2, 3), (2, 3)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, True)


@boundary
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Cuts an array along the second axis, a vector along its only one; see `split`.

    Args:
      ary: array of one axis at least.
      indices_or_sections: the number of equal parts, or the indices at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the array has no axes, or parts that are not equal.

    Source: `numpy.hsplit`.

    Example:
      >>> [a.shape for a in jnp.hsplit(jnp.ones((4, 2)), 2)]
      [(4, 1), (4, 1)]
    """
    axis = 0 if len(shape_of(check_array("hsplit", ary))) == 1 else 1
    return _split("hsplit", ary, indices_or_sections, axis, True)


@boundary
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Cuts an array along the third axis; see `split`.

    Args:
      ary: array of three axes at least.
      indices_or_sections: the number of equal parts, or the indices at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the array has less than three axes, or parts that are not equal.

    Source: `numpy.dsplit`.

    Example:
      >>> [a.shape for a in jnp.dsplit(jnp.ones((1, 2, 4)), 2)]
      [(1, 2, 2), (1, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, True)


__all__ = ["array_split", "dsplit", "hsplit", "split", "vsplit"]
