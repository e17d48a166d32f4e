"""Reductions except the sum: prod, max, min, and, or, xor, argmax, argmin.

`reduce_sum` is in `shapes`, beside broadcasting, which is its transpose.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import surely
from mjax._engine.ir.schema import AnyDType, Ints
from mjax._engine.ir.sizes import beyond
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import comparing
from mjax._engine.primitives.arithmetic import div, eq, mul
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import KIND_NAMES, check_kinds, constant_like, in_lax
from mjax._engine.primitives.emit import (
    broadcast_ir,
    constant,
    dense_i64,
    hlo,
    in_bytes,
    iota_ir,
    ir_type,
    op,
    reduce_ir,
    reducer_region,
)
from mjax._engine.primitives.emit import full as full_ir
from mjax._engine.primitives.shapes import (
    broadcast_in_dim_p,
    check_axis,
    define_reduction_batching,
    reduce_sum,
    reduced_shape,
    reshape,
    squeeze,
    transpose,
)
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._engine.primitives.tangents import (
    add_tangents,
    define_jvp_from_result,
    define_zero_jvp,
    zero_tangent,
)
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive

# ---- common parts ----------------------------------------------------------------------


def lowest(dtype: Any) -> Any:
    """The least value of a dtype, as a NumPy scalar."""
    return _extreme(dtype, -1)


def highest(dtype: Any) -> Any:
    """The greatest value of a dtype, as a NumPy scalar."""
    return _extreme(dtype, 1)


def _extreme(dtype: Any, sign: int) -> Any:
    kind = dtypes.kind(dtype)
    if kind == "X":
        raise dtypes.no_numbers(dtype)
    if kind == "b":
        return np.bool_(sign > 0)
    if kind in "iu":
        info = ml_dtypes.iinfo(dtype)
        return np.asarray(info.max if sign > 0 else info.min, dtype)[()]
    if kind == "c":
        part = sign * np.inf
        return np.asarray(complex(part, part), dtype)[()]
    infinite = np.asarray(sign * np.inf).astype(dtype)
    if np.isinf(infinite.astype(np.float32)):
        return infinite[()]
    # Some narrow floats do not have an infinity.
    info = ml_dtypes.finfo(dtype)
    return np.asarray(info.max if sign > 0 else info.min, dtype)[()]


def combine_ir(name: str, a: Any, b: Any) -> Any:
    """Emits the StableHLO operation of this name on two values of one type."""
    return op(f"stablehlo.{name}", [a.type], [a, b])[0]


def extremum_ir(name: str, dtype: Any) -> Callable[[Any, Any], Any]:
    """A function that emits `maximum` or `minimum` of two scalars."""
    return lambda a, b: comparing.extremum_ir(name, a, b, ShapedArray((), dtype))


def _define_reduction(name: str, kinds: str, identity: Callable[[Any], Any],
                      combine: Callable[[Any], Callable[[Any, Any], Any]], doc: str,
                      example: str, keeps_weak: bool = True) -> tuple[Primitive, Any]:
    """A reduction over axes by an associative operation.

    Args:
      name: the primitive's name.
      kinds: the accepted dtype kinds.
      identity: dtype -> the identity of the operation.
      combine: dtype -> a function that emits the operation on two scalars.
      doc: one sentence for the docstring.
      example: its result for [1, 5, 6], as Python code.
      keeps_weak: whether the reduction of a weakly typed operand is weakly typed.
    """
    primitive = EnginePrimitive(name, params={"axes": Ints})

    @primitive.def_abstract_eval
    def type_rule(x: Any, *, axes: tuple[int, ...]) -> ShapedArray:
        shape = reduced_shape(x, axes, name)
        check_kinds(name, x, kinds)
        return ShapedArray(shape, x.dtype, keeps_weak and x.weak_type)

    @primitive.def_lowering
    def lowering(ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        dtype = ctx.avals_in[0].dtype
        return [reduce_ir(ctx.out_types[0], x, dtype, axes, identity(dtype), combine(dtype))]

    define_reduction_batching(primitive)

    @boundary
    def function(operand: Any, axes: Sequence[int]) -> Any:
        return primitive.bind(operand, axes=tuple(map(operator.index, axes)))

    return primitive, in_lax(function, name, _REDUCTION_DOC.format(
        name=name, doc=doc, example=example, dtypes=", ".join(KIND_NAMES[k] for k in kinds)))


_REDUCTION_DOC = """{doc}

    Args:
      operand: array of dtype {dtypes}.
      axes: distinct axes, not negative.

    Returns:
      An array without these axes; the identity of the operation where they are empty.

    Raises:
      ValueError: an axis is out of range or named twice.
      TypeError: the dtype is not one of these.

    Source: StableHLO `reduce`.

    Example:
      >>> lax.{name}(jnp.array([1, 5, 6]), (0,))
      Array({example}, dtype=int32)
    """


def keep_axes(reduced: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """A reduced array broadcast back to the shape it was reduced from."""
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim_p.bind(reduced, shape=tuple(shape), broadcast_dimensions=kept)


# ---- prod ------------------------------------------------------------------------------

reduce_prod_p, reduce_prod = _define_reduction(
    "reduce_prod", "iufc", lambda dtype: 1, lambda dtype: lambda a, b: combine_ir("multiply", a, b),
    "Multiplies over axes.", "30")


def _reduce_prod_tangent(t: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not axes:
        return t
    # By halving, without division: correct with zero factors, for derivatives of all orders.
    factors, terms = _flatten_last(x, axes), _flatten_last(t, axes)
    size = factors.shape[-1]
    while size > 1:
        half = (size + 1) // 2
        left, right = _halves(factors, half, 1)
        t_left, t_right = _halves(terms, half, 0)
        factors = mul(left, right)
        terms = add_tangents(mul(t_left, right), mul(left, t_right))
        size = half
    return squeeze(terms, (terms.ndim - 1,)) if size else zero_tangent(out)


define_jvp_from_result(reduce_prod_p, _reduce_prod_tangent)


def _flatten_last(x: Any, axes: tuple[int, ...]) -> Any:
    """The array with the given axes merged into a last one."""
    shape = typeof(x).shape
    kept = [i for i in range(len(shape)) if i not in axes]
    x = transpose(x, (*kept, *sorted(axes)))
    return reshape(x, (*[shape[i] for i in kept], math.prod(shape[a] for a in axes)))


def _halves(x: Any, half: int, fill: int) -> tuple[Any, Any]:
    """The first `half` elements along the last axis, and the others, padded to as many."""
    *others, size = x.shape
    right = slice_in_dim(x, half, size, axis=-1)
    if size < 2 * half:
        right = pad(right, constant_like(x, fill), [(0, 0, 0)] * len(others)
                    + [(0, 2 * half - size, 0)])
    return slice_in_dim(x, 0, half, axis=-1), right


# ---- max, min --------------------------------------------------------------------------


def _define_extremum(name: str, operation: str, identity: Callable[[Any], Any], doc: str,
                     example: str) -> tuple[Primitive, Any]:
    primitive, function = _define_reduction(
        name, "biufc", identity, lambda dtype: extremum_ir(operation, dtype), doc, example)

    def tangent(t: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        """The mean tangent of the elements that are extreme."""
        chosen = convert(eq(x, keep_axes(out, typeof(x).shape, axes)), typeof(x).dtype)
        return div(reduce_sum(mul(t, chosen), axes), reduce_sum(chosen, axes))

    define_jvp_from_result(primitive, tangent)
    return primitive, function


reduce_max_p, reduce_max = _define_extremum(
    "reduce_max", "maximum", lowest,
    "Takes the greatest element over axes; NaN if there is one.", "6")
reduce_min_p, reduce_min = _define_extremum(
    "reduce_min", "minimum", highest,
    "Takes the least element over axes; NaN if there is one.", "1")

# ---- and, or, xor ----------------------------------------------------------------------


def _define_bitwise(name: str, operation: str, identity: Callable[[Any], Any], doc: str,
                    example: str) -> tuple[Primitive, Any]:
    primitive, function = _define_reduction(
        name, "biu", identity, lambda dtype: lambda a, b: combine_ir(operation, a, b), doc,
        example, keeps_weak=False)
    define_zero_jvp(primitive)
    return primitive, function


def all_ones(dtype: Any) -> Any:
    """The value of a dtype whose bits are all set, as a NumPy scalar."""
    return np.bool_(True) if dtypes.kind(dtype) == "b" else np.asarray(-1).astype(dtype)[()]


reduce_and_p, reduce_and = _define_bitwise(
    "reduce_and", "and", all_ones,
    "Whether all elements over axes are true; their common bits, of integers.", "0")
reduce_or_p, reduce_or = _define_bitwise(
    "reduce_or", "or", lambda dtype: 0,
    "Whether any element over axes is true; the union of their bits, of integers.", "7")
reduce_xor_p, reduce_xor = _define_bitwise(
    "reduce_xor", "xor", lambda dtype: 0,
    "Whether an odd number of elements over axes is true; the parity of each bit, of integers.",
    "2")

# ---- argmax, argmin --------------------------------------------------------------------


def _define_arg(name: str, operation: str, direction: str, identity: Callable[[Any], Any],
                doc: str, example: str) -> tuple[Primitive, Any]:
    primitive = EnginePrimitive(name, params={"axes": Ints, "index_dtype": AnyDType})

    @primitive.def_abstract_eval
    def type_rule(x: Any, *, axes: tuple[int, ...], index_dtype: Any) -> ShapedArray:
        return _arg_type(name, x, axes, index_dtype)

    @primitive.def_lowering
    def pairs(ctx: Any, x: Any, *, axes: tuple[int, ...], index_dtype: Any) -> Any:
        return _arg_by_pairs(ctx, x, axes, index_dtype, direction, identity)

    def on_cpu(ctx: Any, x: Any, *, axes: tuple[int, ...], index_dtype: Any) -> Any:
        # XLA does not vectorize the loop over pairs (4 ns per element), unless the axis is so
        # short that it unrolls it.
        if surely(lambda: ctx.avals_in[0].shape[axes[0]] <= 16):
            return pairs(ctx, x, axes=axes, index_dtype=index_dtype)
        return _arg_by_search(ctx, x, axes, index_dtype, operation, identity)

    primitive.def_lowering(on_cpu, "cpu")
    define_zero_jvp(primitive)
    define_reduction_batching(primitive)

    @boundary
    def function(operand: Any, axis: int, index_dtype: Any) -> Any:
        return primitive.bind(operand, axes=(operator.index(axis),),
                              index_dtype=dtypes.asked_dtype(index_dtype, name))

    return primitive, in_lax(function, name, _ARG_DOC.format(
        name=name, doc=doc, example=example))


_ARG_DOC = """{doc}

    Args:
      operand: array of booleans, integers or floats.
      axis: the axis to search along, not negative and not empty.
      index_dtype: integer dtype of the result.

    Returns:
      Indices, of the operand's shape without the axis: of the first NaN if there is one, else
      of the first of equal elements.

    Raises:
      ValueError: the axis is out of range or empty, or the indices do not fit `index_dtype`.
      TypeError: `index_dtype` is not an integer dtype, or the operand is complex.

    Example:
      >>> lax.{name}(jnp.array([4, 9, 2]), 0, jnp.int32)
      Array({example}, dtype=int32)
    """


def _arg_type(name: str, x: Any, axes: tuple[int, ...], index_dtype: Any) -> ShapedArray:
    axis, = axes
    check_axis(name, x, axis)
    if x.shape[axis] == 0:
        msg = f"{name} of an empty sequence: axis {axis} of shape {x.shape} has size 0."
        raise ValueError(msg)
    if dtypes.kind(x.dtype) not in "biuf":
        msg = f"{name} does not accept dtype {x.dtype}: its elements have no order."
        raise TypeError(msg)
    _check_index_dtype(name, x.shape[axis], index_dtype)
    return ShapedArray(reduced_shape(x, axes, name), index_dtype)


def _check_index_dtype(name: str, size: int, index_dtype: Any) -> None:
    if dtypes.kind(index_dtype) not in "iu":
        msg = f"{name}: index_dtype must be an integer dtype, got {index_dtype}."
        raise TypeError(msg)
    if beyond(size - 1, int(ml_dtypes.iinfo(index_dtype).max)):
        msg = f"{name}: index_dtype {index_dtype} cannot count the {size} elements of the axis."
        raise ValueError(msg)


def _arg_by_pairs(ctx: Any, x: Any, axes: tuple[int, ...], index_dtype: Any, direction: str,
                  identity: Callable[[Any], Any]) -> Any:
    """Emits one reduction of pairs (element, index).

    The initial pair has index 0. It wins only if all elements equal it, and then 0 is right.
    """
    aval, out = in_bytes(ctx.avals_in[0]), ctx.avals_out[0]
    dtype = aval.dtype
    if aval is not ctx.avals_in[0]:
        x = hlo.convert(ir_type(aval), x)
    iota = iota_ir(aval.update(dtype=index_dtype, weak_type=False), axes[0])
    reduce = hlo.ReduceOp([ir_type(out.update(dtype=dtype)), ctx.out_types[0]], [x, iota],
                          [constant(np.asarray(identity(dtype), dtype)),
                           constant(np.zeros((), index_dtype))], dense_i64(axes))

    def body(a: Any, i: Any, b: Any, j: Any) -> Any:
        better = compare_ir(a, b, direction, dtype)
        same = compare_ir(a, b, "EQ", dtype)
        if dtypes.kind(dtype) == "f":
            a_nan, b_nan = compare_ir(a, a, "NE", dtype), compare_ir(b, b, "NE", dtype)
            better = hlo.or_(better, hlo.and_(a_nan, hlo.not_(b_nan)))
            same = hlo.or_(same, hlo.and_(a_nan, b_nan))
        earlier = compare_ir(i, j, "LT", index_dtype)
        wins = hlo.or_(better, hlo.and_(same, earlier))
        return [hlo.select(wins, a, b), hlo.select(wins, i, j)]

    reducer_region(reduce.regions[0], [dtype, index_dtype], body)
    return [reduce.results[1]]


def _arg_by_search(ctx: Any, x: Any, axes: tuple[int, ...], index_dtype: Any, operation: str,
                   identity: Callable[[Any], Any]) -> Any:
    """Emits the reduction to the extreme element, then to the least of its indices."""
    aval, out = ctx.avals_in[0], ctx.avals_out[0]
    dtype = aval.dtype
    best = reduce_ir(ir_type(out.update(dtype=dtype)), x, dtype, axes, identity(dtype),
                     extremum_ir(operation, dtype))
    kept = [i for i in range(aval.ndim) if i not in axes]
    best = broadcast_ir(ir_type(aval), aval.shape, best, kept)
    found = compare_ir(x, best, "EQ", dtype)
    if dtypes.kind(dtype) == "f":
        found = hlo.or_(found, compare_ir(x, x, "NE", dtype))
    indices = aval.update(dtype=index_dtype, weak_type=False)
    last = aval.shape[axes[0]] - 1
    candidates = hlo.select(found, iota_ir(indices, axes[0]), full_ir(last, indices))
    return [reduce_ir(ctx.out_types[0], candidates, index_dtype, axes, last,
                      extremum_ir("minimum", index_dtype))]


argmax_p, argmax = _define_arg("argmax", "maximum", "GT", lowest,
                               "The index of the greatest element along an axis.", "1")
argmin_p, argmin = _define_arg("argmin", "minimum", "LT", highest,
                               "The index of the least element along an axis.", "2")
