"""Types of references, which name a mutable array, and the effects of programs on them.

Programs do not compute with a reference itself: they read it, write it and add to it. The
`OperandEffect`s of an equation say which operands it reads or writes. `Inside` says that it makes
references of its own. A program without these effects does not touch any reference.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.base.errors import LazyNoArrayError
from mjax._engine.base.util import BoundedCache, pickled_by
from mjax._engine.ir.dtypes import DType
from mjax._engine.ir.effects import Effect, EffectPolicy, Effects, OperandEffect
from mjax._engine.ir.types import AbstractValue, ShapedArray

_known = BoundedCache(10_000)


@pickled_by("abstract_ref_v1", "inner_aval")
class AbstractRef(AbstractValue):
    """The type of a reference: `Ref{float32[3]}`.

    Args:
      inner_aval: the type of the array that it refers to.
      memory_space, kind: must be None: mjax does not place references.

    Raises:
      TypeError: the first is not the type of an array.
      NotImplementedError: there is a memory space, or a kind.

    Example:
      >>> from mjax_ext.core import ShapedArray
      >>> mjax.ref.AbstractRef(ShapedArray((3,), "float32"))
      Ref{float32[3]}
    """

    __slots__ = ("extended", "inexact", "inner_aval", "varying")
    varies = True
    inner_aval: ShapedArray

    def __new__(cls, inner_aval: Any, memory_space: Any = None, kind: Any = None) -> AbstractRef:
        if memory_space is not None or kind is not None:
            msg = ("AbstractRef: memory_space and kind must be None: mjax does not place "
                   "references.")
            raise NotImplementedError(msg)
        if not isinstance(inner_aval, ShapedArray):
            msg = ("AbstractRef takes the type of an array, such as mjax.typeof(x); got "
                   f"{inner_aval!r} of type {type(inner_aval).__name__}.")
            raise TypeError(msg)
        inner = inner_aval.strip_weak_type()
        known = _known.get(inner)
        if known is not None:
            return known
        self = object.__new__(cls)
        for name, value in (("inner_aval", inner), ("inexact", inner.inexact),
                            ("varying", inner.varying), ("extended", False)):
            object.__setattr__(self, name, value)
        return _known.put(inner, self)

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"AbstractRef is immutable; make another one for a type with another {name}."
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is AbstractRef and self.inner_aval is other.inner_aval)

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval))

    def __copy__(self) -> AbstractRef:
        return self

    def __deepcopy__(self, memo: Any) -> AbstractRef:
        return self

    # Attributes of the array, for code that reads `ref.shape` and its siblings.

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.inner_aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.inner_aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.inner_aval.size

    def to_tangent(self) -> AbstractRef | ShapedArray:
        """The type of a reference of tangents; where elements have none, that of their zeros."""
        inner = self.inner_aval.to_tangent()
        return AbstractRef(inner) if self.inexact else inner

    def update(self, inner_aval: Any = None, memory_space: Any = None, kind: Any = None,
               **fields: Any) -> AbstractRef:
        """This type for an array of another type, or with some fields of the array's replaced."""
        inner = inner_aval or self.inner_aval
        return AbstractRef(inner.update(**fields) if fields else inner, memory_space, kind)

    def with_varying(self, varying: frozenset[Any]) -> AbstractRef:
        return AbstractRef(self.inner_aval.with_varying(varying))

    def matches(self, other: AbstractValue) -> bool:
        return type(other) is AbstractRef and self.inner_aval.matches(other.inner_aval)

    def element(self, dim: int) -> AbstractRef:
        return AbstractRef(self.inner_aval.element(dim))

    def batched(self, dim: int, size: int) -> AbstractRef:
        return AbstractRef(self.inner_aval.batched(dim, size))

    def axis_size(self, dim: int) -> int | None:
        return self.inner_aval.axis_size(dim)

    def length(self) -> int:
        """`len` of a reference."""
        return self.inner_aval.length()

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return f"Ref{{{self.inner_aval.str_short(short_dtypes, mesh_axis_types)}}}"

    def __repr__(self) -> str:
        return self.str_short()

    def __getattr__(self, name: str) -> Any:
        raise LazyNoArrayError(lambda: (
            f"a reference of type {self} does not have {name}: it is not an array. Read it with "
            "ref[...]."))


class ReferenceEffect(OperandEffect):
    """Base of the effects on references."""


class ReadEffect(ReferenceEffect):
    """Reads the reference."""

    policy = EffectPolicy(kept_by_dce=False)


class WriteEffect(ReferenceEffect):
    """Writes the reference; may read it, too."""


class AccumEffect(ReferenceEffect):
    """Adds to the reference."""


class _Inside(Effect):
    """Makes references; this touches no others."""

    policy = EffectPolicy(kept_by_dce=False)

    def __repr__(self) -> str:
        return "Inside"

    def __reduce__(self) -> Any:
        return "INSIDE"


INSIDE = _Inside()


def touches_references(effects: Effects) -> bool:
    """Whether a program with these effects makes references, or reads or writes some."""
    return any(e is INSIDE or isinstance(e, ReferenceEffect) for e in effects)


def touched(effects: Effects) -> set[int]:
    """The numbers of the references among the operands that are read or written."""
    return {e.index for e in effects if isinstance(e, ReferenceEffect) and e.index is not None}


def written(effects: Effects) -> set[int]:
    """The numbers of the references among the operands that are written or added to."""
    return {e.index for e in effects if isinstance(e, (WriteEffect, AccumEffect))
            and e.index is not None}


def is_reference(aval: Any) -> bool:
    """Whether values of a type are references."""
    return type(aval) is AbstractRef
