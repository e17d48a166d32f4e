"""Arrays of evenly spaced numbers, and grids of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype, result_type
from mjax._engine.ir.sizes import count_of, is_constant_shape, is_size, is_symbolic_dim
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.iota import iota_p
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import (
    array_of,
    as_settled,
    broadcast_in_dim_p,
    canonical_shape,
    moveaxis,
    reshape,
    scalar_of,
)
from mjax._engine.runtime.arrays.out_sharding import chosen_place
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.transforms.vmap import vmap
from mjax._numpy.core import (
    broadcast_to,
    broadcast_values,
    cast,
    check_array,
    check_arrays,
    check_fill,
    choose,
    concrete_int,
    concrete_size,
    dtype_argument,
    promote_args_inexact,
)
from mjax._numpy.creation import asarray, filled, on_device
from mjax._numpy.fused import fused

# ---- arange ----------------------------------------------------------------------------


def _bound(name: str, x: Any) -> Any:
    """A start, stop or step of `arange` as a Python or NumPy number."""
    if is_symbolic_dim(x):
        return x
    if isinstance(x, Tracer) and x.concrete() is None:
        operator.index(x)  # raises an error that explains
    x = check_fill("arange", x)
    value = np.asarray(x)
    if value.shape:
        msg = f"arange: {name} must be a scalar, got an array of shape {value.shape}."
        raise ValueError(msg)
    if value.dtype.kind == "c":
        msg = f"arange: {name} must be a real number, got {value[()]}."
        raise ValueError(msg)
    return value[()]


@boundary
def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *,
           device: Any = None, out_sharding: Any = None) -> Any:
    """Numbers from `start` up to, but excluding, `stop`, in steps of `step`.

    Args:
      start: the first number; without `stop` it is the stop, and the start is 0.
      stop: the end.
      step: the distance; 1 if not given.
      dtype: dtype of the result; by default the common one of the arguments.
      device: the device to put it on.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array of shape `(ceil((stop - start) / step),)`.

    Raises:
      ValueError: an argument is not a real scalar; the step is 0.
      TracerIntegerConversionError: an argument is traced, but the size must be known.

    Source: `numpy.arange`.

    Example:
      >>> jnp.arange(2, 10, 3)
      Array([2, 5, 8], dtype=int32)
    """
    device = chosen_place("arange", device, out_sharding)
    target = dtype_argument(dtype, "arange")
    if start is None:
        msg = "arange: start must be a real number, got None."
        raise TypeError(msg)
    given = [x for x in (start, stop, step) if x is not None]
    if target is None:
        target = result_type(*[int if is_symbolic_dim(x) else check_array("arange", x)
                               for x in given])
    if stop is None:
        start, stop = 0, start
    low, high = _bound("start", start), _bound("stop", stop)
    stride = _bound("step", 1 if step is None else step)
    if stride == 0:
        msg = "arange: step must not be 0."
        raise ValueError(msg)
    size = _size(*map(_exact, (low, high, stride)))
    return on_device(_progression(low, stride, size, target), device)


def _size(low: Any, high: Any, stride: Any) -> Any:
    if is_constant_shape((low, high, stride)):
        return max(0, math.ceil((high - low) / stride))
    if not (is_size(low) and is_size(high) and type(stride) is int):
        msg = (f"arange: with symbolic dimensions, start and stop must be integers, and step one "
               f"that is known; got start={low}, stop={high}, step={stride}.")
        raise ValueError(msg)
    return count_of(low, high, stride)


def _exact(x: Any) -> Any:
    """A Python number, so that differences do not wrap around or round."""
    return x if is_size(x) else int(x) if x.dtype.kind in "iub" else float(x)


def _progression(low: Any, stride: Any, size: int, dtype: Any) -> Any:
    if dtype == np.bool_:
        msg = "arange: dtype bool is not supported; use zeros, ones or astype."
        raise TypeError(msg)
    if dtypes.is_integer(dtype) and thread.interpreter is evaluation and size <= 1 << 16:
        with np.errstate(all="ignore"):
            return asarray(as_settled((
                np.asarray(low).astype(np.int64)
                + np.asarray(stride).astype(np.int64) * np.arange(size)).astype(dtype)))
    if not is_symbolic_dim(low) and low == 0 and stride == 1:
        return iota_p.bind(dtype=dtype, shape=(size,), dimension=0)
    low, stride = (scalar_of(ShapedArray((), dtype), low) if is_symbolic_dim(low) else
                   as_settled(np.asarray(low).astype(dtype)[()]),
                   as_settled(np.asarray(stride).astype(dtype)[()]))
    if stride == 1:
        return _from(low, size)
    return _from_by(low, stride, size)


@fused(static_argnames=("size",))
def _from(low: Any, size: int) -> Any:
    return lax.add(low, iota_p.bind(dtype=typeof(low).dtype, shape=(size,), dimension=0))


@fused(static_argnames=("size",))
def _from_by(low: Any, stride: Any, size: int) -> Any:
    steps = iota_p.bind(dtype=typeof(low).dtype, shape=(size,), dimension=0)
    return lax.add(low, lax.mul(stride, steps))


# ---- linspace and its siblings ---------------------------------------------------------


@boundary
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0, *, device: Any = None) -> Any:
    """Evenly spaced numbers over an interval.

    Args:
      start: the first number, or an array of first numbers.
      stop: the last number, or an array of last numbers.
      num: how many numbers.
      endpoint: whether `stop` is the last of them.
      retstep: whether to return the distance too.
      dtype: dtype of the result; by default the common inexact one. Integers are rounded down.
      axis: the axis of the result along which they run.
      device: the device to put it on.

    Returns:
      An array of the shape that `start` and `stop` broadcast to, with an axis of size `num`
      inserted; with `retstep`, a pair of it and the distance.

    Raises:
      ValueError: `num` is negative.

    Source: `numpy.linspace`.

    Example:
      >>> jnp.linspace(0, 1, 5)
      Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    out = _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    if device is None:
        return out
    return (on_device(out[0], device), out[1]) if retstep else on_device(out, device)


