"""Indexing outside of traces: one compiled program for each *kind* of index.

An index consists of its structure, which is part of the program's key, and its numbers, which are
operands. So `x[0]`, `x[1]`, ... run one program, as do all slices of one size. In an eager jvp or
vmap, which compiles single primitives, numbers are their operands for the same reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.base.util import BoundedCache
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.runtime.dispatch.runners import Runners
from mjax._engine.runtime.dispatch.short import placement_of, program_for
from mjax._numpy.fused import compile_for
from mjax._numpy.indexing.parse import INSIDE, NEW, At, Each, Index, Range

_places = BoundedCache(8192)


def place(i: int) -> Array:
    """A place on an axis, as an operand."""
    key = (thread.settings, i)
    known = _places.get(key)
    if known is None:
        known = _places.put(key, to_array(np.int32(i) if i < 2**31 else np.asarray(i)))
    return known


class Programs:
    """The compiled forms of a function of static arguments and arrays.

    Args:
      function: `(static, *arrays) -> array`, traceable.
      name: the name of the programs.
    """

    def __init__(self, function: Callable[..., Any], name: str):
        self.function = function
        self.name = name
        self.cache = ProgramCache()

    def __call__(self, static: Any, *arrays: Array, known_as: Any = None) -> Array:
        """Applies the function as one program.

        Args:
          static: the static arguments, hashable.
          arrays: the operands.
          known_as: the form of `static` in cache keys, if another one.
        """
        return self.program(static, *arrays, known_as=known_as).arrays(*arrays)

    def program(self, static: Any, *arrays: Array, known_as: Any = None) -> Runners:
        """The compiled function for arrays of these types."""
        return program_for(self.cache, (known_as or static,), tuple(map(placement_of, arrays)),
                           self._compile, static)

    def _compile(self, placements: tuple[Any, ...], static: Any) -> Runners:
        return compile_for(placements, functools.partial(self.function, static), self.name)


# ---- structure and numbers -------------------------------------------------------------


def take_apart(index: Index, shape: Sequence[int]) -> tuple[Any, list[Array]]:
    """The structure of an index, hashable, and its numbers as operands.

    Args:
      index: the index.
      shape: the array's shape, with the axes that boolean scalars add.
    """
    structure: list[Any] = []
    operands: list[Any] = []
    sizes = iter(shape)
    for e in index.entries:
        if e is NEW:
            structure.append(None)
            continue
        size = next(sizes)
        if type(e) is Range:
            covered = (e.size - 1) * abs(e.step) + 1 if e.size else 0
            if covered == size or not e.size:
                structure.append(e)
                continue
            structure.append((e.size, e.step))
            operands.append(place(e.low))
        elif type(e) is At:
            structure.append(("at", e.known))
            # Only the side of places outside is kept.
            operands.append(place(min(max(e.index, -1), size)) if isinstance(e.index, int)
                            else to_array(e.index))
        else:
            structure.append(("each", e.known))
            operands.append(to_array(e.indices))
    return (tuple(structure), index.grown), operands


def put_together(structure: Any, operands: Sequence[Any]) -> tuple[Index, list[Any]]:
    """The index of a structure and numbers, and the remaining operands."""
    given = iter(operands)
    entries: list[Any] = []
    for token in structure[0]:
        if token is None:
            entries.append(NEW)
        elif type(token) is Range:
            entries.append(token)
        elif token[0] == "at":
            entries.append(At(next(given), token[1]))
        elif token[0] == "each":
            entries.append(Each(next(given), token[1]))
        else:
            entries.append(Range(next(given), *token))
    return Index(tuple(entries), structure[1]), list(given)


def with_operands(index: Index, shape: Sequence[int]) -> Index:
    """The index with NumPy scalars for ints: operands of primitives, not static params."""
    entries, sizes = [], iter(shape)
    for e in index.entries:
        size = next(sizes) if e is not NEW else 0
        if type(e) is At and isinstance(e.index, int) and e.known is INSIDE:
            e = e._replace(index=np.asarray(e.index, _dtype(size))[()])
        elif type(e) is Range and (e.size - 1) * abs(e.step) + 1 < size and e.size:
            e = e._replace(low=np.asarray(e.low, _dtype(size))[()])
        entries.append(e)
    return index._replace(entries=tuple(entries))


def _dtype(size: int) -> Any:
    return np.int32 if size < 2**31 else np.int64


def grown_shape(shape: tuple[int, ...], index: Index) -> tuple[int, ...]:
    """The shape of the array with the axes that boolean scalars add."""
    if not index.grown:
        return shape
    rest = iter(shape)
    return tuple(1 if i in index.grown else next(rest)
                 for i in range(len(shape) + len(index.grown)))
