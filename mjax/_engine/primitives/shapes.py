"""Moving elements: broadcast_in_dim, reshape, transpose, squeeze, copy; also reduce_sum.

All are linear. `reduce_sum` is here because it and `broadcast_in_dim` are each other's
transposes; the other reductions are in `reductions`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.sizes import integers_of_shape, is_symbolic_dim
from mjax._engine.ir.types import (
    AbstractValue,
    ShapedArray,
    has_array_type,
    is_object_value,
    physical_aval,
    typeof,
)
from mjax._engine.primitives.emit import broadcast_ir, dense_i64, hlo, op, reduce_ir, reshape_ir
from mjax._engine.primitives.linear import define_linear
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.variance import pvary_p, sorted_axes

# ---- broadcast_in_dim ------------------------------------------------------------------

broadcast_in_dim_p = EnginePrimitive("broadcast_in_dim", params={
    "shape": Ints, "broadcast_dimensions": Ints}, structural=True)


@broadcast_in_dim_p.def_abstract_eval
def _broadcast_in_dim_type(x: Any, *, shape: Any, broadcast_dimensions: Any) -> ShapedArray:
    dims = broadcast_dimensions
    if len(dims) != x.ndim:
        msg = (f"broadcast_in_dim: broadcast_dimensions {dims} must name one axis of the result "
               f"for each axis of the operand, of shape {x.shape}.")
        raise TypeError(msg)
    if list(dims) != sorted(set(dims)) or any(not 0 <= d < len(shape) for d in dims):
        msg = (f"broadcast_in_dim: broadcast_dimensions {dims} must be distinct and "
               f"below {len(shape)}, the rank of the result.")
        raise TypeError(msg)
    if any(n not in (1, shape[d]) for n, d in zip(x.shape, dims, strict=True)):
        msg = (f"broadcast_in_dim: operand of shape {x.shape} does not broadcast to {shape} "
               f"along {dims}: each axis must have size 1 or that of the result.")
        raise TypeError(msg)
    return ShapedArray(shape, x.dtype, x.weak_type)


@broadcast_in_dim_p.def_lowering
def _broadcast_in_dim_lowering(ctx: Any, x: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    return [broadcast_ir(ctx.out_types[0], shape, x, broadcast_dimensions)]


def _broadcast_in_dim_transpose(ct: Any, x: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    stretched = [d for n, d in zip(x.aval.shape, broadcast_dimensions, strict=True)
                 if n == 1 and shape[d] != 1]
    new = [d for d in range(len(shape)) if d not in broadcast_dimensions]
    return reshape(reduce_sum(ct, tuple(stretched + new)), x.aval.shape)


define_linear(broadcast_in_dim_p, _broadcast_in_dim_transpose)


@broadcast_in_dim_p.def_batch
def _broadcast_in_dim_batch(args: Any, dims: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    x = moveaxis(args[0], dims[0], 0)
    dims = (0, *(d + 1 for d in broadcast_dimensions))
    return broadcast_in_dim_p.bind(x, shape=(x.shape[0], *shape), broadcast_dimensions=dims), 0


@boundary
def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
                     ) -> Any:
    """Maps an array's axes to axes of a larger shape and repeats it along the others.

    Args:
      operand: array of shape `(n_0, ..., n_k)`.
      shape: shape of the result.
      broadcast_dimensions: for each axis of the operand, its place in the result; each `n_i` is
        1 or equal to that size.

    Returns:
      An array of the given shape, of the operand's dtype.

    Raises:
      TypeError: the shapes do not fit.

    Source: StableHLO `broadcast_in_dim`.

    Example:
      >>> lax.broadcast_in_dim(jnp.array([1, 2]), (2, 3), (0,))
      Array([[1, 1, 1],
             [2, 2, 2]], dtype=int32)
    """
    shape, dims = canonical_shape(shape), tuple(map(operator.index, broadcast_dimensions))
    if (shape == np.shape(operand) and dims == tuple(range(len(shape)))
            and not is_reference(typeof(operand))):
        return own(operand) if shape else array_of(operand)
    if len(dims) == np.ndim(operand) and any(map(operator.gt, dims, dims[1:])):
        order = sorted(range(len(dims)), key=dims.__getitem__)
        operand, dims = transpose(operand, order), tuple(sorted(dims))
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


# ---- reduce_sum ------------------------------------------------------------------------

reduce_sum_p = EnginePrimitive("reduce_sum", params={"axes": Ints})


def reduced_shape(x: ShapedArray, axes: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape without the given axes, which must be distinct and in range."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        msg = f"{name}: axes {axes} must be distinct axes of an operand of shape {x.shape}."
        raise ValueError(msg)
    return tuple(n for i, n in enumerate(x.shape) if i not in axes)


@reduce_sum_p.def_abstract_eval
def _reduce_sum_type(x: Any, *, axes: tuple[int, ...]) -> ShapedArray:
    shape = reduced_shape(x, axes, "reduce_sum")
    if dtypes.kind(x.dtype) not in "iufc":
        msg = f"reduce_sum needs a numeric operand, not {x.dtype}; convert it first."
        raise TypeError(msg)
    if x.dtype in _HALF and not thread.settings.allow_f16_reductions and any(
            x.shape[axis] != 1 for axis in axes):
        msg = (f"reduce_sum of an operand of type {x} over the axes {axes}: the flag "
               "allow_f16_reductions is False. Convert it to float32 first.")
        raise ValueError(msg)
    return ShapedArray(shape, x.dtype, x.weak_type)


_HALF = (np.dtype(np.float16), dtypes.bfloat16)


@reduce_sum_p.def_lowering
def _reduce_sum_lowering(ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    dtype = ctx.avals_in[0].dtype
    return [reduce_ir(ctx.out_types[0], x, dtype, axes, 0, hlo.add)]


def _reduce_sum_transpose(ct: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    kept = tuple(i for i in range(x.aval.ndim) if i not in axes)
    return broadcast_in_dim_p.bind(ct, shape=x.aval.shape, broadcast_dimensions=kept)


define_linear(reduce_sum_p, _reduce_sum_transpose)


def shift_axes(axes: Iterable[int], new: int) -> tuple[int, ...]:
    """The same axes after an axis was inserted at `new`."""
    return tuple(a + (a >= new) for a in axes)


def batch_axes(dim: int, axes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Reduction axes and batch dim of a result, for an operand with a batch axis at `dim`."""
    shifted = shift_axes(axes, dim)
    return shifted, dim - sum(a < dim for a in shifted)


