"""The interned record of an array's type and place: the array's part in cache keys.

Equal placements are identical, so dispatch looks each argument up by identity.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.base.util import BoundedCache
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjaxlib_shim import arrays as shim


class Placement:
    """The facts of an array in cache keys: type, sharding, and whether the user chose it.

    A *committed* array stays where it is and determines where computations run; an uncommitted
    one follows the other operands.
    """

    __slots__ = ("aval", "committed", "handler", "sharding")
    aval: ShapedArray
    sharding: Any
    committed: bool

    def __init__(self, aval: ShapedArray, sharding: Any, committed: bool):
        self.aval = aval
        self.sharding = sharding
        self.committed = committed
        physical = physical_aval(aval)
        #: Makes arrays of this placement from results of an execution. False if sizes are
        #: symbolic: such a program is exported, never run.
        self.handler = is_constant_shape(physical.shape) and shim.result_handler(
            physical, sharding.native_for(physical.ndim), committed)

    def __repr__(self) -> str:
        return f"Placement({self.aval}, {self.sharding}, committed={self.committed})"


_placements = BoundedCache(100_000)


def placement_of(aval: ShapedArray, sharding: Any, committed: bool) -> Placement:
    """The interned placement."""
    key = (aval, sharding, committed)
    known = _placements.get(key)
    if known is not None:
        return known
    made = Placement(aval, sharding, committed)
    if len(_placements) < _placements.maxsize:
        return _placements.setdefault(key, made)
    return _placements.put(key, made)
