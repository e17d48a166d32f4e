"""Writing windows into an array at places that are computed: scatter and its variants.

Each combines old and new elements: scatter replaces, the others add, subtract, multiply, or take
the minimum or maximum. The rules of gather use scatter and vice versa; gather's transpose is
here, below scatter_add.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyNoDerivativeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import pickled_by
from mjax._engine.ir.schema import NO_PARAMS
from mjax._engine.ir.sizes import beyond
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import add, bitwise_or, div, eq, mul, ne, neg
from mjax._engine.primitives.comparing import extremum_ir
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import check_kinds, in_lax
from mjax._engine.primitives.emit import (
    broadcast_ir,
    full,
    hlo,
    ir,
    ir_type,
    op,
    reducer_region,
    values_ir,
)
from mjax._engine.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    check_axes,
    check_batching,
    check_indices,
    gather_p,
    widen_indices,
)
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    batch_at,
    batch_size,
    broadcast_in_dim_p,
    insert,
    moveaxis,
    reshape,
    shift_axes,
    zeros_of,
)
from mjax._engine.primitives.shapes import full as full_array
from mjax._engine.primitives.tangents import (
    add_tangents,
    aval_of,
    define_jointly_linear,
    instantiate,
    zero_tangent,
)
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero


@pickled_by("scatter_dimension_numbers_v1")
class ScatterDimensionNumbers(Record):
    """The correspondence of axes of a scatter's operand, indices and updates.

    The last axis of the indices holds index vectors; its other axes are batch axes.

    Attributes:
      update_window_dims: axes of the updates that run inside a window, increasing.
      inserted_window_dims: axes of the operand, increasing, along which windows have size 1
        and which the updates do not have.
      scatter_dims_to_operand_dims: for each component of an index vector the axis of the
        operand that it is an index of.
      operand_batching_dims: axes of the operand, increasing, that are batch axes of the
        indices as well: window `b` is written at position `b` along them.
      scatter_indices_batching_dims: the axes of the indices that these correspond to.

    Source: StableHLO `scatter`.

    Example:
      >>> numbers = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
      >>> lax.scatter_add(jnp.zeros(3), jnp.array([[2], [2]]), jnp.ones(2), numbers)
      Array([0., 0., 2.], dtype=float32)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


def window_sizes(dims: ScatterDimensionNumbers, ndim: int, updates: Sequence[int]
                 ) -> tuple[int, ...]:
    """Sizes of the windows in an operand of the given rank, for updates of this shape."""
    sizes = iter([updates[d] for d in dims.update_window_dims])
    absent = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    return tuple(1 if i in absent else next(sizes) for i in range(ndim))


# ---- shared rules ----------------------------------------------------------------------


def _check(name: str, operand: ShapedArray, indices: ShapedArray, updates: ShapedArray,
           dims: ScatterDimensionNumbers) -> None:
    window, inserted, index_map, batching, index_batching = dims
    if operand.dtype != updates.dtype:
        msg = (f"{name} requires operand and updates of one dtype, got {operand.dtype} and "
               f"{updates.dtype}; convert one of them.")
        raise TypeError(msg)
    map_name = "scatter_dims_to_operand_dims"
    check_indices(name, "scatter_indices", indices, index_map, operand, map_name)
    if updates.ndim != len(window) + indices.ndim - 1:
        msg = (f"{name}: updates of shape {updates.shape} must have {len(window)} window axes "
               f"and the {indices.ndim - 1} batch axes of the indices, of shape "
               f"{indices.shape}.")
        raise TypeError(msg)
    check_axes(name, "update_window_dims", window, updates.ndim, increasing=True)
    check_axes(name, "inserted_window_dims", inserted, operand.ndim, increasing=True)
    check_batching(name, operand, indices, batching, index_batching,
                   {"inserted_window_dims": inserted, map_name: index_map})
    if operand.ndim != len(window) + len(inserted) + len(batching):
        msg = (f"{name}: each of the {operand.ndim} axes of the operand must be one of "
               f"inserted_window_dims {inserted}, of operand_batching_dims {batching}, or have "
               f"its place in update_window_dims {window}.")
        raise TypeError(msg)
    sizes = window_sizes(dims, operand.ndim, updates.shape)
    if not _without_windows(indices) and any(
            n > size for i, (n, size) in enumerate(zip(sizes, operand.shape, strict=True))
            if i not in inserted and i not in batching):
        msg = (f"{name}: windows of sizes {sizes} must not exceed the operand, of shape "
               f"{operand.shape}.")
        raise TypeError(msg)
    batch = tuple(n for i, n in enumerate(updates.shape) if i not in window)
    if batch != indices.shape[:-1]:
        msg = (f"{name}: the batch axes of the updates have sizes {batch}, those of the indices "
               f"{indices.shape[:-1]}; they must be equal.")
        raise TypeError(msg)


