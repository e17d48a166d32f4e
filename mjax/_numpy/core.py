"""Preparation of arguments: checks, promotion, broadcasting.

A *value* is what primitives take: an array, a tracer, a NumPy array or scalar, a Python
scalar. Lists and tuples are not values; `asarray` makes arrays of them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.errors import LazyArgumentError, LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.dtypes import DType
from mjax._engine.ir.foreign_values import conversion, is_foreign_array
from mjax._engine.ir.promotion import common_type, inexact_dtype
from mjax._engine.ir.references import AbstractRef
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.source import warn
from mjax._engine.ir.types import has_array_type, typeof
from mjax._engine.primitives.composed import common_shape
from mjax._engine.primitives.convert import convert_element_type_p
from mjax._engine.primitives.select import select_n_p
from mjax._engine.primitives.shapes import (
    as_settled,
    broadcast_in_dim_p,
    canonical_shape,
    reduce_sum,
    reshape_p,
)
from mjax._engine.tracing.interpreter import Tracer, refuse_reference
from mjax._engine.tracing.rule_errors import SymbolicValueError

# ---- checking --------------------------------------------------------------------------


def check_array(name: str, x: Any, position: int | str = 0) -> Any:
    """`x` as a value.

    Args:
      name: the function that was called, for messages.
      x: the argument; the result of `__jax_array__` replaces an object that has this method.
      position: the argument's number or name, for messages.

    Raises:
      TypeError: it is not a value: a list, a string, None, an array of objects, a reference.
      OverflowError: a Python int that is too large for the default int dtype.
    """
    if isinstance(x, Tracer):
        if type(x.aval) is AbstractRef:
            refuse_reference(x)
        return x
    try:
        typeof(x)
    except SymbolicValueError:
        raise
    except TypeError:
        convert = getattr(x, "__jax_array__", None)
        if convert is not None and not isinstance(x, type):
            return check_array(name, convert(), position)
        raise LazyArgumentError(lambda: _no_array(name, x, position)) from None
    return x


def _no_array(name: str, x: Any, position: int | str) -> str:
    where = f"position {position}" if isinstance(position, int) else f"argument {position!r}"
    if isinstance(x, (np.ndarray, np.generic)):
        return (f"{name} got a NumPy array of dtype {x.dtype} at {where}: "
                f"{dtypes.why_refused(x.dtype)}")
    hint = (" Convert lists and tuples with mjax.numpy.asarray." if isinstance(x, (list, tuple))
            else f" {conversion(x)}" if is_foreign_array(x) else "")
    return f"{name} requires ndarray or scalar arguments, got {type(x)} at {where}.{hint}"


def check_fill(name: str, x: Any, position: int | str = 0) -> Any:
    """`check_array` for values to convert to a known dtype: Python ints may have any size."""
    return x if type(x) is int else check_array(name, x, position)


def check_arrays(name: str, *args: Any) -> list[Any]:
    """All of `args` as values; see `check_array`."""
    return [check_array(name, x, i) for i, x in enumerate(args)]


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a value."""
    return typeof(x).shape


def dtype_of(x: Any) -> DType:
    """The canonical dtype of a value."""
    return typeof(x).dtype


def kind_of(x: Any) -> str:
    """The kind of the dtype of a value, a letter; see `dtypes.kind`."""
    return dtypes.kind(typeof(x).dtype)


def concrete_int(x: Any, what: str, truncate: bool = False) -> int:
    """A Python int from an argument that must be known when the function is traced.

    Args:
      x: the argument.
      what: its name in messages.
      truncate: whether floats are truncated, as where NumPy calls `int`.

    Raises:
      TypeError: it is not an integer; for a tracer, the error that explains tracers.
    """
    if truncate and isinstance(x, (float, np.floating)):
        return int(x)
    try:
        return operator.index(x)
    except TypeError:
        if isinstance(x, Tracer):
            raise
        msg = f"{what} must be an integer, got {x!r} of type {type(x).__name__}."
        raise LazyArgumentError(msg) from None


def concrete_size(x: Any, what: str) -> Any:
    """`concrete_int` for sizes of axes, which may be symbolic."""
    return x if is_symbolic_dim(x) else concrete_int(x, what)


def refuse_out(name: str, out: Any) -> None:
    """Refuses the `out` argument of NumPy's signatures: arrays are immutable."""
    if out is not None:
        msg = f"{name}: the argument 'out' is not supported: arrays are immutable. Use the result."
        raise NotImplementedError(msg)


# ---- dtypes ----------------------------------------------------------------------------


