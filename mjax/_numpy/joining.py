"""Joining and repeating arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis, listed
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.cumulative import cumsum
from mjax._engine.primitives.gather import take_on_axis
from mjax._engine.primitives.joining import (
    concatenate_p,
    stack_p,
    tile_p,
    unstack_p,
)
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter_add
from mjax._engine.primitives.shapes import array_of, broadcast_in_dim, full, own, reshape
from mjax._engine.primitives.shapes import expand_dims as lax_expand_dims
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    check_arrays,
    concrete_int,
    dtype_argument,
    refuse_out,
    shape_of,
    weak_type_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.shapes import atleast_1d, atleast_2d, atleast_3d, ravel

# ---- joining ---------------------------------------------------------------------------


def _operands(name: str, arrays: Any, dtype: Any = None) -> list[Any]:
    """The arrays to join, in one dtype; a single array means its parts along the first axis.

    Raises:
      ValueError: there are no arrays.
      TypeError: `arrays` is not a sequence of arrays.
    """
    if hasattr(arrays, "aval") or isinstance(arrays, np.ndarray):
        arrays = unstack_p.bind(arrays, axis=0) if shape_of(arrays) else arrays
    if not isinstance(arrays, (list, tuple)):
        msg = f"{name} takes a sequence of arrays, got {type(arrays).__name__}."
        raise TypeError(msg)
    values = check_arrays(name, *arrays)
    if not values:
        msg = f"{name} needs at least one array."
        raise ValueError(msg)
    if dtype is None:
        types = [weak_type_of(x) for x in values]
        if all(t == types[0] for t in types) and types[0] != (np.bool_, True):
            return values
        common, weak = common_type(*types)
        return [cast(x, common, weak) for x in values]
    target = dtype_argument(dtype, name)
    return [cast(x, target) for x in values]


def _check_joined(name: str, values: Sequence[Any], axis: int) -> None:
    shapes = [shape_of(x) for x in values]
    rests = {s[:axis] + s[axis + 1 :] for s in shapes}
    if len({len(s) for s in shapes}) > 1:
        reason = "they have different numbers of axes"
    elif len(rests) > 1:
        reason = f"they differ in axes other than axis {axis}, along which they are joined"
    else:
        return
    msg = f"{name}: cannot join arrays of shapes {', '.join(map(str, shapes))}: {reason}."
    raise TypeError(msg)


@fused(static_argnames=("axis", "dtype"), gives_back=True)
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Joins arrays along one of their axes.

    Args:
      arrays: sequence of arrays whose shapes agree except along that axis; at least one. They are
        promoted to a common dtype.
      axis: the axis; None joins all elements in the order of `ravel`.
      dtype: dtype of the result.

    Returns:
      An array of the common dtype, or of `dtype`.

    Raises:
      ValueError: the sequence is empty, or the arrays are scalars, or the axis is out of range.
      TypeError: the shapes do not fit.

    Source: `numpy.concatenate`.

    Example:
      >>> jnp.concatenate([jnp.array([1, 2]), jnp.array([3.])])
      Array([1., 2., 3.], dtype=float32)
    """
    values = _operands("concatenate", arrays, dtype)
    if axis is None:
        values, axis = [ravel(x) for x in values], 0
    if not shape_of(values[0]) and not getattr(axis, "ndim", 0):
        msg = "concatenate: zero-dimensional arrays cannot be concatenated; use stack."
        raise ValueError(msg)
    axis = canonicalize_axis(axis, typeof(values[0]).ndim)
    _check_joined("concatenate", values, axis)
    if len(values) == 1:
        return array_of(values[0])
    return concatenate_p.bind(*values, dimension=axis)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """Joins arrays along one of their axes; see `concatenate`.

    Args:
      arrays: arrays whose shapes agree in the other axes.
      axis: the axis; None: the arrays are raveled first.

    Returns:
      An array of the common dtype.

    Raises:
      ValueError: no arrays, or an axis out of range.
      TypeError: shapes that differ in another axis.

    Source: the array API standard, `concat`.

    Example:
      >>> jnp.concat([jnp.array([1, 2]), jnp.array([3])])
      Array([1, 2, 3], dtype=int32)
    """
    return concatenate(arrays, axis)


