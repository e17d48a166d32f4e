"""MLIR types, constants and operations, for lowering rules.

`hlo` and `ir` are the shim's lazy proxies: MLIR loads when the first program is
lowered, not on import. All functions run inside an MLIR context, location and insertion
point that the lowering pass has entered.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from mjax._engine.base.errors import (
    InconclusiveDimensionOperation,
    LazyNotImplementedError,
    LazyTypeError,
    LazyValueError,
)
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import DimExpr
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.token_types import AbstractToken
from mjax._engine.ir.types import AbstractValue, ShapedArray, physical_aval
from mjaxlib_shim.mlir import hlo, ir

#: The names of classes of MLIR types; those of narrow floats derive from the dtypes' names.
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
    kind = getattr(ir, f"Float{name.removeprefix('float').replace('_', '').upper()}Type", None)
    if kind is None:
        raise LazyTypeError(lambda: f"this jaxlib does not have arrays of dtype {dtype}.")
    return kind.get()


#: Class of types -> the MLIR types of their values, in place of those of `physical()`.
ir_type_handlers: dict[type[AbstractValue], Callable[[Any], Any]] = {
    AbstractToken: lambda aval: hlo.TokenType.get()}


def ir_types(aval: AbstractValue) -> list[Any]:
    """The MLIR types of the IR values that represent a value of a type; mostly a single one."""
    for kind in type(aval).__mro__:
        handler = ir_type_handlers.get(kind)
        if handler is not None:
            found = handler(aval)
            return list(found) if isinstance(found, (tuple, list)) else [found]
    return list(map(ir_type, aval.physical()))


def flat(values: Iterable[Any]) -> list[Any]:
    """A flat list of IR values from values that are single ones or tuples."""
    return [v for value in values for v in (value if type(value) is tuple else (value,))]


def grouped(values: Iterable[Any], sizes: Iterable[int]) -> list[Any]:
    """The inverse of `flat`, given the number of IR values of each value."""
    given = iter(values)
    return [next(given) if n == 1 else tuple(itertools.islice(given, n)) for n in sizes]


def ir_type(aval: Any) -> Any:
    """The MLIR type of arrays of a type; keys are their physical arrays, float0 is bool."""
    aval = physical_aval(aval)
    if type(aval.size) is DimExpr:
        unknown = ir.ShapedType.get_dynamic_size()
        return ir.RankedTensorType.get(
            [n if type(n) is int else unknown for n in aval.shape], element_type(aval.dtype))
    if not 0 < aval.size < _SURE:
        refuse_size(aval)
    return ir.RankedTensorType.get(aval.shape, element_type(aval.dtype))


#: A number of elements that is small enough for any dtype.
_SURE = 1 << 56


def refuse_size(aval: ShapedArray) -> None:
    """Refuses arrays whose size in bytes exceeds 64 bits: XLA would end the process.

    An axis of size 0 does not help: XLA multiplies the others.

    Raises:
      ValueError: the type is too large.
      TypeError: a size is negative.
    """
    if min(aval.shape, default=0) < 0:
        raise LazyTypeError(lambda: f"sizes must not be negative: {aval} is not a type of arrays.")
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
    """An attribute of 64-bit integers, as dimension lists take.

    Args:
      values: the integers.

    Returns:
      An `ir.Attribute`.

    Raises:
      NotImplementedError: one is a symbolic dimension.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.dense_int_array([1, 2]))
      array<i64: 1, 2>
    """
    try:
        return ir.DenseI64ArrayAttr.get(list(values))
    except TypeError:
        if is_constant_shape(values):
            raise
        raise LazyNotImplementedError(lambda: (
            f"an operation with the sizes ({', '.join(map(str, values))}), which are symbolic, "
            "cannot be exported: fix them in the types of the arguments.")) from None


def dense_bool(values: Sequence[bool]) -> Any:
    """An attribute of booleans.

    Args:
      values: the booleans.

    Returns:
      An `ir.Attribute`.

    Raises:
      TypeError: it cannot be iterated over.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.dense_bool_array([True, False]))
      array<i1: true, false>
    """
    return ir.DenseBoolArrayAttr.get(list(values))


def i64_attr(value: int) -> Any:
    """An attribute of one 64-bit integer.

    Args:
      value: an int.

    Returns:
      An `ir.IntegerAttr`.

    Raises:
      TypeError: it is not an integer.
      OverflowError: it does not fit in 64 bits.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.i64_attr(3))
      3 : i64
    """
    try:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    except Exception:  # jaxlib's do not name the number
        try:
            fits = -(1 << 63) <= operator.index(value) < 1 << 63
        except TypeError:
            msg = f"i64_attr takes an int, got {value!r} of type {type(value).__name__}."
            raise TypeError(msg) from None
        if fits:
            raise
        msg = f"i64_attr: {value} does not fit in a signed integer of 64 bits."
        raise OverflowError(msg) from None


def in_bytes(aval: Any) -> Any:
    """The type in which arrays are joined, sorted and reduced with their indices. XLA on CPU ends
    the process when it joins numbers of two bits, sorts them wrongly, and refuses them beside
    indices (`jax` has that too)."""
    wide = _IN_BYTES.get(aval.dtype)
    return aval if wide is None else aval.update(dtype=wide)


_IN_BYTES = {np.dtype(getattr(ml_dtypes, name)): np.dtype(wide)
             for name, wide in (("int2", "int8"), ("uint2", "uint8")) if hasattr(ml_dtypes, name)}


def array_attr(values: Sequence[Any]) -> Any:
    """An attribute of attributes."""
    return ir.ArrayAttr.get(list(values))


#: Class of values -> their constants: `(value, aval) -> ir.Value`, or a tuple of these.
constant_handlers: dict[type, Callable[[Any, Any], Any]] = {}


def handler_of(value: Any) -> Callable[[Any, Any], Any] | None:
    """The function that writes constants of a value's class, if there is one."""
    for kind in type(value).__mro__ if constant_handlers else ():
        if kind in constant_handlers:
            return constant_handlers[kind]
    return None


