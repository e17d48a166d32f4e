"""Named tuples that are cheap to define.

`typing.NamedTuple` compiles every annotation to a forward reference: two thirds of its time, and
with a few dozen records as much as loading numpy's linear algebra. A `Record` is the same class
for whoever reads, checks or uses it; its annotations stay the strings that they are.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

__all__ = ["Record"]

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:

    class _Definition(type):
        """Makes a named tuple of a class statement."""

        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            fields = list(space["__annotations__"])
            given = [field for field in fields if field in space]
            if given != fields[len(fields) - len(given) :]:
                msg = f"{name}: fields with defaults ({', '.join(given)}) come last."
                raise TypeError(msg)
            defaults = [space.pop(field) for field in given]
            record = collections.namedtuple(name, fields, defaults=defaults)
            for key, value in space.items():
                setattr(record, key, value)
            return record

    #: What records derive from: their fields are annotations, in order, those with defaults last.
    Record = type.__new__(_Definition, "Record", (), {})