@fused(static_argnames=("axis", "out", "dtype"))
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Joins arrays along a new axis.

    Args:
      arrays: sequence of arrays of one shape; at least one. They are promoted to a common
        dtype.
      axis: the position of the new axis in the result.
      out: not supported.
      dtype: dtype of the result.

    Returns:
      An array of the common dtype, or of `dtype`.

    Raises:
      ValueError: the sequence is empty, shapes differ, or the axis is out of range.

    Source: `numpy.stack`.

    Example:
      >>> jnp.stack([jnp.array([1, 2]), jnp.array([3, 4])], axis=1)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    refuse_out("stack", out)
    values = _operands("stack", arrays, dtype)
    shapes = [shape_of(x) for x in values]
    if any(s != shapes[0] for s in shapes):
        msg = f"stack: all arrays must have one shape, got {', '.join(map(str, shapes))}."
        raise ValueError(msg)
    return stack_p.bind(*values, axis=canonicalize_axis(axis, len(shapes[0]) + 1))


def _parts(name: str, tup: Any) -> Any:
    """Arrays to join; a single array is split along its first axis."""
    if isinstance(tup, (list, tuple)):
        return list(tup)
    return _operands(name, tup)


@fused(static_argnames=("dtype",))
def vstack(tup: Any, dtype: Any = None) -> Any:
    """Joins arrays along the first axis; vectors are rows.

    Args:
      tup: sequence of arrays.
      dtype: dtype of the result.

    Returns:
      An array of at least two axes, in the common dtype or `dtype`.

    Raises:
      TypeError: the argument is not a sequence of arrays.

    Source: `numpy.vstack`.

    Example:
      >>> jnp.vstack([jnp.array([1, 2]), jnp.array([3, 4])])
      Array([[1, 2],
             [3, 4]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in _parts("vstack", tup)], 0, dtype)


@fused(static_argnames=("dtype",))
def hstack(tup: Any, dtype: Any = None) -> Any:
    """Joins arrays along the second axis, vectors along their only one.

    Args:
      tup: sequence of arrays.
      dtype: dtype of the result.

    Returns:
      An array of the common dtype, or of `dtype`.

    Raises:
      TypeError: the argument is not a sequence of arrays.

    Source: `numpy.hstack`.

    Example:
      >>> jnp.hstack([jnp.array([1, 2]), jnp.array([3])])
      Array([1, 2, 3], dtype=int32)
    """
    values = [atleast_1d(x) for x in _parts("hstack", tup)]
    return concatenate(values, 0 if values and typeof(values[0]).ndim == 1 else 1, dtype)


@fused(static_argnames=("dtype",))
def dstack(tup: Any, dtype: Any = None) -> Any:
    """Joins arrays along the third axis, vectors and matrices along a new one.

    Args:
      tup: sequence of arrays.
      dtype: dtype of the result.

    Returns:
      An array of at least three axes, in the common dtype or `dtype`.

    Raises:
      TypeError: the argument is not a sequence of arrays.

    Source: `numpy.dstack`.

    Example:
      >>> jnp.dstack([jnp.array([1, 2]), jnp.array([3, 4])])
      Array([[[1, 3],
              [2, 4]]], dtype=int32)
    """
    return concatenate([atleast_3d(x) for x in _parts("dstack", tup)], 2, dtype)


@fused
def column_stack(tup: Any) -> Any:
    """Joins arrays along the second axis; vectors are columns.

    Args:
      tup: sequence of arrays.

    Returns:
      A matrix of the common dtype; an array of more axes if the arrays have more.

    Raises:
      TypeError: the argument is not a sequence of arrays.

    Source: `numpy.column_stack`.

    Example:
      >>> jnp.column_stack([jnp.array([1, 2]), jnp.array([3, 4])])
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    values = [check_array("column_stack", x) for x in _parts("column_stack", tup)]
    return concatenate([
        lax_expand_dims(atleast_1d(x), (1,)) if typeof(x).ndim < 2 else x for x in values], 1)