def constant(value: Any) -> Any:
    """A constant of the value's own NumPy dtype and shape; of float0 it is False."""
    if np.asarray(value).dtype == dtypes.float0:
        value = np.zeros(np.shape(value), np.bool_)
    value = np.ascontiguousarray(value).reshape(np.shape(value))
    if value.dtype == np.bool_ and value.size != 1:
        # Attributes of booleans are packed bits before jaxlib 0.9.1 and bytes since; each release
        # silently misreads the other's form. Integers of 8 bits have one form.
        return hlo.convert(ir.RankedTensorType.get(value.shape, element_type(value.dtype)),
                           constant(value.view(np.uint8)))
    return hlo.ConstantOp(dense(value)).result


def dense(value: np.ndarray[Any, Any]) -> Any:
    """The attribute of an array; arrays of booleans must have one element."""
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    dtype = value.dtype
    element = element_type(dtype)
    if dtype == np.bool_:
        return ir.DenseElementsAttr.get_splat(
            ir.RankedTensorType.get(value.shape, element), ir.BoolAttr.get(value.item()))
    if dtype.kind in "iufc" and dtype.isbuiltin == 1:
        if value.size == 1 or dtype.kind == "c":
            return ir.DenseElementsAttr.get(value, type=element, shape=value.shape)
        return ir.DenseElementsAttr.get(value, type=element)
    # A narrow type of ml_dtypes, which NumPy's buffer protocol does not export.
    raw = value.view(f"u{dtype.itemsize}")
    return ir.DenseElementsAttr.get(raw, type=element, shape=value.shape)


def full(value: Any, aval: ShapedArray) -> Any:
    """A splat of one Python or NumPy scalar, or symbolic size, of the given type."""
    aval = physical_aval(aval)
    scalar = scalar_ir(value, np.bool_ if aval.dtype == dtypes.float0 else aval.dtype)
    return broadcast_ir(ir_type(aval), aval.shape, scalar, ()) if aval.shape else scalar


def reducer_region(region: Any, dtypes_: Sequence[Any], body: Callable[..., Sequence[Any]]) -> None:
    """Fills a region of two scalars per dtype (all left ones first) with `body`.

    Args:
      region: the empty region of an operation that reduces.
      dtypes_: the dtypes of its operands.
      body: from the scalars to as many results as there are dtypes.

    Raises:
      AttributeError: `region` is not a region.
      TypeError: `dtypes_` holds something else than dtypes of arrays; `body` does not give a list.
      MLIRError: when the module is compiled: `body` gives more or fewer results, or the operation
        does not have as many operands.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> def rule(ctx, x):
      ...   zero, axes = mlir.ir_constant(np.float32(0)), mlir.dense_int_array([0])
      ...   total = mlir.hlo.ReduceOp(ctx.out_types, [x], [zero], axes)
      ...   mlir.reducer_region(total.regions[0], [np.float32], lambda a, b: [mlir.hlo.add(a, b)])
      ...   return total.results
      >>> p = core.Primitive("total")
      >>> _ = p.def_abstract_eval(lambda x: core.ShapedArray((), x.dtype))
      >>> _ = mlir.register_lowering(p, rule)
      >>> float(p.bind(jnp.ones(3)))
      3.0
    """
    types = [ir_type(ShapedArray((), d)) for d in dtypes_]
    block = region.blocks.append(*types, *types)
    with ir.InsertionPoint(block):
        hlo.return_(list(body(*block.arguments)))


