"""Random choices: categories, permutations, samples with and without replacement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add, div, eq, floor, le, log, log1p, mul, neg, sub
from mjax._engine.primitives.arithmetic import min as minimum
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.cumulative import cumsum
from mjax._engine.primitives.gather import take_on_axis
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.reductions import argmax
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import expand_dims, full, moveaxis, reshape
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.sort import sort, top_k
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy.core import check_array
from mjax._numpy.random.common import (
    as_given,
    axis_argument,
    flag,
    float_dtype,
    int_dtype,
    one_key,
    optional_shape,
    parameter,
    result_shape,
    sampler,
    scalar,
    shape_argument,
    spread,
)
from mjax._numpy.random.continuous import gumbel_mode, standard_gumbel
from mjax._numpy.random.uniform import draw_bits, integers, split_key, unit

# ---- categories ------------------------------------------------------------------------


@sampler(axis=axis_argument, shape=optional_shape, replace=flag, mode=gumbel_mode)
def _categorical(key: Any, logits: Any, *, axis: int, shape: tuple[int, ...] | None,
                 replace: bool, mode: str | None) -> Any:
    key = one_key("categorical", key)
    aval = typeof(logits)
    if not dtypes.is_float(aval.dtype):
        msg = f"categorical takes logits of a float dtype, got {aval.dtype}."
        raise ValueError(msg)
    axis = canonicalize_axis(axis, aval.ndim)
    count = aval.shape[axis]
    batch = aval.shape[:axis] + aval.shape[axis + 1 :]
    shape = batch if shape is None else shape
    lead = len(shape) - len(batch)
    if lead < 0 or any(m not in (1, n) for m, n in zip(batch, shape[lead:], strict=True)):
        msg = (f"categorical: logits of shape {aval.shape}, without axis {axis}, do not broadcast "
               f"to the shape {shape}.")
        raise ValueError(msg)
    if not replace:
        return _distinct_categories(key, logits, axis, count, shape, lead, mode)
    sizes = list(shape[lead:])
    sizes.insert(axis, count)
    noise = standard_gumbel(key, (*shape[:lead], *sizes), aval.dtype, mode)
    return argmax(add(noise, expand_dims(logits, range(lead))), axis + lead,
                  dtypes.dtype_of_python(int))


def _distinct_categories(key: Any, logits: Any, axis: int, count: int, shape: tuple[int, ...],
                         lead: int, mode: str | None) -> Any:
    """A sample without replacement: the greatest of the noisy logits."""
    wanted = math.prod(shape[:lead])
    if wanted > count:
        msg = (f"categorical: {wanted} samples without replacement cannot be taken from {count} "
               "categories.")
        raise ValueError(msg)
    aval = typeof(logits)
    noisy = add(standard_gumbel(key, aval.shape, aval.dtype, mode), logits)
    _, indices = top_k(noisy, wanted, axis=axis)
    return reshape(moveaxis(indices, axis, 0), shape)


@lays_out
def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True,
                mode: str | None = None) -> Any:
    """Indices of categories, drawn with probabilities `softmax(logits)`.

    Args:
      key: a key.
      logits: float array of unnormalized log-probabilities.
      axis: the axis of the categories in `logits`.
      shape: shape of the result. The shape of `logits` without `axis` broadcasts to its last
        axes, and is the default.
      replace: whether a category may be drawn more than once along those leading axes of the
        result that `logits` does not have.
      mode: as in `gumbel`.

    Returns:
      An array of int32.

    Raises:
      TypeError: `key` is not a key.
      ValueError: logits of another dtype, shapes or an axis that do not fit, more samples than
        categories without replacement, or several keys.

    Example:
      >>> random.categorical(random.key(0), jnp.log(jnp.array([0.0, 1.0, 0.0])), shape=(4,))
      Array([1, 1, 1, 1], dtype=int32)

    Source: Gumbel-max trick; without replacement, Kool, van Hoof and Welling 2019.
    """
    return _categorical(key, logits, axis=axis, shape=shape, replace=replace, mode=mode)


# ---- permutations ----------------------------------------------------------------------


def shuffle(key: Any, x: Any, axis: int) -> Any:
    """Sorts along an axis by random numbers, several times if those may collide."""
    shape = typeof(x).shape
    size = max(1, int(math.prod(shape)))
    # After these rounds, an element shares all its bits with another with probability 1 / size**2.
    for _ in range(math.ceil(3 * math.log(size) / math.log(2**32 - 1))):
        key, subkey = split_key(key)
        _, x = sort((draw_bits(subkey, shape, 32), x), dimension=axis, num_keys=1)
    return x


def _permuted(key: Any, x: Any, axis: int, independent: bool) -> Any:
    shape = typeof(x).shape
    if independent or len(shape) == 1:
        return shuffle(key, x, axis)
    order = shuffle(key, iota(np.dtype("int32"), shape[axis]), 0)
    return take_on_axis(x, order, axis, unique_indices=True, mode="promise_in_bounds")


@sampler(axis=axis_argument, independent=flag)
def _permutation(key: Any, x: Any, *, axis: int, independent: bool) -> Any:
    aval = typeof(x)
    return _permuted(one_key("permutation", key), x, canonicalize_axis(axis, aval.ndim),
                     independent)


@sampler(size=as_given, dtype=int_dtype)
def _permuted_range(key: Any, *, size: int, dtype: Any) -> Any:
    return shuffle(one_key("permutation", key), iota(dtype, size), 0)


def _range_size(name: str, x: Any) -> int:
    """The `n` of a scalar argument, which means `arange(n)`.

    Raises:
      TypeError: it is not an integer, or is traced.
    """
    if not dtypes.is_integer(typeof(x).dtype):
        msg = f"{name} takes an integer or an array of at least one axis, got {x!r}."
        raise TypeError(msg)
    if isinstance(x, Tracer):
        msg = (f"{name}: the size of the range is traced, but must be known; mark it static "
               "(static_argnums) or give an array.")
        raise TypeError(msg)
    return max(0, int(x))


@lays_out
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The elements of an array in random order.

    Args:
      key: a key.
      x: an array, or an int `n` for `arange(n)`.
      axis: the axis that is permuted.
      independent: whether each row along the axis has its own order.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: `key` is not a key, or `x` is a scalar but not an integer.
      ValueError: an axis out of range, or several keys.

    Example:
      >>> random.permutation(random.key(0), 5).shape
      (5,)
    """
    x = check_array("permutation", x, 1)
    if not typeof(x).shape:
        size = _range_size("permutation", x)
        canonicalize_axis(axis, 1)
        return _permuted_range(key, size=size, dtype=None)
    return _permutation(key, x, axis=axis, independent=independent)