def define_reduction_batching(primitive: Primitive, name: str = "axes") -> None:
    """Sets the batching rule of a primitive that removes the axes in the param `name`."""

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        params[name], out_dim = batch_axes(dims[0], params[name])
        return primitive.bind(args[0], **params), out_dim

    primitive.define("batch", batch, derived=True)


define_reduction_batching(reduce_sum_p)


@boundary
def reduce_sum(operand: Any, axes: Sequence[int]) -> Any:
    """Sums over axes.

    Args:
      operand: numeric array.
      axes: distinct axes; an empty sequence leaves the operand as it is.

    Returns:
      An array without these axes.

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> lax.reduce_sum(jnp.array([[1, 2], [3, 4]]), (0,))
      Array([4, 6], dtype=int32)
    """
    axes = tuple(map(operator.index, axes))
    return own(operand) if not axes and hasattr(operand, "aval") else reduce_sum_p.bind(
        operand, axes=axes)


# ---- reshape ---------------------------------------------------------------------------

reshape_p = EnginePrimitive("reshape", params={
    "new_sizes": Ints, "dimensions": Ints | None}, structural=True)


@reshape_p.def_abstract_eval
def _reshape_type(x: Any, *, new_sizes: tuple[int, ...], dimensions: None) -> ShapedArray:
    if any(n < 0 for n in new_sizes) or np.prod(new_sizes, dtype=object) != x.size:
        msg = (f"cannot reshape an array of shape {x.shape} (size {x.size}) to {new_sizes}: the "
               "number of elements must stay the same.")
        raise TypeError(msg)
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