@fused(values=("start", "stop"), static_argnames=("num", "endpoint", "retstep", "dtype", "axis"))
def _linspace(start: Any, stop: Any, num: int, endpoint: bool, retstep: bool, dtype: Any,
              axis: int) -> Any:
    num, endpoint = concrete_size(num, "linspace: num"), bool(endpoint)
    if num < 0:
        msg = f"linspace: num must not be negative, got {num}."
        raise ValueError(msg)
    dtype, axis = dtype_argument(dtype, "linspace"), concrete_int(axis, "linspace: axis")
    compute = inexact_dtype(result_type(start, stop, *([] if dtype is None else [dtype])))
    start, stop = broadcast_values("linspace", cast(start, compute), cast(stop, compute))
    shape = typeof(start).shape
    axis = canonicalize_axis(axis, len(shape) + 1)
    intervals = num - 1 if endpoint else num
    nan = np.asarray(np.nan, compute)[()]
    step = (lax.div(lax.sub(stop, start), _c(start, intervals)) if intervals > 0 else
            broadcast_in_dim_p.bind(nan, shape=shape, broadcast_dimensions=()))
    out = _between(start, stop, num, intervals, endpoint, compute)
    if axis:
        out = moveaxis(out, 0, axis)
    target = compute if dtype is None else dtype
    if dtypes.is_integer(target):
        out = lax.floor(cast(out, dtypes.real_dtype(compute)))
    out = cast(out, target)
    return (out, step) if retstep else out


def _between(start: Any, stop: Any, num: int, intervals: int, endpoint: bool, dtype: Any) -> Any:
    """`num` numbers along a new first axis; the last is exactly `stop` if it is an endpoint."""
    shape = typeof(start).shape
    first, last = reshape(start, (1, *shape)), reshape(stop, (1, *shape))
    if num < 2:
        return broadcast_to(first, (num, *shape))
    count = num - 1 if endpoint else num
    real = dtypes.real_dtype(dtype)
    fraction = lax.div(iota_p.bind(dtype=real, shape=(count,), dimension=0),
                       scalar_of(ShapedArray((), real), intervals))
    fraction = cast(reshape(fraction, (count,) + (1,) * len(shape)), dtype)
    out = lax.add(lax.mul(first, lax.sub(_c(fraction, 1), fraction)), lax.mul(last, fraction))
    return concatenate([out, last], 0) if endpoint else out


