"""Types of authors: `HiType`, and the classes of their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.ir.types import AbstractValue, register_value_class
from mjax._engine.tracing.aval_attributes import let_types_define_operators
from mjax._engine.tracing.rule_errors import describe_value, where
from mjax._engine.transforms.elements import spec_types


class HiType(AbstractValue):
    """Base of types whose values are, outside of programs, objects of a class of yours.

    A subclass says of which arrays a value is made, and what its derivatives are. `jit`, control
    flow, derivatives and `vmap` take and give such objects; primitives of yours (`HiPrimitive`,
    `VJPHiPrimitive`) make them and compute with them. It defines `__eq__` and `__hash__`: a frozen
    dataclass has them. Using a method that it does not define is an error that names the method.

    Traced values have the attributes of their type. If it defines `_add(x, y)`, a static method,
    that is `x + y`; `_getitem`, `_len` and so on likewise.

    Example:
      >>> from dataclasses import dataclass
      >>> from mjax.experimental import hijax
      >>> @dataclass(frozen=True)
      ... class Interval:
      ...     low: object
      ...     high: object
      >>> @dataclass(frozen=True)
      ... class IntervalType(hijax.HiType):
      ...     bound: hijax.ShapedArray
      ...     def lo_ty(self):
      ...         return [self.bound, self.bound]
      ...     def lower_val(self, interval):
      ...         return [interval.low, interval.high]
      ...     def raise_val(self, low, high):
      ...         return Interval(low, high)
      >>> hijax.register_hitype(Interval, lambda i: IntervalType(mjax.typeof(i.low)))
      >>> mjax.jit(lambda interval: interval)(Interval(jnp.ones(2), jnp.zeros(2)))
      Interval(low=Array([1., 1.], dtype=float32), high=Array([0., 0.], dtype=float32))

    Source: `jax.experimental.hijax.HiType` of release 0.10.2.
    """

    is_high = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        let_types_define_operators()

    # -- what a subclass defines --

    def __eq__(self, other: object) -> bool:
        self._refuse("__eq__", "cannot be compared")

    def __hash__(self) -> int:
        raise LazyTypeError(lambda: (
            f"{type(self).__name__} does not define __hash__: make it a frozen dataclass."))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that represent a value, any number of them."""
        self._refuse("lo_ty()", "cannot be compiled")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that represent an object, of the types `lo_ty()`."""
        self._refuse("lower_val(hi_val)", "cannot be compiled")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The object that arrays represent, the inverse of `lower_val`."""
        self._refuse("raise_val(*lo_vals)", "cannot leave programs")

    def to_tangent_aval(self) -> Any:
        """The type of tangents of values, of any kind."""
        self._refuse("to_tangent_aval()", "cannot be differentiated")

    def to_ct_aval(self) -> Any:
        """The type of cotangents of values; that of tangents, if a subclass does not say."""
        return self.to_tangent_aval()

    def normalize(self) -> AbstractValue:
        """This type, strongly typed; itself, if a subclass does not say."""
        return self

    def vspace_zero(self) -> Any:
        """A zero, made by primitives; needed of types of tangents."""
        self._refuse("vspace_zero()", "cannot be zero")

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two values, made by primitives; needed of types of tangents."""
        self._refuse("vspace_add(x, y)", "cannot be added")

    def dec_rank(self, size: int | None, spec: Any) -> Any:
        """The type of one element of a batch, or of one iteration.

        Args:
          size: the number of elements.
          spec: how values are mapped, a `MappingSpec` of yours.
        """
        self._refuse("dec_rank(size, spec)", "cannot be batched, nor given to iterations")

    def inc_rank(self, size: int | None, spec: Any) -> Any:
        """The type of `size` values at once, the inverse of `dec_rank`."""
        self._refuse("inc_rank(size, spec)", "cannot be batched, nor stacked by loops")

    def leading_axis_spec(self) -> Any:
        """The `MappingSpec` of values whose arrays have the axis of a loop in front."""
        self._refuse("leading_axis_spec()", (
            "cannot be given to iterations nor stacked by loops, and vmap maps them by a "
            "MappingSpec in in_axes and out_axes, where the axis 0 stands"))

    # -- what the engine asks --

    @property
    def inexact(self) -> bool:  # type: ignore[override]
        """Whether values have tangents that are not zero."""
        tangent = self.to_tangent_aval()
        return tangent.is_high or bool(tangent.inexact)

    def to_tangent(self) -> Any:
        return self.to_tangent_aval()

    def to_cotangent(self) -> Any:
        return self.to_ct_aval()

    def strip_weak_type(self) -> AbstractValue:
        return self.normalize()

    def physical(self) -> tuple[Any, ...]:
        return tuple(part for aval in self.lo_ty() for part in aval.physical())

    def zeros(self) -> Any:
        return self.vspace_zero()


class MappingSpec:
    """Base of what stands in `in_axes` and `out_axes` of `vmap` for values of a `HiType`.

    A subclass says how a value is mapped, for the type's own `dec_rank` and `inc_rank`. It defines
    `__eq__` and `__hash__`: a frozen dataclass has them.

    Example:
      >>> from dataclasses import dataclass
      >>> from mjax.experimental import hijax
      >>> @dataclass(frozen=True)
      ... class PairSpec(hijax.MappingSpec):
      ...     axes: tuple[int | None, int | None]
      >>> isinstance(PairSpec((0, None)), hijax.MappingSpec)
      True
    """


spec_types.add(MappingSpec)


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], HiType]) -> None:
    """Lets functions take and give objects of a class as values of a `HiType`.

    Args:
      val_cls: the class. Pytrees are not registered: an object is one leaf.
      typeof_fn: from an object to its type.

    Raises:
      TypeError: `val_cls` is not a class, or `typeof_fn` is not callable.

    Example:
      >>> from dataclasses import dataclass
      >>> from mjax.experimental import hijax
      >>> @dataclass(frozen=True)
      ... class Meters(hijax.HiType):
      ...     pass
      >>> hijax.register_hitype(type("Length", (), {}), lambda length: Meters())

      `HiType` shows a complete one.

    Source: `jax.experimental.hijax.register_hitype` of release 0.10.2.
    """
    if not isinstance(val_cls, type):
        _refuse(f"a class, got {describe_value(val_cls)}")
    if not callable(typeof_fn):
        _refuse(f"a function from an object to its type, got {describe_value(typeof_fn)}")
    register_value_class(val_cls, partial(_typed, typeof_fn))


#: The classes of types that were looked at.
_hashed: set[type] = set()


def _typed(typeof_fn: Callable[[Any], HiType], value: Any) -> HiType:
    """The type of an object; refuses what cannot be one."""
    found = typeof_fn(value)
    cls = type(found)
    if cls not in _hashed:
        said = f"the type of a {type(value).__name__}, by {where(typeof_fn)},"
        if not isinstance(found, HiType):
            msg = f"{said} must be a HiType, got {describe_value(found)}."
            raise TypeError(msg)
        if cls.__hash__ is None:
            msg = (f"{said} is {found!r}, which is not hashable. Types are compared and hashed: "
                   f"make {cls.__name__} a frozen dataclass, @dataclass(frozen=True).")
            raise TypeError(msg)
        _hashed.add(cls)
    return found


def _refuse(what: str) -> NoReturn:
    raise TypeError(f"register_hitype(val_cls, typeof_fn) takes {what}.")


__all__ = ["HiType", "MappingSpec", "register_hitype"]
