"""Schemas: the params of a primitive's equations, by name and type.

    Primitive("scan", params={"jaxpr": Jaxpr, "length": int, "reverse": bool, ...})

A type is a class, `tuple[int, ...]`, `frozenset[str]`, `int | None`, `Literal["a", "b"]` or `Any`.
`NotRequired[t]` says that equations may lack the param. A param whose type contains `Jaxpr` is a
*body*: a program that the equation holds. `int` stands for sizes, too, which may be symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.base.util import closest
from mjax._engine.ir.dimensions import DimExpr
from mjax._engine.ir.dtypes import ExtendedDType
from mjax._engine.ir.jaxpr import Jaxpr

#: Types that many schemas name.
AnyDType = np.dtype | ExtendedDType
Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
AxisNames = tuple[Any, ...]

#: The schema of a primitive without params.
NO_PARAMS: Mapping[str, Any] = {}

#: Operands and params of one application.
Example = tuple[Sequence[Any], Mapping[str, Any]]
Examples = Sequence[Example] | Callable[[], Sequence[Example]]


class Schema(Record):
    """The params of a primitive's equations.

    Attributes:
      params: name -> type, in the order of the declaration.
      required: the names that every equation has.
      bodies: the names of params that hold jaxprs.
      examples: operands and params of some applications, as pairs; or a function that gives them.

    Example:
      >>> from mjax_ext.core.primitives import cumsum_p, scan_p
      >>> print(cumsum_p.schema)
      axis: int, reverse: bool
      >>> scan_p.schema.bodies
      ('jaxpr',)
    """

    params: Mapping[str, Any]
    required: frozenset[str]
    bodies: tuple[str, ...]
    examples: Examples

    def __str__(self) -> str:
        return ", ".join(
            f"{name}: {type_text(kind)}" + ("" if name in self.required else " (may be absent)")
            for name, kind in self.params.items()) or "no params"

    def admits(self, params: Mapping[str, Any]) -> bool:
        """Whether an equation may have params of these names."""
        return params.keys() >= self.required and params.keys() <= self.params.keys()

    def applications(self) -> list[Example]:
        """The examples."""
        return [*(self.examples() if callable(self.examples) else self.examples)]

    def jaxprs(self, params: Mapping[str, Any]) -> Iterator[tuple[str, Jaxpr]]:
        """The programs in the bodies of an equation, each with the name of its param."""
        for name in self.bodies:
            yield from ((name, jaxpr) for jaxpr in _jaxprs_in(params.get(name)))

    def misnamed(self, params: Mapping[str, Any]) -> str:
        """Says which names of params are wrong, and which were meant; empty if none is."""
        unknown = [name for name in params if name not in self.params]
        missing = [name for name in self.params if name in self.required and name not in params]
        parts = [f"{_named(unknown)} unknown"] if unknown else []
        parts += [f"{_named(missing)} missing"] if missing else []
        meant = [found for name in unknown if (found := closest(name, missing or self.params))]
        return ", ".join(parts) + (f" (did you mean {', '.join(map(repr, meant))}?)"
                                   if meant else "")

    def mistyped(self, params: Mapping[str, Any]) -> str:
        """Says which param is not of its type; empty if none is."""
        for name, kind in self.params.items():
            if name in params and not is_of(params[name], kind):
                value = params[name]
                return (f"param {name!r} is {repr(value)[:80]} of type {type(value).__name__}, "
                        f"where the schema says {type_text(kind)}")
        return ""


def schema_of(params: Mapping[str, Any] | Schema, examples: Examples = ()) -> Schema:
    """The schema with these params, whose types may be `NotRequired[...]`.

    Raises:
      TypeError: `params` is not a mapping, a name is not a text, or a type is not a type.
    """
    if isinstance(params, Schema):
        return params._replace(examples=examples) if examples else params
    if not isinstance(params, Mapping):
        msg = (f"params is {params!r}; it must be a dict from names of params to their types, such "
               "as {'axis': int}.")
        raise TypeError(msg)
    if not params and not examples:
        return _WITHOUT_PARAMS
    types, optional, bodies = {}, [], []
    for name, kind in params.items():
        if type(kind) is not type or type(name) is not str:
            if getattr(kind, "__origin__", None) is NotRequired:
                optional.append(name)
                kind, = kind.__args__
            _check_type(name, kind)
            if _mentions_jaxpr(kind):
                bodies.append(name)
        elif kind is Jaxpr:
            bodies.append(name)
        types[name] = kind
    return Schema(types, frozenset(types).difference(optional), tuple(bodies), examples)


def _check_type(name: Any, kind: Any) -> None:
    if not isinstance(name, str):
        msg = f"the name of a param is a text, not {name!r}."
        raise TypeError(msg)
    for part in _parts(kind):
        origin = get_origin(part)
        known = part is None or part is Any or origin in (Union, UnionType, Literal) or (
            isinstance(part if origin is None else origin, type) and origin is not Annotated
            and (origin is None or bool(get_args(part)) or isinstance(part, GenericAlias)))
        if not known:
            within = "" if part is kind else f", in {kind!r}"
            msg = (f"the type of param {name!r} is {part!r}{within}; it must be a class, a type "
                   "such as tuple[int, ...] or int | None, or typing.Any.")
            raise TypeError(msg)
        if origin is None and isinstance(part, type) and part is not Any:
            try:
                isinstance(None, part)
            except TypeError as error:  # such as a protocol's
                msg = (f"the type of param {name!r} is {part!r}, which does not tell values: "
                       f"{error}.")
                raise TypeError(msg) from None


def _parts(kind: Any) -> Iterator[Any]:
    """A type, and those in it that `is_of` asks for values."""
    yield kind
    if get_origin(kind) in (Union, UnionType, tuple, frozenset):
        for arg in get_args(kind):
            if arg is not Ellipsis:
                yield from _parts(arg)


def _mentions_jaxpr(kind: Any) -> bool:
    # Another class may stand for it in annotations, as facades of `mjax_ext` do.
    if kind is Jaxpr or getattr(kind, "stands_for", None) is Jaxpr:
        return True
    return any(map(_mentions_jaxpr, getattr(kind, "__args__", ())))


def _jaxprs_in(value: Any) -> Iterator[Jaxpr]:
    if isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _jaxprs_in(v)


_WITHOUT_PARAMS = Schema({}, frozenset(), (), ())

#: Class -> the classes whose values it stands for.
_WIDER: dict[Any, tuple[type, ...]] = {
    int: (int, np.integer, DimExpr),
    float: (float, int, np.floating, np.integer),
    complex: (complex, float, int, np.number),
    bool: (bool, np.bool_),
}


def is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a type of a schema."""
    if kind is Any:
        return True
    if kind is None:
        return value is None
    if isinstance(kind, type) and get_origin(kind) is None:
        return isinstance(value, _WIDER.get(kind, kind))
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(is_of(value, arg) for arg in args)
    if origin is Literal:
        return any(type(value) is type(arg) and value == arg for arg in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(is_of(v, args[0]) for v in value)
        return len(value) == len(args) and all(map(is_of, value, args))
    if origin is frozenset:
        return isinstance(value, frozenset) and all(is_of(v, args[0]) for v in value)
    if origin is Callable:
        return callable(value)
    return not isinstance(origin, type) or isinstance(value, origin)


def type_text(kind: Any) -> str:
    """The text of a type of a schema, as one writes it."""
    if get_origin(kind) is None and isinstance(kind, type):
        return "None" if kind is type(None) else kind.__name__
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " | ".join(map(type_text, args))
    if origin in (tuple, frozenset):
        return f"{origin.__name__}[{', '.join(map(type_text, args))}]"
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    if origin is not None:
        return str(getattr(origin, "__name__", origin))
    return {Ellipsis: "...", Any: "Any", None: "None"}.get(kind) or repr(kind)


def _named(names: Sequence[str]) -> str:
    return f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'}"
