"""Emits custom calls, and attributes of Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.util import Keyed, exact
from mjax._engine.ir import dtypes
from mjax._engine.primitives.emit import array_attr, dense, element_type, hlo, ir

# ---- attributes ------------------------------------------------------------------------


class Constant(Keyed):
    """A NumPy array as a hashable value: an immutable copy, equal to those of the same bytes.

    Args:
      value: the array.
    """

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray[Any, Any]):
        self.value = np.array(value)
        self.value.setflags(write=False)

    def _key(self) -> tuple[Any, ...]:
        return self.value.shape, self.value.dtype, self.value.tobytes()

    def __repr__(self) -> str:
        return f"array({self.value.tolist()}, dtype={self.value.dtype})"


class Attributes(Keyed):
    """A dict of attributes as a hashable value.

    Args:
      items: pairs of a name and a hashable value, in the order of names.
    """

    __slots__ = ("items",)

    def __init__(self, items: tuple[tuple[str, Any], ...]):
        self.items = items

    def _key(self) -> Any:
        return exact(self.items)

    def __repr__(self) -> str:
        return repr(dict(self.items))


def frozen(value: Any) -> Any:
    """A value for `ir_attribute` in a form that is hashable; later changes do not affect it.

    Raises:
      TypeError: a part of it is not hashable.
    """
    if isinstance(value, np.ndarray):
        return Constant(value)
    if isinstance(value, dict):
        return Attributes(tuple([(key, frozen(value[key])) for key in sorted(value)]))
    if type(value) is tuple:
        return tuple(map(frozen, value))
    hash(value)
    return value


def ir_attribute(value: Any) -> Any:
    """The MLIR attribute of a Python value.

    Args:
      value: a number, a string, bytes, a NumPy array, a dtype, a sequence, or a dict with strings
        as keys, of such values. Python numbers have 64 bits; attributes and MLIR types are left as
        they are.

    Returns:
      An `ir.Attribute`.

    Raises:
      TypeError: another kind of value, or a complex number.
      OverflowError: an integer of more than 64 bits.
      ValueError: an array that repeats its elements by strides of 0.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.ir.Context(), mlir.ir.Location.unknown():
      ...   print(mlir.ir_attribute({"scale": np.float32(2), "order": "C"}))
      {order = "C", scale = 2.000000e+00 : f32}
    """
    for kind in type(value).__mro__:
        known = _ATTRIBUTES.get(kind)
        if known is not None:
            return known(value)
    if isinstance(value, (ir.Attribute, ir.Type)):
        return value
    msg = f"a value of type {type(value).__name__} cannot be an attribute: {value!r}."
    raise TypeError(msg)


def _number(value: np.generic[Any]) -> Any:
    """The attribute of a scalar; enums are integers too, and have the value of one."""
    kind = element_type(value.dtype)
    if dtypes.kind(value.dtype) in "biu":
        number = int(value)
        # MLIR's Python interface takes signed numbers alone.
        return (ir.IntegerAttr.get(kind, number) if number < 1 << 63 else
                ir.Attribute.parse(f"{number} : ui64"))
    if dtypes.kind(value.dtype) == "f":
        return ir.FloatAttr.get(kind, float(value))
    msg = (f"a scalar of dtype {value.dtype} cannot be an attribute: {value!r}. A NumPy array of "
           "shape () can.")
    raise TypeError(msg)


def _array(value: np.ndarray[Any, Any]) -> Any:
    if 0 in value.strides and value.size > 0:
        msg = ("an array that repeats its elements by strides of 0 cannot be an attribute: copy it "
               "(numpy.array(x)).")
        raise ValueError(msg)
    if value.dtype == dtypes.float0:
        value = np.zeros(value.shape, np.bool_)
    value = np.ascontiguousarray(value).reshape(value.shape)
    return _booleans(value) if value.dtype == np.bool_ else dense(value)


def _booleans(value: np.ndarray[Any, Any]) -> Any:
    # Releases disagree on the bytes of these attributes, but not on their text.
    shape = "x".join([*map(str, value.shape), "i1"])
    text = str(value.tolist()).lower() if value.size else ""
    return ir.Attribute.parse(f"dense<{text}> : tensor<{shape}>")


def _text(value: str | bytes) -> Any:
    return ir.StringAttr.get(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    msg = f"the keys of a dict that is an attribute must be strings, got {key!r}."
    raise TypeError(msg)


_ATTRIBUTES: dict[type, Callable[[Any], Any]] = {
    np.ndarray: _array,
    np.generic: _number,
    Constant: lambda value: _array(value.value),
    Attributes: lambda value: ir_attribute(dict(value.items)),
    bool: lambda value: _number(np.bool_(value)),
    int: lambda value: _number(np.int64(value)),
    float: lambda value: _number(np.float64(value)),
    complex: lambda value: _number(np.complex128(value)),
    str: _text,
    bytes: _text,
    np.dtype: lambda value: ir.TypeAttr.get(element_type(value)),
    dict: lambda value: ir.DictAttr.get({_key(k): ir_attribute(v) for k, v in value.items()}),
    list: lambda value: array_attr([ir_attribute(v) for v in value]),
    tuple: lambda value: array_attr([ir_attribute(v) for v in value]),
}

# ---- calls -----------------------------------------------------------------------------


def custom_call(call_target_name: str, *, result_types: Sequence[Any], operands: Sequence[Any],
                backend_config: str | bytes | Mapping[str, Any] | None = "",
                has_side_effect: bool = False, result_shapes: Sequence[Any] | None = None,
                called_computations: Sequence[str] = (), api_version: int = 2,
                operand_output_aliases: Mapping[int, int] | None = None,
                operand_layouts: Sequence[Sequence[int]] | None = None,
                result_layouts: Sequence[Sequence[int]] | None = None,
                extra_attributes: Mapping[str, Any] | None = None) -> Any:
    """A `stablehlo.custom_call`.

    Args:
      call_target_name: the name under which the function was registered.
      result_types: MLIR types of the results (`ctx.out_types`).
      operands: their `ir.Value`s.
      backend_config: a string; or a dict of attributes, for targets of XLA's typed FFI, which are
        called as of `api_version=4`.
      has_side_effect: whether the call stays even if its results are unused.
      result_shapes: `ir.Value`s of the results' shapes, if some are symbolic.
      called_computations: names of functions of the module that it calls.
      api_version: the calling convention.
      operand_output_aliases: index of an operand -> index of the result that takes its memory.
      operand_layouts: for each operand its axes, minor to major.
      result_layouts: the same of the results.
      extra_attributes: further attributes of the operation.

    Returns:
      The operation; a rule returns its `.results`.

    Raises:
      TypeError: a value of a dict of `backend_config` is not an attribute.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> p = core.Primitive("elsewhere")
      >>> _ = p.def_abstract_eval(lambda x: x)
      >>> _ = mlir.register_lowering(p, lambda ctx, x: mlir.custom_call(
      ...     "my_target", result_types=ctx.out_types, operands=[x]).results)
      >>> "custom_call @my_target" in mjax.jit(p.bind).lower(1.0).as_text()
      True

    Source: StableHLO `custom_call`.
    """
    if isinstance(backend_config, Mapping):
        for name, value in backend_config.items():
            if not isinstance(value, ir.Attribute):
                msg = (f"custom_call: backend_config[{name!r}] is to be an ir.Attribute, such as "
                       f"mlir.ir_attribute gives; got {type(value).__name__}.")
                raise TypeError(msg)
        config, api_version = ir.DictAttr.get(dict(backend_config)), 4
    else:
        config = ir.StringAttr.get(backend_config or "")
    attributes = {
        "call_target_name": ir.StringAttr.get(call_target_name),
        "has_side_effect": ir.BoolAttr.get(has_side_effect),
        "backend_config": config,
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), api_version),
        "called_computations": array_attr([ir.FlatSymbolRefAttr.get(name)
                                           for name in called_computations]),
    }
    if operand_output_aliases:
        attributes["output_operand_aliases"] = array_attr([
            hlo.OutputOperandAlias.get(
                # A single result is not a tuple, so it need not be unpacked.
                output_tuple_indices=[out] if len(result_types) > 1 else [], operand_index=index,
                operand_tuple_indices=[])
            for index, out in operand_output_aliases.items()])
    if result_shapes is not None:
        # They are additional operands until shape refinement makes all shapes static.
        count = len(operands)
        attributes["indices_of_shape_operands"] = ir.DenseIntElementsAttr.get(
            np.arange(count, count + len(result_shapes)))
        operands = [*operands, *result_shapes]
        if operand_layouts is not None:
            operand_layouts = [*operand_layouts, *[(0,)] * len(result_shapes)]
    for key, layouts in (("operand_layouts", operand_layouts), ("result_layouts", result_layouts)):
        if layouts is not None:
            attributes[key] = array_attr([ir.DenseIntElementsAttr.get(
                np.asarray(axes, np.int64).reshape(-1), type=ir.IndexType.get())
                for axes in layouts])
    return hlo.CustomCallOp.build_generic(
        results=list(result_types), operands=list(operands),
        attributes=attributes | dict(extra_attributes or {}))
