"""MLIR types, constants and operations, for lowering rules.

`hlo` and `ir` are the shim's lazy proxies: MLIR loads when the first program is
lowered, not on import. All functions run inside an MLIR context, location and insertion
point that the lowering pass has entered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import AbstractToken, AbstractValue, ShapedArray, physical_aval
from mjaxlib_shim.mlir import hlo, ir

#: The names of classes of MLIR types; those of narrow floats are the dtypes' own.
_FLOATS = {"float16": "F16Type", "bfloat16": "BF16Type", "float32": "F32Type",
           "float64": "F64Type"}


def element_type(dtype: Any) -> Any:
    """The MLIR type of elements of a dtype."""
    name = np.dtype(dtype).name
    if name in _FLOATS:
        return getattr(ir, _FLOATS[name]).get()
    if name == "bool" or dtype == dtypes.float0:
        return ir.IntegerType.get_signless(1)
    if name.startswith("int"):
        return ir.IntegerType.get_signless(int(name[3:]))
    if name.startswith("uint"):
        return ir.IntegerType.get_unsigned(int(name[4:]))
    if name.startswith("complex"):
        return ir.ComplexType.get(element_type(dtypes.real_dtype(dtype)))
    # Such as Float8E4M3FNType for float8_e4m3fn.
    return getattr(ir, f"Float{name.removeprefix('float').replace('_', '').upper()}Type").get()


def ir_types(aval: AbstractValue) -> list[Any]:
    """The MLIR types of what stands for a value of a type; mostly it is one."""
    return ([hlo.TokenType.get()] if isinstance(aval, AbstractToken)
            else list(map(ir_type, aval.physical())))


def flat(values: Iterable[Any]) -> list[Any]:
    """IR values in a row: what stands for one value of a type is a tuple, unless it is one."""
    return [v for value in values for v in (value if type(value) is tuple else (value,))]


def grouped(values: Iterable[Any], sizes: Iterable[int]) -> list[Any]:
    """The inverse of `flat`, by the numbers of IR values that belong together."""
    given = iter(values)
    return [next(given) if n == 1 else tuple(itertools.islice(given, n)) for n in sizes]


def ir_type(aval: Any) -> Any:
    """The MLIR type of arrays of a type; keys are their physical arrays, float0 is bool."""
    aval = physical_aval(aval)
    if not 0 < aval.size < _SURE:
        refuse_too_large(aval)
    return ir.RankedTensorType.get(aval.shape, element_type(aval.dtype))


#: So many elements are fine, whatever their dtype.
_SURE = 1 << 56


def refuse_too_large(aval: ShapedArray) -> None:
    """Refuses arrays whose bytes a 64-bit number cannot count, with which XLA ends the process.

    Axes of size 0 do not help: XLA multiplies the others.

    Raises:
      ValueError: the type is one of these.
    """
    extent = math.prod([max(n, 1) for n in aval.shape]) * np.dtype(aval.dtype).itemsize
    if extent >= 1 << 63:
        raise LazyValueError(lambda: (
            f"an array of type {aval} would take {extent} bytes; no device has that many. Check "
            f"the shape {aval.shape}."))


def op(name: str, types: Sequence[Any], operands: Sequence[Any],
       attributes: dict[str, Any] | None = None) -> Any:
    """Creates an operation by name and gives its results.

    Half the cost of the generated builder classes (1.2 against 3 to 4 µs), and the table
    rows that use it name the operation as the StableHLO specification does.
    """
    return ir.Operation.create(name, results=types, operands=operands,
                               attributes=attributes).results


def dense_i64(values: Sequence[int]) -> Any:
    """An attribute of 64-bit integers, as dimension lists take."""
    return ir.DenseI64ArrayAttr.get(list(values))


def dense_bool(values: Sequence[bool]) -> Any:
    """An attribute of booleans."""
    return ir.DenseBoolArrayAttr.get(list(values))


def i64_attr(value: int) -> Any:
    """An attribute of one 64-bit integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def array_attr(values: Sequence[Any]) -> Any:
    """An attribute of attributes."""
    return ir.ArrayAttr.get(list(values))