def reduce_ir(out_type: Any, x: Any, dtype: Any, axes: Sequence[int], identity: Any,
              combine: Callable[[Any, Any], Any]) -> Any:
    """Emits a reduction of one array."""
    reduce = hlo.ReduceOp([out_type], [x], [scalar_ir(identity, dtype)], dense_i64(axes))
    reducer_region(reduce.regions[0], [dtype], lambda a, b: [combine(a, b)])
    return reduce.results[0]


def iota_ir(aval: ShapedArray, axis: int) -> Any:
    """Emits an array whose elements are their own index along an axis."""
    where = {"iota_dimension": i64_attr(axis)}
    if thread.dimensions is None or is_constant_shape(aval.shape):
        return op("stablehlo.iota", [ir_type(aval)], [], where)[0]
    return op("stablehlo.dynamic_iota", [ir_type(aval)], [shape_ir(aval.shape)], where)[0]


def broadcast_ir(out_type: Any, shape: Sequence[Any], x: Any, dims: Sequence[int]) -> Any:
    """Emits a broadcast to a type, whose shape is given."""
    places = {"broadcast_dimensions": dense_i64(dims)}
    if thread.dimensions is None or is_constant_shape(shape):
        return op("stablehlo.broadcast_in_dim", [out_type], [x], places)[0]
    return op("stablehlo.dynamic_broadcast_in_dim", [out_type], [x, shape_ir(shape)], places)[0]


def reshape_ir(out_type: Any, shape: Sequence[Any], x: Any) -> Any:
    """Emits a reshape to a type, whose shape is given."""
    if thread.dimensions is None or (is_constant_shape(shape) and x.type.has_static_shape):
        return op("stablehlo.reshape", [out_type], [x])[0]
    return op("stablehlo.dynamic_reshape", [out_type], [x, shape_ir(shape)])[0]


def slice_ir(out_type: Any, x: Any, start: Sequence[Any], limit: Sequence[Any],
             strides: Sequence[Any]) -> Any:
    """Emits a slice."""
    given = dict(zip(("start_indices", "limit_indices", "strides"), (start, limit, strides),
                     strict=True))
    if thread.dimensions is None or all(map(is_constant_shape, given.values())):
        return op("stablehlo.slice", [out_type], [x],
                  {name: dense_i64(values) for name, values in given.items()})[0]
    return op("stablehlo.real_dynamic_slice", [out_type], [x, *map(shape_ir, given.values())])[0]


def dynamic_slice_ir(out_type: Any, x: Any, shape: Sequence[Any], starts: Sequence[Any],
                     sizes: Sequence[Any]) -> Any:
    """Emits a slice of an array of the given shape, from places that are scalars of one dtype."""
    if thread.dimensions is None or is_constant_shape(sizes):
        return op("stablehlo.dynamic_slice", [out_type], [x, *starts],
                  {"slice_sizes": dense_i64(sizes)})[0]
    one = ir.RankedTensorType.get([1], element_type(np.int32))
    start = hlo.concatenate([op("stablehlo.reshape", [one], [
        hlo.convert(ir_type(ShapedArray((), np.dtype(np.int32))), s)])[0] for s in starts],
        i64_attr(0))
    zero, last = shape_ir([0] * len(sizes)), shape_ir([n - m for n, m in zip(shape, sizes,
                                                                            strict=True)])
    start = hlo.clamp(zero, start, last)
    return op("stablehlo.real_dynamic_slice", [out_type], [
        x, start, hlo.add(start, shape_ir(sizes)), shape_ir([1] * len(sizes))])[0]


def pad_ir(out_type: Any, x: Any, value: Any, config: Sequence[tuple[int, int, int]]) -> Any:
    """Emits a padding: `(low, high, interior)` for each axis."""
    if thread.dimensions is not None and not all(map(is_constant_shape, config)):
        return op("stablehlo.dynamic_pad", [out_type], [x, value, *(
            shape_ir([axis[i] for axis in config]) for i in range(3))])[0]
    return op("stablehlo.pad", [out_type], [x, value], {
        name: dense_i64([axis[i] for axis in config]) for i, name in enumerate(
            ("edge_padding_low", "edge_padding_high", "interior_padding"))})[0]


