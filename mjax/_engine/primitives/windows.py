"""Reductions over sliding windows: reduce_window_sum, reduce_window_max, reduce_window_min.

The derivative of an extremum is that of the first element which is extreme in its window.
`select_and_gather_add` takes the tangents there and `select_and_scatter_add`, its transpose,
puts cotangents there. `control.reduce` reduces windows by a user's function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.schema import Ints, Pairs
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.along_axis import batched_alike
from mjax._engine.primitives.arithmetic import ge_p, le_p
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.elementwise import check_kinds
from mjax._engine.primitives.emit import (
    constant,
    dense_i64,
    full,
    hlo,
    ir_type,
    pad_ir,
    padded_ir,
    reducer_region,
)
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.reductions import combine_ir, extremum_ir, highest, lowest
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import as_settled, canonical_shape, scalar_of
from mjax._engine.primitives.slicing import pad_p, slice_in_dim, slice_p
from mjax._engine.primitives.sliding import (
    Padding,
    Sizes,
    dilated,
    dilated_shape,
    explicit_padding,
    pads_of,
    pairs_attr,
    positive_tuple,
    slid_shape,
    transposed_padding,
)
from mjax._engine.primitives.tangents import define_jvp_from_result
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive

#: The params of windows, by name.
Windows = dict[str, Any]
#: The schema of reductions over windows.
WINDOWS = {"window_dimensions": Ints, "window_strides": Ints, "padding": Pairs,
           "base_dilation": Ints, "window_dilation": Ints}
_FILLED = {"window_dimensions": 1, "window_strides": 1, "padding": (0, 0), "base_dilation": 1,
           "window_dilation": 1}

# ---- shared parts ----------------------------------------------------------------------


def window_params(name: str, shape: Sequence[int], window_dimensions: Any, window_strides: Any,
                  padding: Any, base_dilation: Any, window_dilation: Any) -> Windows:
    """The window params of the arguments of `reduce_window` and its variants."""
    ndim = len(shape)
    given = {"window_dimensions": window_dimensions, "window_strides": window_strides,
             "base_dilation": base_dilation, "window_dilation": window_dilation}
    params: Windows = {
        argument: positive_tuple(name, argument, values, ndim, "axes of the operand")
        for argument, values in given.items()}
    spans = dilated_shape(params["window_dimensions"], params["window_dilation"])
    params["padding"] = pads_of(name, padding, dilated_shape(shape, params["base_dilation"]),
                                spans, params["window_strides"])
    return params


def windowed_shape(name: str, shape: Sequence[int], *, window_dimensions: Sizes,
                   window_strides: Sizes, padding: Padding, base_dilation: Sizes | None = None,
                   window_dilation: Sizes | None = None) -> Sizes:
    """The shape of a reduction over windows; refuses params that do not fit."""
    ones = (1,) * len(shape)
    params = {"window_dimensions": window_dimensions, "window_strides": window_strides,
              "base_dilation": base_dilation or ones, "window_dilation": window_dilation or ones}
    for argument, values in params.items():
        positive_tuple(name, argument, values, len(shape), "axes of the operand")
    return slid_shape(name, shape, window_dimensions, window_strides,
                      explicit_padding(name, padding, len(shape)), params["base_dilation"],
                      params["window_dilation"])


def batch_windows(params: Windows, dim: int) -> Windows:
    """The params for an operand with a batch axis at `dim`: windows are of size 1 along it."""
    return {name: (*values[:dim], _FILLED[name], *values[dim:]) if name in _FILLED else values
            for name, values in params.items()}


def window_ir(out_types: Sequence[Any], xs: Sequence[Any], inits: Sequence[Any],
              element_types: Sequence[Any], body: Callable[..., Sequence[Any]],
              params: Windows) -> Any:
    """Emits a reduction over windows of several arrays together."""
    if not params["window_dimensions"]:
        # One window of one element: XLA crashes on some of these.
        return list(body(*inits, *xs))
    if not all(map(is_constant_shape, params["padding"])):
        # The operation does not accept symbolic sizes.
        config = [(low, high, holes - 1) for (low, high), holes in zip(
            params["padding"], params["base_dilation"], strict=True)]
        xs = [padded_ir(x, init, config) for x, init in zip(xs, inits, strict=True)]
        ones = (1,) * len(config)
        params = {**params, "padding": ((0, 0),) * len(config), "base_dilation": ones}
    reduce = hlo.ReduceWindowOp(
        out_types, xs, inits, dense_i64(params["window_dimensions"]),
        window_strides=dense_i64(params["window_strides"]),
        base_dilations=dense_i64(params["base_dilation"]),
        window_dilations=dense_i64(params["window_dilation"]),
        padding=pairs_attr(params["padding"]))
    reducer_region(reduce.regions[0], element_types, body)
    return list(reduce.results)


def spread(x: Any, value: Any, params: Windows) -> Any:
    """An array with the windows' padding and holes."""
    config = tuple([(low, high, holes - 1) for (low, high), holes in zip(
        params["padding"], params["base_dilation"], strict=True)])
    return pad_p.bind(x, value, padding_config=config)


