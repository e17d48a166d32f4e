"""Helpers for the rules of linear algebra, on stacks of matrices in the last two axes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError, LazyTypeError
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.dot import batch_matmul
from mjax._engine.primitives.elementwise import check_kinds, constant_like, stretch
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.precision import Precision
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    as_settled,
    batch_size,
    batch_to_front,
    broadcast_in_dim_p,
    expand_dims,
    moveaxis,
    reduce_sum,
    reshape,
    transpose,
)
from mjax._engine.tracing.primitive import Primitive

INT32 = np.dtype(np.int32)

# ---- types -----------------------------------------------------------------------------


def define_matrix_types(primitive: Primitive, ranks: Sequence[int], kinds: str,
                        shapes: Callable[..., Sequence[tuple[int, ...]]],
                        results: Callable[..., Sequence[Any]] | None = None) -> None:
    """Gives a primitive of stacks of vectors and matrices its type and batching rules.

    Args:
      primitive: the primitive.
      ranks: the rank of each operand without the axes of the stack.
      kinds: accepted dtype kinds.
      shapes: `(*shapes of the operands, **params) -> shapes of the results`, all without the axes
        of the stack; raises if operands do not fit.
      results: `(dtype, **params) -> dtypes of the results`; by default that of the operands.
    """
    name = primitive.name

    @primitive.def_abstract_eval
    def type_rule(*avals: ShapedArray, **params: Any) -> Any:
        for position, (aval, rank) in enumerate(zip(avals, ranks, strict=True)):
            if aval.ndim < rank:
                msg = f"{name}: operand {position} must have at least {rank} axes, got {aval}."
                raise TypeError(msg)
            check_kinds(name, aval, kinds, position if len(avals) > 1 else 0)
            if aval.dtype != avals[0].dtype:
                msg = f"{name} requires operands of one dtype, got {avals[0]} and {aval}."
                raise TypeError(msg)
        stack = avals[0].shape[:avals[0].ndim - ranks[0]]
        for aval, rank in zip(avals, ranks, strict=True):
            if aval.shape[:aval.ndim - rank] != stack:
                raise LazyTypeError(lambda: (
                    f"{name}: the operands must be stacked alike along their leading axes, got "
                    f"{', '.join(map(str, avals))}."))
        shapes_ = shapes(*[a.shape[a.ndim - r:] for a, r in zip(avals, ranks, strict=True)],
                         **params)
        dtype = avals[0].dtype
        given = [dtype] * len(shapes_) if results is None else results(dtype, **params)
        weak = all(a.weak_type for a in avals)
        types = [ShapedArray((*stack, *shape), d, weak and dtypes.is_inexact(d))
                 for shape, d in zip(shapes_, given, strict=True)]
        return types if primitive.multiple_results else types[0]

    define_stack_batching(primitive)


def define_stack_batching(primitive: Primitive) -> None:
    """Batches a primitive that takes stacks: the batch is one more leading axis."""

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        return _batch_stacks(primitive, args, dims, params)

    primitive.define("batch", batch, derived=True)


def _batch_stacks(primitive: Primitive, args: Any, dims: Any, params: dict[str, Any]) -> Any:
    size = batch_size(args, dims)
    args = [batch_to_front(x, d, size) for x, d in zip(args, dims, strict=True)]
    out = primitive.bind(*args, **params)
    return out, [0] * len(out) if primitive.multiple_results else 0


def define_solver_batching(primitive: Primitive) -> None:
    """Batches a primitive that solves systems of equations.

    Its last operand holds the right-hand sides: columns, or rows if the param `left_side` is False.
    If only they are batched, they are joined into one system with more right-hand sides.
    """

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        *matrix, b = args
        if any(d is not None for d in dims[:-1]):
            return _batch_stacks(primitive, args, dims, params)
        place = typeof(b).ndim - (1 if params.get("left_side", True) else 2)
        b = moveaxis(b, dims[-1], place)
        shape = typeof(b).shape
        flat = (*shape[:place - 1], shape[place - 1] * shape[place], *shape[place + 1:])
        return reshape(primitive.bind(*matrix, reshape(b, flat), **params), shape), place

    primitive.define("batch", batch, derived=True)


def check_square(name: str, shape: tuple[int, ...]) -> int:
    """The size of a square matrix.

    Raises:
      ValueError: it is not square.
    """
    if shape[0] != shape[1]:
        raise LazyArgumentError(lambda: (
            f"{name}: the matrix must be square, got shape {shape}; the last two axes are those "
            "of the matrix."))
    return shape[0]


def subset_of(name: str, values: str, subset: Any, count: int) -> tuple[int, int]:
    """The range of values that `subset_by_index` selects.

    Args:
      name: the function.
      values: the name of the values in messages.
      subset: the argument.
      count: the number of all values.

    Raises:
      TypeError: it is not a pair of integers.
      ValueError: the pair is not a range of the values.
    """
    pair = tuple(subset) if isinstance(subset, Iterable) else ()
    if len(pair) != 2 or not all(hasattr(i, "__index__") for i in pair):
        msg = (f"{name}: subset_by_index must be a pair of integers, (start, end), got {subset!r} "
               f"of type {type(subset).__name__}.")
        raise TypeError(msg)
    start, end = map(operator.index, pair)
    if not 0 <= start <= end <= count:
        msg = f"{name}: subset_by_index {subset} must be a range within the {count} {values}."
        raise ValueError(msg)
    return start, end


def real_of(dtype: Any) -> Any:
    """The dtype of absolute values."""
    return dtypes.real_dtype(dtype)


# ---- parts -----------------------------------------------------------------------------


def swap(x: Any) -> Any:
    """The transposed matrices."""
    ndim = typeof(x).ndim
    return transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def conj(x: Any) -> Any:
    """The complex conjugate; real numbers as they are."""
    return lax.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def adjoint(x: Any) -> Any:
    """The conjugated transposed matrices."""
    return conj(swap(x))


def real(x: Any) -> Any:
    """The real part; real numbers as they are."""
    return lax.real(x) if dtypes.is_complex(typeof(x).dtype) else x


def dot(*factors: Any) -> Any:
    """The product of matrices, in full precision."""
    out = factors[0]
    for factor in factors[1:]:
        out = batch_matmul(out, factor, Precision.HIGHEST)
    return out


def over(x: Any, shape: Sequence[int]) -> Any:
    """Repeats a value along leading axes."""
    shape, ndim = tuple(shape), typeof(x).ndim
    return broadcast_in_dim_p.bind(
        x, shape=shape, broadcast_dimensions=tuple(range(len(shape) - ndim, len(shape))))


def zeros(shape: Sequence[int], dtype: Any) -> Any:
    """Zeros as the result of an equation, not a constant."""
    return broadcast_in_dim_p.bind(as_settled(np.zeros((), dtype)[()]), shape=tuple(shape),
                                   broadcast_dimensions=())


def eye(rows: int, columns: int, dtype: Any) -> Any:
    """A rectangular identity matrix."""
    shape = (rows, columns)
    return convert(lax.eq(broadcasted_iota(INT32, shape, 0), broadcasted_iota(INT32, shape, 1)),
                   dtype)


def eye_like(x: Any, dtype: Any = None) -> Any:
    """The identity in the shape of each matrix of a stack, by default in their dtype."""
    aval = typeof(x)
    rows, columns = aval.shape[-2:]
    return over(eye(rows, columns, aval.dtype if dtype is None else dtype), aval.shape)


def below(shape: Sequence[int], k: int) -> Any:
    """Whether an element is on the k-th diagonal or below it."""
    shape = tuple(shape)
    row = broadcasted_iota(INT32, shape, 0)
    return lax.ge(lax.add(row, constant_like(row, k)), broadcasted_iota(INT32, shape, 1))


def _masked(mask: Any, x: Any, inside: bool) -> Any:
    shape = typeof(x).shape
    nothing = stretch(constant_like(x, 0), shape)
    mask = over(mask, shape)
    return select_n(mask, nothing, x) if inside else select_n(mask, x, nothing)


def tril(x: Any, k: int = 0) -> Any:
    """The matrices with zeros above the k-th diagonal."""
    return _masked(below(typeof(x).shape[-2:], k), x, True)


def triu(x: Any, k: int = 0) -> Any:
    """The matrices with zeros below the k-th diagonal."""
    return _masked(below(typeof(x).shape[-2:], k - 1), x, False)


def column(x: Any) -> Any:
    """Vectors as matrices of one column."""
    return expand_dims(x, (typeof(x).ndim,))


def row(x: Any) -> Any:
    """Vectors as matrices of one row."""
    return expand_dims(x, (typeof(x).ndim - 1,))


def symmetrized(x: Any) -> Any:
    """The mean of matrices and their adjoints; floats for integers."""
    dtype = typeof(x).dtype
    if not dtypes.is_extended(dtype):
        x = convert(x, inexact_dtype(dtype))
    return lax.div(lax.add(x, adjoint(x)), constant_like(x, 2))


def scaled(x: Any, factor: float) -> Any:
    """The product with a number."""
    return lax.mul(x, constant_like(x, factor))


def exchanged(x: Any, places: Any, i: Any, j: Any) -> Any:
    """An array with two elements of its last axis exchanged.

    Args:
      x: an array.
      places: the index of each element along that axis, in the shape of `x`.
      i, j: the two indices, in that shape but with a last axis of size 1.
    """
    aval = typeof(x)
    axis = aval.ndim - 1
    here, there = [lax.eq(places, stretch(k, aval.shape)) for k in (i, j)]
    nothing = stretch(constant_like(x, 0), aval.shape)
    at_here, at_there = [
        stretch(expand_dims(reduce_sum(select_n(w, nothing, x), (axis,)), (axis,)), aval.shape)
        for w in (here, there)]
    return select_n(there, select_n(here, x, at_there), at_here)


def nan_unless(ok: Any, x: Any) -> Any:
    """Sets failed elements of a stack to NaN.

    Args:
      ok: a boolean for each element.
      x: a vector or matrix for each, or an array of other axes after those of the stack.
    """
    aval, rank = typeof(x), typeof(ok).ndim
    ok = broadcast_in_dim_p.bind(ok, shape=aval.shape, broadcast_dimensions=tuple(range(rank)))
    value = complex(np.nan, np.nan) if dtypes.is_complex(aval.dtype) else np.nan
    return select_n(ok, stretch(constant_like(x, value), aval.shape), x)
