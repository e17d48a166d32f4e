"""Products that contract axes: dot_general; dot and batch_matmul, built on it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.convert import convert, convert_ir
from mjax._engine.primitives.emit import hlo, ir_type
from mjax._engine.primitives.precision import (
    algorithm_attr,
    algorithm_facts,
    canonical_precision,
    precision_attr,
)
from mjax._engine.primitives.shapes import shift_axes, transpose
from mjax._engine.primitives.tangents import define_bilinear, zero_tangent
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive

#: ((contracting axes of lhs, of rhs), (batch axes of lhs, of rhs))
DimensionNumbers = tuple[tuple[tuple[int, ...], tuple[int, ...]],
                         tuple[tuple[int, ...], tuple[int, ...]]]

#: The values that `dimension_numbers` arguments take.
DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]],
                            tuple[Sequence[int], Sequence[int]]]

dot_general_p = EnginePrimitive("dot_general", params={
    "dimension_numbers": DotDimensionNumbers, "precision": Any,
    "preferred_element_type": AnyDType | None})

# ---- type ------------------------------------------------------------------------------


@dot_general_p.def_abstract_eval
def _dot_general_type(lhs: Any, rhs: Any, *, dimension_numbers: DimensionNumbers, precision: Any,
                      preferred_element_type: Any) -> ShapedArray:
    return ShapedArray(product_shape(lhs, rhs, dimension_numbers),
                       result_dtype(lhs.dtype, rhs.dtype, preferred_element_type),
                       lhs.weak_type and rhs.weak_type)


def product_shape(lhs: ShapedArray, rhs: ShapedArray, dimension_numbers: DimensionNumbers
                  ) -> tuple[int, ...]:
    """The shape of a product; refuses axes that do not fit."""
    (lc, rc), (lb, rb) = dimension_numbers
    _check_axes("lhs", lhs, lc, lb)
    _check_axes("rhs", rhs, rc, rb)
    check_paired("dot_general", "contracting", lhs, rhs, lc, rc)
    check_paired("dot_general", "batch", lhs, rhs, lb, rb)
    return (*(lhs.shape[i] for i in lb), *(lhs.shape[i] for i in free_axes(lhs.ndim, lc, lb)),
            *(rhs.shape[i] for i in free_axes(rhs.ndim, rc, rb)))


def _check_axes(side: str, aval: ShapedArray, contracting: Sequence[int], batch: Sequence[int]
                ) -> None:
    named = (*contracting, *batch)
    if any(not 0 <= axis < aval.ndim for axis in named):
        what = "not among its axes"
    elif len(set(named)) != len(named):
        what = "not distinct"
    else:
        return
    msg = (f"dot_general: the contracting axes {contracting} and batch axes {batch} of the {side}, "
           f"of shape {aval.shape}, are {what}.")
    raise TypeError(msg)


def check_paired(name: str, role: str, lhs: ShapedArray, rhs: ShapedArray, left: Sequence[int],
                 right: Sequence[int]) -> None:
    """Refuses pairs of axes of the operands of a product that differ in number or in size."""
    if len(left) != len(right):
        msg = (f"{name}: lhs and rhs need equal numbers of {role} axes, got {left} and "
               f"{right}.")
        raise TypeError(msg)
    for i, j in zip(left, right, strict=True):
        if lhs.shape[i] != rhs.shape[j]:
            msg = (f"{name}: {role} axes must have equal sizes, but axis {i} of the lhs, of "
                   f"shape {lhs.shape}, has size {lhs.shape[i]} and axis {j} of the rhs, of shape "
                   f"{rhs.shape}, has size {rhs.shape[j]}.")
            raise TypeError(msg)


def result_dtype(lhs: Any, rhs: Any, preferred: Any) -> Any:
    """The dtype of a product: the preferred one, else the more precise operand's.

    Raises:
      TypeError: the preferred dtype is narrower than the operands', which are not real floats.
    """
    if "X" in (dtypes.kind(lhs), dtypes.kind(rhs)):
        msg = f"dot_general needs numeric or boolean operands, got {lhs} and {rhs}."
        raise TypeError(msg)
    natural = max(lhs, rhs, key=_rank)
    if preferred is None:
        return natural
    if not dtypes.is_float(natural) and _rank(preferred)[3] < _rank(natural)[3]:
        msg = (f"dot_general: preferred_element_type {preferred} is narrower than {natural}, the "
               "dtype of the product; convert the result instead.")
        raise TypeError(msg)
    return preferred


def _rank(dtype: Any) -> tuple[int, int, int, int, int]:
    """Orders dtypes: complex, range and precision of floats, width, signedness (XLA's order)."""
    is_complex, dtype = dtypes.is_complex(dtype), dtypes.real_dtype(dtype)
    width = 1 if dtype == np.bool_ else 8 * dtype.itemsize
    if not dtypes.is_float(dtype):
        if dtypes.is_integer(dtype):
            width = ml_dtypes.iinfo(dtype).bits
        return is_complex, -1, -1, width, dtypes.kind(dtype) == "i"
    info = ml_dtypes.finfo(dtype)
    return is_complex, info.maxexp, info.nmant, info.bits, 0


def free_axes(ndim: int, contracting: Sequence[int], batch: Sequence[int]) -> list[int]:
    """The axes that are neither contracted nor batch axes, in order."""
    return [i for i in range(ndim) if i not in contracting and i not in batch]


# ---- lowering --------------------------------------------------------------------------


@dot_general_p.def_lowering
def _dot_general_lowering(ctx: Any, lhs: Any, rhs: Any, *, dimension_numbers: DimensionNumbers,
                          precision: Any, preferred_element_type: Any) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    out = ctx.avals_out[0]
    facts = algorithm_facts(precision, ctx.platform)
    stored = [_storage(a.dtype, ctx.avals_in, out, facts) for a in ctx.avals_in]
    lhs, rhs = [v if a.dtype == d else convert_ir(v, a, d)
                for v, a, d in zip((lhs, rhs), ctx.avals_in, stored, strict=True)]
    computed, algorithm = out, None
    if facts is not None:
        if facts.algorithm.accumulation_type is not None:
            computed = out.update(dtype=np.dtype(facts.algorithm.accumulation_type))
        algorithm = algorithm_attr(facts.algorithm, stored, computed.dtype)
    elif dtypes.is_complex(stored[0]) and not dtypes.is_complex(out.dtype):
        computed = out.update(dtype=stored[0])  # XLA does not fold products with a real result
    result = hlo.DotGeneralOp(
        ir_type(computed), lhs, rhs, hlo.DotDimensionNumbers.get(lb, rb, lc, rc),
        precision_config=precision_attr(precision), algorithm=algorithm).result
    return [result if computed is out else convert_ir(result, computed, out.dtype)]


def _storage(dtype: Any, avals: Any, out: ShapedArray, facts: Any) -> Any:
    """The dtype in which the operation takes an operand."""
    if facts is not None and facts.storage is not None:
        return dtype if dtype in facts.storage else facts.storage[0]
    # XLA multiplies different dtypes only where all are 8-bit floats.
    if avals[0].dtype == avals[1].dtype or all(a.dtype.name.startswith("float8") for a in avals):
        return dtype
    return out.dtype


# ---- derivatives -----------------------------------------------------------------------


def _transpose_left(ct: Any, x: Any, y: Any, *, dimension_numbers: DimensionNumbers,
                    precision: Any, preferred_element_type: Any, swapped: bool = False) -> Any:
    """The cotangent of x in `x . y`, where y is known (in `y . x` if swapped).

    The cotangent's axes are (batch, free of x, free of y), the latter two exchanged if
    swapped. Contracting it with y over y's free axes leaves (batch, free of x, contracted of
    y), which are x's axes in another order.
    """
    (xc, yc), (xb, yb) = dimension_numbers
    y_aval = typeof(y)
    x_free, y_free = free_axes(x.aval.ndim, xc, xb), free_axes(y_aval.ndim, yc, yb)
    start = len(xb) + (0 if swapped else len(x_free))
    ct_y = tuple(range(start, start + len(y_free)))
    product = dot_general_p.bind(
        ct, y, dimension_numbers=((ct_y, tuple(y_free)), (tuple(range(len(xb))), yb)),
        precision=precision, preferred_element_type=preferred_element_type)
    x_axes = [*xb, *x_free, *(xc[i] for i in np.argsort(yc))]
    return convert(transpose(product, np.argsort(x_axes).tolist()), x.aval.dtype)


def _transpose_right(ct: Any, x: Any, y: Any, *, dimension_numbers: DimensionNumbers,
                     precision: Any, preferred_element_type: Any) -> Any:
    (xc, yc), (xb, yb) = dimension_numbers
    if type(precision) is tuple:
        precision = precision[::-1]
    return _transpose_left(ct, y, x, dimension_numbers=((yc, xc), (yb, xb)), precision=precision,
                           preferred_element_type=preferred_element_type, swapped=True)


def no_tangents_of_integers(product: Primitive) -> None:
    """Extends the jvp rule of a product to results that `preferred_element_type` makes integers."""
    of_floats: Any = product.jvp

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        preferred = params["preferred_element_type"]
        if preferred is None or dtypes.is_inexact(preferred):
            return of_floats(primals, tangents, **params)
        out = product.bind(*primals, **params)
        return out, zero_tangent(out)

    product.def_jvp(jvp)


define_bilinear(dot_general_p, _transpose_left, _transpose_right)
no_tangents_of_integers(dot_general_p)

# ---- batching --------------------------------------------------------------------------


@dot_general_p.def_batch
def _dot_general_batch(args: Any, dims: Any, *, dimension_numbers: DimensionNumbers,
                       **params: Any) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    left, right = dims
    if left is not None:
        lc, lb = shift_axes(lc, left), shift_axes(lb, left)
    if right is not None:
        rc, rb = shift_axes(rc, right), shift_axes(rb, right)
    if left is not None and right is not None:
        lb, rb, out_dim = (left, *lb), (right, *rb), 0
    elif left is not None:
        # Only one operand is batched: the batch is one more free axis of it.
        out_dim = len(lb) + free_axes(typeof(args[0]).ndim, lc, lb).index(left)
    else:
        out_dim = (len(lb) + len(free_axes(typeof(args[0]).ndim, lc, lb))
                   + free_axes(typeof(args[1]).ndim, rc, rb).index(right))
    out = dot_general_p.bind(*args, dimension_numbers=((lc, rc), (lb, rb)), **params)
    return out, out_dim


# ---- printing --------------------------------------------------------------------------


@dot_general_p.def_pretty
def _dot_general_params(params: dict[str, Any]) -> dict[str, Any]:
    dimension_numbers = tuple(tuple(map(list, pair)) for pair in params["dimension_numbers"])
    rest = {k: v for k, v in params.items() if v is not None}
    return {**rest, "dimension_numbers": dimension_numbers}

# ---- public functions ------------------------------------------------------------------


@boundary
def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None,
                preferred_element_type: Any = None) -> Any:
    """Multiplies two arrays and sums over pairs of axes.

    Args:
      lhs: array.
      rhs: array.
      dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, each a
        sequence of axes: pairs of contracting axes are summed over, pairs of batch axes
        are aligned; paired axes have equal sizes.
      precision: None, a `lax.Precision` or its name, a pair of those, or a
        `lax.DotAlgorithm`, a preset or its name.
      preferred_element_type: dtype of sums and result; by default the operands', the more
        precise one where they differ.

    Returns:
      An array whose axes are the batch axes, the other axes of `lhs`, those of `rhs`.

    Raises:
      TypeError: axes out of range or named twice, or paired axes of different sizes.
      ValueError: `precision` is not understood.

    Source: StableHLO `dot_general`.

    Example:
      >>> x, y = jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5))
      >>> lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))).shape
      (2, 3, 5)
    """
    numbers = canonical_numbers(dimension_numbers)
    preferred = preferred_element_type
    # An operand may have a 64-bit dtype while x64 is off; it does not request a 64-bit result.
    if preferred is not None and preferred is not typeof(lhs).dtype:
        preferred = dtypes.asked_dtype(preferred, "dot_general")
    return dot_general_p.bind(lhs, rhs, dimension_numbers=numbers,
                              precision=canonical_precision(precision),
                              preferred_element_type=preferred)


