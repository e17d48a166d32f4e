"""Products in groups of rows: ragged_dot_general, and ragged_dot made of it.

One axis of the lhs, the ragged one, consists of consecutive groups whose sizes are known at run
time. If it is a free axis, each group is multiplied by its own matrix; the rhs stacks these
matrices along an axis. If it is contracted, each group has its own product. These two are each
other's derivatives. Elements outside all groups count as zero.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.cumulative import cumsum_p
from mjax._engine.primitives.dot import (
    DimensionNumbers,
    check_paired,
    dot_general_p,
    free_axes,
    no_tangents_of_integers,
    result_dtype,
)
from mjax._engine.primitives.elementwise import stretch
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.precision import canonical_precision
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    batch_size,
    batch_to_front,
    broadcast_in_dim_p,
    moveaxis,
    scalar_of,
    shift_axes,
    transpose,
)
from mjax._engine.primitives.tangents import ZERO, define_jvp
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import UndefinedPrimal


@pickled_by("ragged_dot_dimension_numbers_v1")
class RaggedDotDimensionNumbers(Record):
    """The roles of the axes of the operands of a product in groups.

    Attributes:
      dot_dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, as
        in `dot_general`.
      lhs_ragged_dimensions: the one axis of the lhs that is divided into groups.
      rhs_group_dimensions: the one axis along which the rhs has a matrix for each group, if the
        ragged axis is neither contracted nor a batch axis; else empty.

    Example:
      >>> from mjax import lax
      >>> numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
      >>> lax.ragged_dot_general(jnp.ones((3, 2)), jnp.ones((2, 2, 1)), jnp.array([1, 2]), numbers)
      Array([[2.],
             [2.],
             [2.]], dtype=float32)
    """

    dot_dimension_numbers: DimensionNumbers
    lhs_ragged_dimensions: tuple[int, ...]
    rhs_group_dimensions: tuple[int, ...]


_NAME = "ragged_dot_general"
ragged_dot_general_p = EnginePrimitive(_NAME, params={
    "ragged_dot_dimension_numbers": RaggedDotDimensionNumbers, "precision": Any,
    "preferred_element_type": AnyDType | None})

# ---- type ------------------------------------------------------------------------------


def _kind_of(numbers: RaggedDotDimensionNumbers) -> str:
    """The role of the ragged axis: `"free"`, `"contracting"` or `"batch"`."""
    (lc, _), (lb, _) = numbers.dot_dimension_numbers
    ragged, = numbers.lhs_ragged_dimensions
    return "contracting" if ragged in lc else "batch" if ragged in lb else "free"


@ragged_dot_general_p.def_abstract_eval
def _ragged_type(lhs: Any, rhs: Any, group_sizes: Any, *,
                 ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any,
                 preferred_element_type: Any) -> ShapedArray:
    numbers = ragged_dot_dimension_numbers
    _check_numbers(lhs, rhs, numbers)
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    _check_sizes(lhs, rhs, group_sizes, numbers)
    group = numbers.rhs_group_dimensions
    free = [lhs.shape[i] for i in free_axes(lhs.ndim, lc, lb)]
    free += [rhs.shape[i] for i in free_axes(rhs.ndim, (*rc, *group), rb)]
    shape = (*[lhs.shape[i] for i in lb], *free)
    if _kind_of(numbers) == "contracting":
        shape = (group_sizes.shape[-1], *shape)
    return ShapedArray(shape, result_dtype(lhs.dtype, rhs.dtype, preferred_element_type),
                       lhs.weak_type and rhs.weak_type and group_sizes.weak_type)


def _check_numbers(lhs: ShapedArray, rhs: ShapedArray, numbers: RaggedDotDimensionNumbers
                   ) -> None:
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    ragged, group = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    for side, aval, named in (("lhs", lhs, (*lc, *lb)), ("rhs", rhs, (*rc, *rb, *group))):
        if len(set(named)) != len(named) or any(not 0 <= i < aval.ndim for i in named):
            msg = (f"{_NAME}: the axes {named} of the {side}, of shape {aval.shape}, that "
                   f"{numbers} names must be distinct and among its axes.")
            raise TypeError(msg)
    if len(ragged) != 1 or not 0 <= ragged[0] < lhs.ndim:
        msg = f"{_NAME}: lhs_ragged_dimensions {ragged} must be one axis of shape {lhs.shape}."
        raise TypeError(msg)
    kind = _kind_of(numbers)
    if len(group) != (kind == "free"):
        wanted = "one axis" if kind == "free" else "none"
        msg = (f"{_NAME}: rhs_group_dimensions {group} must be {wanted}, since the ragged axis of "
               f"the lhs, {ragged[0]}, is a {kind} one.")
        raise TypeError(msg)


def _check_sizes(lhs: ShapedArray, rhs: ShapedArray, group_sizes: ShapedArray,
                 numbers: RaggedDotDimensionNumbers) -> None:
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    for role, left, right in (("contracting", lc, rc), ("batch", lb, rb)):
        check_paired(_NAME, role, lhs, rhs, left, right)
    if not dtypes.is_integer(group_sizes.dtype):
        msg = f"{_NAME}: group_sizes must be integers, not {group_sizes.dtype}."
        raise TypeError(msg)
    batch = tuple(lhs.shape[i] for i in lb)
    if not group_sizes.shape or group_sizes.shape[:-1] not in ((), batch):
        msg = (f"{_NAME}: group_sizes must be a vector, or one for each element of the batch, of "
               f"shape {(*batch, 'g')}; got shape {group_sizes.shape}.")
        raise TypeError(msg)
    count = group_sizes.shape[-1]
    for axis in numbers.rhs_group_dimensions:
        if rhs.shape[axis] != count:
            msg = (f"{_NAME}: axis {axis} of the rhs, of shape {rhs.shape}, must have an element "
                   f"for each of the {count} groups of group_sizes.")
            raise TypeError(msg)


# ---- lowering --------------------------------------------------------------------------


def _in_groups(lhs: Any, group_sizes: Any, numbers: RaggedDotDimensionNumbers) -> Any:
    """The lhs once for each group, along a new first axis, with zeros for the other groups."""
    (_, _), (lb, _) = numbers.dot_dimension_numbers
    ragged, = numbers.lhs_ragged_dimensions
    if typeof(group_sizes).dtype.itemsize < 4:
        group_sizes = convert(group_sizes, np.dtype(np.int32))
    sizes, aval = typeof(group_sizes), typeof(lhs)
    shape = (sizes.shape[-1], *aval.shape)
    ends = cumsum_p.bind(group_sizes, axis=sizes.ndim - 1, reverse=False)
    # Axes of the sizes: (batch ..., group); batch axes in the order in which the lhs has them.
    places = [i + 1 for i in lb] if sizes.ndim > 1 else []
    order = [sizes.ndim - 1, *np.argsort(places).tolist()]
    starts, ends = [broadcast_in_dim_p.bind(
        transpose(v, order), shape=shape, broadcast_dimensions=(0, *sorted(places)))
        for v in (lax.sub(ends, group_sizes), ends)]
    index = broadcasted_iota(sizes.dtype, shape, ragged + 1)
    inside = lax.bitwise_and(lax.le(starts, index), lax.lt(index, ends))
    copies = broadcast_in_dim_p.bind(lhs, shape=shape,
                                     broadcast_dimensions=tuple(range(1, len(shape))))
    zeros = stretch(scalar_of(aval, 0), shape)
    return select_n(inside, zeros, copies)


def _by_masks(lhs: Any, rhs: Any, group_sizes: Any, *,
              ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, **params: Any) -> Any:
    numbers = ragged_dot_dimension_numbers
    kind = _kind_of(numbers)
    if kind == "batch":
        return dot_general_p.bind(lhs, rhs, dimension_numbers=numbers.dot_dimension_numbers,
                                  **params)
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    lc, lb = shift_axes(lc, 0), shift_axes(lb, 0)
    if kind == "free":
        lc, rc = (0, *lc), (*numbers.rhs_group_dimensions, *rc)
    out = dot_general_p.bind(_in_groups(lhs, group_sizes, numbers), rhs,
                             dimension_numbers=((lc, rc), (lb, rb)), **params)
    return moveaxis(out, len(lb), 0) if kind == "contracting" else out


ragged_dot_general_p.def_lowering(traced(_by_masks))

# ---- derivatives -----------------------------------------------------------------------


define_jvp(
    ragged_dot_general_p,
    lambda t, lhs, rhs, sizes, **params: ragged_dot_general_p.bind(t, rhs, sizes, **params),
    lambda t, lhs, rhs, sizes, **params: ragged_dot_general_p.bind(lhs, t, sizes, **params), ZERO)
no_tangents_of_integers(ragged_dot_general_p)


@ragged_dot_general_p.def_transpose
def _ragged_transpose(ct: Any, lhs: Any, rhs: Any, group_sizes: Any, *,
                      ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any,
                      preferred_element_type: Any) -> Any:
    numbers = ragged_dot_dimension_numbers
    left = type(lhs) is UndefinedPrimal
    unknown, known = (lhs.aval, rhs) if left else (rhs.aval, lhs)
    axes = _Axes.of(lhs.aval if left else typeof(lhs), typeof(rhs) if left else rhs.aval, numbers)
    if type(precision) is tuple and _known_first(left, numbers):
        precision = precision[::-1]
    out, order = _product_with_cotangent(ct, known, group_sizes, axes, left, _kind_of(numbers), {
        "precision": precision, "preferred_element_type": preferred_element_type})
    # `order` says which axis of the unknown operand each axis of the product is.
    out = convert(transpose(out, np.argsort(order).tolist()), unknown.dtype)
    return [out, None, None] if left else [None, out, None]


def _known_first(left: bool, numbers: RaggedDotDimensionNumbers) -> bool:
    """Whether a transpose has an operand on the other side than the product."""
    return left and _kind_of(numbers) == "contracting"


class _Axes(Record):
    """The axes of the operands by part, as tuples, and of the product as counts."""

    lc: tuple[int, ...]
    rc: tuple[int, ...]
    lb: tuple[int, ...]
    rb: tuple[int, ...]
    lf: tuple[int, ...]
    rf: tuple[int, ...]
    ragged: int
    group: tuple[int, ...]

    @staticmethod
    def of(lhs: ShapedArray, rhs: ShapedArray, numbers: RaggedDotDimensionNumbers) -> _Axes:
        (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
        group = numbers.rhs_group_dimensions
        return _Axes(lc, rc, lb, rb, tuple(free_axes(lhs.ndim, lc, lb)),
                     tuple(free_axes(rhs.ndim, (*rc, *group), rb)),
                     numbers.lhs_ragged_dimensions[0], group)

    def of_product(self, first: int) -> tuple[tuple[int, ...], ...]:
        """Its batch axes and its free axes of lhs and rhs, if batch axes begin at `first`."""
        stops = np.cumsum([first, len(self.lb), len(self.lf), len(self.rf)]).tolist()
        return tuple(tuple(range(a, b)) for a, b in itertools.pairwise(stops))


def _product(lhs: Any, rhs: Any, group_sizes: Any, contracting: Any, batch: Any, ragged: int,
             group: tuple[int, ...], params: dict[str, Any]) -> Any:
    return ragged_dot_general_p.bind(
        lhs, rhs, group_sizes, ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(
            (contracting, batch), (ragged,), group), **params)


def _paired(axes: Sequence[int], by: Sequence[int]) -> list[int]:
    """The axes, sorted by the axes that they are paired with."""
    return [axes[i] for i in np.argsort(by)]


def _product_with_cotangent(ct: Any, known: Any, sizes: Any, axes: _Axes, left: bool, kind: str,
                            params: dict[str, Any]) -> Any:
    """The cotangent of an operand as a product, and the operand's axis for each of its axes."""
    contracting = kind == "contracting"
    b, m, n = axes.of_product(1 if contracting else 0)
    if not left:
        out = _product(known, ct, sizes, (axes.lf, m), (axes.lb, b), axes.ragged,
                       (0,) if contracting else (), params)
        return out, [*axes.group, *axes.rb, *_paired(axes.rc, axes.lc), *axes.rf]
    if contracting:
        ragged = axes.rc[axes.lc.index(axes.ragged)]
        out = _product(known, ct, sizes, (axes.rf, n), (axes.rb, b), ragged, (0,), params)
        return out, [*axes.lb, *_paired(axes.lc, axes.rc), *axes.lf]
    # The rows of the cotangent, in the same groups, by the same matrices.
    ragged = (b if kind == "batch" else m)[
        (axes.lb if kind == "batch" else axes.lf).index(axes.ragged)]
    out = _product(ct, known, sizes, (n, axes.rf), (b, axes.rb), ragged, axes.group, params)
    return out, [*axes.lb, *axes.lf, *_paired(axes.lc, axes.rc)]


