"""Operations that lowering rules emit."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.lowering.context import LoweringContext
from mjax._engine.primitives import emit
from mjax._engine.primitives.emit import broadcast_ir, constant, i64_attr, ir_type
from mjax._engine.tracing.rule_errors import describe_value
from mjaxlib_shim.mlir import hlo, ir


def full_like_aval(ctx: LoweringContext, value: Any, aval: ShapedArray) -> Any:
    """An array of a type whose elements are one number.

    Args:
      ctx: the context of the rule.
      value: the number.
      aval: the type.

    Returns:
      An `ir.Value`.

    Raises:
      TypeError: `value` is not a number, or is complex and the type is not; `aval` is not a type.
      OverflowError: NumPy does not convert an int to the integer type.
      ValueError: `value` is a text that is not a number; no device has the memory for the array.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> ones_p = core.Primitive("ones")
      >>> _ = ones_p.def_abstract_eval(lambda x: x)
      >>> _ = mlir.register_lowering(
      ...     ones_p, lambda ctx, x: [mlir.full_like_aval(ctx, 1, ctx.avals_out[0])])
      >>> ones_p.bind(jnp.zeros(2))
      Array([1., 1.], dtype=float32)
    """
    return emit.full(value, aval)


def broadcast_in_dim(ctx: LoweringContext, op: Any, aval_out: ShapedArray, *,
                     broadcast_dimensions: Sequence[int]) -> Any:
    """An array of a type that repeats another one, whose axes it has at the given places.

    Args:
      ctx: the context of the rule.
      op: the other array, an `ir.Value`.
      aval_out: the type.
      broadcast_dimensions: for each axis of `op` an axis of the result.

    Returns:
      An `ir.Value`.

    Raises:
      TypeError: `op` is not an `ir.Value`, `aval_out` is not a type of arrays, or an entry of
        `broadcast_dimensions` is not an integer.
      ValueError: no device has the memory for the array.
      RuntimeError: no `ir.Context` is entered.
      MLIRError: when the module is compiled: the axes of `op` do not fit those of the result.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> rows_p = core.Primitive("rows")
      >>> _ = rows_p.def_abstract_eval(lambda x: x.update(shape=(2, *x.shape)))
      >>> _ = mlir.register_lowering(rows_p, lambda ctx, x: [mlir.broadcast_in_dim(
      ...     ctx, x, ctx.avals_out[0], broadcast_dimensions=[1])])
      >>> rows_p.bind(jnp.ones(3)).shape
      (2, 3)
    """
    physical = physical_aval(aval_out)
    more = range(aval_out.ndim, physical.ndim)  # the parts of one element of a key
    return broadcast_ir(ir_type(physical), physical.shape, op, [*broadcast_dimensions, *more])


def shape_tensor(ctx: LoweringContext, sizes: Sequence[Any]) -> Any:
    """A vector of 32-bit integers, from ints and `ir.Value`s of integers.

    Args:
      ctx: the context of the lowering rule.
      sizes: the integers.

    Returns:
      An `ir.Value`.

    Raises:
      OverflowError: an int does not fit in 32 bits.
      TypeError: `sizes` cannot be iterated over, or an entry is neither an integer nor an
        `ir.Value`.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> pair_p = core.Primitive("pair")
      >>> _ = pair_p.def_abstract_eval(lambda n: core.ShapedArray((2,), np.int32))
      >>> _ = mlir.register_lowering(pair_p, lambda ctx, n: [mlir.shape_tensor(ctx, [n, 7])])
      >>> pair_p.bind(np.int32(5))
      Array([5, 7], dtype=int32)
    """
    scalar, vector = (ir_type(ShapedArray(shape, np.dtype(np.int32))) for shape in ((), (1,)))
    parts = [hlo.reshape(vector, size if size.type == scalar else hlo.convert(scalar, size))
             if isinstance(size, ir.Value) else constant(_as_i32(i, size))
             for i, size in enumerate(sizes)]
    if not parts:
        return constant(np.zeros(0, np.int32))
    return parts[0] if len(parts) == 1 else hlo.concatenate(parts, i64_attr(0))


def _as_i32(place: int, size: Any) -> np.ndarray[Any, Any]:
    try:
        return np.array([operator.index(size)], np.int32)
    except TypeError:
        msg = (f"shape_tensor: entry {place} must be an int or an ir.Value, got "
               f"{describe_value(size)}.")
        raise TypeError(msg) from None


def lower_with_sharding_in_types(ctx: LoweringContext, op: Any, aval: Any) -> Any:
    """The value as it is: types of mjax do not have shardings, as JAX's of Auto meshes do not.

    Args:
      ctx: the context of the rule.
      op: the `ir.Value`.
      aval: its type.

    Returns:
      An `ir.Value`.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.lower_with_sharding_in_types(None, "a value", mjax.typeof(1.0))
      'a value'
    """
    return op