def cast(x: Any, dtype: DType, weak_type: bool = False) -> Any:
    """A value in another dtype; unchanged if it has that type already.

    NumPy's and Python's values are converted at once, from their full precision. Python
    ints wrap around in narrow dtypes, as in JAX: `x & ~1` must work for unsigned `x` too.
    """
    kind = type(x)
    if kind is int or kind is float or kind is complex or kind is bool:
        return _cast_python(x, dtype, weak_type)
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    if isinstance(x, (np.ndarray, np.generic)) and not weak_type:
        return as_settled(_narrow(x, dtype))
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


def _cast_python(x: Any, dtype: DType, weak_type: bool) -> Any:
    if weak_type:
        python = _PYTHON[dtypes.kind(dtype)]
        if dtypes.dtype_of_python(python) != dtype:
            return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=True)
        return x if type(x) is python else python(x)
    kind: Any = type(x)
    if kind is complex or x != x:  # parts may be zeros with signs, or NaNs
        return as_settled(_scalar(x, dtype))
    # The sign of a zero is not part of equality, so it is part of the key.
    return as_settled(_cached_scalar(kind, x, str(x) if x == 0 else "", dtype))


_PYTHON = {"i": int, "u": int, "f": float, "c": complex, "b": bool}


def fits(x: int, dtype: DType) -> bool:
    """Whether an integer dtype holds a Python int."""
    if not dtypes.is_integer(dtype):
        return False
    info = ml_dtypes.iinfo(dtype)
    return bool(info.min <= x <= info.max)


def _scalar(x: Any, dtype: DType) -> Any:
    if dtypes.is_extended(dtype):
        msg = f"a number cannot be converted to dtype {dtype}: keys are not numbers."
        raise LazyArgumentError(msg)
    return dtypes.from_int(x, dtype) if type(x) is int else _narrow(np.asarray(x), dtype)[()]


@functools.lru_cache(4096)
def _cached_scalar(kind: type, x: Any, zero: str, dtype: DType) -> Any:
    return _scalar(x, dtype)


def _narrow(x: Any, dtype: DType) -> Any:
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype) and dtype != np.bool_:
        x = x.real
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def weak_type_of(x: Any) -> tuple[DType, bool]:
    """Dtype and weak type of a value, as `promotion.common_type` takes them."""
    if type(x) is int:
        return dtypes.dtype_of_python(int), True  # for any size
    aval = typeof(x)
    return aval.dtype, aval.weak_type


def promote_dtypes(*args: Any) -> list[Any]:
    """Values converted to their common type.

    Raises:
      TypePromotionError: a common type does not exist in the promotion mode in force.
    """
    dtype, weak = common_type(*map(weak_type_of, args))
    return [cast(x, dtype, weak) for x in args]


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """Values converted to their common type, or to the default float if that is not inexact."""
    dtype, weak = common_type(*map(weak_type_of, args))
    return [cast(x, inexact_dtype(dtype), weak) for x in args]


def numeric_dtype(dtype: DType) -> DType:
    """The dtype of arithmetic that is not defined for booleans: int32 replaces bool."""
    return np.dtype(np.int32) if dtype == np.bool_ else dtype


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """Values converted to their common type, booleans to int32."""
    dtype, weak = common_type(*map(weak_type_of, args))
    return [cast(x, numeric_dtype(dtype), weak) for x in args]


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which sums of a dtype are computed: 16-bit floats would lose precision."""
    if dtypes.is_float(dtype) and dtype.itemsize < 4:
        return np.dtype(np.float32)
    return dtypes.dtype_of_python(int) if dtype == np.bool_ else dtype


def wide_sum(x: Any, axes: Sequence[int]) -> Any:
    """The sum over axes, in the type of `x`; that of 16-bit floats is computed in 32 bits."""
    aval = typeof(x)
    total = reduce_sum(cast(x, wide_dtype(aval.dtype), aval.weak_type), axes)
    return cast(total, aval.dtype, aval.weak_type)


def dtype_argument(dtype: Any, name: str) -> DType | None:
    """The canonical dtype of a `dtype=` argument; None stays None.

    A 64-bit dtype that x64 mode does not allow becomes its 32-bit sibling, with a warning, unless
    the setting `explicit_x64_dtypes` says otherwise.
    """
    if dtype is None:
        return None
    return dtypes.asked_dtype(dtype, name)


# ---- broadcasting ----------------------------------------------------------------------


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of the given shapes broadcast to.

    Args:
      shapes: shapes, or sizes of one axis.

    Returns:
      A tuple of ints.

    Raises:
      ValueError: they cannot be broadcast together.

    Source: `numpy.broadcast_shapes`.

    Example:
      >>> jnp.broadcast_shapes((3, 1), (4,))
      (3, 4)
    """
    return common_shape([canonical_shape(s) for s in shapes])