# ---- choices ---------------------------------------------------------------------------


def _search(sorted_values: Any, queries: Any) -> Any:
    """For each query the first position whose value is not below it, by bisection."""
    size, shape = typeof(sorted_values).shape[0], typeof(queries).shape
    low, high = full(shape, 0, np.int32), full(shape, size, np.int32)
    for _ in range(size.bit_length()):
        middle = add(low, div(sub(high, low), np.int32(2)))
        found = take_on_axis(sorted_values, minimum(middle, np.int32(size - 1)), 0,
                             mode="promise_in_bounds")
        left = le(queries, found)
        low, high = select_n(left, middle, low), select_n(left, high, middle)
    return high


@sampler(shape=shape_argument, replace=flag, mode=gumbel_mode, size=as_given, weighted=flag,
         axis=axis_argument, dtype=int_dtype)
def _choice(key: Any, *arrays: Any, shape: tuple[int, ...], replace: bool, mode: str | None,
            size: int | None, weighted: bool, axis: int, dtype: Any) -> Any:
    """`arrays` holds the array, unless `size` means a range, then the weights, if given."""
    key = one_key("choice", key)
    p = arrays[-1] if weighted else None
    array = arrays[0] if size is None else None
    axis = canonicalize_axis(axis, typeof(array).ndim) if size is None else 0
    size = typeof(array).shape[axis] if size is None else size
    _check_choice(size, shape, replace, p)
    if math.prod(shape) == 0 and size == 0:
        rest = () if array is None else typeof(array).shape
        dtype = dtype if array is None else typeof(array).dtype
        return full((*rest[:axis], *shape, *rest[axis + 1 :]), 0, dtype)
    if p is None and not replace and array is not None and typeof(array).ndim > 0:
        chosen = slice_in_dim(_permuted(key, array, axis, False), 0, math.prod(shape), axis=axis)
        rest = typeof(array).shape
        return reshape(chosen, (*rest[:axis], *shape, *rest[axis + 1 :]))
    indices = _chosen_indices(key, size, shape, replace, p, mode, dtype)
    if array is None:
        return indices
    return take_on_axis(array, indices, axis, mode="promise_in_bounds")


