"""Choosing between values: where, select, piecewise, clip, and finding nonzero elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import ConcretizationTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.cumulative import cumsum_p
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.iota import iota_p
from mjax._engine.primitives.joining import stack
from mjax._engine.primitives.scatter import ScatterDimensionNumbers, scatter
from mjax._engine.primitives.shapes import array_of, broadcast_in_dim_p, reduce_sum, reshape
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.tracing.interpreter import Tracer
from mjax._numpy.comparison import to_bool
from mjax._numpy.core import (
    broadcast_values,
    cast,
    check_array,
    check_arrays,
    choose,
    concrete_int,
    incompatible_shapes,
    promote_args,
    promote_dtypes,
)
from mjax._numpy.creation import asarray, filled
from mjax._numpy.fused import fused

# ---- where -----------------------------------------------------------------------------


@boundary
def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None,
          fill_value: Any = None) -> Any:
    """Elements of `x` where the condition is true (not 0), else of `y`.

    Args:
      condition: array or scalar.
      x: array or scalar.
      y: array or scalar; the three are broadcast, `x` and `y` promoted.
      size: with only a condition: the number of indices to return; see `nonzero`.
      fill_value: with only a condition: the value of missing indices.

    Returns:
      An array; with only a condition, `nonzero(condition)`.

    Raises:
      TypeError: one of `x` and `y` is given alone.
      ValueError: `size` or `fill_value` beside them; the shapes do not broadcast.

    Source: `numpy.where`.

    Example:
      >>> jnp.where(jnp.array([True, False]), jnp.array([1, 2]), 0)
      Array([1, 0], dtype=int32)
    """
    if x is None and y is None:
        return nonzero(check_array("where", condition), size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        msg = "where: size and fill_value go with a condition alone, not with x and y."
        raise ValueError(msg)
    return _where(condition, x, y)


@fused(values=("condition", "x", "y"))
def _where(condition: Any, x: Any, y: Any) -> Any:
    x, y = promote_dtypes(x, y)
    shapes = [typeof(v).shape for v in (condition, x, y)]
    try:
        return choose(to_bool(condition), x, y)
    except ValueError:
        raise incompatible_shapes("where", shapes) from None


@boundary
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Each element from the choice of the first condition that is true there.

    Args:
      condlist: conditions, arrays or scalars; an array is split along its first axis.
      choicelist: as many arrays or scalars.
      default: the value where no condition is true.

    Returns:
      An array of the shape that all of them broadcast to, of the choices' promoted dtype.

    Raises:
      ValueError: the lists are empty or of different length.

    Source: `numpy.select`.

    Example:
      >>> x = jnp.array([1, 2, 3])
      >>> jnp.select([x < 2, x < 3], [10 * x, 20 * x], -1)
      Array([10, 40, -1], dtype=int32)
    """
    if not 0 < len(condlist) == len(choicelist):
        msg = (f"select needs as many choices as conditions, and at least one; got "
               f"{len(condlist)} conditions and {len(choicelist)} choices.")
        raise ValueError(msg)
    return _select(list(condlist), list(choicelist), default)


@fused
def _select(conditions: list[Any], choices: list[Any], default: Any) -> Any:
    *choices, out = promote_dtypes(*check_arrays("select", *choices, default))
    conditions = [to_bool(c) for c in check_arrays("select", *conditions)]
    *both, out = broadcast_values("select", *conditions, *choices, out)
    n = len(conditions)
    for condition, choice in zip(reversed(both[:n]), reversed(both[n:]), strict=True):
        out = choose(condition, choice, out)
    return out


@boundary
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """A function defined by pieces: each condition has its own function.

    All functions are evaluated on all of `x`.

    Args:
      x: array.
      condlist: conditions, arrays of the shape of `x`; the last one that is true counts.
      funclist: as many functions of `x` or constants, and optionally one for all other elements.
      args: further arguments for the functions.
      kw: keyword arguments for the functions.

    Returns:
      An array of the shape and dtype of `x`; 0 where no condition is true.

    Raises:
      ValueError: the numbers of conditions and functions do not fit.

    Source: `numpy.piecewise`.

    Example:
      >>> x = jnp.array([-2.0, 3.0])
      >>> jnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, 10.0])
      Array([ 2., 10.], dtype=float32)
    """
    x = check_array("piecewise", x)
    dtype, shape = typeof(x).dtype, typeof(x).shape
    if not isinstance(condlist, (list, tuple)) or _is_one_condition(condlist, shape):
        condlist = [condlist]
    conditions = [to_bool(c) for c in map(asarray, condlist)]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        msg = (f"piecewise: {len(conditions)} conditions need {len(conditions)} functions or one "
               f"more, got {len(funclist)}.")
        raise ValueError(msg)
    values = [cast(check_array("piecewise", f(x, *args, **kw) if callable(f) else f), dtype)
              for f in funclist]
    out = values.pop() if len(values) > len(conditions) else np.zeros((), dtype)[()]
    for condition, value in zip(conditions, values, strict=True):
        out = choose(*broadcast_values("piecewise", condition, value, out))
    return broadcast_values("piecewise", out, x)[0]


def _is_one_condition(conditions: Any, shape: tuple[int, ...]) -> bool:
    """Whether a sequence of Python booleans is itself one condition."""
    return bool(shape) and bool(conditions) and all(isinstance(c, bool) for c in conditions)


# ---- clip ------------------------------------------------------------------------------


