"""Attributes that types give to traced values.

Tracers look for them only once a program has made one: CPython does not specialize reading
attributes of classes that have `__getattr__`, and each takes six times as many instructions.
Attributes of arrays, such as `sum` or `T`, may be among them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from mjax._engine.tracing.interpreter import Tracer


class aval_property(NamedTuple("_Property", [("fget", Callable[[Any], Any])])):
    """An attribute that traced values have, as part of the class of their type.

    Args:
      fget: from the value to the attribute.

    Example:
      >>> from mjax.experimental import hijax
      >>> class Named(hijax.AbstractValue):
      ...     label = hijax.aval_property(lambda value: f"a {type(value.aval).__name__}")
      >>> Named.label.fget
      <function ...>
    """

    __slots__ = ()

    def __new__(cls, fget: Callable[[Any], Any]) -> Self:
        _let_types_define_attributes()
        return super().__new__(cls, fget)


class aval_method(NamedTuple("_Method", [("fun", Callable[..., Any])])):
    """A method that traced values have, as part of the class of their type.

    Args:
      fun: takes the value, then the arguments.

    Example:
      >>> from mjax.experimental import hijax
      >>> class Named(hijax.AbstractValue):
      ...     label = hijax.aval_method(lambda value, text: text)
      >>> Named.label.fun
      <function ...>
    """

    __slots__ = ()

    def __new__(cls, fun: Callable[..., Any]) -> Self:
        _let_types_define_attributes()
        return super().__new__(cls, fun)


#: What the engine reads of each tracer; types do not define them.
_ENGINES = frozenset({
    "aval", "below", "block_until_ready", "concrete", "copy_to_host_async", "dtype", "full_lower",
    "interp", "ndim", "origin", "provenance", "shape", "sharding", "size", "to_concrete_value",
    "weak_type"})
#: Special methods: `x + y` is `type._add(x, y)`, if a `HiType` has that.
_OPERATORS = frozenset({
    *(f"{r}{name}" for r in ("", "r") for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or",
        "xor", "lshift", "rshift")),
    "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "round", "getitem",
    "contains", "iter", "len", "bool", "int", "float", "complex", "index"})
_nothing = object()


class _Shared:
    """An attribute of arrays that the types of other values may define for them.

    Args:
      name: its name in types.
      instead: what arrays have.
    """

    __slots__ = ("instead", "name")

    def __init__(self, name: str, instead: Any):
        self.name, self.instead = name, instead

    def __get__(self, value: Any, owner: Any = None) -> Any:
        found = _nothing if value is None else _defined(value, self.name)
        return self.instead.__get__(value, owner) if found is _nothing else found


class _Operator(_Shared):
    """A special method of arrays that is a function of values in types."""

    __slots__ = ()

    def __get__(self, value: Any, owner: Any = None) -> Any:
        if value is not None and getattr(value.aval, "is_high", False):
            rule = getattr(value.aval, self.name, None)
            if callable(rule):
                return functools.partial(rule, value)
        return self.instead.__get__(value, owner)


def _let_types_define_attributes() -> None:
    """Lets tracers look for attributes in their type."""
    if not hasattr(Tracer, "__getattr__"):
        for name, instead in list(vars(Tracer).items()):
            if not (name.startswith("_") or name in _ENGINES):
                setattr(Tracer, name, _Shared(name, instead))
        Tracer.__getattr__ = _of_type  # type: ignore[attr-defined]


def let_types_define_operators() -> None:
    """Lets tracers look for attributes and operators in their type, a `HiType`."""
    _let_types_define_attributes()
    for name in _OPERATORS:
        instead = vars(Tracer)[special := f"__{name}__"]
        if not isinstance(instead, _Operator):
            setattr(Tracer, special, _Operator(f"_{name}", instead))


def _defined(value: Tracer, name: str) -> Any:
    """An attribute that the type defines, or `_nothing`."""
    aval = value.aval
    found = getattr(type(aval), name, _nothing)
    if type(found) is aval_property:
        return found.fget(value)
    if type(found) is aval_method:
        return functools.partial(found.fun, value)
    return getattr(aval, name, _nothing) if getattr(aval, "is_high", False) else _nothing


def _of_type(value: Tracer, name: str) -> Any:
    """An attribute of a tracer that its class lacks."""
    found = _nothing if name in _ENGINES or name.startswith("__") else _defined(value, name)
    if found is not _nothing:
        return found
    try:
        return object.__getattribute__(value, name)
    except AttributeError:  # The class lacks it, or its property has refused.
        aval = None if name.startswith("__") or name == "aval" else value.aval
        if aval is None or not aval.is_high or hasattr(type(value), name):
            raise
        cls = type(aval).__name__
        msg = (f"a value of type {aval} does not have the attribute {name!r} in programs, where it "
               f"is traced as a whole. Define {cls}.{name} by hijax.aval_property or "
               "hijax.aval_method, in terms of primitives that take the value apart.")
    raise AttributeError(msg, name=name, obj=value)
