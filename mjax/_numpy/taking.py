"""Functions that read and write elements: take, take_along_axis, put, choose, compress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError, LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import eq, lt, sub
from mjax._engine.primitives.clamp import clamp
from mjax._engine.primitives.cumulative import cumsum
from mjax._engine.primitives.dot import dot_general
from mjax._engine.primitives.gather import GatherScatterMode, take_on_axis
from mjax._engine.primitives.gather import take_along_axis as gather_along_axis
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.joining import unstack_p
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter, scatter_mode
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    array_of,
    broadcast_in_dim,
    expand_dims,
    reshape,
    scalar_of,
)
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._numpy.arithmetic import remainder
from mjax._numpy.comparison import to_bool
from mjax._numpy.core import (
    broadcast_shapes,
    broadcast_to,
    cast,
    check_array,
    check_arrays,
    concrete_int,
    promote_dtypes,
    refuse_out,
    shape_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.indexing.parse import FINAL, RAW
from mjax._numpy.indexing.plan import settled
from mjax._numpy.indexing.update import update
from mjax._numpy.resizing import resize
from mjax._numpy.selecting import flatnonzero
from mjax._numpy.shapes import moveaxis, ravel

_FILL = GatherScatterMode.FILL_OR_DROP
_CLIP = GatherScatterMode.CLIP
_INSIDE = GatherScatterMode.PROMISE_IN_BOUNDS


def _integers(name: str, indices: Any) -> Any:
    if not dtypes.is_integer(typeof(indices).dtype):
        msg = (f"{name}: indices must be of integer type, got {typeof(indices).dtype}; convert "
               "them with .astype(int).")
        raise LazyArgumentError(msg)
    return indices


def _index_dtype(indices: Any) -> np.dtype[Any]:
    return np.dtype(np.int64 if typeof(indices).dtype.itemsize == 8 else np.int32)


def _bounded(name: str, indices: Any, size: int, mode: str | None) -> tuple[Any, Any]:
    """Indices by the rules of NumPy's `mode` argument, and the mode of the gather or scatter.

    Raises:
      NotImplementedError: mode "raise".
      ValueError: an unknown mode.
    """
    if mode is None or mode in ("fill", "drop"):
        return settled(indices, RAW, size, _index_dtype(indices)), _FILL
    if mode == "clip":
        return settled(indices, FINAL, size, _index_dtype(indices)), _CLIP
    if mode == "wrap":
        return remainder(indices, scalar_of(typeof(indices), size or 1)), _INSIDE
    if mode == "raise":
        msg = (f"{name}: the 'raise' mode is not supported, because computations on a device "
               "cannot raise; use 'fill', 'clip' or 'wrap'.")
        raise NotImplementedError(msg)
    msg = f"{name}: invalid mode {mode!r}; it must be None, 'fill', 'clip' or 'wrap'."
    raise ValueError(msg)


# ---- take ------------------------------------------------------------------------------


@fused(values=("a", "indices"),
       static_argnames=("axis", "out", "mode", "unique_indices", "indices_are_sorted",
                        "fill_value"))
def take(a: Any, indices: Any, axis: int | None = None, out: None = None,
         mode: str | None = None, unique_indices: bool = False,
         indices_are_sorted: bool = False, fill_value: Any = None) -> Any:
    """Takes elements along an axis.

    Args:
      a: array.
      indices: integers; negative ones count from the end.
      axis: the axis; None takes from all elements in the order of `ravel`.
      out: not supported.
      mode: for indices out of range: `"fill"` (the default) reads the fill value, `"clip"` the
        nearest element (negative ones do not count from the end), `"wrap"` takes them modulo
        the size.
      unique_indices: a promise that no index occurs twice.
      indices_are_sorted: a promise that the indices increase.
      fill_value: by default NaN for inexact dtypes, the lowest value for signed, the highest
        for unsigned integers, True for bool. Static.

    Returns:
      An array with the axes of the indices in place of the axis.

    Raises:
      TypeError: the indices are not integers.
      ValueError: the axis is out of range, or the mode unknown.

    Source: `numpy.take`.

    Example:
      >>> jnp.take(jnp.array([10., 20., 30.]), jnp.array([2, 0, 5]))
      Array([30., 10., nan], dtype=float32)
    """
    refuse_out("take", out)
    if typeof(indices).dtype == np.bool_:
        indices = cast(indices, np.dtype(np.int32))
    _integers("take", indices)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, typeof(a).ndim)
    indices, gather_mode = _bounded("take", indices, shape_of(a)[axis], mode)
    if 0 in shape_of(a) and 0 not in shape_of(indices):
        if shape_of(a)[axis] == 0:
            msg = f"take: cannot take from axis {axis} of size 0, of shape {shape_of(a)}."
            raise IndexError(msg)
    return take_on_axis(a, indices, axis, mode=gather_mode, fill_value=fill_value,
                        unique_indices=unique_indices, indices_are_sorted=indices_are_sorted)


@fused(values=("arr", "indices"),
       static_argnames=("axis", "mode", "fill_value", "wrap_negative_indices"))
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1,
                    mode: str | GatherScatterMode | None = None, fill_value: Any = None, *,
                    wrap_negative_indices: bool | None = None) -> Any:
    """Takes elements along an axis; each row has its own indices.

    Args:
      arr: array of shape `(..., n, ...)`.
      indices: integers of shape `(..., m, ...)`; the other axes broadcast.
      axis: the axis of sizes `n` and `m`; None reads `arr` in the order of `ravel`.
      mode: for indices out of range: `"fill"` (the default), `"clip"` or
        `"promise_in_bounds"`; `"one_hot"` reads by a matrix product, with zeros for them.
      fill_value: the value for `"fill"`; by default as in `take`. Static.
      wrap_negative_indices: whether negative integers count from the end (the default).

    Returns:
      An array of shape `(..., m, ...)`.

    Raises:
      TypeError: the indices are not integers.
      ValueError: numbers of axes differ, or the other axes do not broadcast.

    Source: `numpy.take_along_axis`.

    Example:
      >>> x = jnp.array([[3, 1, 2], [6, 5, 4]])
      >>> jnp.take_along_axis(x, jnp.array([[1], [2]]), axis=1)
      Array([[1],
             [4]], dtype=int32)
    """
    arr, axis = _along("take_along_axis", arr, indices, axis)
    mode = _FILL if mode is None else GatherScatterMode.from_any(mode)
    known = FINAL if wrap_negative_indices is False else RAW
    indices = settled(indices, known, shape_of(arr)[axis], _index_dtype(indices))
    if mode is GatherScatterMode.ONE_HOT:
        return _one_hot_along_axis(arr, indices, axis)
    return gather_along_axis(arr, indices, axis, mode=mode, fill_value=fill_value)


def _one_hot_along_axis(arr: Any, indices: Any, axis: int) -> Any:
    """`take_along_axis` by a product with a matrix per row; zeros for places outside."""
    arr, indices = moveaxis(arr, axis, -1), moveaxis(indices, axis, -1)
    n, m = shape_of(arr)[-1], shape_of(indices)[-1]
    rows = broadcast_shapes(shape_of(arr)[:-1], shape_of(indices)[:-1])
    arr, indices = broadcast_to(arr, (*rows, n)), broadcast_to(indices, (*rows, m))
    rank, aval = len(rows), typeof(arr)
    hot = eq(expand_dims(indices, (rank + 1,)),
             broadcasted_iota(typeof(indices).dtype, (1,) * (rank + 1) + (n,), rank + 1))
    batch = tuple(range(rank))
    out = dot_general(cast(hot, aval.dtype), arr, (((rank + 1,), (rank,)), (batch, batch)),
                      "highest", aval.dtype)
    return moveaxis(out, -1, axis)


def _along(name: str, arr: Any, indices: Any, axis: int | None) -> tuple[Any, int]:
    """The array and its axis, checked against the indices."""
    _integers(name, indices)
    if axis is None:
        if typeof(indices).ndim != 1:
            msg = f"{name}: with axis=None indices must have one axis, got {shape_of(indices)}."
            raise ValueError(msg)
        arr, axis = ravel(arr), 0
    shape, index_shape = shape_of(arr), shape_of(indices)
    if len(shape) != len(index_shape):
        msg = (f"{name}: indices and arr must have the same number of dimensions; "
               f"{len(index_shape)} vs. {len(shape)} (shapes {index_shape} and {shape}).")
        raise ValueError(msg)
    axis = canonicalize_axis(axis, len(shape))
    if shape[axis] == 0 and 0 not in index_shape:
        msg = f"{name}: cannot take from axis {axis} of size 0, of shape {shape}."
        raise IndexError(msg)
    for i, (n, m) in enumerate(zip(shape, index_shape, strict=True)):
        if i != axis and n != m and 1 not in (n, m):
            msg = (f"{name}: incompatible shapes for broadcasting: except axis {axis} the "
                   f"indices, of shape {index_shape}, must fit the array, of shape {shape}.")
            raise ValueError(msg)
    return arr, axis


# ---- put -------------------------------------------------------------------------------


def _refuse_inplace(name: str, inplace: bool) -> None:
    if inplace:
        msg = (f"{name} cannot modify arrays in-place: they are immutable. Pass inplace=False "
               "and use the result.")
        raise ValueError(msg)


@boundary
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True,
                   *, mode: str | None = None) -> Any:
    """An array with elements replaced along an axis; each row has its own indices.

    Args:
      arr: array of shape `(..., n, ...)`.
      indices: integers of shape `(..., m, ...)`; the other axes broadcast.
      values: the new values; broadcasts to the shape of the indices.
      axis: the axis of sizes `n` and `m`; None reads `arr` in the order of `ravel`.
      inplace: must be False.
      mode: for indices out of range: `"drop"` (the default), `"clip"` or
        `"promise_in_bounds"`.

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      ValueError: `inplace` is not False, or shapes do not fit.
      TypeError: the indices are not integers.

    Source: `numpy.put_along_axis`.

    Example:
      >>> x = jnp.array([[3, 1, 2], [6, 5, 4]])
      >>> jnp.put_along_axis(x, jnp.array([[1], [2]]), 9, axis=1, inplace=False)
      Array([[3, 9, 2],
             [6, 5, 9]], dtype=int32)
    """
    _refuse_inplace("put_along_axis", inplace)
    return _put_along_axis(arr, indices, values, axis=axis, mode=mode)


@fused(values=("arr", "indices", "values"), static_argnames=("axis", "mode"))
def _put_along_axis(arr: Any, indices: Any, values: Any, *, axis: int | None, mode: Any) -> Any:
    whole, indices, values = arr, indices, values
    arr, axis = _along("put_along_axis", whole, indices, axis)
    shape, rank = shape_of(arr), typeof(arr).ndim
    rows = broadcast_shapes(*[(*s[:axis], 1, *s[axis + 1 :])
                              for s in (shape, shape_of(indices))])
    target = (*rows[:axis], shape_of(indices)[axis], *rows[axis + 1 :])
    indices = settled(indices, RAW, shape[axis], _index_dtype(indices))
    others = tuple(i for i in range(rank) if i != axis)
    dims = ScatterDimensionNumbers((), (axis,), (axis,), others, others)
    out = scatter(arr, reshape(broadcast_to(indices, target), (*target, 1)),
                  broadcast_to(cast(values, typeof(arr).dtype), target), dims,
                  mode=scatter_mode(mode))
    return reshape(out, shape_of(whole))


@boundary
def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """An array with elements replaced at indices in the order of `ravel`.

    Args:
      a: array.
      ind: integers; negative ones count from the end.
      v: the new values, repeated as often as needed.
      mode: for indices out of range: the default takes the nearest element, as does `"clip"`, which
        treats all negative ones as 0; `"wrap"` takes them modulo the size, `"drop"` ignores
        them.
      inplace: must be False.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: `inplace` is not False, or the mode is unknown.
      TypeError: the indices are not integers.

    Source: `numpy.put`.

    Example:
      >>> jnp.put(jnp.zeros((2, 2)), jnp.array([0, 3]), 5., inplace=False)
      Array([[5., 0.],
             [0., 5.]], dtype=float32)
    """
    _refuse_inplace("put", inplace)
    return _put(a, ind, v, mode=mode)


@fused(values=("a", "ind", "v"), static_argnames=("mode",))
def _put(a: Any, ind: Any, v: Any, *, mode: Any) -> Any:
    flat, ind = ravel(a), ravel(_integers("put", ind))
    if 0 in shape_of(ind) or 0 in shape_of(v):
        return array_of(a)
    size = shape_of(flat)[0]
    ind, scatter_kind = _bounded("put", ind, size, mode or "fill")
    if mode in (None, "clip"):  # so that `checkify` finds nothing, as in JAX
        ind = clamp(scalar_of(typeof(ind), 0), ind, scalar_of(typeof(ind), size - 1))
    out = scatter(flat, reshape(ind, (*shape_of(ind), 1)),
                  resize(cast(v, typeof(a).dtype), shape_of(ind)),
                  ScatterDimensionNumbers((), (0,), (0,)), mode=scatter_kind)
    return reshape(out, shape_of(a))


@boundary
def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """An array with the elements selected by a mask replaced, in order, by values.

    Args:
      arr: array.
      mask: booleans, as many as `arr` has elements.
      vals: at least one value; repeated as often as needed.
      inplace: must be False.

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      ValueError: `inplace` is not False, or sizes do not fit.

    Source: `numpy.place`.

    Example:
      >>> x = jnp.array([1, 2, 3, 4])
      >>> jnp.place(x, x > 1, jnp.array([7, 8]), inplace=False)
      Array([1, 7, 8, 7], dtype=int32)
    """
    _refuse_inplace("place", inplace)
    return _place(arr, mask, vals)


@fused(values=("arr", "mask", "vals"))
def _place(arr: Any, mask: Any, vals: Any) -> Any:
    mask, vals = ravel(mask), ravel(vals)
    size, count = math.prod(shape_of(arr)), shape_of(vals)[0]
    if shape_of(mask) != (size,):
        msg = f"place: arr and mask must have the same size, got {size} and {shape_of(mask)[0]}."
        raise ValueError(msg)
    if count == 0:
        if size == 0:
            return array_of(arr)
        msg = "place: cannot insert from an empty array of values."
        raise ValueError(msg)
    one = np.int32(1)
    chosen = to_bool(mask)
    order = sub(cumsum(cast(chosen, np.dtype(np.int32)), 0), one)
    taken = take_on_axis(cast(vals, typeof(arr).dtype), remainder(order, np.int32(count)), 0)
    return reshape(select_n(chosen, ravel(arr), taken), shape_of(arr))


@boundary
def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """An array with its main diagonal replaced.

    Args:
      a: array of at least two axes; with more than two their sizes must be equal.
      val: scalar or array of values, repeated as often as needed.
      wrap: whether the diagonal of a tall matrix starts again after a row without it.
      inplace: must be False.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: `inplace` is not False, or the shape does not fit.

    Source: `numpy.fill_diagonal`.

    Example:
      >>> jnp.fill_diagonal(jnp.zeros((2, 3)), 7., inplace=False)
      Array([[7., 0., 0.],
             [0., 7., 0.]], dtype=float32)
    """
    _refuse_inplace("fill_diagonal", inplace)
    return _fill_diagonal(a, val, wrap=bool(wrap))


@fused(values=("a", "val"), static_argnames=("wrap",))
def _fill_diagonal(a: Any, val: Any, *, wrap: bool) -> Any:
    shape = shape_of(a)
    if len(shape) < 2:
        msg = f"fill_diagonal: the array must be at least 2-d, got shape {shape}."
        raise ValueError(msg)
    if len(shape) > 2 and len(set(shape)) > 1:
        msg = f"fill_diagonal: all dimensions of input must be of equal length, got {shape}."
        raise ValueError(msg)
    step = shape[1] + 1 if len(shape) == 2 else sum(shape[0] ** k for k in range(len(shape)))
    size = math.prod(shape)
    stop = size if wrap or len(shape) > 2 else min(size, shape[1] ** 2)
    count = len(range(0, stop, step))
    if count == 0:
        return array_of(a)
    values = resize(val, (count,)) if shape_of(val) else val
    return reshape(update("set", ravel(a), slice(0, stop, step), values, None, True, True), shape)


# ---- choose, compress, extract ---------------------------------------------------------


@boundary
def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """Takes each element from the array whose number an array of integers holds.

    Args:
      a: integers.
      choices: sequence of arrays, or an array that is split along its first axis; they broadcast
        together and with `a`.
      out: not supported.
      mode: for numbers out of range: `"raise"` (they must then be known), `"clip"` or
        `"wrap"`.

    Returns:
      An array of the shape that `a` and the choices broadcast to, in the choices' common dtype.

    Raises:
      ValueError: a number is out of range, or the mode unknown.
      TypeError: `a` does not hold integers.

    Source: `numpy.choose`.

    Example:
      >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), 10])
      Array([ 1, 10,  3], dtype=int32)
    """
    refuse_out("choose", out)
    a = _integers("choose", check_array("choose", a))
    if not isinstance(choices, (list, tuple)):
        choices = unstack_p.bind(check_array("choose", choices, 1), axis=0)
    if mode == "raise":
        _check_choices(a, len(choices))
    elif mode not in ("clip", "wrap"):
        msg = f"choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}."
        raise ValueError(msg)
    return _choose(a, list(choices), wrap=mode == "wrap")


def _check_choices(a: Any, n: int) -> None:
    try:
        known = np.asarray(a)
    except ConcretizationTypeError:
        raise ConcretizationTypeError(lambda: (
            f"choose: with mode='raise' the numbers must be known, but {typeof(a)} is traced; use "
            "mode='clip' or mode='wrap'.")) from None
    if ((known < 0) | (known >= n)).any():
        msg = f"choose: invalid entry in choice array: numbers must be in [0, {n}), got {known}."
        raise ValueError(msg)


@fused(static_argnames=("wrap",))
def _choose(a: Any, choices: Sequence[Any], *, wrap: bool) -> Any:
    cases = promote_dtypes(*check_arrays("choose", *choices))
    shape = broadcast_shapes(*map(shape_of, (a, *cases)))
    n, int32 = len(cases), np.dtype(np.int32)
    which = remainder(a, scalar_of(typeof(a), n)) if wrap else a
    which = cast(clamp(scalar_of(typeof(which), 0), which,
                       scalar_of(typeof(which), n - 1)), int32)
    out = select_n(broadcast_to(which, shape), *[broadcast_to(c, shape) for c in cases])
    return cast(out, typeof(out).dtype)


@boundary
def compress(condition: Any, a: Any, axis: int | None = None, *, size: int | None = None,
             fill_value: Any = 0, out: None = None) -> Any:
    """Takes the elements along an axis for which a condition holds.

    Args:
      condition: array of one axis; without `size` its values must be known.
      a: array.
      axis: the axis; None takes from all elements in the order of `ravel`.
      size: size of the result along the axis: more elements are cut off, missing ones are
        filled. It is needed under `jit`.
      fill_value: the value for missing elements.
      out: not supported.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: the condition has more than one axis, or is true beyond the end of the axis; the
        size is negative.
      ConcretizationTypeError: the condition is traced and the size is missing.

    Source: `numpy.compress`.

    Example:
      >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
      Array([1, 3], dtype=int32)
    """
    refuse_out("compress", out)
    condition, a, fill_value = check_arrays("compress", condition, a, fill_value)
    if len(shape_of(condition)) != 1:
        msg = f"compress: condition must be a 1D array, got shape {shape_of(condition)}."
        raise ValueError(msg)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, typeof(a).ndim)
    n = shape_of(a)[axis]
    if shape_of(condition)[0] > n:
        rest = slice_in_dim(condition, n, None)
        if size is None and np.asarray(rest).any():
            msg = (f"compress: condition contains entries that are out of bounds: it has "
                   f"{shape_of(condition)[0]} elements for axis {axis} of size {n}.")
            raise ValueError(msg)
        condition = slice_in_dim(condition, 0, n)
    if size is None:
        return take_on_axis(a, flatnonzero(condition), axis, indices_are_sorted=True,
                            unique_indices=True)
    size = concrete_int(size, "compress: size")
    if size < 0:
        msg = f"compress: size must not be negative, got {size}."
        raise ValueError(msg)
    places = flatnonzero(condition, size=size, fill_value=n)
    return _compressed(a, places, fill_value, axis=axis)


@fused(static_argnames=("axis",))
def _compressed(a: Any, places: Any, fill_value: Any, *, axis: int) -> Any:
    fill_value = cast(fill_value, typeof(a).dtype)
    shape = shape_of(a)
    if not shape[axis]:  # clipping is not possible
        return broadcast_to(fill_value, (*shape[:axis], shape_of(places)[0], *shape[axis + 1 :]))
    taken = take_on_axis(a, places, axis, mode=_CLIP)
    inside = lt(places, np.asarray(shape[axis], typeof(places).dtype))
    inside = broadcast_in_dim(inside, shape_of(taken), (axis,))
    return select_n(inside, broadcast_to(fill_value, shape_of(taken)), taken)


@boundary
def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements for which a condition holds, in the order of `ravel`.

    Args:
      condition: array; without `size` its values must be known.
      arr: array.
      size: size of the result: more elements are cut off, missing ones are filled. It is needed
        under `jit`.
      fill_value: the value for missing elements.

    Returns:
      A vector of the dtype of `arr`.

    Raises:
      ConcretizationTypeError: the condition is traced and the size is missing.

    Source: `numpy.extract`.

    Example:
      >>> x = jnp.array([1, 2, 3])
      >>> jnp.extract(x > 1, x)
      Array([2, 3], dtype=int32)
    """
    condition, arr = check_arrays("extract", condition, arr)
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


__all__ = [
    "choose", "compress", "extract", "fill_diagonal", "place", "put", "put_along_axis", "take",
    "take_along_axis",
]