# ---- batching --------------------------------------------------------------------------


@ragged_dot_general_p.def_batch
def _ragged_batch(args: Any, dims: Any, *,
                  ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, **params: Any) -> Any:
    numbers = ragged_dot_dimension_numbers
    (lhs, rhs, sizes), (left, right, groups) = args, dims
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    ragged, group = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    size = batch_size(args, dims)
    own_sizes = groups is not None or typeof(sizes).ndim > 1
    both = own_sizes or (left is not None and right is not None)
    # If one operand alone is batched, the batch is its first free axis.
    dim = (0 if both else len(lb) if right is None
           else len(lb) + len(free_axes(typeof(lhs).ndim, lc, lb)))
    if own_sizes:
        batch = [typeof(rhs).shape[i + (right is not None and i >= right)] for i in rb]
        sizes = _sizes_of_batch(batch_to_front(sizes, groups, size), batch)
    if both or left is not None:
        lhs = batch_to_front(lhs, left, size)
        lc, lb, ragged = shift_axes(lc, 0), shift_axes(lb, 0), shift_axes(ragged, 0)
    if both or right is not None:
        rhs = batch_to_front(rhs, right, size)
        rc, rb, group = shift_axes(rc, 0), shift_axes(rb, 0), shift_axes(group, 0)
    if both:
        lb, rb = (0, *lb), (0, *rb)
    out = ragged_dot_general_p.bind(
        lhs, rhs, sizes, ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(
            ((lc, rc), (lb, rb)), ragged, group), **params)
    return out, dim + (_kind_of(numbers) == "contracting")