@boundary
def block(arrays: Any) -> Any:
    """Joins nested lists of blocks: innermost lists along the last axis, and so on outwards.

    Args:
      arrays: an array, or lists of lists of arrays, all of one depth.

    Returns:
      An array of the common dtype.

    Raises:
      ValueError: depths differ, or there are tuples or empty lists.

    Source: `numpy.block`.

    Example:
      >>> jnp.block([[jnp.ones((1, 2)), jnp.zeros((1, 1))], [jnp.zeros((1, 3))]])
      Array([[1., 1., 0.],
             [0., 0., 0.]], dtype=float32)
    """
    depth = _depth(arrays)
    leaves = list(_leaves(arrays))
    rank = max(depth, *[len(shape_of(check_array("block", x))) for x in leaves])

    def join(node: Any, level: int) -> Any:
        if not isinstance(node, list):
            value = array_of(check_array("block", node))
            missing = rank - typeof(value).ndim
            return lax_expand_dims(value, range(missing)) if missing else value
        return concatenate([join(x, level + 1) for x in node], rank - depth + level)

    return join(arrays, 0) if isinstance(arrays, list) else own(check_array("block", arrays))


def _depth(node: Any) -> int:
    if isinstance(node, tuple):
        msg = f"block does not allow tuples, got {node!r}; nest lists."
        raise ValueError(msg)
    if not isinstance(node, list):
        return 0
    depths = {_depth(x) for x in node}
    if not depths:
        msg = "block does not allow empty lists."
        raise ValueError(msg)
    if len(depths) > 1:
        msg = f"block: mismatched list depths {sorted(depths)}; all lists must have one depth."
        raise ValueError(msg)
    return depths.pop() + 1


def _leaves(node: Any) -> Any:
    return itertools.chain.from_iterable(map(_leaves, node)) if isinstance(node, list) else [node]


