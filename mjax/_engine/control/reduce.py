"""Reductions by users' functions: reduce and reduce_window; and select_and_scatter.

The function combines scalars, and its jaxpr is a param. If it is an operation with a reduction
primitive of its own, and the initial value is its identity, that primitive is used.

Forward mode reduces primals and tangents together by the function's derivative, so primals have the
same values as without it. Reverse mode applies the function to arrays, element by element: for
windows in XLA's order, since they are short, and for axes by a tree, in about log2(n) steps. It
combines neighbours, so the function has to be associative but not commutative. Functions that are
more than operations on scalars are lowered the same way: XLA crashes on a loop in a reduction.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import split_list
from mjax._engine.control.combining import (
    after_init,
    combined_operands,
    define_rules,
    elementwise,
    filled,
    is_plain,
)
from mjax._engine.control.loops.looping import scan
from mjax._engine.control.opaque_calls import one_by_one
from mjax._engine.control.trace_body import Typed, check_alike, stage_body
from mjax._engine.ir.effects import describe
from mjax._engine.ir.jaxpr import Jaxpr, subjaxprs
from mjax._engine.ir.promotion import result_type
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.schema import Ints, Pairs
from mjax._engine.ir.types import ShapedArray, same_type_but_weak, typeof
from mjax._engine.primitives.along_axis import batched_alike
from mjax._engine.primitives.arithmetic import add_p, and_p, max_p, min_p, mul_p, or_p, xor_p
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.emit import dense_i64, hlo, reducer_region
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.reductions import (
    all_ones,
    highest,
    lowest,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from mjax._engine.primitives.select import select_n_p
from mjax._engine.primitives.shapes import (
    batch_axes,
    broadcast_in_dim_p,
    reduce_sum_p,
    reduced_shape,
    reshape,
    squeeze,
    transpose,
)
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.windows import (
    WINDOWS,
    Windows,
    along_windows,
    batch_windows,
    check_source,
    in_windows,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_scatter_ir,
    spread,
    window_ir,
    window_params,
    windowed_shape,
)
from mjax._engine.tracing.flat import check_callable
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.transforms.batching import AxisData

# ---- reduce ----------------------------------------------------------------------------

reduce_p = EnginePrimitive("reduce", params={
    "jaxpr": Jaxpr, "dimensions": Ints}, multiple_results=True)


@reduce_p.def_abstract_eval
def _reduce_type(*avals: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[ShapedArray]:
    xs = combined_operands("reduce", avals, jaxpr)
    weak = all(a.weak_type for a in avals)
    return [ShapedArray(reduced_shape(x, dimensions, "reduce"), x.dtype, weak) for x in xs]


@reduce_p.def_lowering
def _reduce_lowering(ctx: Any, *args: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> Any:
    if not is_plain(jaxpr):
        return _reduce_tree(ctx, *args, jaxpr=jaxpr, dimensions=dimensions)
    xs, inits = split_list(args, [len(args) // 2])
    reduce = hlo.ReduceOp(ctx.out_types, xs, inits, dense_i64(sorted(dimensions)))
    reducer_region(reduce.regions[0], [a.dtype for a in ctx.avals_out],
                   functools.partial(ctx.inline, jaxpr))
    return list(reduce.results)


def _reduce_in_tree(*args: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[Any]:
    xs, inits = split_list(args, [len(args) // 2])
    for axis in sorted(dimensions, reverse=True):
        if typeof(xs[0]).shape[axis] == 0:
            shape = reduced_shape(typeof(xs[0]), dimensions, "reduce")
            return filled(inits, shape)
        xs = _reduce_axis(jaxpr, xs, axis)
    return after_init(jaxpr, inits, xs)


def _reduce_axis(jaxpr: Jaxpr, xs: Sequence[Any], axis: int) -> list[Any]:
    while (size := typeof(xs[0]).shape[axis]) > 1:
        even = size - size % 2
        pairs = [slice_in_dim(x, i, even, 2, axis) for i in (0, 1) for x in xs]
        halves = elementwise(jaxpr, pairs)
        if size % 2:
            halves = [concatenate([h, slice_in_dim(x, even, size, 1, axis)], axis)
                      for h, x in zip(halves, xs, strict=True)]
        xs = halves
    return [squeeze(x, (axis,)) for x in xs]


_reduce_tree = traced(_reduce_in_tree, multiple_results=True)


def _reduce_in_order(*args: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[Any]:
    xs, inits = split_list(args, [len(args) // 2])
    start = filled(inits, reduced_shape(typeof(xs[0]), dimensions, "reduce"))
    if not dimensions:
        return elementwise(jaxpr, [*start, *xs])
    rows = [_rows(x, sorted(dimensions)) for x in xs]
    return scan(lambda total, row: (elementwise(jaxpr, [*total, *row]), None), start, rows)[0]


def _rows(x: Any, axes: Sequence[int]) -> Any:
    """An array with these axes merged into one in front."""
    shape = typeof(x).shape
    rest = [i for i in range(len(shape)) if i not in axes]
    return reshape(transpose(x, (*axes, *rest)), (
        math.prod(shape[i] for i in axes), *[shape[i] for i in rest]))


def _reduce_batched(params: Any, dim: int) -> Any:
    axes, out_dim = batch_axes(dim, params["dimensions"])
    return {**params, "dimensions": axes}, out_dim


define_rules(reduce_p, _reduce_in_tree, _reduce_in_order, _reduce_batched)

# ---- reduce_window ---------------------------------------------------------------------

reduce_window_p = EnginePrimitive("reduce_window", params={
    "jaxpr": Jaxpr, **WINDOWS}, multiple_results=True)


@reduce_window_p.def_abstract_eval
def _reduce_window_type(*avals: Any, jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
    xs = combined_operands("reduce_window", avals, jaxpr)
    shape = windowed_shape("reduce_window", xs[0].shape, **params)
    return [ShapedArray(shape, x.dtype) for x in xs]


@reduce_window_p.def_lowering
def _reduce_window_lowering(ctx: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    if not is_plain(jaxpr):
        return _reduce_window_by_arrays(ctx, *args, jaxpr=jaxpr, **params)
    xs, inits = split_list(args, [len(args) // 2])
    return window_ir(ctx.out_types, xs, inits, [a.dtype for a in ctx.avals_out],
                     functools.partial(ctx.inline, jaxpr), params)


def _reduce_window_in_order(*args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    """Reduces in XLA's order: from the initial value, past padding and holes, in each window."""
    xs, inits = split_list(args, [len(args) // 2])
    masks = in_windows(typeof(xs[0]).shape, params)
    shape = windowed_shape("reduce_window", typeof(xs[0]).shape, **params)
    totals = filled(inits, shape)

    def step(parts: Sequence[Any], axis: int, inside: dict[int, Any]) -> None:
        nonlocal totals
        if axis < len(shape):
            cuts = along_windows(typeof(parts[0]).shape[axis], axis, params)
            for cut, mask in zip(cuts, masks[axis], strict=True):
                step([cut(p) for p in parts], axis + 1,
                     inside if mask is None else {**inside, axis: mask})
            return
        new = elementwise(jaxpr, [*totals, *parts])
        if inside:
            mask = broadcast_in_dim_p.bind(
                functools.reduce(np.logical_and.outer, inside.values()), shape=shape,
                broadcast_dimensions=tuple(inside))
            new = [select_n_p.bind(mask, t, n) for t, n in zip(totals, new, strict=True)]
        totals = new

    step([spread(x, init, params) for x, init in zip(xs, inits, strict=True)], 0, {})
    return totals


_reduce_window_by_arrays = traced(_reduce_window_in_order, multiple_results=True)
define_rules(reduce_window_p, _reduce_window_in_order, _reduce_window_in_order,
             lambda params, dim: (batch_windows(params, dim), dim))

# ---- select_and_scatter ----------------------------------------------------------------

#: Selects an element in each window of an operand, and scatters a source's elements to these.
select_and_scatter_p = EnginePrimitive("select_and_scatter", params={
    "select_jaxpr": Jaxpr, "scatter_jaxpr": Jaxpr, "window_dimensions": Ints,
    "window_strides": Ints, "padding": Pairs})


@select_and_scatter_p.def_abstract_eval
def _select_and_scatter_type(operand: Any, source: Any, init: Any, *, select_jaxpr: Jaxpr,
                             scatter_jaxpr: Jaxpr, **params: Any) -> ShapedArray:
    name = "select_and_scatter"
    check_source(name, source, operand, params)
    if not operand.dtype == source.dtype == init.dtype or init.shape:
        msg = (f"{name} requires an operand, a source and a scalar initial value of one dtype, got "
               f"{operand}, {source} and {init}.")
        raise TypeError(msg)
    scalar, truth = ShapedArray((), operand.dtype), ShapedArray((), np.dtype(bool))
    for argument, jaxpr, out in (("select_jaxpr", select_jaxpr, truth),
                                 ("scatter_jaxpr", scatter_jaxpr, scalar)):
        if len(jaxpr.in_avals) != 2 or len(jaxpr.out_avals) != 1 or not all(
                map(same_type_but_weak, [*jaxpr.in_avals, *jaxpr.out_avals],
                    [scalar, scalar, out])):
            msg = f"{name}: {argument} must go from {scalar} and {scalar} to {out}."
            raise TypeError(msg)
        if not is_plain(jaxpr):
            msg = f"{name}: {argument} must be made of operations on scalars, without loops."
            raise TypeError(msg)
    return ShapedArray(operand.shape, operand.dtype)


@select_and_scatter_p.def_lowering
def _select_and_scatter_lowering(ctx: Any, operand: Any, source: Any, init: Any, *,
                                 select_jaxpr: Jaxpr, scatter_jaxpr: Jaxpr, **params: Any) -> Any:
    return [select_and_scatter_ir(
        ctx.out_types[0], operand, source, init, ctx.avals_out[0].dtype,
        functools.partial(ctx.inline, select_jaxpr),
        functools.partial(ctx.inline, scatter_jaxpr), params)]


@select_and_scatter_p.def_axis_batch
def _select_and_scatter_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
    if dims[2] is not None:  # XLA scatters to an array of one value
        return one_by_one(select_and_scatter_p, axis, args, dims, params)[0], 0
    (operand, source), dim = batched_alike(args[:2], dims[:2])
    return select_and_scatter_p.bind(operand, source, args[2], **batch_windows(params, dim)), dim


select_and_scatter_p.without("jvp", "Its programs may choose and combine in any way: differentiate "
                             "reduce_window_max, or reduce_window_min.")


# ---- operations that a primitive reduces by --------------------------------------------


class Monoid(Record):
    """An operation with its identity and its reductions.

    Attributes:
      identity: dtype -> the identity of the operation.
      reduction: the primitive that reduces axes by it.
      window: the primitive that reduces windows by it, if there is one.
    """

    identity: Callable[[Any], Any]
    reduction: Primitive
    window: Primitive | None = None


_MONOIDS = {
    add_p: Monoid(lambda dtype: 0, reduce_sum_p, reduce_window_sum_p),
    mul_p: Monoid(lambda dtype: 1, reduce_prod_p),
    max_p: Monoid(lowest, reduce_max_p, reduce_window_max_p),
    min_p: Monoid(highest, reduce_min_p, reduce_window_min_p),
    and_p: Monoid(all_ones, reduce_and_p),
    or_p: Monoid(lambda dtype: 0, reduce_or_p),
    xor_p: Monoid(lambda dtype: 0, reduce_xor_p),
}


def _monoid(jaxpr: Jaxpr, inits: Sequence[Any]) -> Monoid | None:
    """The monoid of a jaxpr that is one operation, if the initial value is its identity."""
    if len(jaxpr.eqns) != 1 or len(inits) != 1 or isinstance(inits[0], Tracer):
        return None
    eqn, = jaxpr.eqns
    found = _MONOIDS.get(eqn.primitive)
    # All of them are commutative.
    orders = jaxpr.invars, jaxpr.invars[::-1]
    if found is None or jaxpr.outvars != eqn.outvars or eqn.invars not in orders:
        return None
    dtype = eqn.outvars[0].aval.dtype
    same = np.asarray(inits[0]) == np.asarray(found.identity(dtype), dtype)
    return found if bool(same) else None


# ---- public functions ------------------------------------------------------------------


class _Reduction(Record):
    """The arguments of `reduce` or `reduce_window`."""

    xs: list[Any]
    inits: list[Any]
    jaxpr: Jaxpr
    tree: Any


def _prepared(name: str, operands: Any, init_values: Any, computation: Callable[..., Any]
              ) -> _Reduction:
    check_callable(name, computation)
    xs, tree = tree_flatten(operands)
    inits, init_tree = tree_flatten(init_values)
    if tree != init_tree:
        msg = (f"{name}: operands and initial values must be nested alike, got {tree} and "
               f"{init_tree}.")
        raise ValueError(msg)
    if not xs:
        msg = f"{name} needs at least one operand."
        raise TypeError(msg)
    avals = list(map(typeof, xs))
    if any(typeof(init).shape for init in inits):
        msg = (f"{name}: the initial values must be scalars, got values of types "
               f"{', '.join(str(typeof(init)) for init in inits)}.")
        raise ValueError(msg)
    inits = [_adapted(init, x) for init, x in zip(inits, avals, strict=True)]
    scalars = [ShapedArray((), x.dtype) for x in avals]
    pair = tree.unflatten(scalars)
    in_tree = tree_flatten(((pair, pair), {}))[1]
    body = stage_body(name, computation, in_tree, scalars * 2)
    _check_computation(name, body, Typed("the operands", tree, scalars))
    return _Reduction(xs, inits, body.jaxpr, tree)


def _adapted(init: Any, x: ShapedArray) -> Any:
    """An initial value; weakly typed ones, such as Python numbers, take the operand's dtype."""
    aval = typeof(init)
    if aval.weak_type and aval.dtype != x.dtype and result_type(init, x.dtype) == x.dtype:
        return convert(init, x.dtype)
    return init


def _check_computation(name: str, body: Any, operands: Typed) -> None:
    jaxpr = body.jaxpr
    if body.consts or _closes_over_arrays(jaxpr):
        raise LazyTypeError(lambda: (
            f"{name}: {jaxpr.debug_info.func_src_info} uses arrays or traced values from outside; "
            "it can use its arguments and constants only. Give what it needs as one more operand."))
    if jaxpr.effects:
        raise LazyTypeError(lambda: (
            f"{name}: {jaxpr.debug_info.func_src_info} has the effects {describe(jaxpr.effects)}; "
            "it is not said how often it is called, so it must have none."))
    check_alike(operands, Typed("the result", body.out_tree, jaxpr.out_avals), "", lambda: (
        f"{name}: {jaxpr.debug_info.func_src_info} must return a scalar of the type of each "
        "operand."))


def _closes_over_arrays(jaxpr: Jaxpr) -> bool:
    return bool(jaxpr.consts) or any(map(_closes_over_arrays, subjaxprs(jaxpr)))


@boundary
def reduce(operands: Any, init_values: Any, computation: Callable[[Any, Any], Any],
           dimensions: Sequence[int]) -> Any:
    """Reduces axes of arrays by a function.

    Args:
      operands: an array, or a tree of arrays of one shape that are reduced together.
      init_values: a scalar for each array, nested alike, of its dtype; the identity of
        `computation`.
      computation: combines two scalars, or two trees of scalars, into one. It has to be
        associative; in which order and how often it is applied is not specified. (Reverse mode
        combines in another order than evaluation and forward mode do.)
      dimensions: distinct axes, not negative.

    Returns:
      An array, or the tree of arrays, without these axes. If `computation` is an operation with a
      reduction of its own, such as `lax.add`, and the initial value is its identity, that
      reduction is applied.

    Raises:
      TypeError: shapes or dtypes do not fit, or `computation` does not give what it takes.
      ValueError: an axis is out of range or named twice, the trees differ, or an initial value is
        not a scalar.

    Source: StableHLO `reduce`.

    Example:
      >>> x = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
      >>> lax.reduce(x, 1.0, lax.mul, (1,))
      Array([  6., 120.], dtype=float32)
    """
    xs, inits, jaxpr, tree = _prepared("reduce", operands, init_values, computation)
    axes = tuple(map(operator.index, dimensions))
    monoid = _monoid(jaxpr, inits)
    if monoid is not None:
        out = monoid.reduction.bind(*xs, axes=axes)
        strong = not all(typeof(x).weak_type for x in (*xs, *inits))
        return tree.unflatten([convert(out, typeof(out).dtype) if strong else out])
    return tree.unflatten(reduce_p.bind(*xs, *inits, jaxpr=jaxpr, dimensions=axes))


@boundary
def reduce_window(operand: Any, init_value: Any, computation: Callable[[Any, Any], Any],
                  window_dimensions: Sequence[int], window_strides: Sequence[int] | None = None,
                  padding: Any = "VALID", base_dilation: Sequence[int] | None = None,
                  window_dilation: Sequence[int] | None = None) -> Any:
    """Reduces windows that slide over arrays by a function.

    Args:
      operand: an array, or a tree of arrays of one shape that are reduced together.
      init_value: a scalar for each array, nested alike, of its dtype; the identity of
        `computation`, because padding and holes count as it.
      computation: combines two scalars, or two trees of scalars, into one. It has to be
        associative; in which order and how often it is applied is not specified.
      window_dimensions: for each axis the size of the window.
      window_strides: for each axis the step from one window to the next; ones by default.
      padding: the numbers of elements before and behind each axis, as `(low, high)` pairs. Or
        `"VALID"`: none; `"SAME"` or `"SAME_LOWER"`: as many as give a result of size
        `ceil(size / stride)`, with the greater half of an odd number behind or before.
      base_dilation: for each axis the distance between elements of the dilated operand; ones by
        default.
      window_dilation: for each axis the distance between the elements that a window takes;
        ones by default.

    Returns:
      An array, or the tree of arrays, with one element for each window.

    Raises:
      TypeError: shapes or dtypes do not fit, or `computation` does not give what it takes.
      ValueError: the padding does not fit, or the trees differ.

    Source: StableHLO `reduce_window`.

    Example:
      >>> x = jnp.array([1.0, 4.0, 2.0, 3.0])
      >>> lax.reduce_window(x, -jnp.inf, lax.max, (2,))
      Array([4., 4., 3.], dtype=float32)
    """
    name = "reduce_window"
    xs, inits, jaxpr, tree = _prepared(name, operand, init_value, computation)
    params: Windows = window_params(name, typeof(xs[0]).shape, window_dimensions, window_strides,
                                    padding, base_dilation, window_dilation)
    monoid = _monoid(jaxpr, inits)
    if monoid is not None and monoid.window is not None:
        return tree.unflatten([monoid.window.bind(*xs, **params)])
    return tree.unflatten(reduce_window_p.bind(*xs, *inits, jaxpr=jaxpr, **params))


__all__ = ["reduce", "reduce_p", "reduce_window", "reduce_window_p", "select_and_scatter_p"]
