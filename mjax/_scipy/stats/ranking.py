"""Statistics of samples: modes, ranks, standard errors of means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.cumulative import cummax, cummin
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import array_of, moveaxis, reshape
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.sort import sort
from mjax._numpy.comparison import isnan
from mjax._numpy.core import broadcast_to, cast, check_array
from mjax._numpy.creation import full
from mjax._numpy.fused import fused
from mjax._numpy.nanfunctions import nanstd
from mjax._numpy.reductions import any, argmax, max, sum
from mjax._numpy.statistics import std
from mjax._numpy.taking import take_along_axis
from mjax._scipy.special.arguments import inexact_arguments, where

if TYPE_CHECKING:
    from mjax._engine.runtime.arrays.array import Array

_INT = np.dtype(np.int32)


def _check_policy(name: str, policy: str) -> None:
    """Raises unless the policy is "propagate"."""
    if policy not in ("propagate", "omit", "raise"):
        msg = (f'{name}: nan_policy must be "propagate", "omit" or "raise", got {policy!r}.')
        raise ValueError(msg)
    if policy != "propagate":
        msg = (f"{name}: nan_policy={policy!r} is not implemented: tracing does not know whether "
               "there are NaNs. Look for them before.")
        raise NotImplementedError(msg)


def _begins(x: Any) -> Any:
    """Flags the first of equal elements along the last axis of a sorted array; NaNs are equal."""
    after, before = x[..., 1:], x[..., :-1]
    differs = lax.ne(after, before)
    if dtypes.is_inexact(typeof(x).dtype):
        differs = differs & ~(isnan(after) & isnan(before))
    first = full((*typeof(x).shape[:-1], min(1, typeof(x).shape[-1])), True)
    return concatenate([first, differs], typeof(x).ndim - 1)


def _places(x: Any) -> Any:
    return broadcasted_iota(_INT, typeof(x).shape, typeof(x).ndim - 1)


# ---- mode ------------------------------------------------------------------------------


class ModeResult(NamedTuple):
    """The result of `mode`.

    Attributes:
      mode: the most frequent elements.
      count: the number of their occurrences.
    """

    mode: Array
    count: Array  # type: ignore[assignment]  # a method of tuples


@fused(static_argnames=("axis", "nan_policy", "keepdims"))
def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
         ) -> ModeResult:
    """The most frequent element along an axis; the least of several such elements.

    Args:
      a: array or scalar.
      axis: the axis; None: all.
      nan_policy: "propagate"; NaNs count as equal elements.
      keepdims: whether the axis stays, with size 1.

    Returns:
      A pair `mode`, `count` of arrays without the axis; NaN and 0 if there are no elements.

    Raises:
      ValueError: an axis out of range; an unknown `nan_policy`.
      NotImplementedError: another `nan_policy`.

    Source: `scipy.stats.mode`, whose result is NaN if an element is NaN.

    Example:
      >>> print(mjax.scipy.stats.mode(jnp.array([2, 1, 2, 1, 3])).mode)
      1
    """
    _check_policy("mode", nan_policy)
    x = array_of(check_array("mode", a))
    x = reshape(x, typeof(x).shape or (1,))
    shape = typeof(x).shape
    if axis is None:
        kept = (1,) * len(shape) if keepdims else ()
        x = reshape(x, (typeof(x).size,))
    else:
        axis = canonicalize_axis(axis, len(shape))
        kept = tuple([1 if i == axis else n for i, n in enumerate(shape) if keepdims or i != axis])
        x = moveaxis(x, axis, -1)
    if not typeof(x).shape[-1]:
        floats = dtypes.dtype_of_python(float)
        return ModeResult(full(kept, np.nan, floats), full(kept, 0, floats))
    x = sort(x)
    places = _places(x)
    start = cummax(where(_begins(x), places, 0), typeof(x).ndim - 1)
    length = places - start + 1
    last = argmax(length, -1, keepdims=True)
    values = take_along_axis(x, last, -1)
    counts = cast(max(length, -1), dtypes.dtype_of_python(int))
    return ModeResult(reshape(values, kept), reshape(counts, kept))


# ---- rankdata --------------------------------------------------------------------------

_METHODS = ("average", "min", "max", "dense", "ordinal")


def _sorted_ranks(x: Any, method: str) -> Any:
    """Ranks of sorted elements, along the last axis."""
    places, axis = _places(x), typeof(x).ndim - 1
    if method == "ordinal":
        return places + 1
    begins = _begins(x)
    if method == "dense":
        return cast(begins, _INT).cumsum(-1)
    least = cummax(where(begins, places, 0), axis)
    if method == "min":
        return least + 1
    n = typeof(x).shape[-1]
    # A run ends where the next one begins.
    ends = concatenate([slice_in_dim(begins, min(1, n), n, axis=axis),
                        slice_in_dim(begins, 0, min(1, n), axis=axis)], axis)
    most = cummin(where(ends, places, n), axis, reverse=True)
    if method == "max":
        return most + 1
    return (least + most + 2) * 0.5


@fused(static_argnames=("method", "axis", "nan_policy"))
def rankdata(a: Any, method: str = "average", *, axis: int | None = None,
             nan_policy: str = "propagate") -> Any:
    """Ranks of the elements, from 1 on.

    Args:
      a: array or scalar.
      method: the rank of equal elements: "average", "min" or "max" of their ordinal ranks.
        "dense": as "min", without gaps between ranks. "ordinal": in the order of the array.
      axis: the axis to rank along; None: all elements.
      nan_policy: "propagate"; a NaN makes all ranks along the axis NaN.

    Returns:
      An array of the default float dtype, of the shape of `a`; one axis if `axis` is None.

    Raises:
      ValueError: an unknown method or `nan_policy`; an axis out of range.
      NotImplementedError: another `nan_policy`.

    Source: `scipy.stats.rankdata`.

    Example:
      >>> print(mjax.scipy.stats.rankdata(jnp.array([10, 30, 20, 20])))
      [1.  4.  2.5 2.5]
    """
    _check_policy("rankdata", nan_policy)
    if method not in _METHODS:
        msg = f"rankdata: unknown method {method!r}; it must be one of {', '.join(_METHODS)}."
        raise ValueError(msg)
    x = array_of(check_array("rankdata", a))
    if axis is None:
        x, axis = reshape(x, (typeof(x).size,)), 0
    axis = canonicalize_axis(axis, typeof(x).ndim)
    x = moveaxis(x, axis, -1)
    places = _places(x)
    ordered, origin = sort((x, places), num_keys=1)
    ranks = cast(_sorted_ranks(ordered, method), dtypes.dtype_of_python(float))
    # Sorting by the original indices puts the ranks back in order.
    _, ranks = sort((origin, ranks), num_keys=1)
    if dtypes.is_inexact(typeof(x).dtype):
        unknown = any(isnan(x), -1, keepdims=True)
        ranks = where(broadcast_to(unknown, typeof(x).shape), np.nan, ranks)
    return moveaxis(ranks, -1, axis)


# ---- sem -------------------------------------------------------------------------------


@fused(static_argnames=("axis", "nan_policy", "keepdims"))
def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *,
        keepdims: bool = False) -> Any:
    """The standard error of the mean: the standard deviation over the root of the sample size.

    Args:
      a: array; ints and booleans become the default float.
      axis: the axis; None: all.
      ddof: the degrees of freedom, subtracted from the number of elements in the variance.
      nan_policy: "propagate", or "omit" to ignore NaNs.
      keepdims: whether the axis stays, with size 1.

    Returns:
      An array without the axis.

    Raises:
      ValueError: another `nan_policy`; an axis out of range.

    Source: `scipy.stats.sem`.

    Example:
      >>> print(f"{mjax.scipy.stats.sem(jnp.array([1.0, 2.0, 3.0])):.4f}")
      0.5774
    """
    x, = inexact_arguments("sem", a)
    dtype = typeof(x).dtype
    if nan_policy == "propagate":
        size = typeof(x).size if axis is None else typeof(x).shape[
            canonicalize_axis(axis, typeof(x).ndim)]
        return std(x, axis, ddof=ddof, keepdims=keepdims) / np.sqrt(size).astype(dtype)
    if nan_policy == "omit":
        count = cast(sum(~isnan(x), axis, keepdims=keepdims), dtypes.real_dtype(dtype))
        return nanstd(x, axis, ddof=ddof, keepdims=keepdims) / cast(lax.sqrt(count), dtype)
    msg = f'sem: nan_policy must be "propagate" or "omit", got {nan_policy!r}: it is not supported.'
    raise ValueError(msg)
