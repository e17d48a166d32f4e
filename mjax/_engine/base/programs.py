"""Caches of what the rules of primitives produced, and how they are cleared.

Types, jaxprs and compiled programs are remembered in many places. When a rule of a primitive
that has been used is written anew, all of them may be made by the old one; that is rare, so
everything is forgotten, and nothing is asked of the paths that look things up.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from mjax._engine.base.util import BoundedCache

#: id -> cache; a cache is a dict, which no weak set can hold.
_caches: weakref.WeakValueDictionary[int, ProgramCache] = weakref.WeakValueDictionary()


class ProgramCache(BoundedCache):
    """A cache of what rules have made: `forget_programs` empties it."""

    __slots__ = ("__weakref__",)

    def __init__(self, maxsize: int = 4096):
        super().__init__(maxsize)
        _caches[id(self)] = self


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
    """The programs kept with users' functions, as long as all of them live.

    Its values must not refer to the functions. Its keys begin with who keeps the value. One that
    cannot be referred to weakly, or is not hashable, has nothing kept: its cache is a new one.
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
    """Which generation of rules is in force."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


#: What is kept outside of a `ProgramCache` compares its number, as jaxprs do.
generation = Generation()


def forget_programs() -> None:
    """Forgets all types, jaxprs and compiled programs that were made so far."""
    generation.number += 1
    for reference in _caches.valuerefs():
        cache = reference()
        if cache is not None:
            cache.clear()