@boundary
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
             dtype: Any = None, axis: int = 0) -> Any:
    """Numbers from `base ** start` to `base ** stop`, evenly spaced on a logarithmic scale.

    Args:
      start: exponent of the first number, or an array of them.
      stop: exponent of the last number, or an array of them.
      num: how many numbers.
      endpoint: whether `base ** stop` is the last of them.
      base: the base.
      dtype: dtype of the result; by default the common inexact one.
      axis: the axis of the result along which they run.

    Returns:
      An array with `num` numbers along the axis.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.logspace`.

    Example:
      >>> jnp.logspace(0, 2, 3)
      Array([  1.,  10., 100.], dtype=float32)
    """
    return _logspace(*check_arrays("logspace", start, stop, base),
                     concrete_int(num, "logspace: num"), bool(endpoint),
                     dtype_argument(dtype, "logspace"), concrete_int(axis, "logspace: axis"))


@fused(static_argnames=("num", "endpoint", "dtype", "axis"))
def _logspace(start: Any, stop: Any, base: Any, num: int, endpoint: bool, dtype: Any, axis: int
              ) -> Any:
    compute = inexact_dtype(result_type(start, stop, *([] if dtype is None else [dtype])))
    exponents = _linspace(cast(start, compute), cast(stop, compute), num, endpoint, False, compute,
                          axis)
    out = lax.pow(*promote_args_inexact("logspace", base, exponents))
    return cast(out, compute if dtype is None else dtype)


@boundary
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None,
              axis: int = 0) -> Any:
    """Numbers from `start` to `stop` with a constant ratio.

    Args:
      start: the first number, or an array of them; not 0.
      stop: the last number, or an array of them; not 0, of the sign of `start`.
      num: how many numbers.
      endpoint: whether `stop` is the last of them.
      dtype: dtype of the result; by default the common inexact one.
      axis: the axis of the result along which they run.

    Returns:
      An array with `num` numbers along the axis.

    Raises:
      TypeError: an argument is not an array or scalar.
      ValueError: an axis is out of range.

    Source: `numpy.geomspace`.

    Example:
      >>> jnp.geomspace(1, 16, 5)
      Array([ 1.,  2.,  4.,  8., 16.], dtype=float32)
    """
    return _geomspace(*check_arrays("geomspace", start, stop),
                      concrete_int(num, "geomspace: num"), bool(endpoint),
                      dtype_argument(dtype, "geomspace"), concrete_int(axis, "geomspace: axis"))