def _check_choice(size: int, shape: tuple[int, ...], replace: bool, p: Any) -> None:
    wanted = math.prod(shape)
    if size == 0 and wanted:
        msg = f"choice: nothing to choose {wanted} samples from: `a` has no elements."
        raise ValueError(msg)
    if not replace and wanted > size:
        msg = (f"choice: {wanted} samples without replacement cannot be taken from {size} "
               "elements.")
        raise ValueError(msg)
    if p is not None and typeof(p).shape != (size,):
        msg = (f"choice: p must have one probability for each of the {size} elements, that is "
               f"shape ({size},), got {typeof(p).shape}.")
        raise ValueError(msg)


def _chosen_indices(key: Any, size: int, shape: tuple[int, ...], replace: bool, p: Any,
                    mode: str | None, dtype: Any) -> Any:
    wanted = math.prod(shape)
    if p is None:
        if replace:
            return integers(key, shape, dtype, scalar(dtype, 0), scalar(dtype, size))
        return reshape(slice_in_dim(shuffle(key, iota(dtype, size), 0), 0, wanted), shape)
    if not dtypes.is_inexact(typeof(p).dtype):
        p = convert(p, dtypes.dtype_of_python(float))
    p_dtype = typeof(p).dtype
    if replace:
        total = cumsum(p)
        last = reshape(slice_in_dim(total, size - 1, size), ())
        floats = sub(scalar(p_dtype, 1), unit(key, shape, p_dtype))
        return convert(_search(total, mul(last, floats)), dtype)
    noisy = add(standard_gumbel(key, (size,), p_dtype, mode), log(p))
    _, indices = top_k(noisy, wanted)
    return convert(reshape(indices, shape), dtype)


@boundary
def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0,
           mode: str | None = None) -> Any:
    """Elements chosen from an array.

    Args:
      key: a key.
      a: an array, or an int `n` for `arange(n)`.
      shape: shape of the sample.
      replace: whether an element may be chosen more than once.
      p: probabilities of the elements along `axis`; by default they are equal.
      axis: the axis along which elements are chosen.
      mode: as in `gumbel`; matters with `p` and without replacement.

    Returns:
      An array of the dtype of `a`, with `shape` in place of its axis.

    Raises:
      TypeError: `key` is not a key, or `a` is a scalar but not an integer.
      ValueError: nothing to choose from, more samples than elements without replacement, a `p`
        or axis that does not fit, or several keys.

    Example:
      >>> random.choice(random.key(0), 10, (3,), replace=False).shape
      (3,)
    """
    a = check_array("choice", a, 1)
    is_array = bool(typeof(a).shape)
    size = None if is_array else _range_size("choice", a)
    arrays = ((a,) if is_array else ()) + (
        () if p is None else (check_array("choice", p, "p"),))
    return _choice(key, *arrays, shape=shape, replace=replace, mode=mode, size=size,
                   weighted=p is not None, axis=axis, dtype=None)


# ---- trials ----------------------------------------------------------------------------


@sampler(shape=optional_shape, dtype=int_dtype)
def _geometric(key: Any, p: Any, *, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    shape = result_shape("geometric", shape, p)
    given = typeof(p).dtype
    inner = given if dtypes.is_float(given) else float_dtype("geometric", None)
    floats = unit(one_key("geometric", key), shape, inner)
    floats = select_n(eq(floats, scalar(inner, 0)), floats, spread(scalar(inner, 1), shape))
    failures = floor(div(log(floats), log1p(neg(parameter(p, inner, shape)))))
    return convert(add(failures, scalar(inner, 1)), dtype)


@lays_out
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of trials up to the first success.

    Args:
      key: a key.
      p: probability of a success, broadcast to `shape`.
      shape: shape of the result; by default that of `p`.
      dtype: an integer dtype; by default int32, or int64 in x64 mode.

    Returns:
      An array of shape `shape`, by default that of the parameters, and dtype `dtype`.

    Raises:
      TypeError: `key` is not a key.
      ValueError: another kind of dtype, a `p` that does not fit the shape, or several keys.

    Example:
      >>> random.geometric(random.key(0), 0.5, (1000,)).mean().round()
      Array(2., dtype=float32)
    """
    return _geometric(key, p, shape=shape, dtype=dtype)


__all__ = ["categorical", "choice", "geometric", "permutation", "shuffle"]
