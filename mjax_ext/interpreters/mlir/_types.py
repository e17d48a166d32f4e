"""Types in MLIR, and values that several IR values represent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final

from mjax._engine.base.util import alias, counted
from mjax._engine.ir.dtypes import as_dtype, is_extended
from mjax._engine.ir.types import AbstractValue, ShapedArray
from mjax._engine.primitives import emit
from mjax._engine.primitives.emit import element_type, ir_type, ir_types
from mjax._engine.tracing.rule_errors import describe_value
from mjaxlib_shim.mlir import hlo

# ---- types -------------------------------------------------------------------------------


class _TypeHandlers(MutableMapping[type[AbstractValue], Callable[[Any], Any]]):
    """Class of types -> `aval -> ir.Type`, or a tuple of these: how its values are represented.

    `ShapedArray`, tokens, and other types of the engine have entries. A class without one is
    represented by the arrays that its method `physical()` names.
    """

    def __getitem__(self, kind: type[AbstractValue]) -> Callable[[Any], Any]:
        known = emit.ir_type_handlers.get(kind)
        if known is not None:
            return known
        if kind is ShapedArray:
            return ir_type
        raise KeyError(kind)

    def __setitem__(self, kind: type[AbstractValue], handler: Callable[[Any], Any]) -> None:
        if not (isinstance(kind, type) and issubclass(kind, AbstractValue) and callable(handler)):
            msg = ("ir_type_handlers maps subclasses of core.AbstractValue to functions of a type; "
                   f"got {describe_value(kind)} and {describe_value(handler)}.")
            raise TypeError(msg)
        emit.ir_type_handlers[kind] = handler

    def __delitem__(self, kind: type[AbstractValue]) -> None:
        del emit.ir_type_handlers[kind]

    def __iter__(self) -> Iterator[type[AbstractValue]]:
        return iter([ShapedArray, *emit.ir_type_handlers])

    def __len__(self) -> int:
        return 1 + len(emit.ir_type_handlers)


ir_type_handlers: _TypeHandlers = _TypeHandlers()


def dtype_to_ir_type(dtype: Any) -> Any:
    """The MLIR type of elements of a dtype.

    Args:
      dtype: a dtype, or a name of one.

    Returns:
      An `ir.Type`.

    Raises:
      TypeError: it is not a dtype that arrays have, or it is a dtype of keys.
      ValueError: it is an array.
      RuntimeError: no `ir.Context` is entered.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.dtype_to_ir_type("bfloat16"))
      bf16
    """
    found = as_dtype(dtype)
    if is_extended(found):
        msg = (f"dtype_to_ir_type: {found} is a dtype of keys, which are arrays of another dtype; "
               "aval_to_ir_type gives the type of those arrays.")
        raise TypeError(msg)
    return element_type(found)


def aval_to_ir_type(ctx_or_aval: Any, aval: Any = None) -> Any:
    """The MLIR type of values of a type: `aval_to_ir_type(aval)`, or `(module_context, aval)`.

    Args:
      ctx_or_aval: the type, or a module context.
      aval: the type, if it is not the first argument.

    Returns:
      An `ir.Type`.

    Raises:
      ValueError: none or several IR values represent one value of the type.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
      ...   print(mlir.aval_to_ir_type(mjax.typeof(jnp.ones((2, 3)))))
      tensor<2x3xf32>
    """
    types = aval_to_ir_types(ctx_or_aval, aval)
    if len(types) != 1:
        msg = (f"values of type {ctx_or_aval if aval is None else aval} are represented by "
               f"{len(types)} IR values; aval_to_ir_types gives their types.")
        raise ValueError(msg)
    return types[0]


def aval_to_ir_types(ctx_or_aval: Any, aval: Any = None) -> tuple[Any, ...]:
    """The MLIR types of the IR values that represent a value of a type; mostly it is one.

    Args:
      ctx_or_aval: the type, or a module context before the type. Types do not depend on it.
      aval: the type.

    Returns:
      A tuple of `ir.Type`s.

    Raises:
      TypeError: it is not a type, its class has neither an entry in `ir_type_handlers` nor a method
        `physical()`, or a size is negative.
      ValueError: no device has the memory for an array of this type.
      RuntimeError: no `ir.Context` or no `ir.Location` is entered.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
      ...   print(*mlir.aval_to_ir_types(mjax.typeof(1.0)))
      tensor<f32>
    """
    found = ctx_or_aval if aval is None else aval
    if not isinstance(found, AbstractValue):
        msg = (f"aval_to_ir_types takes a type, such as mjax.typeof(x) gives; got "
               f"{describe_value(found)}.")
        raise TypeError(msg)
    return tuple(ir_types(found))


def token_type() -> Any:
    """The MLIR type of tokens.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.token_type())
      !stablehlo.token
    """
    return hlo.TokenType.get()


# ---- several IR values for one -----------------------------------------------------------


def flatten_ir_values(xs: Iterable[Any]) -> list[Any]:
    """A flat list, from values that are each one IR value or a tuple of them.

    Args:
      xs: the values.

    Returns:
      A list of `ir.Value`s.

    Raises:
      TypeError: it cannot be iterated over.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.flatten_ir_values(["a", ("b", "c"), ()])
      ['a', 'b', 'c']
    """
    return emit.flat(map(_as_tuple, xs))


flatten_lowering_ir_args: Final = alias(flatten_ir_values, "flatten_lowering_ir_args")


def flatten_ir_types(xs: Iterable[Any]) -> list[Any]:
    """A flat list, from types that are each one MLIR type or a tuple of them.

    Args:
      xs: the types.

    Returns:
      A list of `ir.Type`s.

    Raises:
      TypeError: it cannot be iterated over.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.flatten_ir_types([("f32", "i1"), "i32"])
      ['f32', 'i1', 'i32']
    """
    return emit.flat(map(_as_tuple, xs))


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def unflatten_ir_values_like_types(xs: Iterable[Any], ys: Sequence[Any]) -> list[Any]:
    """The inverse of `flatten_ir_values`.

    Args:
      xs: the flat list of IR values.
      ys: for each value one MLIR type, or a tuple of types.

    Returns:
      A list, an IR value or a tuple of them for each result.

    Raises:
      ValueError: there are more or fewer IR values than types.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.unflatten_ir_values_like_types(["a", "b", "c"], ["f32", ("f32", "i1")])
      ['a', ('b', 'c')]
    """
    values, sizes = list(xs), [len(y) if isinstance(y, (tuple, list)) else None for y in ys]
    count = sum(1 if n is None else n for n in sizes)
    if count != len(values):
        msg = (f"unflatten_ir_values_like_types: {counted(len(values), 'IR value')} for "
               f"{counted(count, 'type')}.")
        raise ValueError(msg)
    given = iter(values)
    return [next(given) if n is None else tuple([next(given) for _ in range(n)]) for n in sizes]


class _Tree:
    """The structure of a tree of IR values; `unflatten` makes the tree of a flat list again."""

    def __init__(self, sizes: Sequence[int | None]):
        self._sizes = sizes

    def unflatten(self, leaves: Iterable[Any]) -> list[Any]:
        """The list of values, each one IR value or a tuple of them."""
        return unflatten_ir_values_like_types(
            leaves, [None if n is None else (None,) * n for n in self._sizes])


class _Registry:
    """Flattens lists of values that are each one IR value or a tuple of them.

    `flatten(xs)` gives the flat list and a structure whose `unflatten` is the inverse.
    """

    def flatten(self, xs: Iterable[Any]) -> tuple[list[Any], _Tree]:
        """The flat list, and the structure."""
        values = list(xs)
        return flatten_ir_values(values), _Tree([
            len(x) if isinstance(x, (tuple, list)) else None for x in values])


ir_tree_registry: _Registry = _Registry()