def _sizes_of_batch(sizes: Any, batch: Sequence[int]) -> Any:
    """Group sizes, whose first axis is a new batch axis, with all older batch axes behind it."""
    shape = typeof(sizes).shape
    if len(shape) == len(batch) + 2:
        return sizes
    return broadcast_in_dim_p.bind(sizes, shape=(shape[0], *batch, shape[-1]),
                                   broadcast_dimensions=(0, len(batch) + 1))


# ---- printing --------------------------------------------------------------------------

ragged_dot_general_p.def_pretty(lambda params: {k: v for k, v in params.items() if v is not None})

# ---- public functions ------------------------------------------------------------------


@boundary
def ragged_dot_general(lhs: Any, rhs: Any, group_sizes: Any, ragged_dot_dimension_numbers: Any,
                       precision: Any = None, preferred_element_type: Any = None,
                       group_offset: None = None) -> Any:
    """Multiplies two arrays and sums over pairs of axes, in groups along an axis of the lhs.

    Args:
      lhs: array. Its ragged axis consists of consecutive groups.
      rhs: array.
      group_sizes: the sizes of the `g` groups along the ragged axis: integers of shape `(g,)`,
        or `(..., g)` with an axis for each batch axis. Elements after the last group count
        as 0.
      ragged_dot_dimension_numbers: a `RaggedDotDimensionNumbers`. If the ragged axis is
        contracted, each group has its own product. If it is free, each group is multiplied by
        its own part of the rhs, along the rhs's group axis. If it is a batch axis, groups
        do not change the result.
      precision: as in `dot_general`.
      preferred_element_type: as in `dot_general`.
      group_offset: not supported.

    Returns:
      An array whose axes are those of `dot_general`, after one of size `g` if the ragged axis is
      contracted.

    Raises:
      TypeError: axes, sizes or dtypes do not fit.
      NotImplementedError: a `group_offset` is given.

    Example:
      >>> numbers = mjax.lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
      >>> x, y = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 10.0, 100.0])
      >>> mjax.lax.ragged_dot_general(x, y, jnp.array([1, 2]), numbers)
      Array([  1., 320.], dtype=float32)
    """
    if group_offset is not None:
        msg = f"{_NAME} does not support group_offset; pass the rhs of all groups."
        raise NotImplementedError(msg)
    ((lc, rc), (lb, rb)), ragged, group = ragged_dot_dimension_numbers
    numbers = RaggedDotDimensionNumbers(((_axes(lc), _axes(rc)), (_axes(lb), _axes(rb))),
                                        _axes(ragged), _axes(group))
    preferred = (None if preferred_element_type is None
                 else dtypes.asked_dtype(preferred_element_type, "ragged_dot_general"))
    return ragged_dot_general_p.bind(
        lhs, rhs, group_sizes, ragged_dot_dimension_numbers=numbers,
        precision=canonical_precision(precision), preferred_element_type=preferred)


def _axes(axes: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(operator.index, axes))


@boundary
def ragged_dot(lhs: Any, rhs: Any, group_sizes: Any, precision: Any = None,
               preferred_element_type: Any = None, group_offset: None = None) -> Any:
    """Multiplies groups of rows, each by its own matrix.

    Args:
      lhs: array of shape `(m, k)`.
      rhs: array of shape `(g, k, n)`: a matrix for each group.
      group_sizes: integers of shape `(g,)`: the number of rows of each group. Rows after the last
        group count as 0.
      precision: as in `dot_general`.
      preferred_element_type: as in `dot_general`.
      group_offset: not supported.

    Returns:
      An array of shape `(m, n)`.

    Raises:
      TypeError: shapes or dtypes do not fit.
      NotImplementedError: a `group_offset` is given.

    Example:
      >>> x = jnp.array([[1.0], [2.0], [3.0]])
      >>> mjax.lax.ragged_dot(x, jnp.array([[[1.0]], [[10.0]]]), jnp.array([1, 2]))
      Array([[ 1.],
             [20.],
             [30.]], dtype=float32)
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,)),
        precision, preferred_element_type, group_offset)
