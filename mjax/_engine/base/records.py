"""Named tuples that are cheap to define.

`collections.namedtuple` compiles text for each class, and `typing.NamedTuple` every annotation too.
For a hundred records that costs as much as loading numpy's linear algebra. A `Record` is the same
class to readers, type checkers and callers. But records with equally many fields share their code,
and annotations stay strings.
"""

from __future__ import annotations

import functools
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["Record"]

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:
    # Fields read in C, and methods that serve every named tuple.
    from collections import _tuplegetter, namedtuple

    _SHARED = {name: vars(namedtuple("Any", ""))[name] for name in ("__getnewargs__", "_asdict")}

    @functools.cache
    def _constructor(count: int) -> CodeType:
        """The code of `__new__` of records with so many fields, whose names are numbers."""
        names = "".join(f"x{i}, " for i in range(count))
        code: CodeType = eval(f"lambda _cls, {names}: new(_cls, ({names}))").__code__
        return code

    @classmethod
    def _make(cls, values: Any) -> Any:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **changes: Any) -> Any:
        made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {[*changes]!r}")
        return made

    def _repr(self: Any) -> str:
        fields = ", ".join([f"{name}={value!r}" for name, value in zip(self._fields, self)])
        return f"{type(self).__name__}({fields})"

    class _Definition(type):
        """Makes a named tuple of a class statement."""

        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            fields = tuple(space["__annotations__"])
            defaults = {field: space.pop(field) for field in fields if field in space}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                msg = f"{name}: fields with defaults ({', '.join(defaults)}) come last."
                raise TypeError(msg)
            code = _constructor(len(fields)).replace(
                co_name="__new__", co_varnames=("_cls", *fields))
            new = FunctionType(code, {"new": tuple.__new__}, None, tuple(defaults.values()))
            new.__qualname__ = f"{name}.__new__"
            getters = {field: _tuplegetter(i, f"Alias for field number {i}")
                       for i, field in enumerate(fields)}
            return type(name, (tuple,), {
                "__slots__": (), "_fields": fields, "_field_defaults": defaults,
                "__match_args__": fields, "__new__": new, "__repr__": _repr, "_make": _make,
                "_replace": _replace, "__replace__": _replace, **_SHARED, **getters, **space})

    #: The base of records. Their fields are annotations, in order; fields with defaults come last.
    Record = type.__new__(_Definition, "Record", (), {})