@reshape_p.def_lowering
def _reshape_lowering(ctx: Any, x: Any, *, new_sizes: Any, dimensions: None) -> Any:
    return [reshape_ir(ctx.out_types[0], new_sizes, x)]


define_linear(reshape_p, lambda ct, x, *, new_sizes, dimensions: reshape(ct, x.aval.shape))


@reshape_p.def_batch
def _reshape_batch(args: Any, dims: Any, *, new_sizes: Any, dimensions: None) -> Any:
    x = moveaxis(args[0], dims[0], 0)
    return reshape_p.bind(x, new_sizes=(x.shape[0], *new_sizes), dimensions=None), 0


@boundary
def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None
            ) -> Any:
    """Gives an array another shape, with its elements in row-major order.

    Args:
      operand: array.
      new_sizes: the new shape, of the same number of elements.
      dimensions: the order in which the operand's axes are read; by default 0, 1, ...

    Returns:
      An array of shape `new_sizes`; the operand itself if that is its shape.

    Raises:
      TypeError: the numbers of elements differ.

    Example:
      >>> lax.reshape(jnp.arange(4), (2, 2))
      Array([[0, 1],
             [2, 3]], dtype=int32)

    Source: StableHLO `reshape`.
    """
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    new_sizes = canonical_shape(new_sizes)
    if np.shape(operand) == new_sizes and has_array_type(operand):
        return operand
    return reshape_p.bind(operand, new_sizes=new_sizes, dimensions=None)


# ---- transpose -------------------------------------------------------------------------

transpose_p = EnginePrimitive("transpose", params={"permutation": Ints}, structural=True)


@transpose_p.def_abstract_eval
def _transpose_type(x: Any, *, permutation: tuple[int, ...]) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        msg = (f"transpose: permutation {permutation} is not a permutation of the axes of an array "
               f"of shape {x.shape}.")
        raise TypeError(msg)
    return ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype, x.weak_type)


@transpose_p.def_lowering
def _transpose_lowering(ctx: Any, x: Any, *, permutation: tuple[int, ...]) -> Any:
    return op("stablehlo.transpose", ctx.out_types, [x], {"permutation": dense_i64(permutation)})


define_linear(transpose_p, lambda ct, x, *, permutation: transpose_p.bind(
    ct, permutation=tuple(np.argsort(permutation).tolist())))


@transpose_p.def_batch
def _transpose_batch(args: Any, dims: Any, *, permutation: tuple[int, ...]) -> Any:
    dim = dims[0]
    return transpose_p.bind(args[0], permutation=(dim, *shift_axes(permutation, dim))), 0


@boundary
def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Permutes axes: axis `i` of the result is axis `permutation[i]` of the operand.

    Args:
      operand: array.
      permutation: each axis once.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: `permutation` does not name each axis once.

    Example:
      >>> lax.transpose(jnp.ones((2, 3)), (1, 0)).shape
      (3, 2)

    Source: StableHLO `transpose`.
    """
    permutation = tuple(map(operator.index, permutation))
    if permutation == tuple(range(np.ndim(operand))) and has_array_type(operand):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """Moves one axis to another place; the others keep their order."""
    ndim = typeof(x).ndim
    source, destination = canonicalize_axis(source, ndim), canonicalize_axis(destination, ndim)
    if source == destination:
        return x
    perm = [i for i in range(ndim) if i != source]
    perm.insert(destination, source)
    return transpose_p.bind(x, permutation=tuple(perm))


# ---- squeeze, expand_dims --------------------------------------------------------------

squeeze_p = EnginePrimitive("squeeze", params={"dimensions": Ints}, structural=True)


@squeeze_p.def_abstract_eval
def _squeeze_type(x: Any, *, dimensions: tuple[int, ...]) -> ShapedArray:
    if any(x.shape[d] != 1 for d in dimensions):
        msg = (f"cannot squeeze axes {dimensions} of an array of shape {x.shape}: their size "
               "must be 1.")
        raise ValueError(msg)
    return ShapedArray(reduced_shape(x, dimensions, "squeeze"), x.dtype, x.weak_type)


@squeeze_p.def_lowering
def _squeeze_lowering(ctx: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return [reshape_ir(ctx.out_types[0], ctx.avals_out[0].shape, x)]


define_linear(squeeze_p, lambda ct, x, *, dimensions: reshape(ct, x.aval.shape))
define_reduction_batching(squeeze_p, "dimensions")


@boundary
def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Removes axes of size 1.

    Args:
      array: array of any dtype.
      dimensions: axes; negative ones count from the last.

    Returns:
      An array of the dtype of `array`.

    Raises:
      ValueError: an axis is out of range, named twice or not of size 1.

    Example:
      >>> lax.squeeze(jnp.ones((1, 3, 1)), (0,)).shape
      (3, 1)
    """
    axes = tuple(sorted(canonicalize_axes(tuple(dimensions), typeof(array).ndim)))
    return array if not axes and has_array_type(array) else squeeze_p.bind(array, dimensions=axes)