def emit_scatter(ctx: Any, operand: Any, indices: Any, updates: Any, combine: Callable[..., Any],
                 *, dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool,
                 unique_indices: bool, mode: GatherScatterMode) -> Any:
    """The StableHLO of a scatter; `combine` emits the combination of two values."""
    aval, indices_aval, updates_aval = ctx.avals_in
    indices, indices_aval = widen_indices(indices, indices_aval)
    if mode is GatherScatterMode.CLIP:
        indices = _clip(indices, aval, indices_aval, updates_aval, dimension_numbers)
    window, inserted, index_map, batching, index_batching = map(list, dimension_numbers)
    dims = hlo.ScatterDimensionNumbers.get(
        update_window_dims=window, inserted_window_dims=inserted,
        scattered_dims_to_operand_dims=index_map, input_batching_dims=batching,
        scatter_indices_batching_dims=index_batching, index_vector_dim=indices_aval.ndim - 1)
    scatter = hlo.ScatterOp(ctx.out_types, [operand], indices, [updates], dims,
                            indices_are_sorted=ir.BoolAttr.get(indices_are_sorted),
                            unique_indices=ir.BoolAttr.get(unique_indices))
    reducer_region(scatter.regions[0], [aval.dtype], combine)
    return scatter.results


def _clip(indices: Any, aval: ShapedArray, indices_aval: ShapedArray, updates: ShapedArray,
          dims: ScatterDimensionNumbers) -> Any:
    """Emits indices clamped so that windows are inside; XLA's scatter, unlike gather, does not."""
    sizes = window_sizes(dims, aval.ndim, updates.shape)
    highest = int(np.iinfo(indices_aval.dtype).max)
    limits = [aval.shape[d] - sizes[d] for d in dims.scatter_dims_to_operand_dims]
    limits = [highest if beyond(n, highest) else n for n in limits]
    bound = broadcast_ir(ir_type(indices_aval), indices_aval.shape,
                         values_ir(limits, indices_aval.dtype), [indices_aval.ndim - 1])
    return op("stablehlo.clamp", [ir_type(indices_aval)],
              [full(0, indices_aval), indices, bound])[0]


def batch_scatter(primitive: Primitive, args: Any, dims: Any,
                  dimension_numbers: ScatterDimensionNumbers, params: dict[str, Any]) -> Any:
    """Leaves batch axes in place, as far as the order of axes allows it."""
    (operand, indices, updates), (dim, index_dim, update_dim) = args, dims
    window, inserted, index_map, batching, index_batching = dimension_numbers
    size = batch_size(args, dims)
    if dim is None:
        operand, dim = batch_at(operand, None, 0, size), 0
    if index_dim is not None and index_dim == typeof(indices).ndim - 1:
        indices, index_dim = moveaxis(indices, index_dim, 0), 0
    rank = typeof(updates).ndim - (update_dim is not None)
    if index_dim is None:
        # The batch is one more window axis; window axes of updates are in the operand's order.
        before = sum(d < dim and d not in inserted and d not in batching
                     for d in range(typeof(operand).ndim - 1))
        place = _place_among(window, before, update_dim, rank)
        window = insert(shift_axes(window, place), before, place)
    else:
        free = [i for i in range(rank) if i not in window]
        place = _place_among(free, index_dim, update_dim, rank)
        window = shift_axes(window, place)
        index_batching = shift_axes(index_batching, index_dim)
        params = params | {"indices_are_sorted":
                           params["indices_are_sorted"] and dim == index_dim == 0}
    inserted, index_map = shift_axes(inserted, dim), shift_axes(index_map, dim)
    nth = sum(d < dim for d in batching)
    batching = shift_axes(batching, dim)
    if index_dim is not None:
        batching = insert(batching, nth, dim)
        index_batching = insert(index_batching, nth, index_dim)
    updates = batch_at(updates, update_dim, place, size)
    out = primitive.bind(
        operand, indices, updates, dimension_numbers=ScatterDimensionNumbers(
            window, inserted, index_map, batching, index_batching), **params)
    return out, dim


def _without_windows(indices: ShapedArray) -> bool:
    """Whether a scatter writes no window. An index of no axes has a size of 0, and writes one."""
    return 0 in indices.shape[:-1]


def _place_among(axes: Sequence[int], nth: int, current: int | None, rank: int) -> int:
    """A position for a new axis as the nth of these; its current one if possible."""
    low = axes[nth - 1] + 1 if nth else 0
    high = axes[nth] if nth < len(axes) else rank
    return current if current is not None and low <= current <= high else low


