"""Constants and attributes in MLIR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.ir.dtypes import PYTHON_SCALARS
from mjax._engine.ir.types import physical_aval, typeof
from mjax._engine.primitives.emit import constant, constant_handlers, handler_of
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.tracing.rule_errors import describe_value
from mjaxlib_shim.mlir import ir

#: `(value, aval) -> ir.Value`, or a tuple of these.
ConstantHandler = Callable[[Any, Any], Any]
#: XLA's kinds of channels: between devices, to the host, and from it.
DEVICE_TO_DEVICE_TYPE, SEND_TO_HOST_TYPE, RECV_FROM_HOST_TYPE = 1, 2, 3


# ---- constants ---------------------------------------------------------------------------


def register_constant_handler(type_: type, handler_fun: ConstantHandler) -> None:
    """Sets how values of a class become constants of modules, in `ir_constants` and in programs.

    Args:
      type_: the class; subclasses without a function of their own use it too.
      handler_fun: `(value, aval) -> ir.Value`, or a tuple of these.

    Raises:
      TypeError: the first argument is not a class, or the second is not a function.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> class Percent:
      ...   def __init__(self, number):
      ...     self.number = number
      >>> mlir.register_constant_handler(
      ...     Percent, lambda p, aval: mlir.ir_constant(np.float32(p.number / 100)))
      >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
      ...   module = mlir.ir.Module.create()
      ...   with mlir.ir.InsertionPoint(module.body):
      ...     print(mlir.ir_constant(Percent(50)).type)
      tensor<f32>
    """
    if not (isinstance(type_, type) and callable(handler_fun)):
        msg = ("register_constant_handler takes a class and a function (value, aval); got "
               f"{describe_value(type_)} and {describe_value(handler_fun)}.")
        raise TypeError(msg)
    constant_handlers[type_] = handler_fun


def get_constant_handler(type_: type) -> ConstantHandler:
    """How values of a class become constants.

    Args:
      type_: the class.

    Returns:
      `(value, type) -> IR values`.

    Raises:
      KeyError: nothing is registered for it, and it is not a class of arrays or numbers.
      TypeError: it is not a class.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> callable(mlir.get_constant_handler(np.ndarray))
      True
    """
    if not isinstance(type_, type):
        msg = f"get_constant_handler takes a class, got {describe_value(type_)}."
        raise TypeError(msg)
    for kind in type_.__mro__:
        if kind in constant_handlers:
            return constant_handlers[kind]
        if kind in _ARRAYS:
            return _array_constant
    raise KeyError(type_)


def _array_constant(value: Any, aval: Any = None) -> Any:
    return ir_constant(value, aval=aval)


_ARRAYS = (np.ndarray, np.generic, Array, *PYTHON_SCALARS)


def ir_constant(val: Any, *, const_lowering: Any = None, aval: Any = None) -> Any:
    """A constant of an array or number, of `aval`'s dtype, or of its own.

    NumPy's arrays and scalars have their own dtype, even one of 64 bits that programs do without;
    Python's numbers have the default one.

    Args:
      val: the value, or one of a class of `register_constant_handler`.
      const_lowering: values that the function being built has already, `ctx.const_lowering`.
      aval: the type.

    Returns:
      An `ir.Value`.

    Raises:
      ValueError: none or several IR values represent it; `ir_constants` gives them.
      TypeError: it is not such a value.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
      ...   module = mlir.ir.Module.create()
      ...   with mlir.ir.InsertionPoint(module.body):
      ...     print(mlir.ir_constant(np.float64([1, 2, 3])).type, mlir.ir_constant(2.0).type)
      tensor<3xf64> tensor<f32>
    """
    values = ir_constants(val, const_lowering=const_lowering, aval=aval)
    if len(values) != 1:
        msg = f"ir_constant: {describe_value(val)} is represented by {len(values)} IR values."
        raise ValueError(msg)
    return values[0]


def ir_constants(val: Any, *, const_lowering: Any = None, aval: Any = None) -> tuple[Any, ...]:
    """The IR values that represent a constant; mostly it is one.

    Args:
      val, const_lowering, aval: as for `ir_constant`.

    Returns:
      A tuple of `ir.Value`s.

    Raises:
      TypeError: `val` is neither an array nor a number, and has no handler.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
      ...   module = mlir.ir.Module.create()
      ...   with mlir.ir.InsertionPoint(module.body):
      ...     print(len(mlir.ir_constants(1.0)))
      1
    """
    known = const_lowering and const_lowering.get(id(val))
    handler = None if known is not None else handler_of(val)
    if handler is not None:
        known = handler(val, aval)
    if known is None:
        canonical = typeof(val)
        if aval is None and isinstance(val, (np.ndarray, np.generic)):
            known = constant(val)
        else:
            aval = aval or canonical
            stored = val._stored() if aval.extended else val
            known = constant(np.asarray(stored, physical_aval(aval).dtype))
    return tuple(known) if isinstance(known, (tuple, list)) else (known,)


# ---- attributes --------------------------------------------------------------------------


def i32_attr(i: int) -> Any:
    """An attribute of one 32-bit integer.

    Args:
      i: an int.

    Returns:
      An `ir.IntegerAttr`.

    Raises:
      TypeError: it is not an integer.
      OverflowError: it does not fit in 32 bits.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.i32_attr(3))
      3 : i32
    """
    try:
        number = operator.index(i)
    except TypeError:
        msg = f"i32_attr takes an int, got {describe_value(i)}."
        raise TypeError(msg) from None
    if not -(1 << 31) <= number < 1 << 31:
        msg = f"i32_attr: {number} does not fit in a signed integer of 32 bits."
        raise OverflowError(msg)
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)


def dense_int_elements(xs: Any) -> Any:
    """An attribute that is a tensor of 64-bit integers.

    Args:
      xs: integers, or an array of them.

    Returns:
      An `ir.Attribute`.

    Raises:
      TypeError: an element is not a number.
      ValueError: rows have different lengths, or an element is a text that is not an integer.
      OverflowError: an element does not fit in 64 bits with a sign.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.dense_int_elements([5, 6]))
      dense<[5, 6]> : tensor<2xi64>
    """
    given = np.asarray(xs)
    values = np.asarray(xs, np.int64, order="C")
    if given.dtype == np.uint64 and (values < 0).any():
        msg = f"dense_int_elements: {given.max()} does not fit in a signed integer of 64 bits."
        raise OverflowError(msg)
    return ir.DenseIntElementsAttr.get(values)


def dense_bool_elements(xs: Sequence[bool]) -> Any:
    """An attribute that is a tensor of booleans.

    Args:
      xs: the booleans.

    Returns:
      An `ir.Attribute`.

    Raises:
      TypeError: it cannot be iterated over.
      ValueError: an element is an array of several elements.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.dense_bool_elements([True, False]))
      dense<[true, false]> : tensor<2xi1>
    """
    # Releases of jaxlib disagree on the memory of such attributes, but not on their text.
    values = ["true" if x else "false" for x in xs]
    text = f"[{', '.join(values)}]" if values else ""
    return ir.Attribute.parse(f"dense<{text}> : tensor<{len(values)}xi1>")
