"""The checks that `checkify` adds to first-order primitives, by primitive.

Register checks of users' primitives with `register_check`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._checkify.errors import (
    NOTHING,
    CheckError,
    DivisionByZeroError,
    NaNError,
    NaNMadeError,
    OOBError,
    Slot,
)
from mjax._engine.base.records import Record
from mjax._engine.control.custom.custom_linear_solve import linear_solve_p
from mjax._engine.control.reduce import reduce_p, reduce_window_p
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import arithmetic, cumulative, reductions, special, trigonometric
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.convolution import conv_general_dilated_p
from mjax._engine.primitives.dot import dot_general_p
from mjax._engine.primitives.dynamic_slicing import (
    dynamic_index_in_dim,
    dynamic_slice_p,
    dynamic_update_slice_p,
)
from mjax._engine.primitives.fft import fft_p
from mjax._engine.primitives.gather import gather_p
from mjax._engine.primitives.iota import iota
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.rng import rng_uniform_p
from mjax._engine.primitives.scatter import (
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from mjax._engine.primitives.scatter_apply import scatter_apply_p
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import broadcast_in_dim, reduce_sum_p, reshape
from mjax._engine.primitives.slicing import pad_p
from mjax._engine.primitives.windows import reduce_window_sum_p
from mjax._engine.runtime.dispatch.jit import jit
from mjax._engine.spmd.reductions import psum_p
from mjax._engine.tracing.primitive import Primitive

#: `(operands, results, params) -> whether` it fails, and the values of the slot.
Finder = Callable[[Sequence[Any], Sequence[Any], dict[str, Any]], tuple[Any, Sequence[Any]]]


class Check(Record):
    """A check of the applications of a primitive.

    Attributes:
      kind: the exception, which belongs to one of the sets of checks.
      find: whether an application fails, and the values in the message.
      slot: the types of these values.
      details: the rest of the message, from the primitive and its operands.
      applies: whether an application with results of these types is checked.
    """

    kind: type[CheckError]
    find: Finder
    slot: Slot = NOTHING
    details: Callable[[Primitive, Sequence[Any]], tuple[Any, ...]] = lambda primitive, args: ()
    applies: Callable[[Sequence[Any]], bool] = lambda out_avals: True


_CHECKS: dict[Primitive | None, tuple[Check, ...]] = {}


def register_check(primitive: Primitive | None, *checks: Check) -> None:
    """Gives a primitive these checks, the first of which to fail is reported.

    None means all primitives that do not hold programs.
    """
    _CHECKS[primitive] = (*_CHECKS.get(primitive, ()), *checks)


def checks_of(primitive: Primitive, errors: frozenset[Any], out_avals: Sequence[Any]
              ) -> list[Check]:
    """The checks of a primitive's applications of these kinds of errors."""
    return [c for c in (*_CHECKS.get(primitive, ()), *_CHECKS.get(None, ()))
            if c.kind in errors and c.applies(out_avals)]


# ---- numbers ---------------------------------------------------------------------------


@jit(inline=True)
def _any_nan(*outs: Any) -> Any:
    found = [reductions.reduce_or(arithmetic.ne(x, x), range(typeof(x).ndim)) for x in outs]
    first, *rest = found
    for other in rest:
        first = arithmetic.bitwise_or(first, other)
    return first


@jit(inline=True)
def _any_zero(y: Any) -> Any:
    return reductions.reduce_or(arithmetic.eq(y, np.zeros((), typeof(y).dtype)[()]),
                                range(typeof(y).ndim))


def _inexact(values: Sequence[Any]) -> list[Any]:
    return [x for x in values if _is_inexact(typeof(x))]


def _is_inexact(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.inexact


def _makes_nan(args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]
               ) -> tuple[Any, Sequence[Any]]:
    made, given = _any_nan(*_inexact(outs)), _inexact(args)
    if any(not isinstance(typeof(x), ShapedArray) for x in args):
        return np.bool_(False), ()  # reads of references do not produce values
    return (arithmetic.bitwise_and(made, arithmetic.bitwise_not(_any_nan(*given)))
            if given else made), ()


_NAN = Check(
    NaNError, lambda args, outs, params: (_any_nan(*_inexact(outs)), ()),
    details=lambda primitive, args: (primitive.name,),
    applies=lambda avals: any(map(_is_inexact, avals)))
_ZERO = Check(DivisionByZeroError, lambda args, outs, params: (_any_zero(args[1]), ()))

_NAN_NAMES = {
    arithmetic: "add cbrt exp expm1 integer_pow log log1p logistic mul pow rem rsqrt sqrt sub",
    cumulative: "cumlogsumexp cummax cummin cumprod cumsum",
    reductions: "reduce_prod",
    special: "bessel_i0e bessel_i1e digamma erf erf_inv erfc igamma igamma_grad_a igammac lgamma "
             "regularized_incomplete_beta",
    trigonometric: "acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh",
}
for _module, _names in _NAN_NAMES.items():
    for _name in _names.split():
        register_check(getattr(_module, f"{_name}_p"), _NAN)