def define_scatter(name: str, kinds: str, combine: Callable[..., Any],
                   more_params: Mapping[str, Any] = NO_PARAMS) -> Primitive:
    """A scatter primitive with type, lowering and batching rules.

    Args:
      name: its name.
      kinds: accepted dtype kinds.
      combine: `(ctx, old, new) -> values` emits the written values, from scalars.
      more_params: its schema, besides the params of all scatters.
    """
    primitive = EnginePrimitive(name, params={
        "dimension_numbers": ScatterDimensionNumbers, "indices_are_sorted": bool,
        "unique_indices": bool, "mode": GatherScatterMode, **more_params}, structural="X" in kinds)

    @primitive.def_abstract_eval
    def type_rule(operand: Any, indices: Any, updates: Any, *, dimension_numbers: Any,
                  indices_are_sorted: bool, unique_indices: bool, mode: Any, **params: Any
                  ) -> ShapedArray:
        check_kinds(name, operand, kinds)
        _check(name, operand, indices, updates, dimension_numbers)
        return operand

    @primitive.def_lowering
    def lowering(ctx: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
        if _without_windows(ctx.avals_in[1]):
            return [operand]
        return emit_scatter(ctx, operand, indices, updates, lambda a, b: combine(ctx, a, b),
                            **params)

    def batch(args: Any, dims: Any, *, dimension_numbers: Any, **params: Any) -> Any:
        return batch_scatter(primitive, args, dims, dimension_numbers, params)

    lowering.__wrapped__ = combine
    primitive.define("batch", batch, derived=True)
    return primitive


def _read(x: Any, indices: Any, updates: ShapedArray, params: dict[str, Any], fill_value: Any = 0
          ) -> Any:
    """Reads the windows which a scatter writes.

    Args:
      x: an array of the shape of the scatter's operand.
      indices: its indices.
      updates: the type of its updates.
      params: its params.
      fill_value: the value read for a window that is left out.
    """
    dims, mode, shape = params["dimension_numbers"], params["mode"], typeof(x).shape
    sizes = window_sizes(dims, len(shape), updates.shape)
    if any(n > size for n, size in zip(sizes, shape, strict=True)):  # no window fits
        return full_array(updates.shape, fill_value, typeof(x).dtype)
    filled = fill_value if mode is GatherScatterMode.FILL_OR_DROP else None
    return gather_p.bind(
        x, indices, dimension_numbers=GatherDimensionNumbers(*dims), slice_sizes=sizes,
        indices_are_sorted=params["indices_are_sorted"], unique_indices=params["unique_indices"],
        mode=mode, fill_value=filled)


# ---- scatter_add, scatter_sub ----------------------------------------------------------


def _define_additive(name: str, operation: str, sign: Callable[[Any], Any]) -> Primitive:
    """A scatter that is linear in operand and updates together."""

    def combine(ctx: Any, old: Any, new: Any) -> Any:
        return op(operation, [old.type], [old, new])

    primitive = define_scatter(name, "iufc", combine)
    in_one = primitive.lowerings[None]

    @primitive.def_lowering
    def lowering(ctx: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
        if ctx.avals_out[0].dtype != np.complex128 or ctx.platform in ("cpu", "tpu"):
            return in_one(ctx, operand, indices, updates, **params)
        # GPUs do not have atomic 128-bit additions: real and imaginary parts are added separately.
        part = [a.update(dtype=np.dtype(np.float64)) for a in ctx.avals_in]
        inner = ctx.replace(avals_in=[part[0], ctx.avals_in[1], part[2]], avals_out=part[:1])
        parts = [in_one(inner, f(operand), indices, f(updates), **params)[0]
                 for f in (hlo.real, hlo.imag)]
        return [hlo.complex(*parts)]

    define_jointly_linear(primitive, slice(0, None, 2))

    @primitive.def_transpose
    def transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
        updates_ct = None
        if type(updates) is UndefinedPrimal:
            updates_ct = sign(_read(ct, indices, aval_of(updates), params))
        return [ct if type(operand) is UndefinedPrimal else None, None, updates_ct]

    return primitive


scatter_add_p = _define_additive("scatter-add", "stablehlo.add", lambda ct: ct)
scatter_sub_p = _define_additive("scatter-sub", "stablehlo.subtract", neg)


@gather_p.def_transpose
def _gather_transpose(ct: Any, operand: Any, indices: Any, *, dimension_numbers: Any,
                      indices_are_sorted: bool, unique_indices: bool, mode: Any, **params: Any
                      ) -> Any:
    out = scatter_add_p.bind(
        zeros_of(operand.aval.strip_weak_type()), indices, ct,
        dimension_numbers=ScatterDimensionNumbers(*dimension_numbers),
        indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode)
    return [out, None]


# ---- scatter ---------------------------------------------------------------------------

scatter_p = define_scatter("scatter", "biufcX", lambda ctx, old, new: [new])


@scatter_p.def_jvp
def _scatter_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand, indices, updates = primals
    if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
        out = scatter_p.bind(operand, indices, updates, **params)
        return out, zero_tangent(out)
    operand_dot, updates_dot = instantiate(tangents[0]), instantiate(tangents[2])
    if params["unique_indices"]:
        return (scatter_p.bind(operand, indices, updates, **params),
                scatter_p.bind(operand_dot, indices, updates_dot, **params))
    # The winner among overlapping windows is unspecified, so value and tangent must come from
    # one decision. Scatter the numbers of the updates, then mask operand and updates by the
    # winners. The sum of both is the result.
    ids = _window_numbers(updates, params["dimension_numbers"])
    none = full_array(typeof(operand).shape, 0, np.uint32)
    stayed = scatter_p.bind(none, indices, ids, **params)
    kept = eq(stayed, none)
    won = eq(ids, _read(stayed, indices, typeof(updates), params))

    def combine(x: Any, u: Any) -> Any:
        x = select_n(kept, zeros_of(typeof(x).strip_weak_type()), x)
        u = select_n(won, zeros_of(typeof(u).strip_weak_type()), u)
        return scatter_add_p.bind(x, indices, u, **params)

    return combine(operand, updates), combine(operand_dot, updates_dot)


def _window_numbers(updates: Any, dims: ScatterDimensionNumbers) -> Any:
    """An array like the updates whose elements are their window's number, from 1 on."""
    shape = typeof(updates).shape
    batch = tuple(i for i in range(len(shape)) if i not in dims.update_window_dims)
    sizes = tuple(shape[i] for i in batch)
    count = int(np.prod(sizes, dtype=object))
    numbers = broadcast_in_dim_p.bind(np.uint32(1), shape=(count,), broadcast_dimensions=())
    numbers = reshape(add(iota(np.uint32, count), numbers), sizes)
    return broadcast_in_dim_p.bind(numbers, shape=shape, broadcast_dimensions=batch)


@scatter_p.def_transpose
def _scatter_transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
    if not params["unique_indices"]:
        msg = ("scatter can be transposed only if no two windows overlap, which is promised by "
               "unique_indices=True. (Gradients need no such promise.)")
        raise NotImplementedError(msg)
    operand_ct = updates_ct = None
    updates_aval = aval_of(updates)
    if type(operand) is UndefinedPrimal:
        zeros = zeros_of(updates_aval.update(dtype=typeof(ct).dtype, weak_type=False))
        operand_ct = scatter_p.bind(ct, indices, zeros, **params)
    if type(updates) is UndefinedPrimal:
        updates_ct = _read(ct, indices, updates_aval, params)
    return [operand_ct, None, updates_ct]


# ---- scatter_mul -----------------------------------------------------------------------

scatter_mul_p = define_scatter("scatter-mul", "iufc",
                               lambda ctx, old, new: [hlo.multiply(old, new)])


@scatter_mul_p.def_jvp
def _scatter_mul_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand, indices, updates = primals
    out = scatter_mul_p.bind(operand, indices, updates, **params)
    tangent = zero_tangent(out)
    if type(tangents[0]) is not Zero:
        tangent = scatter_mul_p.bind(tangents[0], indices, updates, **params)
    if type(tangents[2]) is not Zero:
        if not params["unique_indices"]:
            msg = ("scatter_mul has a derivative with respect to the updates only if no two "
                   "windows overlap; if that is so, promise it by unique_indices=True.")
            raise LazyNoDerivativeError(msg)
        nothing = zeros_of(typeof(operand).strip_weak_type())
        factor = scatter_add_p.bind(nothing, indices, tangents[2], **params)
        tangent = add_tangents(tangent, mul(operand, factor))
    return out, tangent


@scatter_mul_p.def_transpose
def _scatter_mul_transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any
                           ) -> Any:
    if type(updates) is UndefinedPrimal:
        msg = ("scatter_mul is linear in its operand but not in the updates: elements that are "
               "not written do not depend on them.")
        raise NotImplementedError(msg)
    return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]