@boundary
def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Inserts axes of size 1 at the given places of the result.

    Args:
      array: array of any dtype.
      dimensions: axes of the result; negative ones count from its last.

    Returns:
      An array of the dtype of `array`.

    Raises:
      ValueError: a place is out of range or named twice.

    Example:
      >>> lax.expand_dims(jnp.ones(3), (0, 2)).shape
      (1, 3, 1)
    """
    shape = typeof(array).shape
    ndim = len(shape) + len(tuple(dimensions))
    places = canonicalize_axes(tuple(dimensions), ndim)
    kept = tuple(i for i in range(ndim) if i not in places)
    sizes = iter(shape)
    out = tuple(1 if i in places else next(sizes) for i in range(ndim))
    return broadcast_in_dim(array, out, kept)


# ---- copy ------------------------------------------------------------------------------

copy_p = EnginePrimitive("copy", params={}, structural=True)
copy_p.def_abstract_eval(lambda x: x)
copy_p.def_lowering(lambda ctx, x: [x])
define_linear(copy_p, lambda ct, x: ct)
copy_p.def_batch(lambda args, dims: (copy_p.bind(args[0]), dims[0]))


def array_of(x: Any) -> Any:
    """A NumPy or Python value as an array; arrays, tracers and authors' objects as they are.

    It is created at once, even during a trace: a constant does not need an equation.
    """
    return x if hasattr(x, "aval") or is_object_value(x) else copy_p.impl(x)  # type: ignore[misc]


def own(x: Any) -> Any:
    """The result of an operation that changes nothing: a copy of an array, a tracer itself.

    The result may be donated or deleted while the operand is still in use.
    """
    if thread.interpreter is evaluation and hasattr(x, "aval"):
        return copy_p.bind(x)
    return array_of(x)


def held(values: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    """Values for tracers: some become arrays, since settings do not change the type of arrays."""
    return [x if not w or hasattr(x, "aval") else array_of(x)
            for x, w in zip(values, which, strict=True)]


# ---- helpers of rules ------------------------------------------------------------------


def canonical_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of non-negative ints.

    Raises:
      TypeError: it holds something else (a tracer, a float, a negative size).
    """
    sizes = integers_of_shape(shape)
    if any(n < 0 for n in sizes):
        msg = f"shapes must not hold negative sizes, got {sizes}."
        raise TypeError(msg)
    return sizes


def batch_to_front(x: Any, dim: int | None, size: int) -> Any:
    """`x` with its batch axis first; without one it is repeated `size` times.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.bdim_at_front(jnp.ones((2, 3)), 1, 3).shape
      (3, 2)
    """
    return batch_at(x, dim, 0, size)


def batch_at(x: Any, dim: int | None, place: int, size: int) -> Any:
    """`x` with its batch axis at the given place; without one it is repeated `size` times."""
    if dim is not None:
        return moveaxis(x, dim, place)
    shape = typeof(x).shape
    return broadcast_in_dim_p.bind(x, shape=insert(shape, place, size),
                                   broadcast_dimensions=shift_axes(range(len(shape)), place))


def insert(values: Sequence[int], place: int, value: int) -> tuple[int, ...]:
    """The values with another one at the given place."""
    return (*values[:place], value, *values[place:])


