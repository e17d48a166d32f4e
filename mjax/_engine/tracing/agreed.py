"""What agreed with the abstract evaluation of a primitive, so that it is compared once.

Tables go from types to the params for which results of these types agreed. Types are interned, so a
lookup compares them by identity, in C. Params are few for the same types: a list compares them
faster than a table hashes them. `forget_programs` clears the tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.util import forget_older_half

#: The types of tracers, arrays and zeros, in an iterator: at C speed, unlike `typeof`.
types_of = partial(map, attrgetter("aval"))

Params = dict[str, Any]


class Identity(list[Any]):
    """Stands for a primitive in keys of tables that must not keep it alive. It is false."""

    __slots__ = ()
    __eq__: ClassVar[Any] = object.__eq__
    __hash__: ClassVar[Any] = object.__hash__


class Few(list[Params]):
    """Params that agreed for the same types.

    Attributes:
      made: what follows from the types, for those who found the params.
    """

    __slots__ = ("made",)

    def __init__(self, made: Any):
        self.made = made


class Many(dict[Any, None]):
    """More params than are compared one by one; the older half is forgotten when they are 1024."""

    __slots__ = ("made",)

    def __init__(self, few: Few):
        super().__init__((tuple(params.items()), None) for params in few)
        self.made = few.made

    def __contains__(self, params: Any) -> bool:
        return super().__contains__(tuple(params.items()))

    def append(self, params: Params) -> None:
        """Adds params."""
        if len(self) >= 1024:
            forget_older_half(self)
        self[tuple(params.items())] = None


def note(table: ProgramCache, types: Iterable[Any], params: Params, made: Any = None) -> None:
    """Notes that types agreed for params. Nothing is noted if params do not have a hash.

    Args:
      table: what agreed before.
      types: the types; NumPy arrays and numbers do not have one, and nothing is noted.
      params: the params.
      made: the attribute `made` of what the table holds.
    """
    with suppress(AttributeError, TypeError):
        key: Hashable = tuple(types)
        hash(tuple(params.items()))
        known = table.get(key) or table.put(key, Few(made))
        if type(known) is Few and len(known) >= 8:
            known = table.put(key, Many(known))
        if params not in known:
            known.append(params)
