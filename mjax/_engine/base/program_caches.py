"""Caches of types, jaxprs and compiled programs, which `forget_programs` clears.

A rule that is replaced after use may have made any of them. This is rare, so all caches are cleared
then, and lookups do not check for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from mjax._engine.base.util import BoundedCache, forget_older_half

#: id -> cache; weak sets cannot hold caches, which are dicts.
_caches: weakref.WeakValueDictionary[int, ProgramCache | PlainCache] = (
    weakref.WeakValueDictionary())


class ProgramCache(BoundedCache):
    """A cache of results of rules; `forget_programs` clears it."""

    __slots__ = ("__weakref__",)

    def __init__(self, maxsize: int = 4096):
        super().__init__(maxsize)
        _caches[id(self)] = self


class PlainCache:
    """A cache like `ProgramCache` for the hottest lookups, which CPython specialises for plain
    dicts.

    Attributes:
      entries: the dict.
      nested: the number of dicts in it, where entries are dicts of dicts.
    """

    __slots__ = ("__weakref__", "entries", "nested")

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.nested: int = 0
        _caches[id(self)] = self

    def put(self, key: Any, value: Any) -> None:
        """Stores a value; forgets the older half first if there are too many."""
        if len(self.entries) >= 4096 and key not in self.entries:
            forget_older_half(self.entries)
        self.entries[key] = value

    def clear(self) -> None:
        """Forgets everything."""
        self.entries.clear()
        self.nested = 0


class Unkept(ProgramCache):
    """A cache that keeps nothing."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> Any:
        return value


class _Beside(ProgramCache):
    """A cache of one function.

    Attributes:
      others: the caches of this function together with another one.
    """

    __slots__ = ("others",)

    def __init__(self) -> None:
        super().__init__(256)
        self.others: _Table = weakref.WeakKeyDictionary()


_Table = weakref.WeakKeyDictionary[Any, _Beside]
_of_functions: _Table = weakref.WeakKeyDictionary()


def programs_of(*functions: Callable[..., Any]) -> ProgramCache:
    """The programs kept with users' functions, as long as all of these functions live.

    Values must not refer to the functions. Keys begin with the owner of the value. A function that
    is not hashable, or does not take weak references, gets a new cache each time.
    """
    table, cache = _of_functions, ProgramCache()
    try:
        for f in functions:
            cache = table.get(f) or table.setdefault(f, _Beside())
            table = cache.others
    except TypeError:
        return ProgramCache()
    return cache


class Generation:
    """The generation of rules that is in force."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


#: Its number dates results kept outside of a `ProgramCache`, such as those kept with jaxprs.
generation = Generation()


#: Caches of users, which are cleared too.
registered: weakref.WeakSet[Any] = weakref.WeakSet()


def forget_programs() -> None:
    """Forgets all types, jaxprs and compiled programs that were made so far."""
    for cache in list(registered):
        cache.cache_clear()
    generation.number += 1
    for reference in _caches.valuerefs():
        cache = reference()
        if cache is not None:
            cache.clear()