def check_axis(name: str, x: ShapedArray, axis: int) -> None:
    """Refuses an axis that an operand does not have.

    Raises:
      ValueError: the axis is negative or too great.
    """
    if not 0 <= axis < x.ndim:
        msg = f"{name}: axis {axis} is not an axis of an operand of shape {x.shape}."
        raise ValueError(msg)


def batch_size(args: Sequence[Any], dims: Sequence[int | None]) -> int:
    """The size of the batch axis of the operands that have one."""
    for x, d in zip(args, dims, strict=True):
        if d is not None:
            shape = typeof(x).shape
            return shape[canonicalize_axis(d, len(shape))]
    msg = "no operand has a batch axis."
    raise ValueError(msg)


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Any:
    """An array of one value.

    Args:
      shape: its shape.
      fill_value: a scalar; an array or tracer must have the requested dtype.
      dtype: its canonical dtype, independent of the x64 setting; by default that of the value.
    """
    shape = canonical_shape(shape)
    if type(fill_value) is int and dtype is not None:
        dtype = dtypes.as_dtype(dtype)
        if not dtypes.is_extended(dtype):
            fill_value, dtype = as_settled(dtypes.from_int(fill_value, dtype)), None
    aval = typeof(fill_value)
    if aval.shape:
        msg = f"full needs a scalar fill_value, got one of shape {aval.shape}."
        raise TypeError(msg)
    if dtype is not None and not hasattr(fill_value, "aval"):
        dtype = dtypes.as_dtype(dtype)
        if dtypes.is_extended(dtype):
            return dtype.wrap(full((*shape, *dtype.element_shape), fill_value, dtype.element_dtype))
        if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(dtype):
            msg = f"full: the complex value {fill_value} cannot be stored in dtype {dtype}."
            raise TypeError(msg)
        fill_value = as_settled(np.asarray(fill_value).astype(dtype)[()])
    if not shape:
        return array_of(fill_value)
    return broadcast_in_dim_p.bind(fill_value, shape=shape, broadcast_dimensions=())


def scalar_of(aval: ShapedArray, value: Any) -> Any:
    """A scalar of the dtype of a type; for weak types a Python one, which is weakly typed."""
    if is_symbolic_dim(value):
        return sockets.dimension_value(value).astype(aval.dtype)
    try:
        scalar = np.asarray(value, aval.dtype)[()]
    except TypeError:
        if not dtypes.is_extended(aval.dtype):
            raise
        raise dtypes.no_numbers(aval.dtype) from None
    if not aval.weak_type:
        return as_settled(scalar)
    if dtypes.dtype_of_python(type(scalar.item())) == aval.dtype:
        return scalar.item()
    return sockets.array_of_type(scalar, ShapedArray((), aval.dtype, True))


def as_settled(value: Any) -> Any:
    """A NumPy value; as an array if it has 64 bits.

    Without x64, users' values are narrowed to 32 bits. Values of rules keep their types.
    """
    dtype = value.dtype
    if dtypes.canonicalize(dtype) is dtype:
        return value
    return sockets.array_of_type(value, ShapedArray(value.shape, dtype))


def zeros_of(aval: Any) -> Any:
    """A zero of this type, made by the current interpreter; bool for float0.

    Args:
      aval: a type.

    Returns:
      An array of its shape and dtype.

    Raises:
      TypeError: `aval` is not a type, or its values cannot be zero, as tokens cannot.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> ad.zeros_like_aval(mjax.typeof(jnp.ones(2)))
      Array([0., 0.], dtype=float32)
    """
    if not isinstance(aval, ShapedArray):
        if not isinstance(aval, AbstractValue):
            msg = ("zeros are made of a type, such as mjax.typeof(x) gives; got "
                   f"{aval!r} of type {type(aval).__name__}.")
            raise TypeError(msg)
        return aval.zeros()
    dtype = aval.dtype
    if dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    if aval.extended:
        return dtype.wrap(zeros_of(physical_aval(aval)))
    zeros = broadcast_in_dim_p.bind(scalar_of(aval, 0), shape=aval.shape, broadcast_dimensions=())
    return pvary_p.bind(zeros, axes=sorted_axes(aval.varying)) if aval.varying else zeros