def padded_ir(x: Any, value: Any, config: Sequence[tuple[Any, Any, int]]) -> Any:
    """Emits a padding of sizes that are symbolic."""
    unknown = ir.ShapedType.get_dynamic_size()
    sizes = [n if axis == (0, 0, 0) else unknown
             for n, axis in zip(x.type.shape, config, strict=True)]
    return pad_ir(ir.RankedTensorType.get(sizes, x.type.element_type), x, value, config)


def while_ir(state: Sequence[Any], condition: Callable[..., Any],
             body: Callable[..., Sequence[Any]]) -> list[Any]:
    """Emits a loop; `condition` and `body` take the values of the state as separate arguments."""
    types = [v.type for v in state]
    loop = hlo.WhileOp(types, state)
    for region, emit in zip(loop.regions, (lambda *v: [condition(*v)], body), strict=True):
        block = region.blocks.append(*types)
        with ir.InsertionPoint(block):
            hlo.return_(list(emit(*block.arguments)))
    return list(loop.results)


# ---- symbolic sizes --------------------------------------------------------------------


def size_ir(size: Any, values: Any = None) -> Any:
    """Emits a size that may be symbolic, as an i32, in terms of the symbols in force or given."""
    if type(size) is not DimExpr:
        return constant(np.int32(size))
    known = values or thread.dimensions or {}
    try:
        value = size.evaluate(known, _COMPUTE)
    except KeyError:
        refuse_symbols(size, known)
    return constant(np.int32(value)) if isinstance(value, int) else value


def refuse_symbols(size: DimExpr, known: Iterable[str]) -> NoReturn:
    """Refuses a symbolic size whose symbols a program does not know.

    Raises:
      InconclusiveDimensionOperation: in any case.
    """
    raise InconclusiveDimensionOperation(lambda: (
        f"a program that is compiled uses the symbolic dimension {size}, but the shapes of its "
        f"arguments have {f'only the symbols {sorted(known)}' if known else 'no symbols'}. "
        "Symbols have values in programs that mjax.export exports, where arguments have them as "
        "sizes."))


def scalar_ir(value: Any, dtype: Any) -> Any:
    """Emits a scalar of a dtype; it may be a symbolic size."""
    if type(value) is DimExpr:
        return op("stablehlo.convert", [ir_type(ShapedArray((), np.dtype(dtype)))],
                  [size_ir(value)])[0]
    return constant(np.asarray(value, dtype))


def shape_ir(shape: Sequence[Any]) -> Any:
    """Emits sizes that may be symbolic, as a vector of i32: always joined, see `refine_shapes`."""
    one = ir.RankedTensorType.get([1], element_type(np.int32))
    parts = [op("stablehlo.reshape", [one], [size_ir(size)])[0] for size in shape]
    if not parts:
        return constant(np.zeros(0, np.int32))
    return parts[0] if len(parts) == 1 else hlo.concatenate(parts, i64_attr(0))


def values_ir(values: Sequence[Any], dtype: Any) -> Any:
    """Emits a vector of numbers of a dtype, some of which may be symbolic sizes."""
    if is_constant_shape(values):
        return constant(np.array(values, dtype))
    return op("stablehlo.convert", [ir_type(ShapedArray((len(values),), dtype))],
              [shape_ir(values)])[0]


def _of_sizes(emit: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: emit(*[size_ir(v) if isinstance(v, int) else v for v in (a, b)])


def compare_sizes(a: Any, b: Any, direction: str) -> Any:
    """Emits a signed comparison of two i32; older jaxlibs refine shapes unsigned by default."""
    return hlo.compare(a, b, hlo.ComparisonDirectionAttr.get(direction),
                       compare_type=hlo.ComparisonTypeAttr.get("SIGNED"))


def _floordiv_ir(a: Any, b: Any) -> Any:
    """Emits a quotient rounded down; StableHLO's is rounded to zero."""
    # Only operations that jaxlib folds when it refines shapes.
    quotient, rest = hlo.divide(a, b), hlo.remainder(a, b)
    down = hlo.and_(compare_sizes(rest, size_ir(0), "NE"),
                    compare_sizes(hlo.sign(rest), hlo.sign(b), "NE"))
    return hlo.select(down, hlo.subtract(quotient, size_ir(1)), quotient)


_COMPUTE = {
    "add": _of_sizes(lambda a, b: hlo.add(a, b)),
    "mul": _of_sizes(lambda a, b: hlo.multiply(a, b)),
    "max": _of_sizes(lambda a, b: hlo.maximum(a, b)),
    "min": _of_sizes(lambda a, b: hlo.minimum(a, b)),
    "floordiv": _of_sizes(_floordiv_ir),
    "mod": _of_sizes(lambda a, b: hlo.subtract(a, hlo.multiply(b, _floordiv_ir(a, b))))}