def canonical_numbers(dimension_numbers: Any) -> DimensionNumbers:
    """`dimension_numbers` as tuples of ints; a single axis need not be in a tuple."""
    (lc, rc), (lb, rb) = dimension_numbers
    return (_axes(lc), _axes(rc)), (_axes(lb), _axes(rb))


def _axes(axes: Any) -> tuple[int, ...]:
    if isinstance(axes, (int, np.integer)):
        return (int(axes),)
    return tuple(map(operator.index, axes))


@boundary
def dot(lhs: Any, rhs: Any, *, dimension_numbers: Any = None, precision: Any = None,
        preferred_element_type: Any = None) -> Any:
    """Product of two vectors or matrices; with `dimension_numbers`, `dot_general`.

    Args:
      lhs: array of shape `(k,)` or `(m, k)`.
      rhs: array of shape `(k,)` or `(k, n)`.
      dimension_numbers: as in `dot_general`.
      precision: as in `dot_general`.
      preferred_element_type: as in `dot_general`.

    Returns:
      An array of shape `()`, `(m,)`, `(n,)` or `(m, n)`.

    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> lax.dot(jnp.array([1, 2]), jnp.array([3, 4]))
      Array(11, dtype=int32)
    """
    if dimension_numbers is None:
        left, right = typeof(lhs).shape, typeof(rhs).shape
        if not (1 <= len(left) <= 2 and 1 <= len(right) <= 2 and left[-1] == right[0]):
            msg = (f"dot multiplies shapes (k,) or (m, k) by (k,) or (k, n), got lhs of shape "
                   f"{left} and rhs of shape {right}; give dimension_numbers for other products.")
            raise ValueError(msg)
        dimension_numbers = (((len(left) - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


@boundary
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Product of stacks of matrices.

    Args:
      lhs: array of shape `(..., m, k)`.
      rhs: array of shape `(..., k, n)`, with the same leading axes.
      precision: as in `dot_general`.

    Returns:
      An array of shape `(..., m, n)`.

    Raises:
      ValueError: the ranks differ or are less than 2.
      TypeError: the shapes do not fit.

    Example:
      >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
      (5, 2, 4)
    """
    left, right = typeof(lhs).shape, typeof(rhs).shape
    ndim = len(left)
    if ndim < 2 or len(right) != ndim:
        msg = (f"batch_matmul needs operands of equal rank, at least 2, got shapes {left} and "
               f"{right}.")
        raise ValueError(msg)
    return dot_general(lhs, rhs, matmul_numbers(ndim), precision)


def matmul_numbers(ndim: int) -> DimensionNumbers:
    """The dimension numbers of a product of stacks of matrices."""
    batch = tuple(range(ndim - 2))
    return ((ndim - 1,), (ndim - 2,)), (batch, batch)