def window_slices(size: int, axis: int, params: Windows) -> list[slice]:
    """For each element of a window, the slice of all its positions along one axis.

    Args:
      size: of the axis, holes and padding included.
      axis: the axis.
      params: of the windows.
    """
    window, stride, step = (params[name][axis] for name in (
        "window_dimensions", "window_strides", "window_dilation"))
    span = dilated(max((size - dilated(window, step)) // stride + 1, 0), stride)
    starts = [k * step if span else 0 for k in range(window)]
    return [slice(start, start + span, stride) for start in starts]


def along_windows(size: int, axis: int, params: Windows) -> list[Callable[[Any], Any]]:
    """`window_slices` as functions that slice arrays."""

    def cut(where: slice) -> Callable[[Any], Any]:
        return lambda x: slice_in_dim(x, where.start, where.stop, where.step, axis)

    return list(map(cut, window_slices(size, axis, params)))


def in_windows(shape: Sequence[int], params: Windows) -> list[list[Any]]:
    """For each axis and each element of a window, the positions at which it is not padding.

    They are NumPy masks over positions; None means all. Holes count as padding.

    Args:
      shape: of the operand.
      params: of the windows.
    """
    masks = []
    for axis, size in enumerate(shape):
        (low, high), step = params["padding"][axis], params["base_dilation"][axis]
        inside = np.zeros(low + dilated(size, step) + high, bool)
        places = low + step * np.arange(size)
        inside[places[(places >= 0) & (places < inside.size)]] = True
        cuts = [inside[where] for where in window_slices(inside.size, axis, params)]
        masks.append([None if cut.all() else cut for cut in cuts])
    return masks


def in_pairs(combine: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Combines values in order, in a tree; `combine` is associative."""
    while len(values) > 1:
        rest = values[len(values) - len(values) % 2:]
        values = [*map(combine, values[: -1 : 2], values[1::2]), *rest]
    return values[0]


# ---- reduce_window_sum, reduce_window_max, reduce_window_min ---------------------------


def _define_window_reduction(name: str, kinds: str, identity: Callable[[Any], Any],
                             combine: Callable[[Any], Callable[[Any, Any], Any]]) -> Primitive:
    """A reduction over windows by an associative operation.

    Args:
      name: the primitive's name.
      kinds: the accepted dtype kinds.
      identity: dtype -> the identity of the operation, also used for padding.
      combine: dtype -> a function that emits the operation on two scalars.
    """
    primitive = EnginePrimitive(name, params=WINDOWS)

    @primitive.def_abstract_eval
    def type_rule(x: Any, **params: Any) -> ShapedArray:
        check_kinds(name, x, kinds)
        return ShapedArray(windowed_shape(name, x.shape, **params), x.dtype, x.weak_type)

    @primitive.def_lowering
    def lowering(ctx: Any, x: Any, **params: Any) -> Any:
        dtype = ctx.avals_in[0].dtype
        init, emit = constant(np.asarray(identity(dtype), dtype)), combine(dtype)
        return window_ir(ctx.out_types, [x], [init], [dtype], lambda a, b: [emit(a, b)], params)

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        return primitive.bind(args[0], **batch_windows(params, dims[0])), dims[0]

    primitive.define("batch", batch, derived=True)
    return primitive


reduce_window_sum_p = _define_window_reduction(
    "reduce_window_sum", "iufc", lambda dtype: 0,
    lambda dtype: lambda a, b: combine_ir("add", a, b))


def _sum_transpose(ct: Any, x: Any, *, window_dimensions: Sizes, window_strides: Sizes,
                   padding: Padding, base_dilation: Sizes, window_dilation: Sizes) -> Any:
    pairs = transposed_padding(x.aval.shape, typeof(ct).shape, window_dimensions, window_strides,
                               padding, base_dilation, window_dilation)
    config = tuple((low, high, stride - 1)
                   for (low, high), stride in zip(pairs, window_strides, strict=True))
    ones = (1,) * x.aval.ndim
    return reduce_window_sum_p.bind(
        pad_p.bind(ct, scalar_of(typeof(ct), 0), padding_config=config),
        window_dimensions=window_dimensions, window_strides=base_dilation,
        padding=((0, 0),) * x.aval.ndim, base_dilation=ones, window_dilation=window_dilation)


define_linear(reduce_window_sum_p, _sum_transpose)


def _define_window_extremum(name: str, operation: str, identity: Callable[[Any], Any],
                            select: Primitive) -> Primitive:
    primitive = _define_window_reduction(
        name, "biufc", identity, lambda dtype: extremum_ir(operation, dtype))

    def tangent(t: Any, out: Any, x: Any, **params: Any) -> Any:
        if any(d != 1 for d in params["window_dilation"]):
            return _gather_by_slices(t, x, select, params)
        return select_and_gather_add_p.bind(t, x, select_prim=select, **params)

    define_jvp_from_result(primitive, tangent)
    return primitive


reduce_window_max_p = _define_window_extremum("reduce_window_max", "maximum", lowest, ge_p)
reduce_window_min_p = _define_window_extremum("reduce_window_min", "minimum", highest, le_p)

# ---- select_and_gather_add -------------------------------------------------------------


def _identity(select: Primitive, dtype: Any) -> Any:
    """The value that is never selected against another one."""
    return lowest(dtype) if select is ge_p else highest(dtype)


def _direction(select: Primitive) -> str:
    return "GE" if select is ge_p else "LE"


def _check_pair(name: str, x: ShapedArray, operand: ShapedArray, select: Primitive) -> None:
    check_kinds(name, operand, "biuf")
    if x.dtype != operand.dtype:
        msg = f"{name} requires operands of one dtype, got {x.dtype} and {operand.dtype}."
        raise TypeError(msg)
    if select not in (ge_p, le_p):
        msg = f"{name}: select_prim must be ge_p or le_p, got {select}."
        raise TypeError(msg)


#: The tangents at the extreme elements of an operand's windows.
select_and_gather_add_p = EnginePrimitive("select_and_gather_add", params={
    "select_prim": Primitive, **WINDOWS})


@select_and_gather_add_p.def_abstract_eval
def _gather_type(tangents: Any, operand: Any, *, select_prim: Primitive, **params: Any
                 ) -> ShapedArray:
    name = "select_and_gather_add"
    _check_pair(name, tangents, operand, select_prim)
    if tangents.shape != operand.shape:
        msg = (f"{name} requires tangents and operand of one shape, got {tangents.shape} and "
               f"{operand.shape}.")
        raise TypeError(msg)
    return ShapedArray(windowed_shape(name, operand.shape, **params), tangents.dtype)


@select_and_gather_add_p.def_lowering
def _gather_lowering(ctx: Any, tangents: Any, operand: Any, *, select_prim: Primitive,
                     **params: Any) -> Any:
    dtype = ctx.avals_in[1].dtype

    def first(a: Any, ta: Any, b: Any, tb: Any) -> list[Any]:
        wins = compare_ir(a, b, _direction(select_prim), dtype)
        return [hlo.select(wins, a, b), hlo.select(wins, ta, tb)]

    inits = [constant(np.asarray(v, dtype)) for v in (_identity(select_prim, dtype), 0)]
    return window_ir(ctx.out_types * 2, [operand, tangents], inits, [dtype] * 2, first,
                     params)[1:]


def _gather_transpose(ct: Any, tangents: Any, operand: Any, *, select_prim: Primitive,
                      base_dilation: Sizes, window_dilation: Sizes, padding: Padding,
                      **params: Any) -> Any:
    if any(d != 1 for d in window_dilation):
        msg = ("select_and_gather_add cannot be transposed for dilated windows "
               f"(window_dilation {window_dilation}). Gradients of lax.reduce_window never need "
               "that.")
        raise NotImplementedError(msg)
    shape = typeof(operand).shape
    no_edges = ((0, 0),) * len(shape)
    wide = operand
    if any(d != 1 for d in base_dilation):
        wide = spread(operand, _identity(select_prim, typeof(operand).dtype),
                      {"padding": no_edges, "base_dilation": base_dilation})
    out = select_and_scatter_add_p.bind(ct, wide, select_prim=select_prim, padding=padding,
                                        **params)
    if wide is not operand:
        out = slice_p.bind(out, start_indices=(0,) * len(shape), limit_indices=typeof(out).shape,
                           strides=base_dilation)
    return out


# The places of the extreme elements are locally constant in the operand.
define_linear(select_and_gather_add_p, _gather_transpose)


@select_and_gather_add_p.def_batch
def _gather_batch(args: Any, dims: Any, **params: Any) -> Any:
    args, dim = batched_alike(args, dims)
    return select_and_gather_add_p.bind(*args, **batch_windows(params, dim)), dim


def _gather_by_slices(tangents: Any, operand: Any, select: Primitive, params: Windows) -> Any:
    """select_and_gather_add by other operations: XLA cannot scatter to dilated windows."""

    def first(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        wins = select.bind(a[0], b[0])
        return select_n(wins, b[0], a[0]), select_n(wins, b[1], a[1])

    dtype = typeof(operand).dtype
    pair = (spread(operand, _identity(select, dtype), params),
            spread(tangents, as_settled(dtype.type(0)), params))
    for axis in reversed(range(typeof(operand).ndim)):
        cuts = along_windows(typeof(pair[0]).shape[axis], axis, params)
        pair = in_pairs(first, [(cut(pair[0]), cut(pair[1])) for cut in cuts])
    return pair[1]


# ---- select_and_scatter_add ------------------------------------------------------------

#: Adds each source element, in an array of zeros, where an operand's window is extreme.
select_and_scatter_add_p = EnginePrimitive("select_and_scatter_add", params={
    "select_prim": Primitive, "window_dimensions": Ints, "window_strides": Ints, "padding": Pairs})


def check_source(name: str, source: ShapedArray, operand: ShapedArray, params: Windows) -> None:
    """Refuses a source that does not have one element for each window of the operand."""
    places = windowed_shape(name, operand.shape, **params)
    if source.shape != places:
        msg = (f"{name}: the source must have an element for each window of the operand, so be of "
               f"shape {places}, got {source.shape}.")
        raise TypeError(msg)


@select_and_scatter_add_p.def_abstract_eval
def _scatter_type(source: Any, operand: Any, *, select_prim: Primitive, **params: Any
                  ) -> ShapedArray:
    name = "select_and_scatter_add"
    _check_pair(name, source, operand, select_prim)
    check_source(name, source, operand, params)
    return ShapedArray(operand.shape, operand.dtype)


@select_and_scatter_add_p.def_lowering
def _scatter_lowering(ctx: Any, source: Any, operand: Any, *, select_prim: Primitive,
                      **params: Any) -> Any:
    dtype = ctx.avals_in[1].dtype

    def select(a: Any, b: Any) -> list[Any]:
        return [compare_ir(a, b, _direction(select_prim), dtype)]

    aval, edges = ctx.avals_in[1], params["padding"]
    if ctx.avals_in[0].size == 0:
        return [full(0, aval)]
    # Padded here: XLA's own padding differs between platforms.
    wide = aval.update(shape=tuple(n + low + high for n, (low, high) in zip(
        aval.shape, edges, strict=True)))
    least, zero = [constant(np.asarray(v, dtype)) for v in (_identity(select_prim, dtype), 0)]
    result = select_and_scatter_ir(
        ir_type(wide), _edges_ir(wide, operand, least, edges), source, zero, dtype, select,
        lambda a, b: [hlo.add(a, b)], {**params, "padding": ((0, 0),) * aval.ndim})
    return [_edges_ir(aval, result, zero, [(-low, -high) for low, high in edges])]


def select_and_scatter_ir(out_type: Any, operand: Any, source: Any, init: Any, dtype: Any,
                          select: Callable[..., Any], scatter: Callable[..., Any],
                          params: Windows) -> Any:
    """Emits a selection of one element in each window, and a scatter to those.

    Args:
      out_type: MLIR type of the result, and of the operand.
      operand: the array to select from.
      source: the values to scatter.
      init: a scalar, the initial value of all elements of the result.
      dtype: of all of these.
      select: emits whether the first of two elements is selected.
      scatter: emits the combination of two elements that are scattered to one place.
      params: of the windows.
    """
    if not params["window_dimensions"]:
        return scatter(init, source)[0]
    result = hlo.SelectAndScatterOp(
        out_type, operand, source, init,
        window_dimensions=dense_i64(params["window_dimensions"]),
        window_strides=dense_i64(params["window_strides"]),
        padding=pairs_attr(params["padding"]))
    reducer_region(result.regions[0], [dtype], select)
    reducer_region(result.regions[1], [dtype], scatter)
    return result.result


def _edges_ir(out: ShapedArray, x: Any, value: Any, edges: Sequence[tuple[int, int]]) -> Any:
    if not any(low or high for low, high in edges):
        return x
    return pad_ir(ir_type(out), x, value, [(low, high, 0) for low, high in edges])


def _scatter_transpose(ct: Any, source: Any, operand: Any, **params: Any) -> Any:
    ones = (1,) * typeof(operand).ndim
    return select_and_gather_add_p.bind(ct, operand, base_dilation=ones, window_dilation=ones,
                                        **params)


define_linear(select_and_scatter_add_p, _scatter_transpose)


@select_and_scatter_add_p.def_batch
def _scatter_batch(args: Any, dims: Any, **params: Any) -> Any:
    args, dim = batched_alike(args, dims)
    return select_and_scatter_add_p.bind(*args, **batch_windows(params, dim)), dim


# ---- shapes ----------------------------------------------------------------------------


@boundary
def reduce_window_shape_tuple(operand_shape: Sequence[int], window_dimensions: Sequence[int],
                              window_strides: Sequence[int], padding: Any,
                              base_dilation: Sequence[int] | None = None,
                              window_dilation: Sequence[int] | None = None) -> tuple[int, ...]:
    """The shape of a reduction over windows.

    Args:
      operand_shape: shape of the operand.
      window_dimensions: as in `reduce_window`.
      window_strides: as in `reduce_window`.
      padding: as in `reduce_window`.
      base_dilation: as in `reduce_window`.
      window_dilation: as in `reduce_window`.

    Returns:
      A tuple of ints.

    Raises:
      TypeError: there is not one number for each axis.
      ValueError: the padding does not fit.

    Example:
      >>> lax.reduce_window_shape_tuple((5, 6), (3, 2), (2, 1), [(0, 0), (1, 1)])
      (2, 7)
    """
    name, shape = "reduce_window_shape_tuple", canonical_shape(operand_shape)
    params = window_params(name, shape, window_dimensions, window_strides, padding,
                           base_dilation, window_dilation)
    return windowed_shape(name, shape, **params)