for _primitive in (conv_general_dilated_p, dot_general_p, fft_p, linear_solve_p, pad_p, psum_p,
                   reduce_p, reduce_sum_p, reduce_window_p, reduce_window_sum_p, rng_uniform_p):
    register_check(_primitive, _NAN)
register_check(arithmetic.div_p, _ZERO, _NAN)
register_check(None, Check(
    NaNMadeError, _makes_nan,
    details=lambda primitive, args: (primitive.name, tuple(str(typeof(x)) for x in args)),
    applies=_NAN.applies))


# ---- indices ---------------------------------------------------------------------------


@jit(inline=True, static_argnums=(1, 2, 3))
def _outside(indices: Any, last: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]
             ) -> tuple[Any, Any]:
    """Whether an index vector is out of bounds; the first such index, its axis and its size.

    Args:
      indices: of shape (..., number of axes).
      last: per axis the greatest index.
      axes: the axes.
      sizes: their sizes.
    """
    shape, dtype = typeof(indices).shape, typeof(indices).dtype
    limit = np.minimum(np.array(last, np.int64), np.iinfo(dtype).max).astype(dtype)
    bounds = broadcast_in_dim(limit, shape, (len(shape) - 1,))
    out = arithmetic.bitwise_or(arithmetic.lt(indices, np.zeros(shape, dtype)),
                                arithmetic.gt(indices, bounds))
    n = math.prod(shape)
    places = select_n(reshape(out, (n,)), np.full(n, n, np.int32), iota(np.int32, n))
    first = reductions.reduce_min(places, (0,))
    place = arithmetic.min(first, np.int32(n - 1))
    axis = arithmetic.rem(place, np.int32(len(axes)))
    shown = [dynamic_index_in_dim(x, i, allow_negative_indices=False) for x, i in (
        (reshape(indices, (n,)), place), (np.array(axes, np.int32), axis),
        (np.array(sizes, np.int32), axis))]
    return (arithmetic.lt(first, np.int32(n)),
            concatenate([convert(x, np.dtype(np.int32)) for x in shown], 0))


def _found(indices: Any, windows: Sequence[int], axes: Sequence[int], shape: Sequence[int]
           ) -> tuple[Any, Sequence[Any]]:
    """`_outside` for the start indices of slices of these sizes."""
    if not axes or not math.prod(typeof(indices).shape):
        return np.bool_(False), [np.zeros(3, np.int32)]
    sizes = tuple(shape[i] for i in axes)
    pred, shown = _outside(indices, tuple(s - w for s, w in zip(sizes, windows, strict=True)),
                           tuple(axes), sizes)
    return pred, [shown]


def _starts(operand: Any, sizes: Sequence[int], starts: Sequence[Any]) -> Any:
    shape = typeof(operand).shape
    if not shape:
        return np.bool_(False), [np.zeros(3, np.int32)]
    indices = concatenate([reshape(s, (1,)) for s in starts], 0)
    return _found(indices, sizes, range(len(shape)), shape)


def _of_dynamic_slice(args: Any, outs: Any, params: Any) -> Any:
    return _starts(args[0], params["slice_sizes"], args[1:])


def _of_dynamic_update_slice(args: Any, outs: Any, params: Any) -> Any:
    return _starts(args[0], typeof(args[1]).shape, args[2:])


def _of_gather(args: Any, outs: Any, params: Any) -> Any:
    axes, sizes = params["dimension_numbers"].start_index_map, params["slice_sizes"]
    return _found(args[1], [sizes[i] for i in axes], axes, typeof(args[0]).shape)


def _of_scatter(args: Any, outs: Any, params: Any) -> Any:
    shape, numbers = typeof(args[0]).shape, params["dimension_numbers"]
    window = iter(numbers.update_window_dims)
    whole = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    updates = typeof(args[2]).shape
    sizes = [1 if i in whole else updates[next(window)] for i in range(len(shape))]
    axes = numbers.scatter_dims_to_operand_dims
    return _found(args[1], [sizes[i] for i in axes], axes, shape)


def _bounds(find: Finder) -> Check:
    return Check(OOBError, find, (ShapedArray((3,), np.dtype(np.int32)),),
                 lambda primitive, args: (typeof(args[0]).shape,))


register_check(dynamic_slice_p, _bounds(_of_dynamic_slice))
register_check(dynamic_update_slice_p, _bounds(_of_dynamic_update_slice))
register_check(gather_p, _bounds(_of_gather))
for _primitive in (scatter_p, scatter_add_p, scatter_apply_p, scatter_max_p, scatter_min_p,
                   scatter_mul_p, scatter_sub_p):
    register_check(_primitive, _bounds(_of_scatter), _NAN)

__all__ = ["Check", "checks_of", "register_check"]