def incompatible_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> Exception:
    """The error for operands that do not broadcast; JAX raises either class."""
    return LazyArgumentError(lambda: (
        f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}. Aligned "
        "at their last axes, sizes must be equal or 1."))


def check_ranks(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Applies the option `numpy_rank_promotion` to operands whose ranks differ."""
    mode = thread.settings.numpy_rank_promotion
    if mode == "allow" or len(set(map(len, shapes))) < 2:
        return
    text = (f"{name}: operands of shapes {' '.join(map(str, shapes))} have different ranks. "
            f"numpy_rank_promotion={mode!r} asks for explicit axes: x[None, :] or expand_dims.")
    if mode == "raise":
        raise ValueError(text)
    warn(text)


def promote_shapes(name: str, *args: Any) -> list[Any]:
    """Values with axes of size 1 in front, so that their ranks agree; scalars are unchanged.

    Primitives broadcast sizes of 1.

    Raises:
      TypeError, ValueError: the shapes do not broadcast.
    """
    shapes = [typeof(x).shape for x in args]
    ranks = {len(s) for s in shapes if s}
    if len(set(shapes)) > 1:
        try:
            common_shape(shapes)
        except ValueError:
            raise incompatible_shapes(name, shapes) from None
    if len(ranks) < 2:
        return list(args)
    check_ranks(name, shapes)
    rank = max(ranks)
    return [expand_rank(x, rank) if s else x for x, s in zip(args, shapes, strict=True)]


def expand_rank(x: Any, rank: int) -> Any:
    """A value with axes of size 1 put in front until it has `rank` axes."""
    shape = typeof(x).shape
    if len(shape) == rank:
        return x
    new = rank - len(shape)
    return broadcast_in_dim_p.bind(x, shape=(1,) * new + shape,
                                   broadcast_dimensions=tuple(range(new, rank)))


def promote_args(name: str, *args: Any) -> list[Any]:
    """Arguments checked, promoted to one dtype, their ranks aligned."""
    return promote_shapes(name, *promote_dtypes(*check_arrays(name, *args)))


def promote_args_inexact(name: str, *args: Any) -> list[Any]:
    """`promote_args` to an inexact dtype."""
    return promote_shapes(name, *promote_dtypes_inexact(*check_arrays(name, *args)))


def promote_args_numeric(name: str, *args: Any) -> list[Any]:
    """`promote_args` to a dtype that is not bool."""
    return promote_shapes(name, *promote_dtypes_numeric(*check_arrays(name, *args)))


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """A value broadcast to a shape by NumPy's rules.

    Raises:
      ValueError: it does not broadcast to that shape.
    """
    return stretch(x, typeof(x).shape, canonical_shape(shape))


def stretch(x: Any, own: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """`broadcast_to` of a value whose shape is known."""
    if own == shape:
        return x if has_array_type(x) else broadcast_in_dim_p.bind(
            x, shape=shape, broadcast_dimensions=tuple(range(len(shape))))
    if not own:
        return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=())
    new = len(shape) - len(own)
    if new < 0 or any(n not in (1, m) for n, m in zip(own, shape[new:], strict=False)):
        raise LazyValueError(lambda: (
            f"an array of shape {own} cannot be broadcast to shape {shape}: aligned at their last "
            "axes, its sizes must be 1 or those."))
    # Axes of size 1 are dropped first: XLA broadcasts the rest without a copy.
    kept = tuple(i for i, n in enumerate(own) if n == shape[new + i])
    if len(kept) < len(own):
        x = reshape_p.bind(x, new_sizes=tuple(own[i] for i in kept), dimensions=None)
    return broadcast_in_dim_p.bind(x, shape=shape,
                                   broadcast_dimensions=tuple(new + i for i in kept))


def broadcast_values(name: str, *args: Any) -> list[Any]:
    """Values broadcast to their common shape."""
    shapes = [typeof(x).shape for x in args]
    try:
        shape = common_shape(shapes)
    except ValueError:
        raise incompatible_shapes(name, shapes) from None
    return [x if own == shape else stretch(x, own, shape)
            for x, own in zip(args, shapes, strict=True)]


def choose(condition: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of one value or the other, in one dtype; all three are broadcast as needed.

    A scalar condition is not broadcast.
    """
    shapes = [typeof(x).shape for x in (condition, on_true, on_false)]
    shape = common_shape(shapes)
    if shapes[0] and shapes[0] != shape:
        condition = stretch(condition, shapes[0], shape)
    if shapes[1] != shape:
        on_true = stretch(on_true, shapes[1], shape)
    if shapes[2] != shape:
        on_false = stretch(on_false, shapes[2], shape)
    return select_n_p.bind(condition, on_false, on_true)


def size_of(shape: Sequence[int]) -> int:
    """The number of elements of arrays of a shape."""
    return math.prod(shape)

