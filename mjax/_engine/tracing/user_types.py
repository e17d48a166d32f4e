"""Values of users' types outside of programs.

They are `Packed`, the arrays that represent a value; or objects of a class of the author's, for a
type that `is_high`. `Packed` is a tracer of evaluation, as a reference is. Programs take either as
an operand and never as a constant. A compiled program takes and gives the arrays; `pack` and
`unpack` convert inside of it. Functions of objects become parts of programs by `on_objects`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.thread import thread
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir.token_types import AbstractToken
from mjax._engine.ir.types import (
    AbstractValue,
    ShapedArray,
    is_object_value,
    same_array_type,
    typeof,
)
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import Interpreter, Tracer, call_with, register_tracer
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.rule_errors import describe_value, where

#: The types of values that are one array.
SINGLE = (ShapedArray, AbstractToken)


class PackedPlacement:
    """The part of a packed value that cache keys contain: its type, and its arrays' placements.

    Attributes:
      aval: the type.
      parts: the placements of the arrays.
    """

    __slots__ = ("aval", "parts")

    def __init__(self, aval: AbstractValue, parts: tuple[Any, ...]):
        self.aval, self.parts = aval, parts


_placements = BoundedCache(10_000)
#: A type -> the types of the arrays that represent its values.
_expected = BoundedCache()


@register_tracer
class Packed(Tracer):
    """A value of a type of yours outside of programs, where your primitives make and take it.

    Args:
      aval: the type.
      parts: the arrays that represent the value, of the types `aval.physical()`.
    """

    __slots__ = ("parts",)

    def __init__(self, aval: AbstractValue, parts: Sequence[Any]):
        self.interp, self.aval, self.parts = evaluation, aval, tuple(parts)

    @property
    def _placement(self) -> PackedPlacement:
        key = (self.aval, tuple([x._placement for x in self.parts]))
        known: PackedPlacement = _placements.get(key) or _placements.put(
            key, PackedPlacement(*key))
        return known

    def origin(self) -> str:
        return ""

    def _concretize(self, error: Any, what: str, remedy: str) -> Any:
        raise LazyTypeError(lambda: (
            f"{what} needs an array, but this is a value of type {self.aval}: apply a primitive "
            "that gives an array of it."))

    def __repr__(self) -> str:
        return f"Packed({self.aval}: {', '.join(map(repr, self.parts))})"


pack_p = EnginePrimitive("pack", params={"aval": AbstractValue})
pack_p._narrow = False  # it takes any number of operands
unpack_p = EnginePrimitive("unpack", params={}, multiple_results=True)


def part_types(aval: AbstractValue) -> list[Any]:
    """The types of the arrays that represent a value of a user's type."""
    return aval.lo_ty() if aval.is_high else list(aval.physical())


def lowered(value: Any, aval: Any) -> Sequence[Any]:
    """The arrays that represent an object of an author's class.

    Args:
      value: the object.
      aval: its type.

    Raises:
      TypeError: the type's `lower_val` gives others than those of `lo_ty`, whose bits would be read
        as if they were of these types.
    """
    parts = aval.lower_val(value)
    cls, expected = type(aval), _expected.get(aval)
    if expected is None:
        expected = aval.lo_ty()
        if not isinstance(expected, (list, tuple)) or not all(
                isinstance(part, AbstractValue) for part in expected):
            msg = (f"{cls.__name__}.lo_ty ({where(cls.lo_ty)}) gave {describe_value(expected)}; it "
                   "must give a list of types of arrays.")
            raise TypeError(msg)
        _expected.put(aval, expected)
    try:
        if len(parts) == len(expected) and all(
                map(same_array_type, map(typeof, parts), expected)):
            return parts
    except TypeError:
        pass  # It is not a list, or not of arrays.
    msg = (f"{cls.__name__}.lower_val ({where(cls.lower_val)}) gave {describe_value(parts)} for a "
           f"value of type {aval}; it must give a list of arrays, of the types of lo_ty: "
           f"{', '.join(map(str, expected))}.")
    raise TypeError(msg)


def types_of_parts(aval: Any) -> list[Any]:
    """The types of the arrays that a value consists of in compiled programs."""
    return [aval] if isinstance(aval, SINGLE) else part_types(aval)


def to_parts(values: Sequence[Any]) -> list[Any]:
    """The arrays that values consist of, in a program that is lowered."""
    return [part for x in values
            for part in ([x] if isinstance(typeof(x), SINGLE) else unpack_p.bind(x))]


def from_parts(avals: Sequence[Any], parts: Sequence[Any],
               pack: Callable[[Any, Sequence[Any]], Any] | None = None) -> list[Any]:
    """The values of these types that consist of arrays.

    Args:
      avals: the types.
      parts: the arrays of all of them.
      pack: gives the value of a type from its parts; None: in a program that is lowered.
    """
    rest = iter(parts)
    make = pack or (lambda aval, its: pack_p.bind(*its, aval=aval))
    return [next(rest) if isinstance(aval, SINGLE) else
            make(aval, [next(rest) for _ in part_types(aval)]) for aval in avals]


pack_p.def_abstract_eval(lambda *parts, aval: aval)
unpack_p.def_abstract_eval(part_types)
pack_p.def_lowering(lambda ctx, *parts, aval: [parts[0] if len(parts) == 1 else parts])
unpack_p.def_lowering(lambda ctx, value: value if type(value) is tuple else [value])

for _p in pack_p, unpack_p:
    for _rule in "jvp", "batch":
        _p.without(_rule, "It is made where programs are compiled, after all transformations.")


# ---- functions of objects --------------------------------------------------------------


class ObjectInterpreter(Interpreter):
    """Lets functions work with objects in the place of values of their types.

    The parent stages a program. Primitives that are defined on objects run on them at once, so that
    the parent sees operations on the arrays in them; for all others objects are packed.
    """

    __slots__ = ()
    name = "the lowering of objects"

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if primitive.on_objects and primitive.impl is not None:
            return primitive.impl(*args, **params)
        thread.interpreter = self.parent
        try:
            outs = self.parent.process(  # type: ignore[union-attr]
                primitive, tuple(map(packed, args)), params)
            return list(map(raised, outs)) if primitive.multiple_results else raised(outs)
        finally:
            thread.interpreter = self


def packed(value: Any) -> Any:
    """A value for the current interpreter, which stages: of an object, the parts as one value."""
    if not is_object_value(value):
        return value
    aval = typeof(value)
    return pack_p.bind(*lowered(value, aval), aval=aval)


def raised(value: Any) -> Any:
    """The object of a value of the current interpreter, if its type has objects."""
    if isinstance(value, Tracer) and value.aval.is_high:
        return value.aval.raise_val(*unpack_p.bind(value))
    return value


def on_objects(f: Callable[..., Sequence[Any]], *values: Any) -> list[Any]:
    """Evaluates a function of objects in a program that is being staged.

    Args:
      f: takes and gives objects for values of types with objects.
      values: of the current interpreter.

    Returns:
      The list of the results, of the current interpreter.
    """
    parent = thread.interpreter
    outs = call_with(ObjectInterpreter(parent), f, *map(raised, values))
    return list(map(packed, outs))


__all__ = ["ObjectInterpreter", "Packed", "PackedPlacement", "SINGLE", "from_parts", "lowered",
           "on_objects", "to_parts", "types_of_parts"]
