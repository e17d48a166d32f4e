"""Short names of the functions of `mjax.tree_util`."""

from mjax._engine.base.faces import face
from mjax._engine.ir.tree_names import (
    all,
    broadcast,
    flatten,
    flatten_with_path,
    leaves,
    leaves_with_path,
    map,
    map_with_path,
    reduce,
    reduce_associative,
    structure,
    transpose,
    unflatten,
)
from mjax._engine.ir.tree_registration import static

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map",
    "map_with_path", "reduce", "reduce_associative", "static", "structure", "transpose",
    "unflatten",
]

face("mjax.tree")
