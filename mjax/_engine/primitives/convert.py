"""Conversions between dtypes: convert_element_type, bitcast_convert_type, reduce_precision."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import ShapedArray, has_array_type, typeof
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.elementwise import (
    check_kinds,
    define_elementwise,
    define_elementwise_batching,
)
from mjax._engine.primitives.emit import full, hlo, ir, ir_type, op
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import array_of, as_settled, moveaxis
from mjax._engine.primitives.tangents import define_zero_jvp, zero_tangent
from mjax._engine.tracing.primitive import EnginePrimitive

# ---- convert_element_type --------------------------------------------------------------

convert_element_type_p = EnginePrimitive("convert_element_type", params={
    "new_dtype": AnyDType, "weak_type": bool})


@convert_element_type_p.def_abstract_eval
def _convert_type(x: Any, *, new_dtype: Any, weak_type: bool) -> ShapedArray:
    if dtypes.is_extended(x.dtype) != dtypes.is_extended(new_dtype) or (
            dtypes.is_extended(new_dtype) and new_dtype != x.dtype):
        msg = (f"cannot convert dtype {x.dtype} to {new_dtype}: keys are not numbers. "
               "random.key_data returns their numbers, random.wrap_key_data makes keys of numbers.")
        raise LazyArgumentError(msg)
    return ShapedArray(x.shape, new_dtype, weak_type)


@convert_element_type_p.def_lowering
def _convert_lowering(ctx: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    return [convert_ir(x, ctx.avals_in[0], new_dtype)]


def convert_ir(x: Any, aval: ShapedArray, new_dtype: Any) -> Any:
    """Emits the conversion of a value of type `aval`."""
    old, new = dtypes.kind(aval.dtype), dtypes.kind(new_dtype)
    if new == "b" and old != "b":
        # A test, not a conversion: every number but zero is true.
        return compare_ir(x, full(0, aval), "NE", aval.dtype)
    if old == "c" and new != "c":
        x = hlo.real(x)
    return op("stablehlo.convert", [ir_type(aval.update(dtype=new_dtype))], [x])[0]


def _convert_jvp(primals: Any, tangents: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    out = convert_element_type_p.bind(*primals, new_dtype=new_dtype, weak_type=weak_type)
    tangent = tangents[0]
    if not dtypes.is_inexact(new_dtype):
        return out, zero_tangent(out)
    return out, convert_element_type_p.bind(tangent, new_dtype=new_dtype, weak_type=weak_type)


def _convert_transpose(ct: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    return convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type)


define_linear(convert_element_type_p, _convert_transpose)
convert_element_type_p.def_jvp(_convert_jvp)
define_elementwise_batching(convert_element_type_p)


@boundary
def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """Converts an array to another dtype, elementwise.

    Args:
      operand: array or scalar.
      new_dtype: the dtype; a Python type (`float`) stands for its default dtype.

    Returns:
      An array of the operand's shape; floats are rounded towards zero on the way to
      integers, complex numbers lose their imaginary part on the way to reals.

    Raises:
      TypeError: a Python complex number for a real dtype, as in Python.

    Example:
      >>> lax.convert_element_type(jnp.array([1.5, -2.5]), "int32")
      Array([ 1, -2], dtype=int32)

    Source: StableHLO `convert`.
    """
    dtype = dtypes.asked_dtype(new_dtype, "convert_element_type")
    if type(operand) is complex and dtypes.kind(dtype) not in "bc":
        msg = (f"convert_element_type: the complex number {operand} cannot become {dtype}; take "
               "its .real first.")
        raise TypeError(msg)
    return convert(operand, dtype)


def convert(operand: Any, dtype: Any, weak_type: bool = False) -> Any:
    """Converts to a canonical dtype, unless the operand is an array of that type already."""
    if type(operand) is int and not weak_type and not dtypes.is_extended(dtype):
        return array_of(dtypes.from_int(operand, dtype))
    aval = typeof(operand)
    if (aval.dtype == dtype and aval.weak_type == weak_type
            and has_array_type(operand)):
        return operand
    if not hasattr(operand, "aval") and not (
            dtypes.is_extended(dtype) or is_symbolic_dim(operand)):
        # Values of other libraries still have their full precision: round once, not twice.
        operand = np.asarray(operand).astype(dtype)
        if not weak_type:
            return array_of(as_settled(operand))
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=weak_type)


# ---- bitcast_convert_type --------------------------------------------------------------

bitcast_convert_type_p = EnginePrimitive("bitcast_convert_type", params={"new_dtype": AnyDType})


def _bits(dtype: Any) -> int:
    name = np.dtype(dtype).name
    return 1 if name == "bool" else int(name[-1]) if name in dtypes.NARROW_INTS else (
        8 * np.dtype(dtype).itemsize)


@bitcast_convert_type_p.def_abstract_eval
def _bitcast_type(x: Any, *, new_dtype: Any) -> ShapedArray:
    old, new = _bits(x.dtype), _bits(new_dtype)
    if (x.dtype == np.bool_) != (new_dtype == np.bool_) or ("c" in (
            dtypes.kind(x.dtype), dtypes.kind(new_dtype)) and x.dtype != new_dtype):
        msg = f"bitcast_convert_type does not go from {x.dtype} to {new_dtype}."
        raise LazyArgumentError(msg)
    if old == new:
        return ShapedArray(x.shape, new_dtype)
    if old > new:
        return ShapedArray((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] != new // old:
        msg = (f"bitcast_convert_type from {x.dtype} to the wider {new_dtype} needs a last axis "
               f"of size {new // old}, got shape {x.shape}.")
        raise ValueError(msg)
    return ShapedArray(x.shape[:-1], new_dtype)


bitcast_convert_type_p.def_lowering(
    lambda ctx, x, *, new_dtype: op("stablehlo.bitcast_convert", ctx.out_types, [x]))
define_zero_jvp(bitcast_convert_type_p)


@bitcast_convert_type_p.def_batch
def _bitcast_batch(args: Any, dims: Any, *, new_dtype: Any) -> Any:
    return bitcast_convert_type_p.bind(moveaxis(args[0], dims[0], 0), new_dtype=new_dtype), 0


@boundary
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """Reads the bits of an array as another dtype.

    A narrower dtype adds a last axis for the pieces of each element; a wider one needs and
    removes one.

    Args:
      operand: array of a dtype with real numbers.
      new_dtype: the dtype of the result.

    Returns:
      An array of `new_dtype`, with as many bytes as `operand`.

    Raises:
      TypeError: a dtype is not stored as bits, or is complex.
      ValueError: the last axis does not have the size that a wider dtype needs.

    Example:
      >>> lax.bitcast_convert_type(jnp.array(1.0), "uint32")
      Array(1065353216, dtype=uint32)

    Source: StableHLO `bitcast_convert`.
    """
    return bitcast_convert_type_p.bind(
        operand, new_dtype=dtypes.asked_dtype(new_dtype, "bitcast_convert_type"))


# ---- reduce_precision ------------------------------------------------------------------


def _reduce_precision_lowering(ctx: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    i32 = ir.IntegerType.get_signless(32)
    return op("stablehlo.reduce_precision", ctx.out_types, [x], {
        "exponent_bits": ir.IntegerAttr.get(i32, exponent_bits),
        "mantissa_bits": ir.IntegerAttr.get(i32, mantissa_bits)})


reduce_precision_p = define_elementwise("reduce_precision", "f", _reduce_precision_lowering,
                                        params={"exponent_bits": int, "mantissa_bits": int})
define_linear(reduce_precision_p, lambda ct, x, **params: reduce_precision_p.bind(ct, **params))


@boundary
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounds floats as if stored with fewer exponent and mantissa bits.

    Args:
      operand: array or scalar of a floating dtype.
      exponent_bits: the number of bits of the exponent, 1 at least.
      mantissa_bits: the number of bits of the mantissa.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: another dtype.
      ValueError: `exponent_bits` below 1, or `mantissa_bits` below 0.

    Example:
      >>> lax.reduce_precision(jnp.array(1.1), exponent_bits=8, mantissa_bits=2)
      Array(1., dtype=float32, weak_type=True)

    Source: StableHLO `reduce_precision`.
    """
    check_kinds("reduce_precision", typeof(operand), "f")
    if exponent_bits < 1 or mantissa_bits < 0:
        msg = ("reduce_precision needs exponent_bits of at least 1 and mantissa_bits of at least "
               f"0, got exponent_bits={exponent_bits} and mantissa_bits={mantissa_bits}.")
        raise ValueError(msg)
    return reduce_precision_p.bind(operand, exponent_bits=operator.index(exponent_bits),
                                   mantissa_bits=operator.index(mantissa_bits))
