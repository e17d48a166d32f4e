"""Changing shapes and the order of axes: reshape, transpose, squeeze, broadcast_to and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import InconclusiveDimensionOperation, LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis, listed
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.joining import unstack_p
from mjax._engine.primitives.shapes import (
    array_of,
    canonical_shape,
    copy_p,
    own,
    reshape_p,
    squeeze_p,
    transpose_p,
)
from mjax._engine.primitives.shapes import (
    expand_dims as lax_expand_dims,
)
from mjax._engine.runtime.arrays.out_sharding import laid_out
from mjax._numpy.core import (
    broadcast_to as broadcast_value,
)
from mjax._numpy.core import (
    broadcast_values,
    check_array,
    check_arrays,
    concrete_int,
    concrete_size,
    expand_rank,
    shape_of,
)
from mjax._numpy.fused import fused


def permuted(x: Any, permutation: Sequence[int]) -> Any:
    """A value with its axes permuted."""
    if tuple(permutation) == tuple(range(len(permutation))):
        return array_of(x)
    return transpose_p.bind(x, permutation=tuple(permutation))


# ---- reshape ---------------------------------------------------------------------------


def _new_sizes(shape: tuple[int, ...], new: Any) -> tuple[int, ...]:
    """The sizes of a shape argument, one of which may be -1.

    Raises:
      TypeError: the number of elements differs, or there are two negative sizes.
      InconclusiveDimensionOperation: the size for -1 is whole only for some values of symbols.
    """
    sizes = [concrete_size(n, "each size of a shape") for n in listed(new)]
    total = math.prod(shape)
    unknown = [i for i, n in enumerate(sizes) if n < 0]
    if len(unknown) == 1 and sizes[unknown[0]] == -1:
        rest = math.prod(n for n in sizes if n >= 0)
        if rest and total % rest == 0:
            sizes[unknown[0]] = total // rest
            unknown = []
        elif rest == 0 and total == 0:
            sizes[unknown[0]] = 0
            unknown = []
    if unknown or math.prod(sizes) != total:
        reason = (f" (size {math.prod(sizes)})" if not unknown else
                  ", in which one size may be -1" if len(unknown) > 1 else "")
        if len(unknown) == 1 and sizes[unknown[0]] == -1 and is_symbolic_dim(total % rest):
            raise InconclusiveDimensionOperation(lambda: (
                f"whether an array of shape {shape} can be reshaped into {new} depends on the "
                f"values of symbols: {total} is perhaps not a multiple of {rest}. If it is for all "
                f"arguments to come, say so: symbolic_shape(..., constraints=[\"{rest}*floordiv("
                f"{total}, {rest}) == {total}\"])."))
        msg = f"cannot reshape array of shape {shape} (size {total}) into shape {new}{reason}."
        raise TypeError(msg)
    return tuple(sizes)


@fused(values=("a",),
       static_argnames=("shape", "order", "copy"), out_sharding=True, gives_back=True)
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """Gives an array another shape.

    Args:
      a: array.
      shape: the new shape, of as many elements; one size may be -1 and is inferred.
      order: the order in which elements are read and placed: `"C"`, last axis fastest, or
        `"F"`, first axis fastest.
      copy: None returns `a` itself if it has the shape, True a copy; False is refused, since mjax
        cannot guarantee it.

    Returns:
      An array of the dtype of `a`.

    Raises:
      TypeError: the number of elements differs, or a size is not static.
      ValueError: unknown order.

    Source: `numpy.reshape`.

    Example:
      >>> jnp.reshape(jnp.arange(6), (2, -1))
      Array([[0, 1, 2],
             [3, 4, 5]], dtype=int32)
    """
    if copy is False:
        msg = "reshape: copy=False is not supported: whether memory is shared is XLA's choice."
        raise NotImplementedError(msg)
    own = shape_of(a)
    sizes = _new_sizes(own, shape)
    if order == "F":
        a = permuted(a, range(len(own))[::-1])
        return permuted(_reshaped(a, sizes[::-1]), range(len(sizes))[::-1])
    if order != "C":
        msg = f"reshape: order must be 'C' or 'F', got {order!r}."
        raise NotImplementedError(msg) if order == "A" else ValueError(msg)
    out = _reshaped(a, sizes)
    return copy_p.bind(out) if copy and out is a else out


def _reshaped(a: Any, sizes: tuple[int, ...]) -> Any:
    if shape_of(a) == sizes:
        return array_of(a)
    return reshape_p.bind(a, new_sizes=sizes, dimensions=None)


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """All elements of an array along one axis.

    Args:
      a: array of shape `(n_0, n_1, ...)`.
      order: `"C"`, last axis fastest, or `"F"`, first axis fastest.
      out_sharding: how the result is cut over devices, as for `reshape`.

    Returns:
      An array of shape `(n_0 * n_1 * ...,)`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.ravel`.

    Example:
      >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]), order="F")
      Array([1, 3, 2, 4], dtype=int32)
    """
    a = check_array("ravel", a)
    out = reshape(a, -1, order)
    if out is a:
        out = own(a)  # as in JAX, where reshape returns the operand itself
    return out if out_sharding is None else laid_out(out, out_sharding, "ravel")


# ---- axes in another order -------------------------------------------------------------


@fused(values=("a",), static_argnames=("axes",), gives_back=True)
def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """Permutes the axes of an array.

    Args:
      a: array.
      axes: axis `i` of the result is axis `axes[i]` of `a`; by default they are reversed.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: `axes` does not name each axis once.

    Source: `numpy.transpose`.

    Example:
      >>> jnp.transpose(jnp.ones((2, 3, 4)), (1, 0, 2)).shape
      (3, 2, 4)
    """
    ndim = typeof(a).ndim
    if axes is None:
        return permuted(a, range(ndim)[::-1])
    permutation = canonicalize_axes((axes,) if np.ndim(axes) == 0 else tuple(axes), ndim)
    if len(permutation) != ndim:
        raise LazyArgumentError(lambda: (
            f"transpose: axes {axes} must name each of the {ndim} axes of the array once."))
    return permuted(a, permutation)


def permute_dims(a: Any, /, axes: Sequence[int]) -> Any:
    """Permutes the axes of an array: axis `i` of the result is axis `axes[i]` of `a`.

    Args:
      a: array.
      axes: each axis of `a` once; negative ones count from the end.

    Returns:
      An array of the dtype of `a`.

    Raises:
      TypeError: `axes` is None.
      ValueError: `axes` does not name each axis once.

    Source: the array API standard, `permute_dims`.

    Example:
      >>> jnp.permute_dims(jnp.ones((2, 3)), (1, 0)).shape
      (3, 2)
    """
    if axes is None:
        msg = "permute_dims: axes must be given; mjax.numpy.transpose takes None."
        raise LazyArgumentError(msg)
    return transpose(a, axes)


@fused(values=("x",))
def matrix_transpose(x: Any, /) -> Any:
    """Exchanges the last two axes.

    Args:
      x: array of shape `(..., m, n)`.

    Returns:
      An array of shape `(..., n, m)`.

    Raises:
      ValueError: `x` has less than two axes.

    Source: the array API standard, `matrix_transpose`.

    Example:
      >>> jnp.matrix_transpose(jnp.array([[1, 2], [3, 4]]))
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    ndim = typeof(x).ndim
    if ndim < 2:
        msg = f"matrix_transpose needs an array of at least two axes, got shape {shape_of(x)}."
        raise ValueError(msg)
    return permuted(x, [*range(ndim - 2), ndim - 1, ndim - 2])


@fused(values=("a",), static_argnames=("axis1", "axis2"))
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Exchanges two axes.

    Args:
      a: array.
      axis1: an axis; negative ones count from the end.
      axis2: the other one.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: an axis is out of range.

    Source: `numpy.swapaxes`.

    Example:
      >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, -1).shape
      (4, 3, 2)
    """
    order = list(range(typeof(a).ndim))
    i, j = canonicalize_axis(axis1, len(order)), canonicalize_axis(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return permuted(a, order)


@fused(values=("a",), static_argnames=("source", "destination"))
def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Moves axes to other places; the others keep their order.

    Args:
      a: array.
      source: axes.
      destination: for each of them its place in the result.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: an axis is out of range or named twice, or the numbers of axes differ.

    Source: `numpy.moveaxis`.

    Example:
      >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
      (3, 4, 2)
    """
    ndim = typeof(a).ndim
    sources = canonicalize_axes(as_axes(source), ndim)
    destinations = canonicalize_axes(as_axes(destination), ndim)
    if len(sources) != len(destinations):
        msg = (f"moveaxis: source {source} and destination {destination} must have as many axes "
               "as each other.")
        raise ValueError(msg)
    order = [i for i in range(ndim) if i not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return permuted(a, order)


def as_axes(axes: Any) -> tuple[Any, ...]:
    """The axes that an argument names, one or several."""
    return tuple(axes) if isinstance(axes, Sequence) or np.ndim(axes) else (axes,)


@fused(values=("a",), static_argnames=("axis", "start"))
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Moves an axis to the position before the axis `start`; see `moveaxis`.

    Args:
      a: array.
      axis: the axis to move.
      start: the axis in front of which it goes; the number of axes: behind the last.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: `axis` or `start` is out of range.

    Source: `numpy.rollaxis`.

    Example:
      >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
      (4, 2, 3)
    """
    ndim = typeof(a).ndim
    axis, start = canonicalize_axis(axis, ndim), concrete_int(start, "rollaxis: start")
    if not -ndim <= start <= ndim:
        msg = f"rollaxis: start={start} must be from {-ndim} to {ndim} for {ndim} axes."
        raise ValueError(msg)
    place = start + ndim if start < 0 else start
    return moveaxis(a, axis, place - (place > axis))


# ---- axes of size 1 --------------------------------------------------------------------


@fused(values=("a",), static_argnames=("axis",))
def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Removes axes of size 1.

    Args:
      a: array.
      axis: the axis or axes; by default all of them.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: an axis is out of range, named twice or not of size 1.

    Source: `numpy.squeeze`.

    Example:
      >>> jnp.squeeze(jnp.ones((1, 3, 1)), axis=0).shape
      (3, 1)
    """
    shape = shape_of(a)
    if axis is None:
        axes = tuple(i for i, n in enumerate(shape) if n == 1)
    else:
        axes = tuple(sorted(canonicalize_axes(as_axes(axis), len(shape))))
    if any(shape[i] != 1 for i in axes):
        msg = (f"squeeze: cannot select an axis to squeeze out which has size not equal to one, "
               f"got shape {shape} and axis {axis}.")
        raise ValueError(msg)
    return squeeze_p.bind(a, dimensions=axes) if axes else array_of(a)


@fused(values=("a",), static_argnames=("axis",))
def expand_dims(a: Any, axis: int | Sequence[int]) -> Any:
    """Inserts axes of size 1.

    Args:
      a: array.
      axis: their places in the result.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ValueError: a place is out of range or named twice.

    Source: `numpy.expand_dims`.

    Example:
      >>> jnp.expand_dims(jnp.ones(3), (0, -1)).shape
      (1, 3, 1)
    """
    return lax_expand_dims(a, as_axes(axis))


def _at_least(rank: int, name: str, arrays: tuple[Any, ...]) -> Any:
    out = [_with_axes(a, rank) for a in check_arrays(name, *arrays)]
    return out[0] if len(out) == 1 else out


def _with_axes(a: Any, rank: int) -> Any:
    ndim = typeof(a).ndim
    if rank == 3 and ndim in (1, 2):
        # A vector becomes (1, n, 1), a matrix (m, n, 1).
        return lax_expand_dims(a, (0, 2) if ndim == 1 else (2,))
    return own(a) if ndim >= rank else expand_rank(a, rank)


@boundary
def atleast_1d(*arys: Any) -> Any:
    """Arrays with at least one axis: a scalar becomes an array of one element.

    Args:
      arys: arrays or scalars.

    Returns:
      An array, or a list of them for several arguments.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.atleast_1d`.

    Example:
      >>> jnp.atleast_1d(2)
      Array([2], dtype=int32, weak_type=True)
    """
    return _at_least(1, "atleast_1d", arys)


@boundary
def atleast_2d(*arys: Any) -> Any:
    """Arrays with at least two axes: axes of size 1 are added in front.

    Args:
      arys: arrays or scalars.

    Returns:
      An array, or a list of them for several arguments.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.atleast_2d`.

    Example:
      >>> jnp.atleast_2d(jnp.array([1, 2])).shape
      (1, 2)
    """
    return _at_least(2, "atleast_2d", arys)


@boundary
def atleast_3d(*arys: Any) -> Any:
    """Arrays with at least three axes: `(n,)` becomes `(1, n, 1)`, `(m, n)` becomes `(m, n, 1)`.

    Args:
      arys: arrays or scalars.

    Returns:
      An array, or a list of them for several arguments.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.atleast_3d`.

    Example:
      >>> jnp.atleast_3d(jnp.array([1, 2])).shape
      (1, 2, 1)
    """
    return _at_least(3, "atleast_3d", arys)


# ---- broadcasting ----------------------------------------------------------------------


@fused(values=("array",), static_argnames=("shape",), out_sharding=True, gives_back=True)
def broadcast_to(array: Any, shape: Any) -> Any:
    """Broadcasts an array to a shape.

    Args:
      array: array whose sizes, aligned at the last axes, are those of the shape or 1.
      shape: shape of the result, static.

    Returns:
      An array of shape `shape` and the dtype of `array`.

    Raises:
      ValueError: the array does not broadcast to the shape.

    Source: `numpy.broadcast_to`.

    Example:
      >>> jnp.broadcast_to(jnp.array([1, 2]), (2, 2))
      Array([[1, 2],
             [1, 2]], dtype=int32)
    """
    return broadcast_value(array, canonical_shape(shape))


@boundary
def broadcast_arrays(*args: Any) -> list[Any]:
    """Broadcasts arrays to their common shape.

    Args:
      args: arrays whose sizes, aligned at the last axes, are equal or 1.

    Returns:
      A list of arrays of one shape.

    Raises:
      ValueError: they do not broadcast together.

    Source: `numpy.broadcast_arrays`.

    Example:
      >>> [a.shape for a in jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))]
      [(2, 3), (2, 3)]
    """
    try:
        given = check_arrays("broadcast_arrays", *args)
        return [own(x) if x is before else array_of(x) for x, before in zip(
            broadcast_values("broadcast_arrays", *given), given, strict=True)]
    except TypeError as error:
        if "incompatible shapes" not in str(error):
            raise
        raise ValueError(str(error)) from None


# ---- splitting -------------------------------------------------------------------------


@boundary
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Splits an array along an axis; the parts do not have that axis.

    Args:
      x: array with at least one axis.
      axis: the axis.

    Returns:
      A tuple of arrays, as many as the axis is long.

    Raises:
      ValueError: the axis is out of range, or `x` is a scalar.

    Source: the array API standard, `unstack`.

    Example:
      >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]))
      (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = check_array("unstack", x)
    if not shape_of(x):
        msg = "unstack needs an array of at least one axis, got a scalar."
        raise ValueError(msg)
    return tuple(unstack_p.bind(x, axis=canonicalize_axis(axis, typeof(x).ndim)))


__all__ = [
    "as_axes", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to",
    "expand_dims", "matrix_transpose", "moveaxis", "permute_dims", "permuted", "ravel", "reshape",
    "rollaxis", "squeeze", "swapaxes", "transpose", "unstack",
]