# ---- scatter_min, scatter_max ----------------------------------------------------------


def _extremum(name: str) -> Callable[..., Any]:
    return lambda ctx, old, new: [extremum_ir(
        name, old, new, ShapedArray((), ctx.avals_in[0].dtype))]


def _define_extremal_jvp(primitive: Primitive) -> None:
    """The tangent is the mean over all values equal to the result, as for `max`."""

    @primitive.def_jvp
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        operand, indices, updates = primals
        out = primitive.bind(operand, indices, updates, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, zero_tangent(out)
        dtype, updates_aval = typeof(out).dtype, typeof(updates)
        result = _read(out, indices, updates_aval, params, np.nan)
        won = convert(eq(updates, result), dtype)
        # NaN is unequal to itself: the operand stays the winner if no update reached it.
        stayed = convert(bitwise_or(eq(operand, out), ne(out, out)), dtype)
        winners = scatter_add_p.bind(stayed, indices, won, **params)
        won = div(won, _read(winners, indices, updates_aval, params, 1))
        operand_dot = mul(instantiate(tangents[0]), div(stayed, winners))
        updates_dot = mul(instantiate(tangents[2]), won)
        return out, scatter_add_p.bind(operand_dot, indices, updates_dot, **params)


scatter_min_p = define_scatter("scatter-min", "biufc", _extremum("minimum"))
scatter_max_p = define_scatter("scatter-max", "biufc", _extremum("maximum"))
_define_extremal_jvp(scatter_min_p)
_define_extremal_jvp(scatter_max_p)

# ---- public functions ------------------------------------------------------------------

ARGUMENTS = """

    Args:
      operand: array.
      scatter_indices: integer array; its last axis holds the index vectors, each the lowest
        corner of a window.
      {updates}dimension_numbers: which axes of operand, indices and updates belong together.
      {more}indices_are_sorted: a promise that the index vectors increase lexicographically.
      unique_indices: a promise that no two windows overlap; results are undefined if they do.
      mode: what happens to windows that are not entirely inside: `"drop"` (the default),
        `"clip"` or `"promise_in_bounds"`; see `GatherScatterMode`.

    Returns:
      An array of the operand's shape and dtype.

    Raises:
      TypeError: the dimension numbers, shapes and dtypes do not fit.
      ValueError: the indices are not integers, or the mode is unknown.

    Source: StableHLO `scatter`.

    Example:
      >>> dims = lax.ScatterDimensionNumbers((), (0,), (0,))
      >>> x, i = jnp.array([5, 6, 7]), jnp.array([[2], [0]])
      >>> lax.{example}
"""


def _public(primitive: Primitive, name: str, summary: str, result: str) -> Any:
    """The public function of a scatter primitive."""

    def function(operand: Any, scatter_indices: Any, updates: Any,
                 dimension_numbers: ScatterDimensionNumbers, *,
                 indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: str | GatherScatterMode | None = None) -> Any:
        return primitive.bind(
            operand, scatter_indices, updates, dimension_numbers=dimension_numbers,
            indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
            mode=scatter_mode(mode))

    return boundary(in_lax(function, name, inspect.cleandoc(summary + ARGUMENTS.format(
        updates="updates: array of the operand's dtype.\n      ", more="",
        example=f"{name}(x, i, jnp.array([2, 3]), dims)\n      Array({result}, dtype=int32)"))))


def scatter_mode(mode: str | GatherScatterMode | None) -> GatherScatterMode:
    """The mode that a scatter's `mode` argument stands for.

    Raises:
      ValueError: the argument is invalid.
    """
    mode = GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.ONE_HOT:
        msg = "scatter has no mode 'one_hot'; use 'drop', 'clip' or 'promise_in_bounds'."
        raise ValueError(msg)
    return mode


scatter = _public(scatter_p, "scatter", """
    Writes windows into an array at computed places. The winner among overlapping windows is
    not specified.""", "[3, 6, 2]")
scatter_add = _public(scatter_add_p, "scatter_add", """
    Adds windows to an array at computed places. Overlapping windows are all added.""",
    "[8, 6, 9]")
scatter_sub = _public(scatter_sub_p, "scatter_sub", """
    Subtracts windows from an array at computed places. Overlapping windows are all
    subtracted.""", "[2, 6, 5]")
scatter_mul = _public(scatter_mul_p, "scatter_mul", """
    Multiplies an array by windows at computed places. Overlapping windows are all
    multiplied.""", "[15,  6, 14]")
scatter_min = _public(scatter_min_p, "scatter_min", """
    Takes the minimum of old elements and of windows at computed places.""", "[3, 6, 2]")
scatter_max = _public(scatter_max_p, "scatter_max", """
    Takes the maximum of old elements and of windows at computed places.""", "[5, 6, 7]")