@fused(values=("arr", "values"), static_argnames=("axis",))
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Joins two arrays.

    Args:
      arr: array.
      values: the array to append.
      axis: the axis; by default all elements in the order of `ravel`.

    Returns:
      An array of the common dtype.

    Raises:
      TypeError: the shapes do not fit.

    Source: `numpy.append`.

    Example:
      >>> jnp.append(jnp.array([1, 2]), 3)
      Array([1, 2, 3], dtype=int32)
    """
    return concatenate([arr, values], axis)


# ---- repeating -------------------------------------------------------------------------


@fused(values=("A",), static_argnames=("reps",))
def tile(A: Any, reps: int | Sequence[int]) -> Any:
    """Repeats an array along its axes.

    Args:
      A: array.
      reps: the number of repetitions along each axis, static. Leading ones are added to the
        shorter one of `reps` and the shape.

    Returns:
      An array of the dtype of `A`.

    Raises:
      ValueError: a number is negative.

    Source: `numpy.tile`.

    Example:
      >>> jnp.tile(jnp.array([1, 2]), (2, 2))
      Array([[1, 2, 1, 2],
             [1, 2, 1, 2]], dtype=int32)
    """
    A = array_of(A)
    counts = tuple(concrete_int(r, "tile: each of reps") for r in listed(reps))
    if any(r < 0 for r in counts):
        msg = f"tile: reps must not be negative, got {reps}."
        raise ValueError(msg)
    missing = len(counts) - typeof(A).ndim
    if missing > 0:
        A = lax_expand_dims(A, range(missing))
    counts = (1,) * -missing + counts
    return A if all(r == 1 for r in counts) else tile_p.bind(A, reps=counts)


@lays_out
def repeat(a: Any, repeats: Any, axis: int | None = None, *,
           total_repeat_length: int | None = None) -> Any:
    """Repeats each element.

    Args:
      a: array.
      repeats: the number of repetitions, an integer or one for each index of the axis. Its values
        must be known, unless `total_repeat_length` is given.
      axis: along which axis; by default all elements in the order of `ravel`.
      total_repeat_length: size of the result along the axis: more elements are cut off, missing
        ones repeat the last element.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ConcretizationTypeError: `repeats` is traced and the total length is missing.
      ValueError: `repeats` does not fit the axis, or a number is negative.

    Source: `numpy.repeat`.

    Example:
      >>> jnp.repeat(jnp.array([1, 2, 3]), jnp.array([2, 0, 1]))
      Array([1, 1, 3], dtype=int32)
    """
    a, repeats = check_arrays("repeat", a, repeats)
    if not dtypes.is_integer(typeof(repeats).dtype) and typeof(repeats).dtype != np.bool_:
        msg = f"repeat: repeats must be integers, got dtype {typeof(repeats).dtype}."
        raise TypeError(msg)
    if axis is None or not shape_of(a):
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, typeof(a).ndim)
    size = shape_of(a)[axis]
    if shape_of(repeats) not in ((), (1,), (size,)):
        msg = (f"repeat: repeats of shape {shape_of(repeats)} must be one integer, or one for "
               f"each of the {size} indices of axis {axis}, of an array of shape {shape_of(a)}.")
        raise ValueError(msg)
    if total_repeat_length is not None:
        return _repeat_to(a, repeats, axis=axis, total=concrete_int(
            total_repeat_length, "repeat: total_repeat_length"))
    counts = _known_counts(repeats)
    if counts.size == 1:
        return _repeat_all(a, count=int(counts.reshape(())), axis=axis)
    places = np.repeat(np.arange(size, dtype=np.int32), counts)
    return take_on_axis(a, places, axis, indices_are_sorted=True)


def _known_counts(repeats: Any) -> np.ndarray[Any, Any]:
    try:
        counts = np.asarray(repeats)
    except ConcretizationTypeError:
        raise ConcretizationTypeError(lambda: (
            f"repeat: the repeats, {typeof(repeats)}, are only known by their type while the "
            "function is traced, so that the size of the result is not known. Give it as "
            "total_repeat_length, or make repeats static.")) from None
    if (counts < 0).any():
        msg = f"repeat: repeats must not be negative, got {counts}."
        raise ValueError(msg)
    return counts


@fused(static_argnames=("count", "axis"))
def _repeat_all(a: Any, *, count: int, axis: int) -> Any:
    shape = shape_of(a)
    out = broadcast_in_dim(a, (*shape[: axis + 1], count, *shape[axis + 1 :]),
                           [i + (i > axis) for i in range(len(shape))])
    return reshape(out, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


@fused(static_argnames=("axis", "total"))
def _repeat_to(a: Any, repeats: Any, *, axis: int, total: int) -> Any:
    size = shape_of(a)[axis]
    if size == 0 or total == 0:
        shape = shape_of(a)
        return full((*shape[:axis], total, *shape[axis + 1 :]), 0, typeof(a).dtype)
    int32 = np.dtype(np.int32)
    counts = broadcast_to(convert(repeats, int32), (size,))
    # The start of each element except the first; each start advances the source by one element.
    starts = slice_in_dim(cumsum(counts, 0), 0, size - 1)
    steps = scatter_add(full((total,), 0, int32), reshape(starts, (size - 1, 1)),
                        full((size - 1,), 1, int32), ScatterDimensionNumbers((), (0,), (0,)),
                        indices_are_sorted=True)
    return take_on_axis(a, cumsum(steps, 0), axis, indices_are_sorted=True)


__all__ = [
    "append", "block", "column_stack", "concat", "concatenate", "dstack", "hstack", "repeat",
    "stack", "tile", "vstack",
]