@fused(values=("arr", "min", "max"))
def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """Elementwise `arr`, clipped to an interval.

    Args:
      arr: real array or scalar.
      min: lower bound, or None.
      max: upper bound, or None; the result where it is below `min`.

    Returns:
      An array of the shape that the three broadcast to, of their promoted dtype.

    Raises:
      ValueError: complex numbers, which are not ordered.

    Source: `numpy.clip`.

    Example:
      >>> jnp.clip(jnp.array([1, 5, 9]), 2, 6)
      Array([2, 5, 6], dtype=int32)
    """
    if arr is None:
        msg = "clip: the array to clip is missing."
        raise ValueError(msg)
    for bound, extreme in ((min, lax.max), (max, lax.min)):
        if bound is not None:
            bound, arr = promote_args("clip", bound, arr)
            arr = extreme(bound, arr)
        if dtypes.is_complex(typeof(arr).dtype):
            msg = ("clip: complex numbers are not ordered; clip their real and imaginary parts, or "
                   "their absolute values.")
            raise ValueError(msg)
    return array_of(arr)


# ---- positions of nonzero elements -----------------------------------------------------


@boundary
def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """Indices of the elements that are not 0.

    Args:
      a: array of at least one axis.
      size: the number of indices to return: more are cut off, missing ones are filled. It must be
        given under jit, since it determines the shape of the result.
      fill_value: the value of missing indices, or a tuple of one per axis; 0 if not given.

    Returns:
      A tuple of one int array of shape `(size,)` per axis, in row-major order.

    Raises:
      ConcretizationTypeError: `a` is traced and `size` is not given.
      ValueError: `a` is a scalar.

    Source: `numpy.nonzero`.

    Example:
      >>> jnp.nonzero(jnp.array([0, 3, 0, 7]))
      (Array([1, 3], dtype=int32),)
    """
    a = check_array("nonzero", a)
    shape = typeof(a).shape
    if not shape:
        msg = "nonzero of a scalar is not defined; use jnp.atleast_1d(x).nonzero()."
        raise ValueError(msg)
    if size is None:
        if isinstance(a, Tracer) and a.concrete() is None:
            raise ConcretizationTypeError(
                "The number of nonzero elements of a traced array is not known, so the shape of "
                "the result is not either. Give it as nonzero(x, size=n), argwhere(x, size=n) or "
                "where(condition, size=n); where(condition, x, y) needs none.")
        return tuple(asarray(i, int) for i in np.nonzero(np.asarray(a)))
    size = concrete_int(size, "nonzero: size")
    fills = fill_value if isinstance(fill_value, (list, tuple)) else (fill_value,) * len(shape)
    if len(fills) != len(shape):
        msg = f"nonzero: fill_value must have one entry per axis ({len(shape)}), got {fill_value}."
        raise ValueError(msg)
    return _nonzero(a, [0 if f is None else f for f in fills], size)


@fused(static_argnames=("size",))
def _nonzero(a: Any, fills: list[Any], size: int) -> tuple[Any, ...]:
    shape = typeof(a).shape
    index = dtypes.dtype_of_python(int)
    n = math.prod(shape)
    mask = cast(reshape(to_bool(a), (n,)), index)
    # The n-th hit is written to place n; other elements to an additional last place.
    numbers = cumsum_p.bind(mask, axis=0, reverse=False)
    last = _c(numbers, size)
    places = choose(to_bool(mask), lax.min(lax.sub(numbers, _c(numbers, 1)), last), last)
    empty = broadcast_in_dim_p.bind(_c(places, 0), shape=(size + 1,), broadcast_dimensions=())
    flat = slice_in_dim(scatter(
        empty, reshape(places, (n, 1)), iota_p.bind(dtype=index, shape=(n,), dimension=0),
        ScatterDimensionNumbers((), (0,), (0,)), mode="drop"), 0, size)
    found = lax.lt(iota_p.bind(dtype=index, shape=(size,), dimension=0),
                   reduce_sum(mask, (0,)))
    out = []
    stride = n
    for axis_size, fill in zip(shape, fills, strict=True):
        stride = stride // axis_size if axis_size else 1
        along = lax.rem(lax.div(flat, _c(flat, stride or 1)), _c(flat, axis_size or 1))
        out.append(choose(found, along, cast(check_array("nonzero", fill), index)))
    return tuple(out)


@boundary
def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Indices in row-major order of the elements that are not 0.

    Args:
      a: array or scalar.
      size: the number of indices to return; must be given under jit. See `nonzero`.
      fill_value: the value of missing indices; 0 if not given.

    Returns:
      An int array of one axis.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.flatnonzero`.

    Example:
      >>> jnp.flatnonzero(jnp.array([[0, 3], [7, 0]]))
      Array([1, 2], dtype=int32)
    """
    a = check_array("flatnonzero", a)
    return nonzero(reshape(a, (typeof(a).size,)), size=size, fill_value=fill_value)[0]


@boundary
def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Index vectors of the elements that are not 0, one per row.

    Args:
      a: array or scalar.
      size: the number of rows to return; must be given under jit. See `nonzero`.
      fill_value: the value of missing indices; 0 if not given.

    Returns:
      An int array of shape `(size, a.ndim)`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.argwhere`.

    Example:
      >>> jnp.argwhere(jnp.array([[0, 3], [7, 0]]))
      Array([[0, 1],
             [1, 0]], dtype=int32)
    """
    a = check_array("argwhere", a)
    if not typeof(a).shape:
        column, = nonzero(reshape(a, (1,)), size=size, fill_value=fill_value)
        return filled((typeof(column).size, 0), 0, typeof(column).dtype)
    return stack(nonzero(a, size=size, fill_value=fill_value), axis=1)
