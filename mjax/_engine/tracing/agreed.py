"""What agreed with the abstract evaluation of a primitive, so that it is compared once.

Tables go from types to the params for which results of these types agreed. Types are interned, so a
lookup compares them by identity, in C. Keys of jvp and vmap are nested tuples, `(((), first),
second)`: loops make them in half the time of one flat tuple. Others go from dict to dict
(`note_beside`). Params are few for the same types: a list compares them faster than a table hashes
them. Tables are the entries of a `PlainCache`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from mjax._engine.base.program_caches import PlainCache
from mjax._engine.base.util import forget_older_half

Params = dict[str, Any]

#: Applications with as many operands, or results, are compared each time: hashing their keys would
#: recurse as deep, in C, without a limit. Python refuses to compare keys somewhat shorter.
LONGEST = 1000


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


def note(table: dict[Any, Few | Many], types: Iterable[tuple[Any, ...]], params: Params,
         made: Any = None, start: Any = ()) -> None:
    """Notes that types agreed for params.

    Nothing is noted if params do not have a hash.

    Args:
      table: what agreed before.
      types: those of an operand or of a result each, with what else counts, fewer than `LONGEST`;
        the key is `((start, *first), *second)` and so on. NumPy arrays and numbers do not have the
        attribute `aval`, and nothing is noted.
      params: the params.
      made: the attribute `made` of what the table holds.
      start: what the key begins with.
    """
    with suppress(Exception):  # The `__eq__` of an author's param may raise any.
        key = start
        for each in types:
            key = (key, *each)
        hash(tuple(params.items()))
        known = table.get(key)
        if known is None:
            if len(table) >= 4096:
                forget_older_half(table)
            known = table[key] = Few(made)
        if type(known) is Few and len(known) >= 8:
            known = table[key] = Many(known)
        if params not in known:
            known.append(params)


def note_beside(cache: PlainCache, operands: Sequence[Any], params: Params, kind: Any, found: Any
                ) -> None:
    """Notes what agreed for types of operands and params, in tables of tables.

    Tables go from the type of an operand to the table for those that follow; the last one goes from
    the kind to what was found. Each operand may multiply their number, so all are forgotten when
    they are 16,384.

    Args:
      cache: what agreed before.
      operands: the operands. Nothing is noted if there are NumPy arrays or numbers among them, or
        as many as `LONGEST`.
      params: the params.
      kind: the name of the rule, or the class of the list; never a type, which is a key beside it.
      found: what agreed: the type of the result, or the number of results.
    """
    if len(operands) >= LONGEST:
        return
    with suppress(Exception):
        keys = [*[x.aval for x in operands], kind]
        if cache.nested >= 16384:
            cache.clear()
        table = cache.entries
        for key in keys:
            known = table.get(key)
            if known is None:
                known = table[key] = {}
                cache.nested += 1
            table = known
        note(table, (), params, start=found)
