"""References as users hold them: `Ref`, a mutable box of an array.

It is a tracer of evaluation: a staged program takes it as an operand and never as a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn

from mjax._engine.base.errors import LazyNoArrayError, LazyText, LazyTypeError, LazyValueError
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr
from mjax._engine.ir.references import AbstractRef, is_reference
from mjax._engine.ir.source import here, summarize
from mjax._engine.tracing.evaluate import Evaluation, evaluation
from mjax._engine.tracing.interpreter import Tracer, register_tracer

if TYPE_CHECKING:
    from mjax._engine.tracing.ref_methods import RefMethods
else:
    RefMethods = Tracer  # `mjax._numpy.references` sets them on `Tracer`


class _RefMeta(type):
    """References in programs under construction are `Ref`s to `isinstance`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is Ref or (
            isinstance(instance, Tracer) and is_reference(instance.aval))


class RefPlacement:
    """The part of a reference that cache keys contain: the placement of its array.

    Attributes:
      placement: that of the array.
      aval: the type of the reference.
    """

    __slots__ = ("aval", "placement")
    #: A program may write only into memory that was donated to it.
    committed = False

    def __init__(self, placement: Any):
        self.placement = placement
        self.aval = AbstractRef(placement.aval)


_placements = BoundedCache(10_000)


@register_tracer
class Ref(RefMethods, metaclass=_RefMeta):
    """A reference to an array that changes in place, made by `mjax.new_ref`.

    `ref[i]` reads, `ref[i] = x` writes, and `ref[i] += x` adds. In programs it is an operand: a
    jitted function takes references, closes over them, and changes what they refer to.

    Example:
      >>> ref = mjax.new_ref(jnp.zeros(3))
      >>> @mjax.jit
      ... def add(ref, x):
      ...   ref[1] += x
      >>> add(ref, 2.0)
      >>> ref[...], isinstance(ref, mjax.Ref)
      (Array([0., 2., 0.], dtype=float32), True)

    Source: the public interface of `jax.Ref`.
    """

    __slots__ = ("_content", "_ended", "_source")
    interp: Evaluation
    aval: AbstractRef
    _content: Any
    _source: Any
    #: The operation that ended it, and its source.
    _ended: tuple[str, Any] | None

    def __init__(self, content: Any, source: Any = None):
        self.interp = evaluation
        self.aval = AbstractRef(content.aval)
        self._content, self._source, self._ended = content, source, None

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__: Callable[..., bool] = object.__eq__
    __ne__: Callable[..., bool] = object.__ne__

    @property
    def _placement(self) -> RefPlacement:
        placement = self.content()._placement
        known: RefPlacement = _placements.get(placement) or _placements.put(
            placement, RefPlacement(placement))
        return known

    def content(self) -> Any:
        """The array. No other array may share its memory.

        Raises:
          ValueError: the reference has ended.
        """
        if self._ended is not None:
            what, source = self._ended
            raise LazyValueError(lambda: (
                f"a reference of type {self.aval}, made at {summarize(self._source)}, is used "
                f"after {what} at {summarize(source)}. Read it before, or make another one with "
                "new_ref."))
        return self._content

    def store(self, content: Any) -> None:
        """Replaces the array."""
        self._content = content

    def end(self, what: str, source: Any) -> Any:
        """Ends the reference, and returns its array."""
        content, self._content, self._ended = self.content(), None, (what, source)
        return content

    @property
    def sharding(self) -> Any:
        """The sharding of the elements."""
        return self.content().sharding

    @property
    def format(self) -> Any:
        """The sharding and the layout of the elements."""
        return self.content().format

    @property
    def committed(self) -> bool:
        """Whether the array stays on its devices."""
        return bool(self.content().committed)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the array's memory."""
        return int(self.content().unsafe_buffer_pointer())

    def origin(self) -> str:
        return f" It was made at {summarize(self._source)}."

    def _refuse(self, what: str, error: Any = None) -> NoReturn:
        raise LazyNoArrayError(lambda: (
            f"one cannot {what} of a reference of type {self.aval}: read its array, "
            f"ref[...].{self.origin()}"))

    def __deepcopy__(self, memo: Any) -> Ref:
        return Ref(deepcopy(self.content(), memo), here())

    def __reduce__(self) -> NoReturn:
        raise LazyTypeError(lambda: (
            f"a reference of type {self.aval}, made at {summarize(self._source)}, cannot be "
            "pickled: pickle its array, ref[...]."))

    def __repr__(self) -> str:
        return f"Ref({self.aval}, ended)" if self._ended else (
            f"Ref{repr(self._content).removeprefix('Array')}")


def check_aliases(info: Callable[[], DebugInfo], operands: Sequence[Any]) -> None:
    """Refuses references that are given twice.

    Args:
      info: gives the names of a program's operands.
      operands: these.

    Raises:
      ValueError: one is; says as which arguments.
    """
    places = [i for i, x in enumerate(operands)
              if isinstance(x, Tracer) and type(x.aval) is AbstractRef]
    if len(places) > 1 and len({id(operands[i]) for i in places}) < len(places):
        refuse_aliases(info(), places, [operands[i] for i in places])


def refuse_aliases(info: DebugInfo, places: Sequence[int], refs: Sequence[Any]) -> NoReturn:
    """Raises the error for a reference that is given twice.

    Args:
      info: of the program that takes it.
      places: the numbers of the inputs that are references.
      refs: those that are given.
    """
    known: dict[int, int] = {}
    for place, ref in zip(places, refs, strict=True):
        first = known.setdefault(id(ref), place)
        if first != place:
            raise LazyValueError(lambda ref=ref, first=first, place=place: (  # type: ignore[misc]
                f"{info.func_src_info} takes the same reference of type {ref.aval} twice, as "
                f"{info.arg_name(first)} and as {info.arg_name(place)}: what one writes the other "
                f"would not read. Give it once.{ref.origin()}"))
    raise AssertionError


def refuse_differentiated(who: str, where: str, value: Any) -> None:
    """Refuses a reference as what derivatives are taken in.

    Raises:
      TypeError: it is one.
    """
    if isinstance(value, Tracer) and is_reference(value.aval):
        raise LazyTypeError(lambda: (
            f"{who}: {where} is a reference of type {value.aval}, and derivatives are taken in "
            "arrays. Take the derivative in an array, and make the reference of it in the "
            f"function, mjax.new_ref(x); hold others constant (argnums).{value.origin()}"))


def refuse_returned(who: str, jaxpr: Jaxpr, error: type[LazyText] = LazyValueError) -> None:
    """Refuses a program that gives references.

    Args:
      who: the public function, for messages.
      jaxpr: the program.
      error: a class of errors.

    Raises:
      ValueError: it does; says where the reference comes from.
    """
    for var in jaxpr.outvars:
        if type(var.aval) is not AbstractRef:
            continue
        info = jaxpr.debug_info
        made = [eqn for eqn in jaxpr.eqns if var in eqn.outvars]
        came = (f"made at {summarize(made[0].source)}" if made else
                f"given as {info.arg_name(jaxpr.invars.index(var))}"
                if var in jaxpr.invars else "closed over")
        raise error(lambda var=var, came=came: (  # type: ignore[misc]
            f"{who}: {jaxpr.debug_info.func_src_info} returns a reference of type {var.aval}, "
            f"{came}: references cannot be returned, nor be carried by loops. Close over it, or "
            "return what it refers to, ref[...] or mjax.freeze(ref)."))
