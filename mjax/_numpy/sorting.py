"""Sorting, and functions based on it: sort, argsort, lexsort, partition, argpartition."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import sub
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.joining import unstack_p
from mjax._engine.primitives.rev import rev_p
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.sort import argsort as order_of
from mjax._engine.primitives.sort import sort_p
from mjax._numpy.core import cast, check_array, check_arrays, dtype_argument, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.shapes import ravel


def _refuse(name: str, **arguments: Any) -> None:
    """Refuses NumPy's arguments that are not supported."""
    for argument, value in arguments.items():
        if value is not None:
            msg = (f"{name}: the argument {argument!r} is not supported; use stable=True or "
                   "stable=False to say whether equal elements keep their order.")
            raise TypeError(msg)


def _flattened(a: Any, axis: int | None) -> tuple[Any, int]:
    if axis is None:
        return ravel(a), 0
    return array_of(a), canonicalize_axis(axis, typeof(a).ndim)


_SORT = ("axis", "kind", "order", "stable", "descending", "dtype")


@fused(values=("a",), static_argnames=_SORT)
def sort(a: Any, axis: int | None = -1, *, kind: None = None, order: None = None,
         stable: bool = True, descending: bool = False) -> Any:
    """Sorts along an axis.

    Args:
      a: array. NaN counts as greater than all numbers; complex numbers are compared by real
        part, then by imaginary part.
      axis: the axis; None sorts all elements.
      kind: not supported.
      order: not supported.
      stable: whether equal elements keep their order.
      descending: whether the greatest come first.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: the axis is out of range.

    Source: `numpy.sort`.

    Example:
      >>> jnp.sort(jnp.array([3, 1, 2]), descending=True)
      Array([3, 2, 1], dtype=int32)
    """
    _refuse("sort", kind=kind, order=order)
    a, axis = _flattened(a, axis)
    (out,) = sort_p.bind(a, dimension=axis, is_stable=bool(stable), num_keys=1)
    return rev_p.bind(out, dimensions=(axis,)) if descending else out


@fused(values=("a",), static_argnames=_SORT)
def argsort(a: Any, axis: int | None = -1, *, kind: None = None, order: None = None,
            stable: bool = True, descending: bool = False, dtype: Any = None) -> Any:
    """The indices that sort an array along an axis.

    Args:
      a: array; for its order see `sort`.
      axis: the axis; None sorts all elements.
      kind: not supported.
      order: not supported.
      stable: whether equal elements keep their order.
      descending: whether the greatest come first.
      dtype: dtype of the result, by default the default int.

    Returns:
      Integers of the shape of `a`; of `a.size` elements with `axis=None`.

    Raises:
      ValueError: the axis is out of range.

    Source: `numpy.argsort`.

    Example:
      >>> jnp.argsort(jnp.array([3, 1, 2]))
      Array([1, 2, 0], dtype=int32)
    """
    _refuse("argsort", kind=kind, order=order)
    a, axis = _flattened(a, axis)
    if descending:
        # Equal elements would come out in reverse order; reversing the input prevents it.
        places = order_of(rev_p.bind(a, dimensions=(axis,)), axis, bool(stable))
        last = np.asarray(shape_of(a)[axis] - 1, typeof(places).dtype)
        places = sub(last, rev_p.bind(places, dimensions=(axis,)))
    else:
        places = order_of(a, axis, bool(stable))
    return cast(places, dtype_argument(dtype, "argsort") or dtypes.dtype_of_python(int))


@fused(static_argnames=("axis",))
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys, the last of which is the primary one.

    Args:
      keys: sequence of arrays of one shape, or an array whose first axis runs over the keys.
      axis: the axis along which keys are sorted.

    Returns:
      Indices of the shape of a key.

    Raises:
      TypeError: the sequence of keys is empty.
      ValueError: the keys have different shapes.

    Source: `numpy.lexsort`.

    Example:
      >>> jnp.lexsort((jnp.array([2, 1, 1]), jnp.array([0, 1, 0])))
      Array([2, 0, 1], dtype=int32)
    """
    if not isinstance(keys, (list, tuple)):
        keys = check_array("lexsort", keys)
        keys = unstack_p.bind(keys, axis=0) if shape_of(keys) else []
    keys = check_arrays("lexsort", *keys)
    if not keys:
        msg = "lexsort: need a sequence of keys with len > 0."
        raise TypeError(msg)
    shapes = [shape_of(k) for k in keys]
    if any(s != shapes[0] for s in shapes):
        msg = f"lexsort: all keys need to be the same shape, got {', '.join(map(str, shapes))}."
        raise ValueError(msg)
    dtype = dtypes.dtype_of_python(int)
    if not shapes[0]:
        return array_of(np.zeros((), dtype))
    axis = canonicalize_axis(axis, len(shapes[0]))
    *_, places = sort_p.bind(*keys[::-1], broadcasted_iota(dtype, shapes[0], axis),
                             dimension=axis, is_stable=True, num_keys=len(keys))
    return places


@fused(values=("a",))
def sort_complex(a: Any) -> Any:
    """Sorts along the last axis, as complex numbers: by real part, then by imaginary part.

    Args:
      a: array.

    Returns:
      A complex array.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.sort_complex`.

    Example:
      >>> jnp.sort_complex(jnp.array([2, 1]))
      Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    a = cast(a, dtypes.complex_dtype(inexact_dtype(typeof(a).dtype)))
    return sort(a)


# ---- partition -------------------------------------------------------------------------


def _check_kth(a: Any, kth: int, axis: int) -> Any:
    a = array_of(a)
    canonicalize_axis(kth, shape_of(a)[canonicalize_axis(axis, typeof(a).ndim)])
    return a


@fused(values=("a",), static_argnames=("kth", "axis"))
def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """Reorders so that element `kth` is at its sorted position, after all smaller elements.

    Args:
      a: array; for its order see `sort`.
      kth: elements before it are not greater, elements after it not smaller; static.
      axis: the axis.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: the axis or `kth` is out of range.

    Source: `numpy.partition`. It sorts: XLA does not have a faster operation that orders NaN.

    Example:
      >>> jnp.partition(jnp.array([4, 1, 3, 2]), 1)
      Array([1, 2, 3, 4], dtype=int32)
    """
    return sort(_check_kth(a, kth, axis), axis)


@fused(values=("a",), static_argnames=("kth", "axis"))
def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """The indices of the elements in the order of `partition`.

    Args:
      a: array; for its order see `sort`.
      kth: see `partition`.
      axis: the axis.

    Returns:
      Indices of dtype int32.

    Raises:
      ValueError: the axis or `kth` is out of range.

    Source: `numpy.argpartition`.

    Example:
      >>> jnp.argpartition(jnp.array([4, 1, 3, 2]), 1)
      Array([1, 3, 2, 0], dtype=int32)
    """
    a = _check_kth(a, kth, axis)
    order = order_of(a, canonicalize_axis(axis, typeof(a).ndim))
    return cast(order, typeof(order).dtype, typeof(a).weak_type)


__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]
