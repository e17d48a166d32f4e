"""Values of users' types outside of programs: `Packed`, the arrays that represent a value.

It is a tracer of evaluation, as a reference is: programs take it as an operand and never as a
constant. A compiled program takes and gives the arrays; `pack` and `unpack` convert inside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir.types import AbstractValue
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import Tracer, register_tracer
from mjax._engine.tracing.primitive import EnginePrimitive


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
unpack_p = EnginePrimitive("unpack", params={}, multiple_results=True)

pack_p.def_abstract_eval(lambda *parts, aval: aval)
unpack_p.def_abstract_eval(lambda value: list(value.physical()))
pack_p.def_lowering(lambda ctx, *parts, aval: [parts[0] if len(parts) == 1 else parts])
unpack_p.def_lowering(lambda ctx, value: value if type(value) is tuple else [value])

__all__ = ["Packed", "PackedPlacement", "pack_p", "unpack_p"]