@fused(static_argnames=("num", "endpoint", "dtype", "axis"))
def _geomspace(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Any:
    compute = inexact_dtype(result_type(start, stop, *([] if dtype is None else [dtype])))
    start, stop = broadcast_values("geomspace", cast(start, compute), cast(stop, compute))
    # Powers of the ratio: exact at the start, also for negative or complex starts.
    exponents = _linspace(_c(start, 0), lax.log(lax.div(stop, start)), num, endpoint, False,
                          compute, 0)
    out = lax.mul(reshape(start, (1, *typeof(start).shape)), lax.exp(exponents))
    if endpoint and num > 1:
        index = iota_p.bind(dtype=np.dtype(np.int32), shape=typeof(out).shape, dimension=0)
        last = lax.eq(index, np.int32(num - 1))
        out = choose(last, reshape(stop, (1, *typeof(stop).shape)), out)
    axis = canonicalize_axis(axis, typeof(out).ndim)
    return cast(moveaxis(out, 0, axis), compute if dtype is None else dtype)


# ---- grids -----------------------------------------------------------------------------


@boundary
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinates of the points of a grid, from those along its axes.

    Args:
      xi: arrays of shape `(n_0,)`, `(n_1,)`, ...
      copy: must be True.
      sparse: whether axes along which coordinates are constant have size 1.
      indexing: "ij": axis `i` of the results is that of `xi[i]`; "xy": the first two are
        swapped.

    Returns:
      A list of arrays, one for each argument, of shape `(n_0, n_1, ...)`.

    Raises:
      ValueError: an argument has more than one axis; `indexing` is something else.

    Source: `numpy.meshgrid`.

    Example:
      >>> jnp.meshgrid(jnp.array([1, 2]), jnp.array([3, 4]), sparse=True)
      [Array([[1, 2]], dtype=int32), Array([[3],
             [4]], dtype=int32)]
    """
    if indexing not in ("xy", "ij"):
        msg = f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}."
        raise ValueError(msg)
    if not copy:
        msg = "meshgrid: copy must be True: arrays have no views."
        raise ValueError(msg)
    values = check_arrays("meshgrid", *xi)
    for i, x in enumerate(values):
        if typeof(x).ndim > 1:
            msg = f"meshgrid: argument {i} must have at most one axis, got shape {typeof(x).shape}."
            raise ValueError(msg)
    return _meshgrid(tuple(map(array_of, values)), sparse, indexing) if values else []


@fused(static_argnames=("sparse", "indexing"))
def _meshgrid(xi: tuple[Any, ...], sparse: bool, indexing: str) -> list[Any]:
    rank = len(xi)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[0], places[1] = 1, 0
    sizes = [1] * rank
    for x, place in zip(xi, places, strict=True):
        sizes[place] = typeof(x).size
    out = []
    for x, place in zip(xi, places, strict=True):
        own = [1] * rank
        own[place] = sizes[place]
        out.append(reshape(x, own) if sparse else broadcast_to(reshape(x, own), sizes))
    return out


@boundary
def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of a grid: the `i`-th array holds the index along axis `i`.

    Args:
      dimensions: shape of the grid.
      dtype: dtype of the indices; the default int if not given.
      sparse: whether a tuple of arrays is returned, with size 1 along axes of constant indices.

    Returns:
      An array of shape `(len(dimensions), *dimensions)`, or a tuple.

    Raises:
      TypeError: a shape is not a sequence of integers.

    Source: `numpy.indices`.

    Example:
      >>> jnp.indices((2, 2))
      Array([[[0, 0],
              [1, 1]],
      <BLANKLINE>
             [[0, 1],
              [0, 1]]], dtype=int32)
    """
    shape = canonical_shape(dimensions)
    dtype = dtype_argument(int if dtype is None else dtype, "indices")
    if sparse:
        return tuple(reshape(iota_p.bind(dtype=dtype, shape=(n,), dimension=0),
                             (1,) * i + (n,) + (1,) * (len(shape) - i - 1))
                     for i, n in enumerate(shape))
    return _indices(shape, dtype)


@fused(static_argnames=("shape", "dtype"))
def _indices(shape: tuple[int, ...], dtype: Any) -> Any:
    if not shape:
        return filled((0,), 0, dtype)
    return concatenate([iota_p.bind(dtype=dtype, shape=(1, *shape), dimension=i + 1)
                        for i in range(len(shape))], 0)


@boundary
def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
                 ) -> Any:
    """An array whose elements are a function of their indices.

    Args:
      function: takes one scalar index per axis; it is vectorized over them.
      shape: shape of the result.
      dtype: dtype of the indices.
      kwargs: keyword arguments for `function`.

    Returns:
      The result of `function`, for arrays of indices of shape `shape`.

    Raises:
      TypeError: the first argument is not a function.

    Source: `numpy.fromfunction`.

    Example:
      >>> jnp.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
      Array([[0, 1],
             [1, 2]], dtype=int32)
    """
    shape = canonical_shape(shape)
    target = dtype_argument(dtype, "fromfunction")
    mapped = function
    for axis in reversed(range(len(shape))):
        in_axes = tuple(0 if i == axis else None for i in range(len(shape)))
        mapped = vmap(mapped, in_axes=in_axes)
    return mapped(*[arange(n, dtype=target) for n in shape], **kwargs)