def constant(value: Any) -> Any:
    """A constant of the value's own NumPy dtype and shape; of float0 it is False."""
    if np.asarray(value).dtype == dtypes.float0:
        value = np.zeros(np.shape(value), np.bool_)
    value = np.ascontiguousarray(value).reshape(np.shape(value))
    if value.dtype == np.bool_ and value.size != 1:
        # Attributes of booleans are packed before jaxlib 0.9.1 and bytes since, and what is
        # right for one is wrong in silence for the other. Bytes mean the same to all.
        return hlo.convert(ir.RankedTensorType.get(value.shape, element_type(value.dtype)),
                           constant(value.view(np.uint8)))
    return hlo.ConstantOp(dense(value)).result


def dense(value: np.ndarray[Any, Any]) -> Any:
    """The attribute of an array; of booleans there must be one."""
    dtype = value.dtype
    element = element_type(dtype)
    if dtype == np.bool_:
        return ir.DenseElementsAttr.get_splat(
            ir.RankedTensorType.get(value.shape, element), ir.BoolAttr.get(value.item()))
    if dtype.kind in "iufc" and dtype.isbuiltin == 1:
        if value.size == 1 or dtype.kind == "c":
            return ir.DenseElementsAttr.get(value, type=element, shape=value.shape)
        return ir.DenseElementsAttr.get(value, type=element)
    # A narrow type of ml_dtypes: numpy's buffer protocol does not export it.
    raw = value.view(f"u{dtype.itemsize}")
    return ir.DenseElementsAttr.get(raw, type=element, shape=value.shape)


def full(value: Any, aval: ShapedArray) -> Any:
    """A splat of one Python or NumPy scalar, of the given type."""
    aval = physical_aval(aval)
    scalar = constant(np.asarray(value, np.bool_ if aval.dtype == dtypes.float0 else aval.dtype))
    if not aval.shape:
        return scalar
    return hlo.broadcast_in_dim(ir_type(aval), scalar, dense_i64([]))


def reducer_region(region: Any, dtypes_: Sequence[Any], body: Callable[..., Sequence[Any]]) -> None:
    """Fills a region that takes two scalars per dtype (all left ones first) with `body`."""
    types = [ir_type(ShapedArray((), d)) for d in dtypes_]
    block = region.blocks.append(*types, *types)
    with ir.InsertionPoint(block):
        hlo.return_(list(body(*block.arguments)))


def reduce_ir(out_type: Any, x: Any, dtype: Any, axes: Sequence[int], identity: Any,
              combine: Callable[[Any, Any], Any]) -> Any:
    """Emits a reduction of one array."""
    reduce = hlo.ReduceOp([out_type], [x], [constant(np.asarray(identity, dtype))],
                          dense_i64(axes))
    reducer_region(reduce.regions[0], [dtype], lambda a, b: [combine(a, b)])
    return reduce.results[0]


def iota_ir(aval: ShapedArray, axis: int) -> Any:
    """Emits an array whose elements are their own index along an axis."""
    return op("stablehlo.iota", [ir_type(aval)], [], {"iota_dimension": i64_attr(axis)})[0]


def pad_ir(out_type: Any, x: Any, value: Any, config: Sequence[tuple[int, int, int]]) -> Any:
    """Emits a padding: `(low, high, interior)` for each axis."""
    return op("stablehlo.pad", [out_type], [x, value], {
        name: dense_i64([axis[i] for axis in config]) for i, name in enumerate(
            ("edge_padding_low", "edge_padding_high", "interior_padding"))})[0]


def while_ir(state: Sequence[Any], condition: Callable[..., Any],
             body: Callable[..., Sequence[Any]]) -> list[Any]:
    """Emits a loop: `condition` and `body` are given the values of the state one by one."""
    types = [v.type for v in state]
    loop = hlo.WhileOp(types, state)
    for region, emit in zip(loop.regions, (lambda *v: [condition(*v)], body), strict=True):
        block = region.blocks.append(*types)
        with ir.InsertionPoint(block):
            hlo.return_(list(emit(*block.arguments)))
    return list(loop.results)
